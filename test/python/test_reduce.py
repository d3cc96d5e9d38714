"""reduce: the root gets the sum, every other rank keeps what it had."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded
from harness.layouts import LAYOUTS
from harness.oracle import COUNTS, LARGE_COUNT, MAX, SUM, operand, reduced


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reduce_fills_the_root_and_leaves_every_other_rank_alone(ranks, size):
    def body(rank, size):
        for turn, count in enumerate((*COUNTS, LARGE_COUNT)):
            root = turn % size
            value = Guarded.holding(operand(rank, count, torch.float32, SUM, size))
            dist.reduce(value.tensor, dst=root)
            case = f"{count} elements to root {root}"
            if rank == root:
                value.check(reduced(range(size), count, torch.float32, SUM, size), case)
            else:
                value.check_unchanged(case)

    ranks(size).run(body)


def test_reduce_takes_every_root_with_every_layout(ranks):
    def body(rank, size):
        for layout in LAYOUTS.values():
            for root in range(size):
                value = layout.holding(operand(rank, 120, torch.int32, MAX, size, salt=root))
                dist.reduce(value.tensor, dst=root, op=MAX)
                case = f"{layout.name}, root {root}"
                if rank == root:
                    value.check(reduced(range(size), 120, torch.int32, MAX, size, salt=root), case)
                else:
                    value.check_unchanged(case)

    ranks(3).run(body)
