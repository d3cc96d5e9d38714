"""Print the lines of a requirements file whose package this environment lacks, whatever its version.

Only what a build takes (pyproject.toml) must not be too old: then say so, as what is there is not ours to replace.
"""

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


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]+", text)[0].strip(".").split("."))


OLDEST = dict(re.findall(r'"([\w-]+)>=([\d.]+)"', Path("pyproject.toml").read_text().partition("[project]")[0]))

for line in Path(sys.argv[1]).read_text().splitlines():
    requirement, _, marker = line.partition("#")[0].strip().partition(";")
    if not requirement or (marker and not applies(marker)):
        continue
    name = requirement.partition("==")[0].strip()
    try:
        present = version(name)
    except PackageNotFoundError:
        sys.stdout.write(requirement + "\n")
        continue
    if name in OLDEST and numbers(present) < numbers(OLDEST[name]):
        raise SystemExit(
            f"set-up: {name} {present} is too old to build with, {OLDEST[name]} would do: "
            f"{sys.executable} -m pip install '{requirement.strip()}'"
        )
