"""Open MPI and MPICH of a Debian or Ubuntu: those of the system, or their packages unpacked into build/benchmarks.

Unpacked and not installed, because the two would fight over mpicc and because that needs no root. Only packages that
the system lacks are fetched, dependencies included.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import native

TITLES = {"openmpi": "Open MPI", "mpich": "MPICH"}
PACKAGES = {"openmpi": ("openmpi-bin", "libopenmpi-dev"), "mpich": ("mpich", "libmpich-dev")}
PATIENCE = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=15", "-o", "Acquire::https::Timeout=15")
FOLDER = native.BUILD / "peers"


@dataclass(frozen=True)
class Mpi:
    """How to compile a program and start it; `environment` is for the launcher."""

    compiler: list[str]
    flags: list[str]
    launcher: Path
    environment: dict[str, str]


def find(name: str) -> Mpi:
    """FileNotFoundError if it is neither installed nor unpacked."""
    if installed := _installed(name):
        return installed
    root = FOLDER / name
    headers = [path for path in sorted(root.glob("usr/**/mpi.h")) if "fortran" not in path.parts]
    if not headers:
        raise FileNotFoundError(f"{TITLES[name]} is not here: python -m benchmarks install")
    return _unpacked(name, root, headers[0].parent)


def _installed(name: str) -> Mpi | None:
    """The system's own. FileNotFoundError where it can only run programs: headers unpacked would need all the rest."""
    compiler, launcher = shutil.which(f"mpicc.{name}"), shutil.which(f"mpirun.{name}")
    if not compiler or not launcher:
        return None
    reads_header = [compiler, "-fsyntax-only", "-include", "mpi.h", "-x", "c", os.devnull]
    if subprocess.run(reads_header, capture_output=True).returncode:
        headers = PACKAGES[name][1]
        raise FileNotFoundError(
            f"{TITLES[name]} is installed without mpi.h (Debian, Ubuntu: apt-get install {headers})"
        )
    return Mpi([compiler], [], Path(launcher), {})


def _unpacked(name: str, root: Path, include: Path) -> Mpi:
    libraries = next(root.glob("usr/lib/*-linux-gnu*"))
    folders = [libraries, *(path for path in (libraries / name / "lib", libraries / "pmix2" / "lib") if path.is_dir())]
    path = os.pathsep.join([*map(str, folders), os.environ.get("LD_LIBRARY_PATH", "")])
    environment = {"LD_LIBRARY_PATH": path}
    if name == "openmpi":  # it knows its folders by their installed names
        prefix = libraries / "openmpi"
        environment |= {
            "OPAL_PREFIX": str(root / "usr"),
            "OPAL_BINDIR": str(root / "usr" / "bin"),
            "OPAL_LIBDIR": str(prefix / "lib"),
            "OPAL_PKGLIBDIR": str(prefix / "lib" / "openmpi3"),
            "OPAL_PKGDATADIR": str(root / "usr" / "share" / "openmpi"),
            "OPAL_SYSCONFDIR": str(root / "etc"),
            "PMIX_INSTALL_PREFIX": str(libraries / "pmix2"),
        }
    library = "mpich" if name == "mpich" else "mpi"
    flags = [f"-I{include}", *(f"-L{folder}" for folder in folders), f"-l{library}", "-Wl,--allow-shlib-undefined"]
    return Mpi([native.compiler()], flags, root / "usr" / "bin" / f"mpirun.{name}", environment)


def install(name: str) -> None:
    """Unpacks what the system lacks. OSError or RuntimeError with the reason if that cannot be."""
    if _installed(name):
        return
    try:
        find(name)
        return
    except FileNotFoundError:
        pass
    if not shutil.which("apt-get"):
        raise RuntimeError("this system has no apt-get")
    root = FOLDER / name
    unpack(wanted_packages(PACKAGES[name]), root)
    find(name)


def wanted_packages(packages: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """These packages and what they need, less what the system has."""
    command = ["apt-get", "-qq", *options, "--simulate", "--no-install-recommends", "install", *packages]
    if os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode:
        _run("apt-get", "-qq", *PATIENCE, "update")
    return re.findall(r"(?m)^Inst (\S+)", _run(*command))


def unpack(packages: Sequence[str], root: Path) -> None:
    """Makes `root` whole or not at all."""
    half = root.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    (half / "archives").mkdir(parents=True)
    _run("apt-get", "-qq", *PATIENCE, "download", *packages, cwd=half / "archives")
    for archive in sorted((half / "archives").glob("*.deb")):
        _run("dpkg-deb", "-x", str(archive), str(half))
    shutil.rmtree(half / "archives")
    half.rename(root)


def _run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout
