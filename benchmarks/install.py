"""Fetches the optional peers into build/benchmarks: DeepSpeed and Intel MPI from PyPI, Open MPI and MPICH from Debian.

Nothing is installed, neither into the Python environment nor into the system: archives are unpacked (debian.py). What
cannot be had is named with its reason; the benchmark runs without it.
"""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks import debian, native

DEEPSPEED = "0.19.8"
INTEL_MPI = "2021.19.0"
PATIENCE = ("--retries", "1", "--timeout", "15")  # a machine without a network says so soon
FOLDER = native.BUILD / "peers"


def install() -> dict[str, str]:
    """Peer -> "ready", or why not."""
    return {name: _try(step) for name, step in _STEPS.items()}


def _try(step: Callable[[], object]) -> str:
    try:
        step()
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "").strip().splitlines()
        return f"not installed: {Path(error.cmd[0]).name}: {lines[-1] if lines else error}"
    except (OSError, RuntimeError, ImportError, tarfile.TarError, zipfile.BadZipFile) as error:
        return f"not installed: {error}"
    return "ready"


def deepspeed_sources() -> Path:
    """Where DeepSpeed's sources lie. FileNotFoundError if they were not fetched."""
    folder = FOLDER / f"deepspeed-{DEEPSPEED}" / "csrc" / "cpu"
    if not folder.is_dir():
        raise FileNotFoundError("DeepSpeed is not here: python -m benchmarks install")
    return folder


def load_deepspeed() -> ModuleType:
    """Its ShareMemCommBuilder, with the same sources and flags; building takes a minute the first time."""
    cpu = deepspeed_sources()
    sources = [cpu / "comm" / "shm_interface.cpp", cpu / "comm" / "shm.cpp"]
    flags = ["-O2", "-fopenmp", f"-I{cpu / 'includes'}"]
    return native.load_extension("deepspeed_shm_comm", sources, flags, ["-fopenmp"])


def intel_mpi() -> Path:
    """The folder with bin, lib and include of Intel MPI. FileNotFoundError if it was not fetched."""
    folder = FOLDER / f"impi-{INTEL_MPI}"
    if not (folder / "lib" / "libmpi.so").exists():
        raise FileNotFoundError("Intel MPI is not here: python -m benchmarks install")
    return folder


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _download(requirement: str, *options: str) -> list[Path]:
    target = FOLDER / "downloads" / requirement.split("==")[0]
    target.mkdir(parents=True, exist_ok=True)
    _run(
        sys.executable, "-m", "pip", "download", "-q", "--no-deps", *PATIENCE, *options, "-d", str(target), requirement
    )
    return sorted(target.iterdir())


def _install_deepspeed() -> None:
    try:
        deepspeed_sources()
    except FileNotFoundError:
        archive = _download(f"deepspeed=={DEEPSPEED}", "--no-binary", "deepspeed")[-1]
        with tarfile.open(archive) as tar:
            tar.extractall(_empty("unpacked"), filter="data")
        _put(FOLDER / "unpacked" / f"deepspeed-{DEEPSPEED}", f"deepspeed-{DEEPSPEED}")
    load_deepspeed()


def _empty(name: str) -> Path:
    """A folder for what is not whole yet, without what was left there."""
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    (FOLDER / name).mkdir(parents=True)
    return FOLDER / name


def _put(whole: Path, name: str) -> None:
    """A peer is there whole or not at all: one that is found is not fetched again."""
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    whole.rename(FOLDER / name)
    shutil.rmtree(FOLDER / "unpacked", ignore_errors=True)


def _install_intel_mpi() -> None:
    try:
        intel_mpi()
        return
    except FileNotFoundError:
        pass
    unpacked = _empty("unpacked")
    for package in ("impi-rt", "impi-devel"):
        wheel = _download(f"{package}=={INTEL_MPI}")[-1]
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
    whole = unpacked / "whole"
    for data in sorted(unpacked.glob("impi*.data/data")):
        shutil.copytree(data, whole, dirs_exist_ok=True)
    for program in (whole / "bin").iterdir():
        program.chmod(0o755)
    _put(whole, f"impi-{INTEL_MPI}")
    intel_mpi()


_STEPS: dict[str, Callable[[], object]] = {
    "floor and exchange (c10d backends that move no data)": native.load_noop,
    "DeepSpeed": _install_deepspeed,
    "Intel MPI": _install_intel_mpi,
    **{title: partial(debian.install, name) for name, title in debian.TITLES.items()},
}
