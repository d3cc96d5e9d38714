"""Groups over subsets of the ranks: any subset, any order, overlapping; making and destroying them leaves nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from harness.guarded import assert_same_bits
from harness.oracle import SUM, bits, operand, reduced
from harness.rank import group_works, subgroup
from harness.settings import BACKEND, LAUNCH_LIMIT_S

SUBSETS = {
    "all": [0, 1, 2, 3],
    "half": [0, 1],
    "other half": [2, 3],
    "strided": [1, 3],
    "reversed": [3, 1, 0],
    "one": [2],
    "without the first": [1, 2, 3],
}


@pytest.mark.parametrize("name", SUBSETS)
def test_collectives_of_a_subgroup_involve_its_ranks_and_nobody_else(ranks, name):
    members = SUBSETS[name]

    def body(rank, size):
        with subgroup(members) as group:
            if rank not in members:
                return
            mine = dist.get_rank(group)
            for count in (3, 20_000, 300_000):
                value = operand(rank, count, torch.float32, SUM, len(members))
                dist.all_reduce(value, group=group)
                assert_same_bits(value, reduced(members, count, torch.float32, SUM, len(members)), f"sum of {count}")
                gathered = torch.zeros(len(members) * count)
                dist.all_gather_into_tensor(gathered, bits(rank, count, torch.float32), group=group)
                in_group_order = [dist.get_global_rank(group, each) for each in range(len(members))]
                expected = torch.cat([bits(each, count, torch.float32) for each in in_group_order])
                assert_same_bits(gathered, expected, f"gathered {count}")
                root = dist.get_global_rank(group, len(members) - 1)
                value = bits(rank, count, torch.float32)
                dist.broadcast(value, src=root, group=group)
                assert_same_bits(value, bits(root, count, torch.float32), f"broadcast of {count} from rank {root}")
            assert dist.get_world_size(group) == len(members) and 0 <= mine < len(members)

    ranks(4).run(body)


def test_overlapping_groups_may_be_used_in_turns(ranks):
    def body(rank, size):
        with subgroup([0, 1]) as first, subgroup([1, 2]) as second, subgroup([0, 2]) as third:
            groups = {(0, 1): first, (1, 2): second, (0, 2): third}
            for turn in range(20):
                for members, group in groups.items():
                    if rank in members:
                        value = operand(rank, 50 * turn, torch.int64, SUM, 2, salt=turn)
                        dist.all_reduce(value, group=group)
                        expected = reduced(members, 50 * turn, torch.int64, SUM, 2, salt=turn)
                        assert_same_bits(value, expected, f"turn {turn}, ranks {members}")

    ranks(3).run(body)


def test_ranks_may_start_works_of_several_groups_in_opposite_order(ranks):
    def body(rank, size):
        with subgroup() as first, subgroup() as second:
            for count in (4, 3000, 400_000):
                values = {first: torch.full((count,), 1.0), second: torch.full((count,), 2.0)}
                order = [first, second] if rank == 0 else [second, first]
                works = [dist.all_reduce(values[group], group=group, async_op=True) for group in order]
                for work in works:
                    work.wait()
                assert bool((values[first] == size).all()) and bool((values[second] == 2 * size).all()), count

    ranks(2).run(body)


def test_point_to_point_in_a_subgroup_takes_global_ranks_and_does_not_reach_other_groups(ranks):
    def body(rank, size):
        with subgroup([2, 0]) as group:
            if rank == 0:
                first = dist.isend(torch.tensor([1.0]), dst=2)
                dist.send(torch.tensor([2.0]), dst=2, group=group)
                first.wait()
            if rank == 2:
                value = torch.zeros(1)
                assert dist.recv(value, src=0, group=group) == 0
                assert value.item() == 2.0
                dist.recv(value, src=0)
                assert value.item() == 1.0

    ranks(3).run(body)


def test_a_rank_outside_the_group_gets_no_group(ranks):
    def body(rank, size):
        with subgroup([0, 1]) as group:
            outside = group is dist.GroupMember.NON_GROUP_MEMBER
            assert outside == (rank == 2)
            assert (dist.get_rank(group) == -1) == outside

    ranks(3).run(body)


def test_a_group_may_be_made_by_its_members_alone(ranks):
    def body(rank, size):
        if rank == 1:
            return
        group = dist.new_group([0, 2], backend=BACKEND, use_local_synchronization=True)
        group_works(group)
        dist.destroy_process_group(group)

    # torch 2.15 counts such a group on its members alone: their next group of all ranks has another name than rank 1's.
    ranks(3, fresh=True).run(body)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_a_thousand_groups_leave_no_descriptor_thread_mapping_or_memory(ranks, figure):
    """Flat means: nothing grows between the 100th and the 1,000th cycle of making, using and destroying a group."""

    def body(rank, size):
        process = psutil.Process()
        marks = {}
        for cycle in range(1, 1001):
            group = dist.new_group(backend=BACKEND)
            value = torch.full((1 + cycle % 3000,), 1.0)
            dist.all_reduce(value, group=group)
            assert value[0] == size
            dist.destroy_process_group(group)
            if cycle in (100, 1000):
                dist.barrier()
                marks[cycle] = {
                    "descriptors": descriptors(),
                    "threads": threads(),
                    "mappings": mappings(),
                    "resident bytes": process.memory_info().rss,
                }
        return marks, threading.active_count()

    for rank, (marks, python_threads) in enumerate(ranks(2, fresh=True).run(body, limit=LAUNCH_LIMIT_S)):
        early, late = marks[100], marks[1000]
        assert python_threads == 1
        for what in ("descriptors", "threads"):
            assert late[what] <= early[what], f"rank {rank}: {what} grew from {early[what]} to {late[what]}"
        assert late["mappings"] <= early["mappings"] + 10, f"rank {rank}: {early} -> {late}"
        # c10d itself keeps a few hundred bytes per group (names in tables); a leaked control block is 4 KiB or more.
        grown = late["resident bytes"] - early["resident bytes"]
        figure("bytes of memory that stay for each group made and destroyed", grown / 900)
        assert grown < 900 * 4096, f"rank {rank}: {grown / 900:.0f} bytes per group stayed"
