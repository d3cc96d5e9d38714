"""broadcast: every rank ends with the root's bits, the root with its own."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded
from harness.layouts import LAYOUTS
from harness.oracle import COUNTS, LARGE_COUNT, MOVABLE, bits


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_broadcast_brings_the_roots_bits_to_every_rank(ranks, size):
    def body(rank, size):
        for turn, count in enumerate((*COUNTS, LARGE_COUNT)):
            root = turn % size
            value = Guarded.holding(bits(rank, count, torch.float32))
            dist.broadcast(value.tensor, src=root)
            case = f"{count} elements from root {root}"
            if rank == root:
                value.check_unchanged(case)
            else:
                value.check(bits(root, count, torch.float32), case)

    ranks(size).run(body)


def test_broadcast_moves_every_dtype_in_every_layout_bit_for_bit(ranks):
    def body(rank, size):
        for turn, dtype in enumerate(MOVABLE):
            for layout in LAYOUTS.values():
                root = turn % size
                value = layout.holding(bits(rank, 120, dtype))
                dist.broadcast(value.tensor, src=root)
                value.check(bits(root, 120, dtype), f"{dtype}, {layout.name}, root {root}")

    ranks(3).run(body)


def test_broadcast_counts_elements_in_logical_order_when_ranks_differ_in_layout(ranks):
    def body(rank, size):
        names = list(LAYOUTS)
        for turn in range(len(names)):
            layout = LAYOUTS[names[(turn + rank) % len(names)]]
            value = layout.holding(bits(rank, 24, torch.int16, salt=turn))
            dist.broadcast(value.tensor, src=1)
            value.check(bits(1, 24, torch.int16, salt=turn), f"root {names[(turn + 1) % len(names)]}, {layout.name}")

    ranks(3).run(body)
