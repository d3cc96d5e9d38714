"""Puts what customccl did into the dumps of torch's flight recorder.

torch keeps the record of its own backends in an object that nothing outside libtorch can reach, so the shim keeps one
of its own, and the two functions that dump torch's are wrapped to add it. It is on when TORCH_FR_BUFFER_SIZE (or
TORCH_NCCL_TRACE_BUFFER_SIZE) is set. From 2.15 on torch records every backend itself and nothing is wrapped.
"""

import json
import pickle
import sys
from typing import Any

from torch_customccl._loader import torch_minor
from torch_customccl._wrapping import Function, wrap

_MAPS = ("pg_config", "pg_status")


def install() -> None:
    """Wrap torch's functions, once, in the versions that need it."""
    from torch._C import _distributed_c10d

    if torch_minor() in ("2.11", "2.12", "2.13", "2.14"):
        wrap(_distributed_c10d, "_dump_fr_trace", _with_ours)
        wrap(_distributed_c10d, "_dump_fr_trace_json", _with_ours_json)


def _with_ours(dump: Function) -> Function:
    def with_ours(
        includeCollectives: bool = True,  # noqa: N803 (torch's names)
        includeStackTraces: bool | None = None,  # noqa: N803
        onlyActive: bool | None = None,  # noqa: N803
    ) -> bytes:
        given = {"includeStackTraces": includeStackTraces, "onlyActive": onlyActive}
        torchs: bytes = dump(includeCollectives, **{name: value for name, value in given.items() if value is not None})
        return _merged(torchs, pickle, includeCollectives, includeStackTraces is not False, bool(onlyActive))

    return with_ours


def _with_ours_json(dump_json: Function) -> Function:
    def with_ours_json(includeCollectives: bool = True, onlyActive: bool = False) -> bytes:  # noqa: N803
        return _merged(dump_json(includeCollectives, onlyActive), json, includeCollectives, False, onlyActive)

    return with_ours_json


def _merged(torchs: bytes, form: Any, collectives: bool, stacks: bool, only_active: bool) -> bytes:
    """torch's dump with our entries behind its own; unchanged while no group of ours was ever made."""
    shim = sys.modules.get(f"torch_customccl._shim_{torch_minor().replace('.', '_')}")
    if shim is None:
        return torchs
    ours = shim.flight_dump(stacks and collectives, only_active)
    if not ours["entries"]:
        return torchs
    dump = form.loads(torchs)
    for part in _MAPS:
        dump[part] = {**dump.get(part, {}), **ours[part]}
    if collectives:
        dump["entries"] = [*dump.get("entries", []), *ours["entries"]]
    merged = form.dumps(dump)
    return merged if isinstance(merged, bytes) else merged.encode()
