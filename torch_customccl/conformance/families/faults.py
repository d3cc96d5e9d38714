"""Faults: a rank that is late, missing, stopped, killed or gone; abort; destroy in mid-flight; what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..leftovers import forgotten_names, snapshot
from ..model import Case, CheckFailedError, Tier, Verdict
from ..registry import body, family
from ..worker import init_group

_TIMEOUT_S = 1.5
_SETUP = {"op_timeout_s": _TIMEOUT_S, "deadline_s": 8.0, "cost_s": 4.0}
_WAITING_OPS = (
    "all_reduce",
    "broadcast",
    "barrier",
    "all_gather",
    "reduce_scatter_tensor",
    "recv",
    "gather",
    "all_to_all_single",
)


def _fault(
    name: str,
    clause: str,
    function: str,
    size: int,
    tier: Tier = Tier.STANDARD,
    may_die: tuple[int, ...] = (),
    **dims: Any,
) -> Case:
    setup = _SETUP | dims.pop("setup", {})
    dims = {"op": "all_reduce", "kind": name.rpartition("/ws")[0], **dims}
    return Case(f"fault/{name}", "faults", clause, function, size, dims, tier, "fresh", setup, may_die)


@family
def generate() -> Iterator[Case]:
    """Each case owns its worker set."""
    for op in _WAITING_OPS:
        tier = Tier.SMOKE if op == "all_reduce" else Tier.STANDARD
        yield _fault(f"timeout/{op}/ws2", "TO-01", "times_out", 2, tier, op=op)
    yield _fault("timeout/all_reduce/ws3", "TO-01", "times_out", 3)
    yield _fault("timeout/of_new_group/ws2", "TO-03", "times_out_in_group", 2)
    yield _fault("late/all_reduce/ws2", "TO-02", "late_rank", 2)
    yield _fault("late/barrier/ws3", "TO-02", "late_rank", 3, op="barrier")
    for phase in ("before", "during", "large", "idle"):
        for size in (2, 3):
            tier = Tier.SMOKE if phase == "before" and size == 2 else Tier.STANDARD
            yield _fault(f"kill/{phase}/ws{size}", "FT-01", "killed_peer", size, tier, (1,), phase=phase)
    yield _fault("stop/all_reduce/ws2", "FT-02", "stopped_peer", 2, may_die=(1,))
    yield _fault("peer_exits/all_reduce/ws2", "FT-09", "exited_peer", 2, may_die=(1,))
    yield _fault(
        "exit/no_destroy/ws2",
        "FT-03",
        "leaves_without_destroy",
        2,
        setup={"init": False, "deadline_s": 60.0, "op_timeout_s": 15.0, "cost_s": 9.0},
    )
    yield _fault("abort/all_reduce/ws2", "FT-04", "aborted", 2, setup={"op_timeout_s": 5.0, "deadline_s": 14.0})
    yield _fault("destroy/pending/ws2", "FT-05", "destroyed_in_flight", 2, op="send_recv")
    yield _fault("after_failure/timeout/ws2", "FT-06", "recovers", 2, phase="timeout")
    yield _fault(
        "after_failure/kill/ws3", "FT-06", "recovers", 3, may_die=(1,), phase="kill", setup={"deadline_s": 12.0}
    )
    yield _fault("fork/all_reduce/ws2", "FT-07", "forks", 2)
    yield _fault("leftovers/normal/ws2", "FT-08", "leaves_nothing", 2, Tier.SMOKE, setup={"init": False, "cost_s": 2.0})
    yield _fault("leftovers/kill/ws2", "FT-08", "leaves_nothing_killed", 2, may_die=(1,))


def _call(context: Context, op: str, group: Any = None) -> Callable[[], Any]:
    n, device = context.size, context.device
    one = torch.ones(1000, device=device)
    many = [torch.zeros(1000, device=device) for _ in range(n)]
    joined = torch.ones(1000 * n, device=device)
    return {
        "all_reduce": lambda: dist.all_reduce(one, group=group),
        "barrier": lambda: dist.barrier(group=group),
        "broadcast": lambda: dist.broadcast(one, src=1, group=group),
        "recv": lambda: dist.recv(one, src=1),
        "all_gather": lambda: dist.all_gather(many, one, group=group),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(one, joined, group=group),
        "gather": lambda: dist.gather(one, many if context.rank == 0 else None, dst=0, group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(joined.clone(), joined, group=group),
    }[op]


def _first_use(context: Context, op: str) -> None:
    """Everyone does it once: it is supported, and the connections exist."""
    if op == "recv":
        context.require_support("send_recv")
    else:
        _call(context, op)()


def _must_fail(context: Context, op: str, why: str, group: Any = None, limit_s: float | None = None) -> None:
    limit = limit_s if limit_s is not None else context.op_timeout_s * 1.25 + 0.5
    context.refused(_call(context, op, group), f"{op} {why}", limit_s=limit)


@body
def times_out(context: Context) -> None:
    """The last rank never calls; the others must raise in time."""
    _first_use(context, context.op)
    if context.rank != context.size - 1:
        _must_fail(context, context.op, "that a rank never calls")
    context.meet("all have given up")


@body
def times_out_in_group(context: Context) -> None:
    """A group made with half a second gives up after half a second, whatever the world's timeout."""
    group = context.fresh_group(timeout_s=0.5)
    _call(context, "all_reduce", group)()
    if context.rank == 0:
        _must_fail(context, "all_reduce", "in a group with a timeout of 0.5 s", group, limit_s=1.0)
    context.meet("given up")


@body
def late_rank(context: Context) -> None:
    """The last rank comes after 60 % of the timeout."""
    _first_use(context, context.op)
    if context.rank == context.size - 1:
        time.sleep(0.6 * context.op_timeout_s)
    _call(context, context.op)()


@body
def killed_peer(context: Context) -> None:
    """Rank 1 kills itself; the others' operations must raise, and say so in time."""
    phase = context.dims["phase"]
    _first_use(context, "all_reduce")
    context.meet("ready")
    if context.rank == 1:
        _die(context, phase)
    if phase == "idle":
        time.sleep(0.3)
    value = torch.ones(8_000_000 if phase == "large" else 1000, device=context.device)
    started = time.monotonic()

    def until_it_fails() -> None:
        for _ in range(10_000 if phase in ("during", "large") else 1):
            dist.all_reduce(value)
            if time.monotonic() - started > 3 * context.op_timeout_s:
                return

    context.refused(until_it_fails, "all_reduce with a killed rank", limit_s=1.5 * context.op_timeout_s + 1.0)


def _die(context: Context, phase: str) -> None:
    if phase in ("during", "large"):
        timer = threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGKILL))
        timer.start()
        value = torch.ones(8_000_000 if phase == "large" else 1000, device=context.device)
        while True:
            dist.all_reduce(value)
    os.kill(os.getpid(), signal.SIGKILL)


@body
def stopped_peer(context: Context) -> None:
    """Rank 1 stops itself (SIGSTOP)."""
    _first_use(context, "all_reduce")
    context.meet("ready")
    if context.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    _must_fail(context, "all_reduce", "with a stopped rank")


@body
def exited_peer(context: Context) -> None:
    """Rank 1 leaves its process with code 0."""
    _first_use(context, "all_reduce")
    context.meet("ready")
    if context.rank == 1:
        os._exit(0)
    _must_fail(context, "all_reduce", "with a rank that has left")


_SCRIPT = """
import importlib, sys
from datetime import timedelta
import torch, torch.distributed as dist
backend, path, rank, size, seconds, *modules = sys.argv[1:]
for name in modules:
    importlib.import_module(name)
dist.init_process_group(backend, store=dist.FileStore(path, int(size)), rank=int(rank), world_size=int(size),
                        timeout=timedelta(seconds=float(seconds)))
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
    _first_use(context, "all_reduce")
    if context.rank == 0:
        group: Any = dist.group.WORLD
        threading.Timer(0.3, group.abort).start()
        _must_fail(context, "all_reduce", "in an aborted group", limit_s=context.op_timeout_s / 3)
    context.meet("woken")


@body
def destroyed_in_flight(context: Context) -> None:
    """A receive is pending when the group is destroyed; the call must come back."""
    context.require_support("send_recv")
    value = torch.ones(5, device=context.device)
    work = dist.irecv(value, src=1 - context.rank)
    context.meet("posted")
    dist.destroy_process_group()
    del work


@body
def recovers(context: Context) -> None:
    """After a failure: destroy, make a new default group of those who are left, use it."""
    _first_use(context, "all_reduce")
    context.meet("ready")
    killed = context.dims["phase"] == "kill"
    if killed and context.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if killed or context.rank == 0:
        _must_fail(context, "all_reduce", "of a rank that is missing")
    survivors = [rank for rank in range(context.size) if not killed or rank != 1]
    context.meet("failed", survivors)
    dist.destroy_process_group()
    store = dist.PrefixStore("second life", context.store)
    dist.init_process_group(
        context.backend,
        store=store,
        rank=survivors.index(context.rank),
        world_size=len(survivors),
        timeout=timedelta(seconds=context.op_timeout_s),
    )
    value = torch.ones(5, device=context.device)
    dist.all_reduce(value)
    context.expect(bool((value == len(survivors)).all()), f"sum {value[0].item()}", Verdict.WRONG_RESULT)


@body
def forks(context: Context) -> None:
    """A child is forked and leaves at once; the parent goes on."""
    _first_use(context, "all_reduce")
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        value = torch.ones(1000, device=context.device)
        dist.all_reduce(value)
        context.expect(bool((value == context.size).all()), "wrong sum after a fork", Verdict.WRONG_RESULT)


@body
def leaves_nothing(context: Context) -> None:
    """Eight groups made and destroyed: no shared memory names, and no growing number of threads or descriptors."""
    before, early = snapshot(), snapshot()
    for round in range(8):
        init_group(context.spec, context.rank, f"life{round}")
        value = torch.ones(100_000, device=context.device)
        dist.all_reduce(value)
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
        f"threads grew from {early.threads} to {late.threads} in 6 lives",
        Verdict.LEAK,
    )
    context.expect(
        late.descriptors - early.descriptors < 12,
        f"open descriptors grew from {early.descriptors} to {late.descriptors} in 6 lives",
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
