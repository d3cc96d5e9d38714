"""Leaving: exit without destroy, abort, destroy in mid-flight, a forked child, what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..datacall import DataCall
from ..group_options import SCRIPT
from ..leftovers import forgotten_names, resident_bytes, snapshot
from ..model import Case, CheckFailedError, Tier, Verdict
from ..registry import body, family
from ..worker import init_group
from .faults import fault_case, first_use, must_fail


@family
def generate() -> Iterator[Case]:
    """Each case owns its worker set."""
    yield fault_case(
        "exit/no_destroy/ws2",
        "FT-03",
        "leaves_without_destroy",
        2,
        setup={"init": False, "deadline_s": 60.0, "op_timeout_s": 15.0, "cost_s": 9.0},
    )
    for op in ("all_reduce", "recv"):
        setup = {"op_timeout_s": 5.0, "deadline_s": 14.0}
        yield fault_case(f"abort/{op}/ws2", "FT-04", "aborted", 2, op=op, setup=setup)
    yield fault_case("destroy/pending/ws2", "FT-05", "destroyed_in_flight", 2, op="send_recv")
    yield fault_case("destroy/pending_collective/ws2", "FT-05", "destroyed_in_flight", 2)
    yield fault_case("fork/all_reduce/ws2", "FT-07", "forks", 2)
    yield fault_case(
        "leftovers/normal/ws2", "FT-08", "leaves_nothing", 2, Tier.SMOKE, setup={"init": False, "cost_s": 2.0}
    )
    yield fault_case("leftovers/memory/ws2", "FT-10", "keeps_no_memory", 2, setup={"deadline_s": 20.0})
    for op in ("all_gather", "reduce_scatter_tensor", "all_to_all_single", "send_recv"):
        setup = {"deadline_s": 20.0}
        yield fault_case(f"leftovers/memory/{op}/ws2", "FT-10", "keeps_no_memory", 2, op=op, setup=setup)
    yield fault_case("leftovers/kill/ws2", "FT-08", "leaves_nothing_killed", 2, may_die=(1,))


_SCRIPT = f"""
import importlib, sys
from datetime import timedelta
import torch, torch.distributed as dist
{SCRIPT}
backend, options, path, rank, size, seconds, *modules = sys.argv[1:]
for name in modules:
    importlib.import_module(name)
dist.init_process_group(backend, store=dist.FileStore(path, int(size)), rank=int(rank), world_size=int(size),
                        timeout=timedelta(seconds=float(seconds)), pg_options=options_of(options))
value = torch.ones(10)
dist.all_reduce(value)
print("sum", value[0].item())
"""


@body
def leaves_without_destroy(context: Context) -> None:
    """A script of its own: init, one all_reduce, end of file."""
    spec = context.spec
    command = [
        sys.executable,
        "-c",
        _SCRIPT,
        spec.backend,
        spec.pg_options,
        f"{spec.directory}/script-store",
        str(context.rank),
        str(context.size),
        str(context.op_timeout_s),
        *spec.imports,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "sum" not in done.stdout:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise RuntimeError(lines[-1] if lines else "the script said nothing")
    context.expect(
        f"sum {float(context.size)}" in done.stdout, f"the script printed {done.stdout!r}", Verdict.WRONG_RESULT
    )
    if done.returncode:
        verdict = Verdict.CRASH if done.returncode < 0 else Verdict.ERROR
        raise CheckFailedError(verdict, f"exit code {done.returncode}: {done.stderr[-500:]}")


@body
def aborted(context: Context) -> None:
    """Rank 0 waits for rank 1; another thread of rank 0 aborts the group."""
    first_use(context, context.op)
    if context.rank == 0:
        group: Any = dist.group.WORLD
        threading.Timer(0.3, group.abort).start()
        must_fail(context, context.op, "in an aborted group", limit_s=context.op_timeout_s / 3)
    context.meet("woken")


@body
def destroyed_in_flight(context: Context) -> None:
    """A receive is pending at the destroy, or a collective that rank 1, which leaves later, never calls."""
    context.require_support(context.op)
    value, work = torch.ones(5, device=context.device), None
    if context.op == "send_recv":
        work = dist.irecv(value, src=1 - context.rank)
    elif context.rank == 0:
        work = dist.all_reduce(value, async_op=True)
    context.meet("posted")
    steps: list[Callable[[], Any]] = [dist.destroy_process_group, lambda: context.meet("left")]
    for step in steps[::-1] if context.op != "send_recv" and context.rank == 1 else steps:
        step()
    del work


@body
def forks(context: Context) -> None:
    """A child is forked and leaves at once; the parent goes on."""
    first_use(context, "all_reduce")
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        value = torch.ones(1000, device=context.device)
        dist.all_reduce(value)
        context.expect(bool((value == context.size).all()), "wrong sum after a fork", Verdict.WRONG_RESULT)


_LIVES = 12


@body
def leaves_nothing(context: Context) -> None:
    """Groups made and destroyed: no shared memory names, no growing number of threads, descriptors, processes.

    What grows by one with each group, or with each operation of a kind, exceeds what may come and go by itself.
    """
    before, early = snapshot(), snapshot()
    for round in range(2 + _LIVES):
        init_group(context.spec, context.rank, f"life{round}")
        value = torch.ones(100_000, device=context.device)
        dist.all_reduce(value)
        dist.broadcast(value, src=0)
        dist.barrier()
        dist.destroy_process_group()
        if round == 1:
            early = snapshot()
    context.meet("destroyed")
    time.sleep(0.2)
    late = snapshot()
    names = forgotten_names(before)
    context.expect(not names, f"shared memory left behind: {', '.join(names[:5])}", Verdict.LEAK)
    context.expect(
        late.threads - early.threads < 6,
        f"threads grew from {early.threads} to {late.threads} in {_LIVES} lives",
        Verdict.LEAK,
    )
    context.expect(
        late.descriptors - early.descriptors < _LIVES,
        f"open descriptors grew from {early.descriptors} to {late.descriptors} in {_LIVES} lives",
        Verdict.LEAK,
    )
    context.expect(
        late.children - early.children < 6,
        f"child processes grew from {early.children} to {late.children} in {_LIVES} lives",
        Verdict.LEAK,
    )


_LARGE, _ROUNDS = 1 << 20, 16  # f32: 4 MiB each


@body
def keeps_no_memory(context: Context) -> None:
    """Operations on tensors that the caller lets go of: this process must not grow by all of them."""

    def round() -> None:
        if context.op != "all_reduce":
            for async_op in (False, True):
                call = DataCall(context, dist.group.WORLD, dims={"op": context.op, "numel": _LARGE // context.size})
                handle = call.issue(async_op)
                if async_op:
                    handle.wait()
            return
        value = torch.ones(_LARGE, device=context.device)
        dist.all_reduce(value)
        work = dist.all_reduce(value, async_op=True)
        if work is not None:
            work.wait()
        dist.broadcast(torch.ones(_LARGE, device=context.device), src=0)

    for _ in range(4):
        round()
    before = resident_bytes(context.device)
    for _ in range(_ROUNDS):
        round()
    grown = resident_bytes(context.device) - before
    context.expect(
        grown < 4 * _LARGE * _ROUNDS // 4,
        f"{grown >> 20} MiB more after {_ROUNDS} rounds with tensors of {4 * _LARGE >> 20} MiB that nobody holds",
        Verdict.LEAK,
    )


@body
def leaves_nothing_killed(context: Context) -> None:
    """A killed rank leaves no shared memory names once the others have destroyed the group."""
    before = snapshot()
    group = context.fresh_group()
    value = torch.ones(100_000, device=context.device)
    dist.all_reduce(value, group=group)
    context.meet("used")
    if context.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    dist.destroy_process_group()
    names = forgotten_names(before)
    context.expect(not names, f"shared memory left behind: {', '.join(names[:5])}", Verdict.LEAK)
