"""Faults: a rank that is late, missing, stopped, killed or gone, and what the others are told."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, Tier, Verdict
from ..registry import body, family

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
    "reduce",
    "scatter",
    "all_gather_into_tensor",
    "reduce_scatter",
    "all_to_all",
)


def fault_case(
    name: str,
    clause: str,
    function: str,
    size: int,
    tier: Tier = Tier.STANDARD,
    may_die: tuple[int, ...] = (),
    **dims: Any,
) -> Case:
    """A case of this family, in a worker set of its own."""
    setup = _SETUP | dims.pop("setup", {})
    dims = {"op": "all_reduce", "kind": name.rpartition("/ws")[0], **dims}
    return Case(f"fault/{name}", "faults", clause, function, size, dims, tier, "fresh", setup, may_die)


@family
def generate() -> Iterator[Case]:
    """Each case owns its worker set."""
    for op in _WAITING_OPS:
        tier = Tier.SMOKE if op == "all_reduce" else Tier.STANDARD
        yield fault_case(f"timeout/{op}/ws2", "TO-01", "times_out", 2, tier, op=op)
    yield fault_case("timeout/all_reduce/ws3", "TO-01", "times_out", 3)
    yield fault_case("timeout/all_reduce/ws5", "TO-01", "times_out", 5, Tier.FULL)
    for op in ("all_reduce", "all_gather", "reduce_scatter"):
        dims: dict[str, Any] = {"op": f"{op}_coalesced", "words": "coalescing coalesced"}
        yield fault_case(f"timeout_coalesced/{op}/ws2", "TO-01", "times_out", 2, **dims)
    for op in ("all_reduce", "send_recv"):
        yield fault_case(f"future/{op}/ws2", "WK-10", "future_fails", 2, op=op, words="future")
    yield fault_case("timeout/send/ws2", "TO-01", "send_ends", 2, op="send", words="send_recv")
    yield fault_case("timeout/of_new_group/ws2", "TO-03", "times_out_in_group", 2)
    yield fault_case("late/all_reduce/ws2", "TO-02", "late_rank", 2)
    yield fault_case("late/barrier/ws3", "TO-02", "late_rank", 3, op="barrier")
    for phase in ("before", "during", "large", "idle"):
        for size in (2, 3, 5):
            smoke = phase == "before" and size == 2
            tier = Tier.SMOKE if smoke else Tier.FULL if size > 4 else Tier.STANDARD
            yield fault_case(f"kill/{phase}/ws{size}", "FT-01", "killed_peer", size, tier, (1,), phase=phase)
    yield fault_case("kill/before_group/ws3", "FT-01", "killed_before_group", 3, may_die=(1,), words="new_group")
    yield fault_case("stop/all_reduce/ws2", "FT-02", "stopped_peer", 2, may_die=(1,))
    yield fault_case("peer_exits/all_reduce/ws2", "FT-09", "exited_peer", 2, may_die=(1,))
    yield fault_case("after_failure/timeout/ws2", "FT-06", "recovers", 2, phase="timeout")
    yield fault_case(
        "after_failure/kill/ws3", "FT-06", "recovers", 3, may_die=(1,), phase="kill", setup={"deadline_s": 12.0}
    )


def waiting_call(context: Context, op: str, group: Any = None) -> Callable[[], Any]:
    """A call of the operation that cannot complete while a rank stays away."""
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
        "reduce": lambda: dist.reduce(one, dst=0, group=group),
        "scatter": lambda: dist.scatter(one, many if context.rank == 1 else None, src=1, group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(joined, one, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter(one, many, group=group),
        "all_to_all": lambda: dist.all_to_all([each.clone() for each in many], many, group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(joined.clone(), joined, group=group),
        "all_reduce_coalesced": _coalesced(dist.all_reduce, [(one,), (one.clone(),)], group),
        "all_gather_coalesced": _coalesced(dist.all_gather_into_tensor, [(joined, one)], group),
        "reduce_scatter_coalesced": _coalesced(dist.reduce_scatter_tensor, [(one, joined)], group),
    }[op]


def _coalesced(call: Callable[..., Any], all_arguments: list[Any], group: Any) -> Callable[[], None]:
    def run() -> None:
        with dist._coalescing_manager(group=group, async_ops=True) as manager:
            for arguments in all_arguments:
                call(*arguments, group=group)
        manager.wait()

    return run


def first_use(context: Context, op: str) -> None:
    """Everyone does it once: it is supported, and the connections exist."""
    if op == "recv":
        context.require_support("send_recv")
    else:
        waiting_call(context, op)()


def all_ready(context: Context) -> None:
    """All have connected, and come here."""
    first_use(context, "all_reduce")
    context.meet("ready")


def _limit_s(context: Context) -> float:
    """The group's timeout, and a quarter of it."""
    return context.op_timeout_s * 1.25 + 0.5


def must_fail(context: Context, op: str, why: str, group: Any = None, limit_s: float | None = None) -> None:
    """The call must raise within the timeout and a quarter of it."""
    limit = limit_s if limit_s is not None else _limit_s(context)
    context.refused(waiting_call(context, op, group), f"{op} {why}", limit_s=limit)


@body
def times_out(context: Context) -> None:
    """The last rank never calls; the others must raise in time."""
    first_use(context, context.op)
    if context.rank != context.size - 1:
        must_fail(context, context.op, "that a rank never calls")
    context.meet("all have given up")


@body
def send_ends(context: Context) -> None:
    """Nobody receives the 4 MiB that rank 0 sends: a backend may keep them for a receive to come, or raise in time."""
    first_use(context, "recv")
    if context.rank == 0:
        value = torch.ones(1 << 20, device=context.device)
        started = time.monotonic()
        try:
            dist.send(value, dst=1)
            context.note(kept=True)
        except Exception as error:
            context.note(refused_with=f"{type(error).__name__}: {error}"[:300])
        waited, limit = time.monotonic() - started, 2 * _limit_s(context)  # an error that comes later is red, too
        context.expect(waited < limit, f"a send that nobody receives ended after {waited:.1f} s, limit {limit:.1f} s")
    context.meet("all have given up")


@body
def future_fails(context: Context) -> None:
    """The future of an operation that fails completes, with an error: callbacks would be waited for in vain else."""
    value = torch.ones(1000, device=context.device)

    def post(call: Callable[..., Any] = dist.irecv) -> Any:
        return call(value, 1 - context.rank) if context.op == "send_recv" else dist.all_reduce(value, async_op=True)

    work = post(dist.irecv if context.rank else dist.isend)
    work.wait()
    work.get_future()  # a backend without futures refuses this on every rank
    if context.rank == 0:
        work = post()
        future = work.get_future()
        context.refused(work.wait, f"{context.op} that a rank never calls")
        limit = time.monotonic() + context.op_timeout_s
        while not future.done() and time.monotonic() < limit:
            time.sleep(0.005)
        context.expect(future.done(), f"{context.op} has failed, but its future does not complete")
        if context.device == "cpu":
            context.refused(future.wait, f"the future of an {context.op} that failed", accepted=Verdict.WRONG_RESULT)
    context.meet("told")


@body
def times_out_in_group(context: Context) -> None:
    """A group made with half a second gives up after half a second, whatever the world's timeout."""
    group = context.fresh_group(timeout_s=0.5)
    waiting_call(context, "all_reduce", group)()
    if context.rank == 0:
        must_fail(context, "all_reduce", "in a group with a timeout of 0.5 s", group, limit_s=1.0)
    context.meet("given up")


@body
def late_rank(context: Context) -> None:
    """The last rank comes after 60 % of the timeout."""
    first_use(context, context.op)
    if context.rank == context.size - 1:
        time.sleep(0.6 * context.op_timeout_s)
    waiting_call(context, context.op)()


@body
def killed_peer(context: Context) -> None:
    """Rank 1 kills itself; the others' operations must raise, and say so in time."""
    phase = context.dims["phase"]
    all_ready(context)
    if context.rank == 1:
        _die(context, phase)
    if phase == "idle":
        time.sleep(0.3)
    value = torch.ones(8_000_000 if phase == "large" else 1000, device=context.device)
    started = time.monotonic()

    def until_it_fails() -> None:
        dist.all_reduce(value)
        # By time, not by count: a fast backend does ten thousand of them before the other rank is dead.
        while phase in ("during", "large") and time.monotonic() - started < 3 * context.op_timeout_s:
            dist.all_reduce(value)

    context.refused(until_it_fails, "all_reduce with a killed rank", limit_s=1.5 * context.op_timeout_s + 1.0)


@body
def killed_before_group(context: Context) -> None:
    """Rank 1 kills itself; the others make a group with it, and use it should the backend connect no sooner."""
    all_ready(context)
    if context.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def make_and_use() -> None:
        waiting_call(context, "all_reduce", context.fresh_group(timeout_s=context.op_timeout_s))()

    context.refused(make_and_use, "a new group with a killed rank", limit_s=1.5 * context.op_timeout_s + 1.0)


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
    all_ready(context)
    if context.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    must_fail(context, "all_reduce", "with a stopped rank")


@body
def exited_peer(context: Context) -> None:
    """Rank 1 leaves its process with code 0."""
    all_ready(context)
    if context.rank == 1:
        os._exit(0)
    must_fail(context, "all_reduce", "with a rank that has left")


@body
def recovers(context: Context) -> None:
    """After a failure: destroy, make a new default group of those who are left, use it."""
    all_ready(context)
    killed = context.dims["phase"] == "kill"
    if killed and context.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if killed or context.rank == 0:
        must_fail(context, "all_reduce", "of a rank that is missing")
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
