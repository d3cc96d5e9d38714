"""Print the lines of a requirements file whose package this environment lacks, whatever its version."""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def applies(marker: str) -> bool:
    """Whether a marker like 'python_version < "3.11"' (the only kind in our list) holds here."""
    match = re.fullmatch(r'\s*python_version (<|>=) "3\.(\d+)"', marker)
    if match is None:
        raise SystemExit(f"lacking_tools: cannot read the marker {marker!r}")
    older = sys.version_info < (3, int(match[2]))
    return older if match[1] == "<" else not older


for line in Path(sys.argv[1]).read_text().splitlines():
    requirement, _, marker = line.partition("#")[0].strip().partition(";")
    if not requirement or (marker and not applies(marker)):
        continue
    try:
        version(requirement.partition("==")[0])
    except PackageNotFoundError:
        sys.stdout.write(requirement + "\n")
