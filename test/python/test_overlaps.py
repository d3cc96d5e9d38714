"""Inputs that lie on outputs: in place where the two correspond, and right everywhere else too."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.oracle import bits
from harness.rank import error_of
from harness.settings import BACKEND

COUNTS = (1, 3, 12, 500, 40_000, 300_001)  # in the line of a flag, in one chunk, in many


def filled(rank: int, count: int) -> torch.Tensor:
    return bits(rank, count, torch.int32).clone()


def places(size: int) -> list[tuple[int, int]]:
    """(elements of a block, where in a memory of `size` blocks one begins)"""
    shifts = [(count, {0, 1, count // 2, count, (size - 1) * count}) for count in COUNTS]
    return [(count, shift) for count, starts in shifts for shift in sorted(starts)]


def check(value: torch.Tensor, wanted: torch.Tensor, case: str) -> None:
    assert torch.equal(value, wanted), case


@pytest.mark.parametrize("size", [2, 3])
def test_all_gather_from_any_part_of_its_output(ranks, size):
    def body(rank, size):
        for count, shift in places(size):
            memory = filled(rank, size * count)
            wanted = torch.cat([filled(each, size * count)[shift : shift + count] for each in range(size)])
            dist.all_gather_into_tensor(memory, memory[shift : shift + count])
            check(memory, wanted, f"{count} from {shift}")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [2, 3])
def test_reduce_scatter_into_any_part_of_its_input(ranks, size):
    def body(rank, size):
        for count, shift in places(size):
            memory = filled(rank, size * count)
            mine = slice(rank * count, (rank + 1) * count)
            wanted, rest = filled(rank, size * count), memory[shift : shift + count]
            wanted[shift : shift + count] = sum(filled(each, size * count)[mine] for each in range(size))
            dist.reduce_scatter_tensor(rest, memory)
            check(memory, wanted, f"{count} into {shift}")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [2, 3])
def test_all_to_all_into_its_own_inputs_in_every_order(ranks, size):
    def body(rank, size):
        for count in COUNTS:
            for turn in range(size):
                memory = [filled(rank * size + each, count) for each in range(size)]
                wanted = [filled(each * size + rank, count) for each in range(size)]
                outputs = memory[turn:] + memory[:turn]
                dist.all_to_all(outputs, memory)
                check(torch.cat(outputs), torch.cat(wanted), f"{count}, turned by {turn}")
                outputs = [filled(rank * size + each, count) for each in range(size)]
                dist.all_to_all(outputs[::-1], outputs)
                check(torch.cat(outputs[::-1]), torch.cat(wanted), f"{count}, reversed")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [2, 3])
def test_all_to_all_single_within_one_memory_with_splits_that_differ(ranks, size):
    def body(rank, size):
        def rows(source: int, target: int) -> int:
            return count * (1 + (source + 2 * target) % 3)

        for count in COUNTS:
            sent = [rows(rank, each) for each in range(size)]
            taken = [rows(each, rank) for each in range(size)]
            memory = filled(rank, 3 * size * count)
            wanted = []
            for source in range(size):
                begin = sum(rows(source, each) for each in range(rank))
                wanted.append(filled(source, 3 * size * count)[begin : begin + rows(source, rank)])
            output = memory[: sum(taken)]
            dist.all_to_all_single(output, memory[: sum(sent)], taken, sent)
            check(output, torch.cat(wanted), f"{count}")

    ranks(size).run(body)


def test_gather_and_scatter_through_overlapping_lists(ranks):
    def body(rank, size):
        for count in COUNTS:
            memory = filled(rank, size * count)
            blocks = list(memory.chunk(size))
            wanted = torch.cat([filled(each, size * count)[count : 2 * count] for each in range(size)])
            dist.gather(blocks[1], blocks if rank == 0 else None, dst=0)
            check(memory, wanted if rank == 0 else filled(rank, size * count), f"gather of {count}")

            memory = filled(rank, size * count)
            blocks = list(memory.chunk(size))
            wanted = filled(rank, size * count)
            wanted[count : 2 * count] = filled(0, size * count)[rank * count : (rank + 1) * count]
            dist.scatter(blocks[1], blocks if rank == 0 else None, src=0)
            check(memory, wanted, f"scatter of {count}")

    ranks(3).run(body)


@pytest.mark.parametrize("count", COUNTS)
def test_several_operations_in_one_all_read_what_was_there_before(ranks, count):
    """Each output lies on the input of a later one, or of an earlier one, or is another's output as well."""

    def body(rank, size):
        group = dist.group.WORLD

        def blocks(of_rank: int) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
            memory = filled(of_rank, 4 * count)
            return memory, memory.chunk(4)

        for order in (1, -1):
            memory, part = blocks(rank)
            outputs, inputs = [part[2], part[0]][::order], [memory[: 2 * count], memory[2 * count :]][::order]
            group.reduce_scatter_tensor_coalesced(outputs, inputs).wait()
            everybody = [filled(each, 4 * count) for each in range(size)]
            sums = sum(everybody).chunk(4)
            check(part[2], sums[rank], f"reduce_scatter of {count}")
            check(part[0], sums[2 + rank], f"reduce_scatter of {count}, second")

            memory, part = blocks(rank)
            outputs = [memory[: 2 * count], memory[2 * count :]][::order]
            group.allgather_into_tensor_coalesced(outputs, [part[0], part[1]][::order]).wait()
            gathered = [everybody[each].chunk(4)[index] for index in (0, 1) for each in range(size)]
            check(memory, torch.cat(gathered), f"all_gather of {count}")

        memory, _ = blocks(rank)
        first, second = memory[: 3 * count], memory[count:]
        total = sum(filled(each, 4 * count) for each in range(size))
        dist.all_reduce_coalesced([first, second])
        check(memory, total, f"all_reduce of {count}")

    ranks(2).run(body)


def test_several_operations_in_one_copy_nothing_that_lies_apart(ranks):
    def body(rank, size):
        memory = filled(rank, 400)
        parts = [memory[10 * each : 10 * each + 10] for each in (3, 1, 2, 0, 7, 39)]
        dist.all_reduce_coalesced(parts)
        wanted = filled(rank, 400)
        for each in (3, 1, 2, 0, 7, 39):
            there = slice(10 * each, 10 * each + 10)
            wanted[there] = sum(filled(other, 400)[there] for other in range(size))
        check(memory, wanted, "parts of one memory")

    ranks(2).run(body)


def test_an_output_without_elements_hides_no_other(ranks):
    """Such a tensor may lie nowhere."""

    def body(rank, size):
        count = 300_001
        memory = filled(rank, 8 * count)
        nothing = torch.empty(0, dtype=torch.int32)
        wanted = [filled(each, 8 * count)[5 : 5 + count] for each in (0, 2)]
        for empty in (memory[9:9], nothing):  # the first lies within another output, and shares nothing with it
            memory.copy_(filled(rank, 8 * count))
            outputs = [memory[:count], empty, memory[2 * count : 3 * count]]
            dist.all_gather(outputs, nothing if rank == 1 else memory[5 : 5 + count])
            check(outputs[0], wanted[0], "the first")
            check(outputs[2], wanted[1], "the last")

        memory = filled(rank, 8 * count)
        wanted = [filled(each, 8 * count)[2 * count : 3 * count] for each in range(size)]
        first = [memory[2 * count : 3 * count], nothing, memory[:count]]
        second = [memory[(3 + each) * count : (4 + each) * count] for each in range(size)]
        inputs = [nothing if rank == 1 else memory[each : each + count] for each in (7,)]
        columns = [[one, other] for one, other in zip(first, second, strict=True)]
        dist.group.WORLD.allgather_coalesced(columns, [*inputs, memory[2 * count : 3 * count]]).wait()
        check(torch.cat(second), torch.cat(wanted), "the second of two")

    ranks(3).run(body)


@pytest.mark.skipif(BACKEND != "customccl", reason="gloo lets one win")
@pytest.mark.parametrize("outputs", ["one tensor", "parts that overlap", "one strided tensor"])
@pytest.mark.parametrize("op", ["all_gather", "gather", "all_to_all"])
def test_outputs_that_share_memory_are_refused(ranks, op, outputs):
    def body(rank, size, op, kind):
        memory = torch.zeros(4, 2 * size)
        shared = {
            "one tensor": [memory[0, :2]] * size,
            "parts that overlap": [memory[0, each : each + 2] for each in range(size)],
            "one strided tensor": [memory[:2, 0]] * size,
        }[kind]
        apart = [memory[:2, each] for each in range(size)]  # rows between each other's
        mine = torch.full((2,), float(rank + 1))

        def call(outputs: list[torch.Tensor]) -> None:
            if op == "all_gather":
                dist.all_gather(outputs, mine)
            elif op == "gather":
                dist.gather(mine, outputs if rank == 0 else None, dst=0)
            else:
                dist.all_to_all(outputs, [mine] * size)

        if op != "gather" or rank == 0:
            assert "output tensors that share memory" in str(error_of(lambda: call(shared)))
            assert memory.eq(0).all()
        call(apart)
        if op != "gather" or rank == 0:
            assert memory[:2, :size].tolist() == [[float(each + 1) for each in range(size)]] * 2

    ranks(3).run(body, op, outputs)


@pytest.mark.parametrize("op", ["all_gather_into_tensor", "all_gather", "all_to_all_single"])
def test_an_input_on_its_output_in_memory_that_is_shared_until_it_is_written(ranks, op):
    """A lazy clone is given the old memory when this one is written to, and may change it at once."""

    def body(rank, size, op):
        count = 2_000_000  # more than is copied when it is posted
        memory = filled(rank, size * count)
        wanted = filled(rank, size * count)
        clone = torch._lazy_clone(memory)
        if rank == 1:
            dist.recv(torch.empty(1), 0)
        blocks = list(memory.split(count))
        if op == "all_to_all_single":
            work = dist.all_to_all_single(memory, memory, async_op=True)
        elif op == "all_gather":
            work = dist.all_gather(blocks, blocks[rank], async_op=True)
        else:
            work = dist.all_gather_into_tensor(memory, blocks[rank], async_op=True)
        clone.fill_(-1)
        if rank == 0:
            dist.send(torch.empty(1), 1)
        work.wait()
        theirs = rank if op == "all_to_all_single" else 1 - rank
        other = slice((1 - rank) * count, (2 - rank) * count)
        wanted[other] = filled(1 - rank, size * count)[theirs * count : (theirs + 1) * count]
        check(memory, wanted, op)

    ranks(2).run(body, op)
