"""Gathers what `python -m torch_customccl info` prints."""

import os
import platform
from typing import Any

from torch_customccl._fallback import groups_over_gloo
from torch_customccl._loader import load, shims, torch_version
from torch_customccl._version import __version__


def gather() -> dict[str, Any]:
    """All facts as plain values. Without a usable shim, or torch, `library` is None and `problem` says why."""
    library, problem = _library()
    return {
        "versions": _versions(),
        "problem": problem,
        "library": library,
        "shared_memory": shared_memory(),
        "groups_over_gloo": dict(groups_over_gloo),
    }


def settings() -> list[dict[str, str]]:
    """A row for every environment variable: variable, meaning, default, value. RuntimeError without a usable shim."""
    table: list[dict[str, str]] = load().info()["settings"]
    return table


def _library() -> tuple[dict[str, Any] | None, str | None]:
    try:
        return load().info(), None
    except RuntimeError as error:
        return None, str(error)


def _versions() -> dict[str, Any]:
    try:
        torch: str | None = torch_version()
    except RuntimeError:  # `problem` says it
        torch = None
    return {
        "torch_customccl": __version__,
        "shims": list(shims()),
        "torch": torch,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def shared_memory(folder: str = "/dev/shm") -> dict[str, Any]:
    """Bytes of the tmpfs that shared memory counts against, and how many are used; or why that cannot be told."""
    try:
        facts = os.statvfs(folder)
    except OSError as error:
        return {"path": folder, "problem": error.strerror}
    size = facts.f_blocks * facts.f_frsize
    return {
        "path": folder,
        "size": size,
        "used": size - facts.f_bfree * facts.f_frsize,
        "entries": len(os.listdir(folder)),
    }
