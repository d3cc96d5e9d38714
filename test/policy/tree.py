"""The files of the project, for the tests of its rules."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def files() -> list[Path]:
    """Every text file under version control, or new and not ignored, relative to ROOT."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = sorted({Path(name) for name in listed.stdout.decode().split("\0") if name})
    return [path for path in paths if (ROOT / path).is_file() and is_text(ROOT / path)]


def is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()[:8192]


def text(path: Path) -> str:
    return (ROOT / path).read_text()


def below(*folders: str) -> list[Path]:
    return [path for path in files() if path.parts[0] in folders]
