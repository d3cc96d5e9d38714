"""A result that may be shown to others: no paths of the machine it was made on, nothing that steers a terminal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_KIT = str(Path(__file__).parents[3]) + "/"
_LIBRARY = re.compile(r"""/[^\s"']*/(?:site-packages|python3\.\d+)/""")
_OUT = re.compile(r" --out[= ](?:'[^']*'|\S+)")
_TEXTS = ("message", "traceback", "stack")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def portable(result: dict[str, Any]) -> dict[str, Any]:
    """The same result with file names from the package or library on, and without the folder of the reports.

    What a backend wrote into an error steers no terminal: control characters but tabs and newlines become "?".
    """
    result["suite"]["command"] = _OUT.sub("", result["suite"]["command"])
    for case in result["cases"]:
        for row in (case, *case.get("ranks", ())):
            for name in _TEXTS:
                if name in row:
                    row[name] = _CONTROL.sub("?", _LIBRARY.sub("", row[name].replace(_KIT, "")))
    return result
