"""One rank: a process that takes cases from the parent, runs their bodies, and reports. Never decides a verdict."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from .context import Context
from .group_options import in_all_groups
from .model import Case, CheckFailedError, RankOutcome
from .registry import BODIES, load

STACK_SIGNAL = signal.SIGUSR1
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class WorkerSpec:
    """How the ranks of one worker set are started."""

    backend: str
    imports: tuple[str, ...]
    device: str
    world_size: int
    store_path: str
    op_timeout_s: float
    directory: str
    env: dict[str, str] = field(default_factory=dict)
    init: bool = True
    pg_options: str = ""


class CallersMistakeError(Exception):
    """The caller of the kit named what is not there, or does not work: no fault of the backend."""


def serve(pipe: Connection, spec: WorkerSpec, rank: int) -> None:
    """Process main: prepare, make the default group, then answer the parent until it says stop."""
    try:
        _prepare(spec, rank)
        _check_names(spec)
        load()
        if spec.pg_options:
            in_all_groups(spec.backend, lambda: _options(spec))
        if spec.init:
            init_group(spec, rank)
        pipe.send(("ready", None))
    except (Exception, SystemExit) as error:
        pipe.send(("failed", _raised(rank, error)))
        return
    groups: dict[str, list[Any]] = {}
    while True:
        try:
            kind, payload = pipe.recv()
        except EOFError:
            return
        if kind == "stop":
            if dist.is_initialized():
                dist.destroy_process_group()
            pipe.send(("stopped", None))
            return
        if kind == "probe":
            grouping = payload.dims.get("group", "") if payload else ""
            pipe.send(("probed", _probe(spec, groups.get(grouping, []))))
        else:
            pipe.send(("done", run_case(payload, spec, rank, groups)))


def make_store(spec: WorkerSpec) -> dist.Store:
    """The rendezvous store: a file that the parent owns, so no rank's death can end it and no name is looked up."""
    return dist.FileStore(spec.store_path)


def init_group(spec: WorkerSpec, rank: int, suffix: str = "") -> None:
    """Make the default group of the tested backend."""
    store = make_store(spec)
    dist.init_process_group(
        backend=spec.backend,
        store=dist.PrefixStore(suffix, store) if suffix else store,
        rank=rank,
        world_size=spec.world_size,
        timeout=timedelta(seconds=spec.op_timeout_s),
    )


def _options(spec: WorkerSpec) -> Any:
    try:
        return _options_function(spec)()
    except Exception as error:
        raise CallersMistakeError(f"--pg-options {spec.pg_options!r} raised {type(error).__name__}: {error}") from error


def _options_function(spec: WorkerSpec) -> Any:
    module, _, function = spec.pg_options.partition(":")
    return getattr(_imported(module), function, None)


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            raise CallersMistakeError(f"there is no module {name!r} for {sys.executable} to import") from error
        raise


def _check_names(spec: WorkerSpec) -> None:
    """Once everything is imported, what the caller named must be there."""
    for part in spec.backend.split(","):
        name = part.rpartition(":")[2]
        if name.lower() not in dist.Backend.backend_list:
            modules = f"importing {', '.join(spec.imports)}" if spec.imports else "torch"
            raise CallersMistakeError(f"{modules} registers no backend named {name!r}")
    if spec.pg_options and not callable(_options_function(spec)):
        raise CallersMistakeError(f"--pg-options {spec.pg_options!r}: there is no such function")


def _prepare(spec: WorkerSpec, rank: int) -> None:
    """Own session, death with the parent, output to files, stacks on a signal, one thread, modules imported."""
    with suppress(PermissionError):  # a launcher has made this process the leader of its group already
        os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(spec.env)
    os.environ["NCCL_HOSTID"] = f"conformance-rank-{rank}"
    log = os.open(os.path.join(spec.directory, f"rank{rank}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    stacks = open(os.path.join(spec.directory, f"rank{rank}.stacks"), "w")  # noqa: SIM115
    faulthandler.enable(stacks)
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)
    torch.set_num_threads(1)
    if "TORCH_DISTRIBUTED_DEBUG" in spec.env:
        dist.set_debug_level_from_env()
    if spec.device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    for name in spec.imports:
        _imported(name)


def _raised(rank: int, error: BaseException) -> RankOutcome:
    try:
        text = str(error)
    except Exception as failed:
        text = f"its text cannot be read, __str__ raised {type(failed).__name__}"
    return RankOutcome(
        rank,
        "raised",
        exc_type=type(error).__name__,
        message=(text if isinstance(error, CallersMistakeError) else f"{type(error).__name__}: {text}")[:2000],
        traceback="".join(traceback.format_exception(error))[-4000:],
    )


def run_case(case: Case, spec: WorkerSpec, rank: int, groups: dict[str, list[Any]]) -> RankOutcome:
    """Run one body; turn whatever happens into an outcome."""
    context = Context(case, rank, spec, groups)
    started = time.monotonic()
    try:
        BODIES[case.body](context)
        if spec.device == "cuda":
            torch.cuda.synchronize()
        outcome = RankOutcome(rank, "ok")
    except CheckFailedError as error:
        context.give_up()
        outcome = RankOutcome(rank, "check", verdict=error.verdict.value, message=str(error)[:2000])
    except Exception as error:
        context.give_up()
        outcome = _raised(rank, error)
    outcome.duration_ms = round((time.monotonic() - started) * 1e3, 2)
    outcome.info = _plain(context.info)
    return outcome


def _plain(info: dict[str, Any]) -> dict[str, Any]:
    """As JSON can hold it: a backend's own types mean nothing to the parent and to the reports."""
    try:
        return dict(json.loads(json.dumps(info, default=str)))
    except Exception as error:
        return {"unreadable": type(error).__name__}


def _probe(spec: WorkerSpec, groups: Sequence[Any] = ()) -> bool:
    """Do the default group and these groups still add up one number per rank?"""
    good = True
    for group in (dist.group.WORLD, *groups):
        try:
            value = torch.ones(3, device=spec.device)
            dist.all_reduce(value, group=group)
            good = good and bool((value == dist.get_world_size(group)).all())
        except Exception:
            good = False
    return good
