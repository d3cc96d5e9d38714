"""Compiles the shim against the headers of every supported torch but the one installed here, which the build uses:
syntax and types only, all its sources as one unit.

check_torch_versions.py               all of them
check_torch_versions.py VERSION ...   these
check_torch_versions.py --ends        the oldest and the newest: what lies between is made of what these have
"""

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path

from torch_headers import HEADERS, ROOT, VERSIONS, headers_of


def compiles(version: str, unit: Path) -> bool:
    """Whether every source of the shim is right for the headers of torch `version`. Prints what the compiler says."""
    include = headers_of(version)
    systems = (include, include / "torch" / "csrc" / "api" / "include", sysconfig.get_paths()["include"])
    command = [
        "g++",
        "-std=c++20",
        "-fvisibility=hidden",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DCUSTOMCCL_SHIM_NAME=_shim",
        f"-I{ROOT / 'csrc'}",
    ]
    for system in systems:
        command += ["-isystem", str(system)]
    result = subprocess.run([*command, str(unit)], check=False, stderr=subprocess.PIPE, text=True)
    print(f"{result.stderr}torch {version}: {'ok' if result.returncode == 0 else 'does not compile'}", flush=True)
    return result.returncode == 0


def others() -> list[str]:
    try:
        installed = metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        installed = ""
    return [version for version in VERSIONS if version != installed]


def main() -> int:
    HEADERS.mkdir(parents=True, exist_ok=True)
    unit = HEADERS / "shim.cpp"
    sources = sorted((ROOT / "csrc" / "c10d").glob("*.cpp"))
    unit.write_text("".join(f'#include "{source}"\n' for source in sources))
    wanted = sys.argv[1:] or others()
    if wanted == ["--ends"]:
        wanted = [VERSIONS[0], VERSIONS[-1]]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as compilers:
        results = list(compilers.map(partial(compiles, unit=unit), wanted))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
