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

    ``words``: names of the operation, dtype or feature at hand. ``strict``: only plain "not supported" wording counts,
    not "must be" or "invalid", which also come with ordinary errors.
    """
    said = _STRICT.search(message) or (not strict and _LOOSE.search(message))
    low = message.lower().replace("_", "")
    named = any(word and word.lower().replace("_", "") in low for word in words) or _FEATURE.search(message)
    return bool(said and named)
