"""Facts about the machine and the product that a report must carry."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import time
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

_ENV_SHOWN = re.compile(r"^(GLOO_|NCCL_|UCX_|UCC_|CUSTOMCCL_|TORCH_|OMP_NUM_THREADS$|CUDA_VISIBLE_DEVICES$)")
_OF_TORCH = {"gloo", "mpi", "nccl", "ucc"}
_NOMINAL_PROBE_S = 0.3


def machine() -> dict[str, Any]:
    """The environment of a run."""
    facts: dict[str, Any] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "os": platform.platform(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "ram_gib": _ram_gib(),
        "shm_mib": _shm_mib(),
        "container": Path("/.dockerenv").exists(),
        "env": {name: value for name, value in sorted(os.environ.items()) if _ENV_SHOWN.match(name)},
    }
    if torch.cuda.is_available():
        facts["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        facts["cuda"] = torch.version.cuda
        facts["nccl"] = _nccl_version()
    return facts


def product(backend: str, imports: tuple[str, ...]) -> dict[str, Any]:
    """What is judged: the backend's name, the modules that bring it, their versions and file hashes."""
    modules = []
    for name in imports:
        top = name.partition(".")[0]
        row: dict[str, Any] = {"import": name}
        try:
            row["version"] = metadata.version(top)
        except metadata.PackageNotFoundError:
            row["version"] = "unknown"
        spec = find_spec(top)
        if spec is not None and spec.origin and Path(spec.origin).is_file():
            row["sha256"] = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
        modules.append(row)
    names = [part.rpartition(":")[2].lower() for part in backend.split(",")]  # "cpu:gloo,cuda:nccl"
    if set(names) <= _OF_TORCH:
        version = f"torch {torch.__version__}"
    else:
        version = next((row["version"] for row in modules), _installed_version(names[0]))
    return {"backend": backend, "version": version, "modules": modules}


def git_revision() -> str:
    """The commit of the kit's source tree, if it is one: an installed kit may lie within another's repository."""
    git = ["git", "-C", str(Path(__file__).parent)]
    words = (["ls-files", "--error-unmatch", Path(__file__).name], ["rev-parse", "--short", "HEAD"])
    try:
        known, head = (
            subprocess.run([*git, *each], capture_output=True, text=True, timeout=5, check=False) for each in words
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return head.stdout.strip() if known.returncode == 0 else ""


@cache
def cpu_slowness() -> float:
    """How much longer than nominal a loop takes on a processor of its own."""
    started = time.thread_time()
    total = 0
    for number in range(4_000_000):
        total += number & 7
    return min(10.0, max(1.0, (time.thread_time() - started) / _NOMINAL_PROBE_S))


def crowd() -> float:
    """How many processes want each processor now."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(10.0, max(1.0, os.getloadavg()[0] / cores))


def _installed_version(backend: str) -> str:
    for name in (backend, f"torch_{backend}", f"torch-{backend}"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


def _nccl_version() -> str:
    version: Any = torch.cuda.nccl.version  # type: ignore[attr-defined,unused-ignore]
    return ".".join(str(part) for part in version())


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match.group(1) if match else platform.machine()


def _ram_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _shm_mib() -> int:
    try:
        stat = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return int(stat.f_frsize * stat.f_blocks / 2**20)
