"""Memory layouts: elements count in logical order, gaps keep their bytes, and what cannot be written is refused."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded, assert_same_bits
from harness.layouts import LAYOUTS
from harness.oracle import SUM, bits, operand, reduced
from harness.rank import error_of, group_works, subgroup

COUNTS = (12, 24, 1200, 49_152, 120_012, 900_024)  # multiples of 12: 48 bytes to more than 3 MiB of float32


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_reduce_works_in_place_in_every_layout_at_every_size(ranks, name):
    def body(rank, size):
        layout = LAYOUTS[name]
        for count in COUNTS:
            for dtype in (torch.float32, torch.uint8) if count < 100_000 else (torch.float32,):
                value = layout.holding(operand(rank, count, dtype, SUM, size))
                dist.all_reduce(value.tensor)
                value.check(reduced(range(size), count, dtype, SUM, size), f"{name}, {count} of {dtype}")

    ranks(3).run(body)


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_gather_into_tensor_reads_every_layout(ranks, name):
    def body(rank, size):
        for count in COUNTS:
            mine = LAYOUTS[name].holding(bits(rank, count, torch.int16))
            output = Guarded((size * mine.tensor.shape[0], *mine.tensor.shape[1:]), torch.int16)
            dist.all_gather_into_tensor(output.tensor, mine.tensor)
            mine.check_unchanged(f"{name}, {count}")
            output.check(torch.cat([bits(each, count, torch.int16) for each in range(size)]), f"{name}, {count}")

    ranks(2).run(body)


def test_all_reduce_of_one_layout_on_one_rank_and_another_on_the_next_pairs_logical_elements(ranks):
    def body(rank, size):
        names = list(LAYOUTS)
        for turn in range(len(names)):
            for count in (12, 1200, 120_012):
                name = names[(turn + 3 * rank) % len(names)]
                value = LAYOUTS[name].holding(operand(rank, count, torch.int32, SUM, size))
                dist.all_reduce(value.tensor)
                value.check(reduced(range(size), count, torch.int32, SUM, size), f"turn {turn}: {name}, {count}")

    ranks(2).run(body)


def test_zero_dimensional_and_empty_tensors_take_part_in_every_op(ranks):
    def body(rank, size):
        for shape in ((), (0,), (0, 3), (4, 0, 2), (1, 1, 1)):
            value = torch.full(shape, float(rank + 1))
            case, n = str(shape), value.numel()
            dist.all_reduce(value)
            assert value.shape == shape and value.flatten().tolist() == [3.0] * n, case
            dist.broadcast(value, src=1)
            dist.reduce(value, dst=0)
            outputs = [torch.zeros(shape) for _ in range(size)]
            dist.all_gather(outputs, torch.full(shape, float(rank)))
            assert [each.flatten().tolist() for each in outputs] == [[0.0] * n, [1.0] * n], case
            inputs = [torch.full(shape, 10.0 * rank + to) for to in range(size)]
            dist.all_to_all(outputs, inputs)
            assert [each.flatten().tolist() for each in outputs] == [[rank] * n, [10.0 + rank] * n], case
            dist.reduce_scatter(value, inputs)
            assert value.flatten().tolist() == [10.0 + 2 * rank] * n, case
            dist.gather(value, outputs if rank == 0 else None, dst=0)
            dist.scatter(value, inputs if rank == 1 else None, src=1)
            assert value.flatten().tolist() == [10.0 + rank] * n, case
            if rank == 0:
                dist.send(value, dst=1)
            else:
                dist.recv(value, src=0)
                assert value.flatten().tolist() == [10.0] * n, case

    ranks(2).run(body)


def test_expanded_tensors_may_be_read(ranks):
    """Stride 0: one element in memory stands for many."""

    def body(rank, size):
        for rows in (4, 5000):
            expanded = bits(rank, 6, torch.int32).expand(rows, 6)
            gathered = torch.zeros(size * rows, 6, dtype=torch.int32)
            dist.all_gather_into_tensor(gathered, expanded)
            assert_same_bits(gathered, torch.cat([bits(r, 6, torch.int32).repeat(rows) for r in range(size)]), "gather")
            if rank == 0:
                dist.send(expanded, dst=1)
                dist.broadcast(expanded, src=0)
            else:
                for receive in (lambda t: dist.recv(t, src=0), lambda t: dist.broadcast(t, src=0)):
                    output = torch.zeros(rows, 6, dtype=torch.int32)
                    receive(output)
                    assert_same_bits(output, bits(0, 6, torch.int32).repeat(rows), f"{rows} rows received")

    ranks(2).run(body)


@pytest.mark.parametrize("sizes, strides", [((2, 3), (3, 2)), ((3, 2, 4), (1, 30, 7)), ((4, 5), (1, 4))])
def test_strides_that_cross_and_never_meet_are_written_to(ranks, sizes, strides):
    def body(rank, size):
        last = sum((length - 1) * step for length, step in zip(sizes, strides, strict=True))
        memory = bits(rank, last + 1, torch.int32).clone()
        strided = memory.as_strided(sizes, strides)
        others = [bits(each, last + 1, torch.int32).as_strided(sizes, strides) for each in range(size)]
        dist.all_reduce(strided)
        assert_same_bits(strided.contiguous(), sum(others), f"{sizes} by {strides}")

    ranks(2).run(body)


def test_an_expanded_tensor_is_refused_where_it_would_be_written(ranks):
    def body(rank, size):
        with subgroup() as group:
            error = error_of(dist.all_reduce, torch.ones(1).expand(8), group=group)
            assert error.is_a("RuntimeError") or error.is_a("ValueError"), error
            outputs = [torch.zeros(1).expand(8) for _ in range(size)]
            error_of(dist.all_gather, outputs, torch.ones(8), group=group)
            group_works(group)

    ranks(2).run(body)


def test_lazily_conjugated_and_negated_tensors_are_read_as_what_they_mean_or_refused(ranks):
    """Such a view has the plain bits in memory and a flag beside; whoever ignores the flag sends wrong numbers."""

    def body(rank, size):
        numbers = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
        for lazy in (numbers.conj(), numbers.conj().imag):
            assert lazy.is_conj() or lazy.is_neg()
            with subgroup() as group:
                outputs = [torch.zeros_like(lazy.resolve_conj().resolve_neg()) for _ in range(size)]
                try:
                    dist.all_gather(outputs, lazy, group=group)
                except (RuntimeError, ValueError):
                    continue
                for output in outputs:
                    assert torch.equal(output, lazy), f"{output} where {lazy} was sent"

    ranks(2).run(body)


def test_parameters_and_inference_tensors_are_ordinary_tensors(ranks):
    def body(rank, size):
        parameter = torch.nn.Parameter(torch.ones(5))
        with torch.no_grad():
            dist.all_reduce(parameter)
        assert parameter.tolist() == [size] * 5
        with torch.inference_mode():
            value = torch.ones(5)
            dist.all_reduce(value)
        assert value.tolist() == [size] * 5

    ranks(2).run(body)
