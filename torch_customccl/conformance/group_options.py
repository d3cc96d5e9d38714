"""--pg-options: every group of the judged backend is made with them, whoever makes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from torch.distributed import distributed_c10d as c10d

SCRIPT = """
def options_of(named):
    module, _, function = named.partition(":")
    return getattr(importlib.import_module(module), function)() if named else None
"""
"""For ranks that are programs of their own: the options that MODULE:FUNCTION makes, none for an empty name."""


def in_all_groups(backend: str, make: Callable[[], Any]) -> None:
    """From now on a group of this backend that is given no options gets those that ``make`` makes for it."""
    for name in ("init_process_group", "new_group"):
        original = getattr(c10d, name)
        with_options = _with_options(original, _names(backend), make)
        for module in [*sys.modules.values()]:  # device_mesh and others hold it by name
            if getattr(module, "__name__", "").startswith("torch.distributed") and vars(module).get(name) is original:
                setattr(module, name, with_options)


def _names(backend: str) -> set[str]:
    return {part.rpartition(":")[2] for part in backend.lower().split(",")}


def _with_options(original: Callable[..., Any], judged: set[str], make: Callable[[], Any]) -> Callable[..., Any]:
    @wraps(original)
    def made(*args: Any, **keywords: Any) -> Any:
        given = signature(original).bind(*args, **keywords).arguments
        backend = given.get("backend")
        if given.get("pg_options") is None and (backend is None or judged & _names(str(backend))):
            given["pg_options"] = make()
        return original(**given)

    return made
