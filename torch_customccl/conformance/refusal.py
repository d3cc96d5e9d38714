"""Tells a clear "not supported" from other error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

_STRICT = re.compile(
    r"(not (yet )?(been )?(support|implement)|unsupported|unimplemented|does(n't| not) support"
    r"|no backend type associated)",
    re.IGNORECASE,
)
_LOOSE = re.compile(
    r"(invalid|must|has to|have to|needs? to|can(not|'t| not)|only|expected|requires?|should|unexpected)", re.IGNORECASE
)
_FEATURE = re.compile(
    r"(support \w+|reduce ?op|data ?type|dtype|scalar ?type|contiguous|strid|dense|memory format|layout"
    r"|size|shape|complex|sparse|coalescing|tag|backend \w+)",
    re.IGNORECASE,
)


def is_refusal(message: str, words: Sequence[str] = (), strict: bool = False) -> bool:
    """True if the message says that something is not supported and names it.

    Plain "not supported" wording needs one of the words in it, or the name of any feature. "must be" or "invalid" also
    come with ordinary errors: they need one of the words as a whole word, and do not count where ``strict``.
    """
    low = message.lower().replace("_", "")
    names = [word.lower().replace("_", "") for word in words if word]
    if _STRICT.search(message):
        return bool(_FEATURE.search(message)) or any(name in low for name in names)
    if strict or not _LOOSE.search(message):
        return False
    return any(re.search(rf"(?<![a-z0-9]){re.escape(name)}s?(?![a-z0-9])", low) for name in names)
