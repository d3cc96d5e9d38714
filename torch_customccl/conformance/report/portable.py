"""A result that may be shown to others: no paths of the machine it was made on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_KIT = str(Path(__file__).parents[3]) + "/"
_LIBRARY = re.compile(r"""/[^\s"']*/(?:site-packages|python3\.\d+)/""")
_OUT = re.compile(r" --out[= ](?:'[^']*'|\S+)")
_TEXTS = ("message", "traceback", "stack")


def portable(result: dict[str, Any]) -> dict[str, Any]:
    """The same result with file names from the package or library on, and without the folder of the reports."""
    result["suite"]["command"] = _OUT.sub("", result["suite"]["command"])
    for case in result["cases"]:
        for row in (case, *case.get("ranks", ())):
            for name in _TEXTS:
                if name in row:
                    row[name] = _LIBRARY.sub("", row[name].replace(_KIT, ""))
    return result
