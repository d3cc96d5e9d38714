"""Every dtype with every reduce op: the exact result where the pair has a meaning, a clear error where it has none."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded, assert_same_bits
from harness.oracle import (
    AVG,
    BITWISE,
    COMPLEX,
    FLOATS,
    FLOATS8,
    INTEGERS,
    MAX,
    MIN,
    MOVABLE,
    OPAQUE,
    PRODUCT,
    REDUCE_OPS,
    SUM,
    bits,
    is_defined,
    operand,
    reduced,
)
from harness.rank import error_of, group_works

SIZES = (0, 1, 33, 5000, 70_001)  # elements; with wide types from inside one cache line to several chunks
REDUCED = [dtype for dtype in MOVABLE if dtype not in OPAQUE]


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_all_reduce_is_exact_for_every_reduce_op_that_the_dtype_has(ranks, dtype):
    def body(rank, size):
        for op in REDUCE_OPS:
            # torch itself refuses PRODUCT of complex numbers in all_reduce; reduce_scatter below has it.
            if not is_defined(op, dtype) or (dtype in COMPLEX and op == PRODUCT):
                continue
            for count in SIZES:
                value = Guarded.holding(operand(rank, count, dtype, op, size))
                dist.all_reduce(value.tensor, op=op)
                value.check(reduced(range(size), count, dtype, op, size), f"{op} of {count} {dtype}")

    ranks(3).run(body)


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_reduce_and_reduce_scatter_are_exact_for_every_reduce_op_that_the_dtype_has(ranks, dtype):
    def body(rank, size):
        for op in (op for op in REDUCE_OPS if is_defined(op, dtype)):
            for count in (1, 33, 5000):
                case = f"{op} of {count} {dtype}"
                value = Guarded.holding(operand(rank, count, dtype, op, size))
                dist.reduce(value.tensor, dst=1, op=op)
                if rank == 1:
                    value.check(reduced(range(size), count, dtype, op, size), f"reduce, {case}")
                else:
                    value.check_unchanged(f"reduce, {case}")
                part = Guarded((count,), dtype)
                dist.reduce_scatter_tensor(part.tensor, operand(rank, size * count, dtype, op, size), op=op)
                expected = reduced(range(size), size * count, dtype, op, size)
                part.check(expected[rank * count : (rank + 1) * count], f"reduce_scatter, {case}")

    ranks(2).run(body)


@pytest.mark.parametrize("dtype", MOVABLE, ids=str)
def test_ops_that_only_move_data_move_every_dtype_bit_for_bit(ranks, dtype):
    def body(rank, size):
        for count in (1, 33, 5000):
            mine = [bits(rank, count, dtype, salt=to) for to in range(size)]
            gathered = Guarded((size * count,), dtype)
            dist.all_gather_into_tensor(gathered.tensor, mine[0])
            gathered.check(torch.cat([bits(each, count, dtype) for each in range(size)]), f"all_gather of {count}")
            swapped = Guarded((size * count,), dtype)
            dist.all_to_all_single(swapped.tensor, torch.cat(mine))
            arrived = torch.cat([bits(each, count, dtype, salt=rank) for each in range(size)])
            swapped.check(arrived, f"all_to_all of {count}")
            lists = [torch.zeros(count, dtype=dtype) for _ in range(size)] if rank == 0 else None
            dist.gather(mine[0], lists, dst=0)
            for source, output in enumerate(lists or []):
                assert_same_bits(output, bits(source, count, dtype), f"gather of {count}")
            scattered = Guarded((count,), dtype)
            dist.scatter(scattered.tensor, mine if rank == 1 else None, src=1)
            scattered.check(bits(1, count, dtype, salt=rank), f"scatter of {count}")

    ranks(2).run(body)


def test_what_cannot_be_sent_is_refused_with_advice(ranks):
    def body(rank, size):
        error = error_of(dist.broadcast, torch.empty(4, dtype=torch.bits8), src=0)
        assert error.is_a("TypeError") and "Bits8" in error.text and "view(torch.uint8)" in error.text, error
        group_works(case="bits8")

    ranks(2).run(body)


def test_a_reduce_op_without_meaning_for_the_dtype_is_refused_by_name_and_the_group_goes_on(ranks):
    pairs = [(op, dtype) for dtype in MOVABLE for op in REDUCE_OPS if not is_defined(op, dtype)]

    def body(rank, size, pairs):
        for op_name, dtype in pairs:
            op = getattr(dist.ReduceOp, op_name)
            case = f"{op_name} of {dtype}"
            error = error_of(dist.reduce, bits(rank, 4, dtype), dst=0, op=op)
            assert error.is_a("RuntimeError") or error.is_a("ValueError") or error.is_a("TypeError"), error
            assert op_name in error.text and str(dtype).removeprefix("torch.") in error.text, f"{case}: {error.text}"
            if not (dtype in COMPLEX and op_name != "AVG"):  # torch refuses these itself, in its own words
                error = error_of(dist.all_reduce, bits(rank, 4, dtype), op=op)
                assert op_name in error.text and str(dtype).removeprefix("torch.") in error.text, f"{case}: {error}"
            group_works(case=case)

    assert pairs
    ranks(2).run(body, [(op.name, dtype) for op, dtype in pairs])


@pytest.mark.parametrize(("dtype", "big"), [(torch.bfloat16, 256.0), (torch.float16, 2048.0)], ids=str)
def test_half_precision_sums_are_rounded_once_at_the_end(ranks, dtype, big):
    """big + 1 is not representable and rounds down to big; big + 1 + 1 is, so rounding after each rank would lose 2."""

    def body(rank, size):
        for count in (1, 100, 70_001):
            value = torch.full((count,), big if rank == 0 else 1.0, dtype=dtype)
            dist.all_reduce(value)
            assert bool((value == big + 2).all()), f"{count} elements: {value[0]} where {big + 2} was expected"

    ranks(3).run(body)


def test_minimum_and_maximum_of_floats_order_infinities_and_signs(ranks):
    def body(rank, size):
        infinity = float("inf")
        mine = torch.tensor([[1.0, -1.0, infinity, -infinity, -0.5], [-1.0, -2.0, 5.0, 7.0, 0.5]][rank])
        for dtype in FLOATS:
            for op, expected in ((MIN, [-1.0, -2.0, 5.0, -infinity, -0.5]), (MAX, [1.0, -1.0, infinity, 7.0, 0.5])):
                value = mine.to(dtype, copy=True)
                dist.all_reduce(value, op=op)
                assert value.tolist() == expected, f"{op} of {dtype}: {value}"

    ranks(2).run(body)


def test_sums_of_special_floats_follow_ieee(ranks):
    def body(rank, size):
        infinity, nan = float("inf"), float("nan")
        mine = [[infinity, infinity, nan, -0.0, 3e38], [1.0, -infinity, 1.0, -0.0, 3e38]][rank]
        value = torch.tensor(mine)
        dist.all_reduce(value)
        expected = torch.tensor([infinity, nan, nan, -0.0, infinity])
        assert torch.equal(value.isnan(), expected.isnan()), value
        there = ~expected.isnan()
        assert_same_bits(value[there], expected[there], "special floats")

    ranks(2).run(body)


def test_the_tables_of_the_oracle_cover_all_pairs():
    """So that a new dtype or reduce op is not silently left out above."""
    assert len(REDUCED) == 1 + len(INTEGERS) + len(FLOATS) + len(COMPLEX) + len(FLOATS8)
    assert len(MOVABLE) == len(set(MOVABLE)) == len(REDUCED) + len(OPAQUE)
    assert is_defined(SUM, torch.bool) and not is_defined(AVG, torch.bool)
    assert all(is_defined(op, torch.int8) and not is_defined(op, torch.float8_e5m2) for op in BITWISE)
