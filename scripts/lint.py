"""All style checks: clang-format, ruff, mypy, clang-tidy. Prints what is wrong; exit code 1 if anything is.

lint.py          check
lint.py --fix    reformat C++ and Python instead (clang-format, ruff)

clang-tidy takes up to a minute for a room of csrc (torch's headers), so one that passed is not read again until a file
in it, a header of ours or .clang-tidy changes.

mypy and clang-tidy judge our code against torch's stubs and headers, which differ from version to version: they run
where the torch of `make test` without TORCH= is installed. With another torch they say so and are left out.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sysconfig.get_path("scripts"))
BUILD = ROOT / "build" / "package"
PASSED = ROOT / "build" / "lint"
REFERENCE_TORCH = "2.13"
# What changes the meaning of a file for clang; the rest (optimisation, warnings) may be GCC's alone.
MEANING = re.compile(r"-(I|D|std|m|isystem|fPIC)")


def cpp_files() -> list[Path]:
    return sorted(
        path for folder in ("csrc", "test/cpp") for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp")
    )


def run(name: str, *arguments: str | Path) -> bool:
    began = time.monotonic()
    done = subprocess.run([SCRIPTS / name, *arguments], cwd=ROOT, capture_output=True, text=True)
    report(f"{name} {arguments[0]}", done.returncode == 0, began, done.stdout + done.stderr)
    return done.returncode == 0


def report(what: str, ok: bool, began: float, output: str = "") -> None:
    if not ok:
        print(output.rstrip())
    print(f"lint: {what}: {'ok' if ok else 'FAILED'} ({time.monotonic() - began:.1f} s)", flush=True)


def clang_tidy() -> bool:
    began = time.monotonic()
    shared = digest([*(path for path in cpp_files() if path.suffix == ".h"), *ROOT.glob(".clang-tidy")])
    units = [unit for unit in map(Unit.of_room, rooms()) if not unit.passed(shared)]
    database = [unit.command() for unit in units]
    (PASSED / "compile_commands.json").write_text(json.dumps(database))

    def check(unit: Unit) -> str:
        tidy = [SCRIPTS / "clang-tidy", "--quiet", "-p", PASSED, unit.path]
        done = subprocess.run(tidy, capture_output=True, text=True)
        if done.returncode == 0:
            unit.keep_passed(shared)
            return ""
        return done.stdout or done.stderr

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = list(pool.map(check, units))
    report(f"clang-tidy of the {len(units)} rooms that changed", not any(findings), began, unique("".join(findings)))
    return not any(findings)


def rooms() -> list[Path]:
    """What takes longest comes first."""
    folders = [path for path in (ROOT / "csrc").iterdir() if any(path.rglob("*.cpp"))]
    return sorted(folders, key=lambda path: (path.name != "c10d", path.name != "kernels", path.name))


@dataclass
class Unit:
    """The sources of a room, read as one file: headers take most of the time."""

    path: Path
    sources: list[Path]
    flags: list[str]

    @classmethod
    def of_room(cls, room: Path) -> "Unit":
        unit = cls(PASSED / room.name / "unit.cpp", sorted(room.rglob("*.cpp")), flags_of(room))
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'#include "{path}"  // NOLINT(bugprone-suspicious-include)\n' for path in unit.sources]
        unit.path.write_text("".join(lines))
        for config in room.glob(".clang-tidy"):
            shutil.copy(config, unit.path.parent)
        return unit

    def command(self) -> dict[str, str]:
        words = ["clang++", *self.flags, "-c", str(self.path)]
        return {"directory": str(BUILD), "file": str(self.path), "command": shlex.join(words)}

    def passed(self, shared: str) -> bool:
        stamp = self.path.with_suffix(".passed")
        return stamp.exists() and stamp.read_text() == self._key(shared)

    def keep_passed(self, shared: str) -> None:
        self.path.with_suffix(".passed").write_text(self._key(shared))

    def _key(self, shared: str) -> str:
        return digest([*self.sources, *self.path.parent.glob(".clang-tidy")], shared + str(self.flags))


def flags_of(room: Path) -> list[str]:
    """Only those that clang needs to read the room's sources, of all their commands together."""
    flags: dict[str, None] = {}
    for command in json.loads((BUILD / "compile_commands.json").read_text()):
        if f"csrc/{room.name}/" in command["output"]:
            words = shlex.split(command["command"].replace("-isystem ", "-isystem"))
            flags.update(dict.fromkeys(word for word in words if MEANING.match(word)))
    return list(flags)


def digest(files: Iterable[Path], start: str = "") -> str:
    value = hashlib.sha256(start.encode())
    for path in files:
        value.update(path.read_bytes())
    return value.hexdigest()


def unique(text: str) -> str:
    """A finding in a header comes once for every file that includes it: say it once."""
    blocks = re.split(r"(?m)^(?=/\S+:\d+:\d+: (?:error|warning):)", text)
    return "".join(dict.fromkeys(blocks))


def main() -> int:
    if sys.argv[1:] == ["--fix"]:
        checks = [
            run("clang-format", "-i", *cpp_files()),
            run("ruff", "check", "--fix", "."),
            run("ruff", "format", "."),
        ]
        return not all(checks)
    checks = [
        run("clang-format", "--dry-run", "-Werror", "--ferror-limit=1", *cpp_files()),
        run("ruff", "check", "."),
        run("ruff", "format", "--check", "."),
    ]
    if version("torch").startswith(REFERENCE_TORCH + "."):
        with ThreadPoolExecutor(1) as beside:
            types = beside.submit(run, "mypy", "torch_customccl", "benchmarks")
            checks += [clang_tidy(), types.result()]
    else:
        print(f"lint: mypy and clang-tidy left out: they need torch {REFERENCE_TORCH}, here is {version('torch')}")
    return not all(checks)


if __name__ == "__main__":
    sys.exit(main())
