"""Members come, go and die while the group works; the others go on in their processes."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, hear_parent, tell_parent
from harness.settings import rounds
from shared import LIMIT, group

from torch_customccl import create_group, join_group
from torch_customccl.group_arguments import members_key
from torch_customccl.group_outcome import digest_of

CYCLES = rounds(25, 500)
DEATHS = rounds(3, 500)


def total(made, value):
    x = torch.tensor([float(value)])
    made.all_reduce(x)
    return x.item()


def change(made, members):
    made.prepare(members)
    made.commit()


def both(made, ready):
    """Whether both are ready: an operation in the old membership, whose result all know."""
    x = torch.tensor([int(ready)])
    made.all_reduce(x, dist.ReduceOp.MIN)
    return bool(x.item())


def stays(made, cycles, took):
    for cycle in range(cycles):
        coming = made.prepare(["0", "1", f"guest {cycle}"])
        while not both(made, coming.ready()):
            pass
        begun = time.perf_counter()
        made.commit()
        took.append(time.perf_counter() - begun)
        assert made.size() == 3 and total(made, 1) == 3.0
        change(made, ["0", "1"])
        assert made.members == ["0", "1"] and total(made, 1) == 2.0


def store_at(port):
    return dist.PrefixStore("deaths", dist.TCPStore("127.0.0.1", port, is_master=False))


def works(made):
    while True:
        total(made, made.rank())


@pytest.mark.long
def test_members_come_and_go_under_traffic(ranks, figure):
    """Ranks 0 and 1 stay and never stop to work; rank 2 joins and leaves again and again."""

    def body(rank, size, cycles):
        shared = dist.PrefixStore("traffic", dist.distributed_c10d._get_default_store())
        if rank < 2:
            took = []
            with create_group(shared, rank, 2, "moving", timeout=LIMIT) as made:
                stays(made, cycles, took)
                assert made.membership == 2 * cycles + 1
            return took
        for cycle in range(cycles):
            names = ["0", "1", f"guest {cycle}"]
            # Once the membership before is over: nobody can tell a guest that, but the store.
            while cycle and int(shared.get("group/moving/1/membership")) < 2 * cycle + 1:
                pass
            with join_group(shared, names, names[2], "moving", timeout=LIMIT) as made:
                assert made.rank() == 2 and total(made, 1) == 3.0
                change(made, ["0", "1"])
                assert made.closed
        return []

    for seconds in ranks(3).run(body, CYCLES, limit=rounds(100, 1800))[0]:
        figure("ms of a commit", 1e3 * seconds)


@pytest.mark.long
@pytest.mark.usefixtures("nothing_left")
def test_a_replaced_rank_keeps_its_number(ranks):
    """kill -9 of rank 1, over and over; a new process takes its place, and the survivors stay what they are."""

    def survivor(rank, size, port, deaths):
        place = 2 * rank  # 0 and 2
        with create_group(store_at(port), place, 3, "moving", timeout=LIMIT) as made:
            for death in range(1, deaths + 1):
                assert total(made, place) == 3.0
                if rank == 0:
                    tell_parent("kill")
                raised = error_of(lambda: [total(made, 0) for _ in range(1_000_000)])
                assert raised.is_a("DistBackendError") and "rank 1" in raised.text, raised.text
                change(made, ["0", f"new {death}", "2"])
                assert made.rank() == place and made.membership == death + 1
            assert total(made, place) == 3.0
            hear_parent()

    def first_victim(rank, size, port):
        with create_group(store_at(port), 1, 3, "moving", timeout=LIMIT) as made:
            works(made)

    def later_victim(rank, size, port, number):
        with join_group(store_at(port), ["0", f"new {number}", "2"], f"new {number}", "moving", timeout=LIMIT) as made:
            assert made.rank() == 1
            works(made)

    port = ranks.pool.store_port
    survivors = ranks(2, fresh=True, init=False)
    victim = ranks(1, fresh=True, init=False)
    victim.start(first_victim, port)
    survivors.start(survivor, port, DEATHS)
    for death in range(1, DEATHS + 1):
        survivors.wait_for(0, "kill")
        victim.kill(0)
        victim.end()
        victim = ranks(1, fresh=True, init=False)
        victim.start(later_victim, port, death)
    for rank in range(2):
        survivors.tell(rank, "end")
    assert [outcome.value for outcome in survivors.finish()] == [None, None]


def test_an_endpoint_follows_its_owner_and_is_free_when_that_has_left(ranks):
    def body(rank, size):
        with group(rank, size, "endpoints that move") as made:
            me = str(rank)
            mine = made.open_endpoint("decode") if me == "1" else made.endpoint("decode")
            change(made, ["1", "2", "0"])
            assert mine.owner == made.endpoint("decode").owner == 0
            if me == "1":
                assert sorted(mine.recv() for _ in range(2)) == ["from 0", "from 2"]
            else:
                mine.send(f"from {me}")
                assert "belongs to rank 0" in error_of(mine.recv).text
                assert "open already" in error_of(made.open_endpoint, "decode").text
            made.barrier()
            change(made, ["2", "0"])
            if me == "1":
                return
            assert "'1', which has left" in error_of(mine.send, "to nobody").text
            if me == "0":
                mine = made.open_endpoint("decode")
                made.barrier()
                assert mine.recv() == "from 2"
            else:
                made.barrier()
                made.endpoint("decode").send("from 2")
            made.barrier()

    ranks(3).run(body)


def test_of_those_who_open_a_name_at_once_one_gets_it(ranks):
    def body(rank, size):
        with group(rank, size, "one name") as made:
            won = 0
            for number in range(30):
                made.barrier()
                try:
                    mine = made.open_endpoint(f"name {number}")
                except ValueError as error:
                    assert "open already" in str(error)
                else:
                    assert mine.owner == rank
                    won += 1
            made.barrier()
            return won

    assert sum(ranks(3).run(body)) == 30


def test_who_meets_new_members_in_the_background_keeps_nobody_from_the_store(ranks):
    """The ghost has announced itself and does not come: rank 0 waits for it in the store, on a thread of its own."""

    def body(rank, size):
        with group(rank, size, "waits") as made:
            if rank == 1:
                made.barrier()
                return
            place = dist.PrefixStore(f"membership/2/{members_key(['0', 'ghost'])}", made.own_store)
            place.set("here/ghost", "its nonce")
            changing = made.prepare(["0", "ghost"], timeout=LIMIT)
            digest = digest_of([place.get("here/0").decode(), "its nonce"])
            place.set("sees/its nonce", digest)
            while not place.check([f"meet/{digest}/rank/0"]):  # it has met as far as it can
                pass
            made.own_store.set("used", "meanwhile")
            assert made.own_store.get("used") == b"meanwhile" and not changing.ready()
            changing.drop()
            made.barrier()

    ranks(2).run(body)


def test_a_closed_group_refuses_to_change(ranks):
    def body(rank, size):
        made = group(rank, size, "closed")
        made.prepare(["0", "1"])
        made.barrier()
        made.close()
        refused = (
            made.commit,
            lambda: made.prepare(["0", "1"]),
            lambda: made.open_endpoint("x"),
            lambda: made.subgroup([rank]),
        )
        for call in refused:
            assert "which was closed on this rank" in error_of(call).text
        assert made.closed

    ranks(2).run(body)


def test_operations_in_flight_end_in_the_old_membership(ranks):
    def body(rank, size):
        with group(rank, size, "in flight") as made:
            x, y = torch.full((500_000,), 1.0), torch.zeros(2)
            changing = made.prepare(["1", "0"])
            works = [made.all_reduce(x, async_op=True)]
            works.append(made.irecv(y, 1) if rank == 0 else made.isend(torch.ones(2), 0))
            changing.wait()
            made.commit()
            assert all(work.is_completed() for work in works)
            assert made.rank() == 1 - rank and made.members == ["1", "0"]
            assert x[-1] == 2.0
            return y.tolist(), total(made, rank)

    assert ranks(2).run(body) == [([1.0, 1.0], 1.0), ([0.0, 0.0], 1.0)]


def test_a_member_that_never_comes_changes_nothing(ranks):
    def body(rank, size):
        with group(rank, size, "in vain") as made:
            made.prepare(["0", "1", "ghost"], timeout=timedelta(seconds=0.2))
            raised = error_of(made.commit)
            assert total(made, 1) == 2.0 and made.membership == 1
            change(made, ["0", "1"])
            assert total(made, 1) == 2.0 and made.membership == 2
            return raised

    for raised in ranks(2).run(body):
        assert raised.is_a("DistBackendError")
        assert "ghost did not come within 0.2 s" in raised.text and "goes on as it was" in raised.text


def test_a_stale_rank_is_refused(ranks):
    def body(rank, size):
        made = group(rank, size, "stale")
        if rank == 2:
            tell_parent("slept")
            hear_parent()
            return error_of(made.barrier), error_of(made.prepare, ["0", "1", "2"]), made.close()
        change(made, ["0", "1"])
        assert total(made, 1) == 2.0
        tell_parent("went on")
        hear_parent()
        return made.close()

    workers = ranks(3, fresh=True)
    workers.start(body)
    workers.wait_for(2, "slept")
    for rank in range(2):
        workers.wait_for(rank, "went on")
    workers.tell(2, "wake")
    for rank in range(2):
        workers.tell(rank, "end")
    barrier, prepare, _ = workers.finish()[2].value
    assert barrier.is_a("DistBackendError") and "destroyed the group" in barrier.text
    assert "'2' is of membership 1 of group 'stale', which is at 2 without it" in prepare.text


def test_names_of_members_are_checked():
    with create_group(dist.HashStore(), 0, 1, "names", timeout=LIMIT) as made:
        for bad in ([], ["0", "0"], ["a/b"], [0], [""]):
            with pytest.raises(ValueError, match="each needs a name of its own"):
                made.prepare(bad)
        with pytest.raises(RuntimeError, match="without prepare"):
            made.commit()
        with pytest.raises(ValueError, match="is not among the members"):
            join_group(dist.HashStore(), ["0"], "1", "names")
        made.prepare(["0", "1"])
        made.prepare(["0"])  # the one before is given up
        made.commit()
        assert (made.size(), made.membership) == (1, 2)
