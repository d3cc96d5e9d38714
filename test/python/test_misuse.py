"""Wrong arguments on one rank: an error at once that names the offending values, and nobody else notices.

Only rank 0 makes the wrong call. Had anything been sent, the other rank's next op would not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, group_works, in_a_while

ones, zeros = torch.ones, torch.zeros

# name -> (the wrong call in a group of 2, words that the message must have; none where torch itself checks first)
CALLS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "all_gather with one output for two ranks": (lambda: dist.all_gather([zeros(3)], ones(3)), ["1", "2"]),
    "all_gather with three outputs for two ranks": (lambda: dist.all_gather([zeros(3)] * 3, ones(3)), ["3", "2"]),
    "all_gather with another dtype in the list": (
        lambda: dist.all_gather([zeros(3), zeros(3, dtype=torch.int32)], ones(3)),
        [],
    ),
    "all_gather with a wrong length in its own place": (
        lambda: dist.all_gather([zeros(4), zeros(3)], ones(3)),
        ["4", "3"],
    ),
    "all_reduce into elements that are the same memory": (
        lambda: dist.all_reduce(ones(301).as_strided((300, 2), (1, 1))),
        ["300, 2", "the same memory"],
    ),
    "send with a negative tag": (lambda: dist.send(ones(1), 1, tag=-(2**31)), ["-2147483648", "negative"]),
    "recv with a negative tag": (lambda: dist.recv(zeros(1), 1, tag=-5), ["-5", "negative"]),
    "all_gather_into_tensor with too small an output": (
        lambda: dist.all_gather_into_tensor(zeros(5), ones(3)),
        ["5", "3"],
    ),
    "all_gather_into_tensor with another dtype": (
        lambda: dist.all_gather_into_tensor(zeros(6, dtype=torch.float64), ones(3)),
        ["(?i)double|float64", "(?i)float32|float"],
    ),
    "reduce_scatter with one input for two ranks": (lambda: dist.reduce_scatter(zeros(3), [ones(3)]), ["1", "2"]),
    "reduce_scatter with a wrong length in its own place": (
        lambda: dist.reduce_scatter(zeros(3), [ones(4), ones(3)]),
        ["4", "3"],
    ),
    "reduce_scatter_tensor with a wrong size": (lambda: dist.reduce_scatter_tensor(zeros(3), ones(7)), ["7", "3"]),
    "broadcast from a rank that does not exist": (lambda: dist.broadcast(ones(3), src=7), ["7"]),
    "broadcast from a negative rank": (lambda: dist.broadcast(ones(3), src=-1), ["-1"]),
    "reduce to a rank that does not exist": (lambda: dist.reduce(ones(3), dst=2), ["2"]),
    "gather without a list on the root": (lambda: dist.gather(ones(3), None, dst=0), []),
    "gather with a list on another rank": (lambda: dist.gather(ones(3), [zeros(3)] * 2, dst=1), []),
    "gather with a list that is too long": (lambda: dist.gather(ones(3), [zeros(3)] * 3, dst=0), ["3", "2"]),
    "gather with a wrong length in its own place": (
        lambda: dist.gather(ones(3), [zeros(2), zeros(3)], dst=0),
        ["2", "3"],
    ),
    "scatter with a list that is too short": (lambda: dist.scatter(zeros(3), [ones(3)], src=0), ["1", "2"]),
    "scatter without a list on the root": (lambda: dist.scatter(zeros(3), None, src=0), []),
    "all_to_all with three inputs for two ranks": (
        lambda: dist.all_to_all([zeros(3)] * 2, [ones(3)] * 3),
        ["3", "2"],
    ),
    "all_to_all with another dtype in the list": (
        lambda: dist.all_to_all([zeros(3), zeros(3)], [ones(3), ones(3, dtype=torch.int64)]),
        [],
    ),
    "all_to_all with a wrong length in its own place": (
        lambda: dist.all_to_all([zeros(2), zeros(3)], [ones(3), ones(3)]),
        ["2", "3"],
    ),
    "all_to_all_single with splits that do not add up": (
        lambda: dist.all_to_all_single(zeros(4), ones(4), [2, 2], [2, 1]),
        ["3", "4"],
    ),
    "all_to_all_single with too few splits": (lambda: dist.all_to_all_single(zeros(4), ones(4), [4], [4]), ["1", "2"]),
    "all_to_all_single with a negative split": (
        lambda: dist.all_to_all_single(zeros(4), ones(4), [2, 2], [5, -1]),
        ["-1"],
    ),
    "all_to_all_single of rows that do not divide": (lambda: dist.all_to_all_single(zeros(3), ones(3)), ["3", "2"]),
    "send to a rank that does not exist": (lambda: dist.send(ones(3), dst=5), ["5"]),
    "recv from a rank that does not exist": (lambda: dist.recv(ones(3), src=9), ["9"]),
    "send to itself, which would wait for ever": (lambda: dist.send(ones(3), dst=0), []),
    "a list with a tensor on the meta device": (
        lambda: dist.all_gather([zeros(3), zeros(3, device="meta")], ones(3)),
        ["meta"],
    ),
    "a sparse tensor where a dense one is needed": (lambda: dist.broadcast(ones(3).to_sparse(), src=0), ["(?i)sparse"]),
    "no tensor at all": (lambda: dist.all_reduce([1.0, 2.0]), []),
    "an output that overlaps itself": (lambda: dist.all_reduce(ones(1).expand(4)), []),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_on_one_rank_is_refused_before_anything_is_sent(ranks, name):
    def body(rank, size):
        call, _ = CALLS[name]
        error = error_of(call) if rank == 0 else None
        group_works(case=name)
        return error

    import re

    error = ranks(2).run(body)[0]
    assert any(error.is_a(kind) for kind in ("ValueError", "TypeError", "RuntimeError", "NotImplementedError")), error
    assert not error.is_a("DistBackendError"), f"a mistake in the arguments is no failure of the backend: {error}"
    for word in CALLS[name][1]:
        assert re.search(word, error.text), f"{word!r} is not in the message: {error.text}"


def test_an_op_on_a_destroyed_group_is_refused(ranks):
    def body(rank, size):
        group = dist.new_group()
        dist.all_reduce(torch.ones(1), group=group)
        dist.destroy_process_group(group)
        error = error_of(dist.all_reduce, torch.ones(1), group=group)
        group_works()
        return error

    for error in ranks(2).run(body):
        assert any(error.is_a(kind) for kind in ("ValueError", "RuntimeError")), error


def test_a_batch_that_is_refused_leaves_the_group_as_it_was(ranks):
    """torch notes down what is called inside a batch, and forgot to stop when one of its operations was refused."""

    def body(rank, size):
        if rank == 0:
            good, bad = torch.full((2,), 5.0), zeros(1).expand(3)
            batch = [dist.P2POp(dist.isend, good, 1), dist.P2POp(dist.irecv, bad, 1)]
            failure = error_of(dist.batch_isend_irecv, batch)
            assert failure.is_a("ValueError") and "expanded" in failure.text, failure
        else:
            sent = zeros(2)
            dist.recv(sent, 0)  # what came before the wrong one had gone out
            assert sent.tolist() == [5.0, 5.0]
        group_works()
        (work,) = dist.batch_isend_irecv([dist.P2POp(dist.isend if rank == 0 else dist.irecv, ones(2), 1 - rank)])
        work.wait()
        group_works()

    ranks(2).run(body)


# ... in a group of so many.
WRAPPED: dict[str, tuple[int, Callable[[], Any]]] = {
    "output splits": (3, lambda: dist.all_to_all_single(zeros(1, 4), ones(1, 4), [2**63 - 1, 2**63 - 1, 3])),
    "input splits": (3, lambda: dist.all_to_all_single(zeros(1, 4), ones(1, 4), None, [2**63 - 1, 2**63 - 1, 3])),
    "both splits": (3, lambda: dist.all_to_all_single(zeros(1, 4), ones(1, 4), *[[2**63 - 1, 2**63 - 1, 3]] * 2)),
    "all_gather": (4, lambda: dist.all_gather_into_tensor(zeros(0), ones(1).expand(2**62))),
    "reduce_scatter": (4, lambda: dist.reduce_scatter_tensor(ones(1).expand(2**62), zeros(0))),
}


@pytest.mark.parametrize("name", list(WRAPPED))
def test_sizes_whose_sum_64_bits_do_not_hold_are_refused(ranks, name):
    """They wrap round, to the size that would fit."""

    def body(rank, size, name):
        error = error_of(WRAPPED[name][1])
        group_works()
        return error

    for error in ranks(WRAPPED[name][0]).run(body, name):
        assert error.is_a("ValueError"), error


def test_a_coalescing_that_is_refused_at_its_end_leaves_the_group_as_it_was(ranks):
    """A group that still coalesced would keep the tensors of every asynchronous operation."""

    def body(rank, size):
        with pytest.raises(ValueError, match="the same memory"), dist._coalescing_manager(device=torch.device("cpu")):
            dist.all_reduce(zeros(1).expand(3))  # noted down, and refused when all are carried out
        group_works()
        tensor = ones(3)
        dist.all_reduce(tensor, async_op=True).wait()
        assert in_a_while(lambda: tensor._use_count() == ones(3)._use_count()), tensor._use_count()

    ranks(2).run(body)
