"""Groups without a world: made, told apart, divided, closed, made again a hundred times."""

from __future__ import annotations

import gc
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of
from harness.settings import rounds
from shared import LIMIT, group, store, total

from torch_customccl import create_group, join_group, serve_store


def test_a_group_needs_no_world(ranks):
    def body(rank, size):
        with group(rank, size, "alone") as made:
            assert not dist.is_initialized()
            assert (made.rank(), made.size(), made.group_desc) == (rank, size, "alone")
            assert isinstance(made, dist.ProcessGroup)
            return total(made)

    assert ranks(3, fresh=True, init=False).run(body) == [6.0, 6.0, 6.0]


def test_a_group_beside_a_world_leaves_it_alone(ranks):
    def body(rank, size):
        before = dist.group.WORLD
        with group(rank, size, "beside", ranks=[10, 11, 12]) as made:
            assert dist.group.WORLD is before
            assert made.ranks == [10, 11, 12]
            assert total(made) == 6.0
        dist.barrier()
        assert made.closed

    ranks(3).run(body)


def test_groups_over_some_processes_have_ranks_of_their_own(ranks):
    def body(rank, size):
        members = [2, 0]
        if rank in members:
            with group(members.index(rank), 2, "two of three") as made:
                assert made.rank() == members.index(rank)
                assert total(made) == 3.0

    ranks(3).run(body)


@pytest.mark.parametrize("sizes", [(3, 2, 3), (1, 3, 2, 3)])
def test_a_group_grows_again_under_its_old_name(ranks, sizes):
    """Who was not in the smaller one has counted fewer groups of that name, and meets the others all the same."""

    def body(rank, size, sizes):
        for members in sizes:
            if rank < members:
                with group(rank, members, "grows again") as made:
                    assert total(made) == members * (members + 1) / 2
            dist.barrier()

    ranks(3).run(body, sizes)


@pytest.mark.parametrize("names", [("left", "right"), ("same", "same")])
def test_twins_stay_apart(ranks, names):
    def body(rank, size, names):
        first, second = (group(rank, size, name) for name in names)
        one, two = torch.ones(4), torch.full((4,), 10.0)
        works = [first.all_reduce(one, async_op=True), second.all_reduce(two, async_op=True)]
        if rank == 0:  # the other order: they have nothing to do with each other
            works.reverse()
        for work in works:
            work.wait()
        first.close()
        assert (one[0].item(), two[0].item()) == (2.0, 20.0)
        assert total(second) == 3.0
        second.close()

    ranks(2).run(body, names)


def test_threads_of_one_process_can_be_ranks(ranks):
    def body(rank, size):
        shared, sums = dist.HashStore(), [0.0, 0.0]

        def run(member):
            with create_group(shared, member, 2, "threads", timeout=LIMIT) as made:
                sums[member] = total(made)

        threads = [threading.Thread(target=run, args=(member,)) for member in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sums

    assert ranks(1).run(body) == [[3.0, 3.0]]


def test_split_and_subgroup(ranks):
    def body(rank, size):
        with group(rank, size, "parent") as parent:
            sockets = len(psutil.Process().net_connections(kind="inet"))
            odd = parent.split(rank % 2, key=-rank)
            assert odd.size() == 2 and odd.rank() == (1 if rank < 2 else 0)
            assert odd.ranks == ([2, 0] if rank % 2 == 0 else [3, 1])
            assert total(odd) == 3.0
            assert parent.split(None if rank == 3 else 0) is None or rank != 3
            last = parent.subgroup([3, 1], "last")
            assert (last is None) == (rank in (0, 2))
            if last is not None:
                assert last.rank() == [3, 1].index(rank) and last.group_desc == "last"
                twin = parent.subgroup([3, 1], "last")
                assert total(last) == total(twin) == 3.0
            assert len(psutil.Process().net_connections(kind="inet")) == sockets

    ranks(4).run(body)


def test_errors_of_a_closed_group_and_of_one_that_a_rank_left(ranks):
    def body(rank, size):
        made = group(rank, size, "left", ranks=[7, 8])
        total(made)
        if rank == 1:
            made.close()
            made.close()
            return error_of(made.barrier)
        return error_of(made.all_reduce, torch.ones(3))

    left, closed = ranks(2).run(body)
    assert left.is_a("DistBackendError") and "rank 8" in left.text and 'group "left"' in left.text
    assert closed.is_a("DistBackendError") and "destroyed on this rank" in closed.text


def test_a_rank_that_does_not_come_is_named(ranks):
    def body(rank, size):
        return error_of(create_group, dist.HashStore(), 0, 2, "short", timeout=LIMIT / 100, ranks=[5, 9])

    raised = ranks(1).run(body)[0]
    assert raised.is_a("DistBackendError")
    assert "rank 5 could not make group" in raised.text and "global rank 9 did not join" in raised.text


@pytest.mark.long
def test_making_and_closing_groups_leaves_nothing(ranks):
    """Descriptors, threads, arena and mapped memory stay the same; so do the keys of the store."""

    def body(rank, size):
        base = store()
        base_group = create_group(base, rank, size, "base", timeout=LIMIT)

        def cycles(count):
            for _ in range(count):
                with create_group(base, rank, size, "cycle", timeout=LIMIT) as made:
                    made.all_reduce(torch.ones(3))

        def state():
            base_group.barrier()
            gc.collect()
            me = psutil.Process()
            return len(os.listdir("/proc/self/fd")), me.num_threads(), me.memory_info().rss, base.num_keys()

        cycles(40)
        before = state()
        cycles(rounds(160, 1000))
        after = state()
        base_group.close()
        return before, after

    for before, after in ranks(2).run(body, limit=rounds(100, 1800)):
        assert after[0] <= before[0] and after[1] <= before[1]  # an earlier test's threads may have ended meanwhile
        assert after[2] - before[2] < 8 << 20
        assert after[3] - before[3] <= 2  # records that are being removed just now


@pytest.mark.long
def test_many_groups_at_once(ranks, figure):
    """Each takes less than 64 KiB, no descriptor and no thread."""

    def body(rank, size, count):
        base = store()

        def state():
            gc.collect()
            fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            memory = sum(int(fields[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
            threads = []
            for task in Path("/proc/self/task").iterdir():
                with suppress(OSError):  # it has ended meanwhile
                    threads.append((task / "comm").read_text().strip())
            # Threads for callbacks come and go: a test before this one may have had one a moment ago.
            threads = sorted(name for name in threads if name != "customccl-call")
            return len(os.listdir("/proc/self/fd")), threads, memory

        def make(number):
            made = create_group(base, rank, size, f"one of many {number}", timeout=LIMIT)
            made.barrier()
            return made

        groups = [make(-1 - number) for number in range(10)]
        before, begun = state(), time.perf_counter()
        groups += [make(number) for number in range(count)]
        seconds, after = (time.perf_counter() - begun) / count, state()
        assert [total(each) for each in groups] == [3.0] * len(groups)
        for each in groups:
            each.close()
        return before, after, seconds

    count = rounds(50, 1000)
    for before, after, seconds in ranks(2).run(body, count):
        assert after[:2] == before[:2]
        assert after[2] - before[2] < count << 16
        figure("ms until a group more is made and used", 1e3 * seconds)
        figure("KiB of a group more", (after[2] - before[2]) / count / 1024)


def test_who_joins_serves_no_store(ranks):
    """Though it is the first of the next members, and a URI says that rank 0 serves it."""

    def body(rank, size, port):
        uri, members = f"tcp://127.0.0.1:{port}", ["new", "0"]
        if rank == 0:
            made = create_group(f"{uri}?owner=other", 0, 1, "joined", timeout=LIMIT)
            made.prepare(members, timeout=LIMIT)
            made.commit()
        else:
            made = join_group(uri, members, "new", "joined", timeout=LIMIT)
        with made:
            return made.rank(), made.all_reduce(tensor := torch.ones(1)), tensor.item()

    server = serve_store(timeout=LIMIT)
    assert ranks(2).run(body, server.port) == [(1, None, 2.0), (0, None, 2.0)]
