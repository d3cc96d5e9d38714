"""Point-to-point: order, tags, any source, many messages, directions that cross."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, Tier, Verdict
from ..registry import body, family


@family
def generate() -> Iterator[Case]:
    """One case per property."""
    rows = (
        ("order", "PP-01", (2, 3, 5)),
        ("buffer_reused", "PP-01", (2,)),
        ("tags_crossed", "PP-02", (2,)),
        ("tags_alike", "PP-02", (2,)),
        ("any_source", "PP-03", (2, 3, 5, 8)),
        ("any_source_tag", "PP-03", (3, 5)),
        ("any_source_in_group", "PP-03", (3,)),
        ("polled_recv", "PP-04", (2,)),
        ("both_ways", "PP-01", (2,)),
        ("batch_orders", "PP-05", (2, 3, 5, 8)),
        ("posted_late", "PP-07", (2,)),
        ("sizes", "PP-01", (2,)),
        ("among_collectives", "PP-01", (2, 3, 5)),
        ("many", "PP-01", (2,)),
    )
    for name, clause, sizes in rows:
        for size in sizes:
            smoke = size == 2 and name in ("order", "polled_recv", "both_ways", "tags_crossed")
            yield Case(
                f"p2p/{name}/ws{size}",
                "p2p",
                clause,
                name,
                size,
                {"op": "send_recv", "kind": name},
                Tier.SMOKE if smoke else Tier.FULL if size > 4 else Tier.STANDARD,
            )


def _message(context: Context, value: float, numel: int = 12) -> torch.Tensor:
    return torch.arange(numel, dtype=torch.float32, device=context.device) + 1000 * value


def _blank(context: Context, numel: int = 12) -> torch.Tensor:
    return torch.full((numel,), -1.0, device=context.device)


def _same(context: Context, got: torch.Tensor, value: float, what: str) -> None:
    want = _message(context, value, got.numel())
    context.expect(
        torch.equal(got, want),
        f"{what}: got {got[:3].tolist()}..., expected {want[:3].tolist()}...",
        Verdict.WRONG_RESULT,
    )


@body
def order(context: Context) -> None:
    """Twenty messages of one tag arrive in the order sent."""
    for index in range(20):
        if context.rank == 0:
            for peer in range(1, context.size):
                dist.send(_message(context, index), peer)
        else:
            got = _blank(context)
            dist.recv(got, 0)
            _same(context, got, index, f"message {index}")


def held_until(context: Context, key: str) -> None:
    """Wait until a rank has set the key; not for ever, since it may need this rank to get there."""
    with suppress(RuntimeError):
        context.store.wait([key], timedelta(seconds=0.5))


@body
def buffer_reused(context: Context) -> None:
    """The sender overwrites its tensor once send or wait has come back; the receiver comes after that."""
    for index, numel in enumerate((12, 12, 20_000, 20_000)):
        if context.rank == 0:
            value = _message(context, index, numel)
            work: Any = dist.isend(value, 1) if index % 2 else dist.send(value, 1)
            if work is not None:
                work.wait()
            value.zero_()
            context.store.set(f"overwritten/{index}", b"1")
        else:
            held_until(context, f"overwritten/{index}")
            got = _blank(context, numel)
            dist.recv(got, 0)
            _same(context, got, index, f"message {index}, whose sender has used its tensor again")


@body
def tags_alike(context: Context) -> None:
    """Tags with the same low bits are different tags; received in the opposite order."""
    tags = [1, 17, 257, 65_537]
    if context.rank == 0:
        works: list[Any] = [dist.isend(_message(context, tag), 1, tag=tag) for tag in tags]
        for work in works:
            work.wait()
    else:
        for tag in tags[::-1]:
            got = _blank(context)
            dist.recv(got, 0, tag=tag)
            _same(context, got, tag, f"tag {tag}")


@body
def tags_crossed(context: Context) -> None:
    """Sent with tags 1, 2, 3; received as 3, 1, 2."""
    if context.rank == 0:
        works: list[Any] = [dist.isend(_message(context, tag), 1, tag=tag) for tag in (1, 2, 3)]
        for work in works:
            work.wait()
    else:
        for tag in (3, 1, 2):
            got = _blank(context)
            dist.recv(got, 0, tag=tag)
            _same(context, got, tag, f"tag {tag}")


@body
def any_source(context: Context) -> None:
    """Rank 0 takes one message from each rank without saying from whom, and is told whose it was."""
    if context.rank:
        dist.send(_message(context, context.rank), 0)
        return
    seen = []
    for _ in range(context.size - 1):
        got = _blank(context)
        sender = dist.recv(got)
        _same(context, got, sender, f"message said to be from rank {sender}")
        seen.append(sender)
    context.expect(
        sorted(seen) == list(range(1, context.size)), f"messages came from ranks {seen}", Verdict.WRONG_RESULT
    )


@body
def any_source_in_group(context: Context) -> None:
    """In the group of all ranks but the first, a receive from any source tells the sender's rank in the world."""
    ranks = list(range(1, context.size))
    group = dist.new_group(ranks, backend=context.backend, timeout=timedelta(seconds=context.op_timeout_s))
    if context.rank == 0:
        context.note(bystander=True)
    elif context.rank > 1:
        dist.send(_message(context, context.rank), 1, group=group)
    else:
        for _ in ranks[1:]:
            got = _blank(context)
            sender = dist.recv(got, group=group)
            _same(context, got, sender, f"message said to be from rank {sender}")


@body
def any_source_tag(context: Context) -> None:
    """A receive from any source with a tag takes no message of another tag."""
    if context.rank:
        tag = 7 if context.rank == context.size - 1 else 8
        dist.send(_message(context, context.rank), 0, tag=tag)
        return
    got = _blank(context)
    sender = dist.recv(got, tag=7)
    context.expect(
        sender == context.size - 1,
        f"tag 7 was sent by rank {context.size - 1}, got rank {sender}'s",
        Verdict.WRONG_RESULT,
    )
    for _ in range(context.size - 2):
        dist.recv(got, tag=8)


@body
def polled_recv(context: Context) -> None:
    """Both requests of an exchange are only polled."""
    from ..modes import poll

    peer, got = 1 - context.rank, _blank(context)
    sent = dist.isend(_message(context, context.rank), peer)
    poll(lambda _: dist.irecv(got, peer), context)
    _same(context, got, peer, "polled message")
    poll(lambda _: sent, context)


@body
def both_ways(context: Context) -> None:
    """Both ranks send before they receive."""
    peer = 1 - context.rank
    for index in range(10):
        got = _blank(context, 50_000)
        work: Any = dist.isend(_message(context, 10 * index + context.rank, 50_000), peer)
        dist.recv(got, peer)
        work.wait()
        _same(context, got, 10 * index + peer, f"exchange {index}")


@body
def batch_orders(context: Context) -> None:
    """Receives before sends on even ranks, the other way round on odd ones; all pairs at once."""
    peers = [rank for rank in range(context.size) if rank != context.rank]
    got = {peer: _blank(context) for peer in peers}
    sends = [dist.P2POp(dist.isend, _message(context, context.rank), peer) for peer in peers]
    recvs = [dist.P2POp(dist.irecv, got[peer], peer) for peer in peers]
    for work in dist.batch_isend_irecv(recvs + sends if context.rank % 2 == 0 else sends + recvs):
        work.wait()
    for peer in peers:
        _same(context, got[peer], peer, f"batched message from rank {peer}")


@body
def posted_late(context: Context) -> None:
    """Requests with two tags, posted in opposite order, waited for in the order posted."""
    tags = (4, 5)
    works: list[Any]
    if context.rank == 0:
        works = [dist.isend(_message(context, tag, 20_000), 1, tag=tag) for tag in tags]
    else:
        got = {tag: _blank(context, 20_000) for tag in tags}
        works = [dist.irecv(got[tag], 0, tag=tag) for tag in tags[::-1]]
    for work in works:
        work.wait()
    if context.rank == 1:
        for tag in tags:
            _same(context, got[tag], tag, f"tag {tag}")


@body
def sizes(context: Context) -> None:
    """Messages of 1 element to 1 MiB."""
    for numel in (1, 2, 63, 1024, 16_385, 262_144):
        if context.rank == 0:
            dist.send(_message(context, 1, numel), 1)
        else:
            got = _blank(context, numel)
            dist.recv(got, 0)
            _same(context, got, 1, f"{numel} elements")


@body
def among_collectives(context: Context) -> None:
    """A message posted before a collective and received after it."""
    last = context.size - 1
    work = dist.isend(_message(context, 3), last) if context.rank == 0 else None
    value = torch.ones(40, device=context.device)
    dist.all_reduce(value)
    context.expect(bool((value == context.size).all()), "wrong sum beside a message in flight", Verdict.WRONG_RESULT)
    if context.rank == last:
        got = _blank(context)
        dist.recv(got, 0)
        _same(context, got, 3, "message")
    if work is not None:
        work.wait()


@body
def many(context: Context) -> None:
    """Two hundred messages in flight at once."""
    peer, count = 1 - context.rank, 200
    got = [_blank(context) for _ in range(count)]
    works: list[Any] = [dist.irecv(each, peer) for each in got]
    works += [dist.isend(_message(context, index), peer) for index in range(count)]
    for work in works:
        work.wait()
    for index, each in enumerate(got):
        _same(context, each, index, f"message {index} of {count}")
