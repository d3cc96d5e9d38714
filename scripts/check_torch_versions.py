"""Compiles the shim against the headers of every supported torch, without installing any of them.

Usage: python scripts/check_torch_versions.py [VERSION ...]

The wheels for Windows hold the same headers as the ones for Linux at a fifth of the size. They are fetched once, and only their
headers kept, in build/torch-headers. All sources of the shim go through the compiler as one unit, syntax and types only.
"""

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "build" / "torch-headers"
VERSIONS = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")


def headers_of(version: str) -> Path:
    """The include folder of torch `version`, fetched if it is not there yet."""
    folder = HEADERS / version
    include = folder / "torch" / "include"
    if include.is_dir():
        return include
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
                *("--platform", "win_amd64", "--python-version", "3.11", "--only-binary", ":all:"),
                *("--dest", scratch, f"torch=={version}"),
            ],
            check=True,
        )
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith("torch/include/")])
    return include


def compiles(version: str, unit: Path) -> bool:
    """Whether every source of the shim is right for the headers of torch `version`. Prints what the compiler says."""
    include = headers_of(version)
    systems = (include, include / "torch" / "csrc" / "api" / "include", sysconfig.get_paths()["include"])
    command = [
        "g++",
        "-std=c++20",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DCUSTOMCCL_SHIM_NAME=_shim",
        f"-I{ROOT / 'csrc'}",
    ]
    for system in systems:
        command += ["-isystem", str(system)]
    result = subprocess.run([*command, str(unit)], check=False)
    print(f"torch {version}: {'ok' if result.returncode == 0 else 'does not compile'}", flush=True)
    return result.returncode == 0


def main() -> int:
    HEADERS.mkdir(parents=True, exist_ok=True)
    unit = HEADERS / "shim.cpp"
    sources = sorted((ROOT / "csrc" / "c10d").glob("*.cpp"))
    unit.write_text("".join(f'#include "{source}"\n' for source in sources))
    return 0 if all([compiles(version, unit) for version in sys.argv[1:] or VERSIONS]) else 1


if __name__ == "__main__":
    sys.exit(main())
