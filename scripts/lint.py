"""All style checks: clang-format, ruff, mypy, clang-tidy. Prints what is wrong; exit code 1 if anything is.

lint.py          check
lint.py --fix    reformat C++ and Python instead (clang-format, ruff)

clang-tidy takes a second a file (fifteen where torch's headers are read), so a file that passed is not read again
until it, a header of ours or .clang-tidy changes.

mypy and clang-tidy judge our code against torch's stubs and headers, which differ from version to version: they run
where the torch of `make test` without TORCH= is installed. With another torch they say so and are left out.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
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
    commands = compile_commands()
    headers = [path for path in cpp_files() if path.suffix == ".h"]
    shared = digest([*headers, *ROOT.rglob("csrc/**/.clang-tidy"), ROOT / ".clang-tidy"])
    PASSED.mkdir(parents=True, exist_ok=True)
    (PASSED / "compile_commands.json").write_text(json.dumps(commands))

    def check(command: dict[str, str]) -> str:
        source = Path(command["file"])
        stamp = PASSED / str(source.relative_to(ROOT)).replace("/", "-")
        key = digest([source, *included(source)], shared + command["command"])
        if stamp.exists() and stamp.read_text() == key:
            return ""
        tidy = [SCRIPTS / "clang-tidy", "--quiet", "-p", PASSED, source]
        done = subprocess.run(tidy, capture_output=True, text=True)
        if done.returncode == 0:
            stamp.write_text(key)
            return ""
        return done.stdout or done.stderr

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = list(pool.map(check, commands))
    report(f"clang-tidy of {len(commands)} files", not any(findings), began, unique("".join(findings)))
    return not any(findings)


def compile_commands() -> list[dict[str, str]]:
    """Our own sources, with only the flags that clang needs to read them; what takes longest comes first."""
    commands = []
    for command in json.loads((BUILD / "compile_commands.json").read_text()):
        words = shlex.split(command["command"])
        after = {i + 1 for i, word in enumerate(words) if word == "-isystem"}
        kept = [word for i, word in enumerate(words) if MEANING.match(word) or i in after]
        source = Path(command["file"])
        if all(each.is_relative_to(ROOT / "csrc") for each in included(source) or [source]):
            words = ["clang++", *kept, "-c", str(source)]
            commands.append({**command, "command": shlex.join(words)})
    return sorted(commands, key=lambda command: "isystem" not in command["command"])


def included(source: Path) -> list[Path]:
    """What CMake compiles together in one generated file (csrc/c10d): here, too, they read torch's headers together."""
    if not source.name.startswith("unity_"):
        return []
    return [Path(name) for name in re.findall(r'#include "(.*\.cpp)"', source.read_text())]


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
        checks += [run("mypy", "torch_customccl", "benchmarks"), clang_tidy()]
    else:
        print(f"lint: mypy and clang-tidy left out: they need torch {REFERENCE_TORCH}, here is {version('torch')}")
    return not all(checks)


if __name__ == "__main__":
    sys.exit(main())
