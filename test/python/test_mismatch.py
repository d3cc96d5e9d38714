"""Ranks that call different things: a clear error on every rank that names the difference, never a wrong result."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, group_works, subgroup

ones, zeros = torch.ones, torch.zeros
Call = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """What each of two ranks calls on the group, and the words that each rank's message must have.

    For lists the message may give the length of one entry or of all together.
    """

    calls: tuple[Call, Call]
    words: tuple[str, ...]


def all_reduce(*args: Any, **options: Any) -> Call:
    return lambda group: dist.all_reduce(*args, group=group, **options)


CASES: dict[str, Case] = {
    "op": Case(
        (all_reduce(ones(4)), lambda group: dist.broadcast(ones(4), src=0, group=group)), ("all_reduce", "broadcast")
    ),
    "op, one without data": Case(
        (all_reduce(ones(4)), lambda group: dist.barrier(group=group)), ("all_reduce", "barrier")
    ),
    "op, large": Case(
        (
            all_reduce(ones(600_000)),
            lambda group: dist.all_gather_into_tensor(zeros(1_200_000), ones(600_000), group=group),
        ),
        ("all_reduce", "all_gather"),
    ),
    "dtype": Case((all_reduce(ones(4)), all_reduce(ones(4, dtype=torch.int32))), ("float32", "int32")),
    "dtype, the same number of bytes": Case(
        (all_reduce(ones(8)), all_reduce(ones(4, dtype=torch.float64))), ("float32", "float64")
    ),
    "count": Case((all_reduce(ones(5)), all_reduce(ones(3))), (r"\b5\b", r"\b3\b")),
    "count, one of them none": Case((all_reduce(ones(0)), all_reduce(ones(4))), (r"\b0\b", r"\b4\b")),
    "count, small and large": Case((all_reduce(ones(5)), all_reduce(ones(1_000_000))), (r"\b5\b", r"\b1000000\b")),
    "count, both large": Case(
        (all_reduce(ones(1_000_000)), all_reduce(ones(999_999))), (r"\b1000000\b", r"\b999999\b")
    ),
    "reduce op": Case((all_reduce(ones(4)), all_reduce(ones(4), op=dist.ReduceOp.MAX)), ("SUM", "MAX")),
    "reduce op, large": Case(
        (all_reduce(ones(600_000), op=dist.ReduceOp.MIN), all_reduce(ones(600_000), op=dist.ReduceOp.MAX)),
        ("MIN", "MAX"),
    ),
    "root of broadcast": Case(
        tuple((lambda group, root=root: dist.broadcast(ones(4), src=root, group=group)) for root in (0, 1)), ("root",)
    ),
    "root of reduce": Case(
        tuple((lambda group, root=root: dist.reduce(ones(4), dst=root, group=group)) for root in (0, 1)), ("root",)
    ),
    "count of broadcast": Case(
        tuple((lambda group, n=n: dist.broadcast(ones(n), src=0, group=group)) for n in (6, 9)), (r"\b6\b", r"\b9\b")
    ),
    "count of all_gather": Case(
        tuple((lambda group, n=n: dist.all_gather_into_tensor(zeros(2 * n), ones(n), group=group)) for n in (6, 9)),
        (r"\b(6|12)\b", r"\b(9|18)\b"),
    ),
    "lengths that two lists of all_gather expect": Case(
        (
            lambda group: dist.all_gather([zeros(3), zeros(4)], ones(3), group=group),
            lambda group: dist.all_gather([zeros(3), zeros(5)], ones(5), group=group),
        ),
        (r"\b(4|7)\b", r"\b(5|8)\b"),
    ),
    "splits of all_to_all": Case(
        (
            lambda group: dist.all_to_all_single(zeros(5), ones(5), [2, 3], [2, 3], group=group),
            lambda group: dist.all_to_all_single(zeros(6), ones(6), [4, 2], [4, 2], group=group),
        ),
        (r"\b(3|5)\b", r"\b(4|6)\b"),
    ),
}


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("name", CASES)
def test_every_rank_learns_what_differed_and_other_groups_go_on(ranks, name, mode):
    def body(rank, size):
        def call(group):
            if mode == "sync":
                return CASES[name].calls[rank](group)
            values = torch.ones(7), torch.ones(7)
            first = dist.all_reduce(values[0], group=group, async_op=True)
            second = dist.all_reduce(values[1], group=group, async_op=True)
            try:
                return CASES[name].calls[rank](group)
            finally:
                first.wait()
                second.wait()
                assert values[0][0] == values[1][0] == size

        with subgroup() as group:
            error = error_of(call, group)
            group_works(case="the default group after an error in another")
        return error

    for rank, error in enumerate(ranks(2).run(body)):
        assert error.is_a("DistBackendError"), f"rank {rank}: {error}"
        for word in CASES[name].words:
            assert re.search(word, error.text), f"rank {rank}: {word!r} is not in the message: {error.text}"


def test_three_ranks_of_which_one_differs_all_learn_which_one(ranks):
    def body(rank, size):
        with subgroup() as group:
            count = 9 if rank == 2 else 6
            error = error_of(dist.all_reduce, torch.ones(count), group=group)
            group_works()
        return error

    for rank, error in enumerate(ranks(3).run(body)):
        assert error.is_a("DistBackendError"), f"rank {rank}: {error}"
        for word in (r"rank 2", r"\b9\b", r"\b6\b"):
            assert re.search(word, error.text), f"rank {rank}: {word!r} is not in the message: {error.text}"


def test_two_calls_in_another_order_are_found(ranks):
    def body(rank, size):
        def call(group):
            calls = [
                lambda: dist.all_reduce(torch.ones(4), group=group),
                lambda: dist.all_gather_into_tensor(torch.zeros(8), torch.ones(4), group=group),
            ]
            for each in calls if rank == 0 else reversed(calls):
                each()

        with subgroup() as group:
            return error_of(call, group)

    for error in ranks(2).run(body):
        assert error.is_a("DistBackendError") and "all_reduce" in error.text and "all_gather" in error.text, error


def test_a_message_that_does_not_fit_the_receiver_is_an_error(ranks):
    def body(rank, size):
        for sent, output in (
            (ones(5), zeros(3)),
            (ones(3), zeros(5)),
            (ones(4), zeros(4, dtype=torch.int32)),
            (ones(500_000), zeros(499_999)),
        ):
            with subgroup() as group:
                if rank == 1:
                    error = error_of(dist.recv, output, src=0, group=group)
                    assert error.is_a("RuntimeError"), error
                    assert float(output.sum()) == 0, "the output was written although the message did not fit"
                else:
                    with suppress(RuntimeError):  # a sender may learn of it or may have finished before
                        dist.send(sent, dst=1, group=group)
        group_works()

    ranks(2).run(body)
