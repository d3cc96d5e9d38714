"""gather and scatter: between the root's list, in rank order, and one tensor of each rank."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded
from harness.layouts import LAYOUTS
from harness.oracle import COUNTS, LARGE_COUNT, bits


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_gather_fills_the_roots_list_in_rank_order(ranks, size):
    def body(rank, size):
        for turn, count in enumerate((*COUNTS, LARGE_COUNT)):
            root = turn % size
            mine = Guarded.holding(bits(rank, count, torch.float32))
            outputs = [Guarded((count,), torch.float32) for _ in range(size)]
            dist.gather(mine.tensor, [each.tensor for each in outputs] if rank == root else None, dst=root)
            mine.check_unchanged(f"input of {count} elements")
            for source, output in enumerate(outputs if rank == root else []):
                output.check(bits(source, count, torch.float32), f"{count} elements of rank {source} at root {root}")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_scatter_gives_each_rank_its_entry_of_the_roots_list(ranks, size):
    def body(rank, size):
        for turn, count in enumerate((*COUNTS, LARGE_COUNT)):
            root = turn % size
            inputs = [Guarded.holding(bits(root, count, torch.float32, salt=to)) for to in range(size)]
            output = Guarded((count,), torch.float32)
            dist.scatter(output.tensor, [each.tensor for each in inputs] if rank == root else None, src=root)
            output.check(bits(root, count, torch.float32, salt=rank), f"{count} elements from root {root}")
            for each in inputs:
                each.check_unchanged(f"input of {count} elements")

    ranks(size).run(body)


def test_gather_and_scatter_read_and_write_every_layout(ranks):
    def body(rank, size):
        for layout in LAYOUTS.values():
            for dense in (False, True):
                case = f"{layout.name}, the list {'contiguous' if dense else 'too'}"
                mine = layout.holding(bits(rank, 120, torch.int32))
                gathered = [layout.poisoned(120, torch.int32, dense) for _ in range(size)]
                dist.gather(mine.tensor, [each.tensor for each in gathered] if rank == 1 else None, dst=1)
                mine.check_unchanged(case)
                for source, output in enumerate(gathered if rank == 1 else []):
                    output.check(bits(source, 120, torch.int32), f"gather, {case}, rank {source}")
                inputs = [layout.holding(bits(0, 120, torch.int32, salt=to), dense) for to in range(size)]
                scattered = layout.poisoned(120, torch.int32)
                dist.scatter(scattered.tensor, [each.tensor for each in inputs] if rank == 0 else None, src=0)
                scattered.check(bits(0, 120, torch.int32, salt=rank), f"scatter, {case}")

    ranks(3).run(body)
