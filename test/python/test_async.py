"""Works: they come back at once, complete with or without wait, answer truthfully, and carry futures."""

from __future__ import annotations

import threading
import weakref
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from harness.guarded import assert_same_bits
from harness.oracle import LARGE_COUNT, SUM, operand, reduced
from harness.rank import hear_parent, tell_parent

COUNTS = (3, 2000, 40_000, 500_000)


def test_many_works_in_flight_complete_in_any_order_of_waiting(ranks):
    def body(rank, size):
        values = [operand(rank, COUNTS[i % 4], torch.float32, SUM, size, salt=i) for i in range(16)]
        works = [dist.all_reduce(value, async_op=True) for value in values]
        for i in reversed(range(16)) if rank == 0 else range(16):
            works[i].wait()
        for i, value in enumerate(values):
            expected = reduced(range(size), COUNTS[i % 4], torch.float32, SUM, size, salt=i)
            assert_same_bits(value, expected, f"work {i}")

    ranks(3).run(body)


def test_different_ops_in_flight_do_not_mix(ranks):
    def body(rank, size):
        for count in COUNTS:
            reduced_here = operand(rank, count, torch.float32, SUM, size)
            cast = torch.full((count,), float(rank))
            gathered = torch.zeros(size * count)
            scattered = torch.zeros(count)
            works = [
                dist.all_reduce(reduced_here, async_op=True),
                dist.broadcast(cast, src=1, async_op=True),
                dist.all_gather_into_tensor(gathered, torch.full((count,), float(rank)), async_op=True),
                dist.barrier(async_op=True),
                dist.reduce_scatter_tensor(scattered, torch.ones(size * count), async_op=True),
            ]
            for work in works:
                work.wait()
            assert_same_bits(reduced_here, reduced(range(size), count, torch.float32, SUM, size), f"{count}")
            assert bool((cast == 1).all()), f"broadcast of {count}"
            assert_same_bits(gathered, torch.arange(float(size)).repeat_interleave(count), f"all_gather of {count}")
            assert_same_bits(scattered, torch.full((count,), float(size)), f"reduce_scatter of {count}")

    ranks(3).run(body)


def test_a_work_that_nobody_waits_for_completes(ranks):
    """Rank 1 drops its work and never enters the backend again; rank 0's wait still ends, and so does rank 1's op."""

    def body(rank, size):
        for count in COUNTS:
            value = operand(rank, count, torch.float32, SUM, size)
            work = dist.all_reduce(value, async_op=True)
            if rank == 0:
                work.wait()
                tell_parent("waited")
            else:
                del work
            hear_parent()
            if rank == 1:
                expected = reduced(range(size), count, torch.float32, SUM, size)
                while not torch.equal(value, expected):  # the hard limit of the test ends this if it never happens
                    pass
            dist.barrier()

    workers = ranks(2)
    workers.start(body)
    for _ in COUNTS:
        workers.wait_for(0, "waited")
        workers.tell(0, "on")
        workers.tell(1, "on")
    assert all(hasattr(outcome, "value") for outcome in workers.finish())


def test_polling_alone_brings_every_op_to_completion(ranks):
    def body(rank, size):
        other = 1 - rank
        value, message = operand(rank, LARGE_COUNT, torch.float32, SUM, size), torch.zeros(LARGE_COUNT)
        works = {
            "all_reduce": dist.all_reduce(value, async_op=True),
            "barrier": dist.barrier(async_op=True),
            "isend": dist.isend(torch.full((LARGE_COUNT,), float(rank)), dst=other),
            "irecv": dist.irecv(message, src=other),
        }
        for name, work in works.items():
            while not work.is_completed():  # the hard limit of the test ends this if it never happens
                pass
            assert work.is_success(), name
        assert bool((message == other).all())
        assert_same_bits(value, reduced(range(size), LARGE_COUNT, torch.float32, SUM, size), "polled all_reduce")

    ranks(2).run(body)


def test_a_work_is_not_complete_before_every_rank_has_called(ranks):
    def body(rank, size):
        value = torch.ones(100)
        if rank == 1:
            hear_parent()
        work = dist.all_reduce(value, async_op=True)
        if rank == 0:
            tell_parent("asked", work.is_completed())
        work.wait()
        assert work.is_completed() and work.is_success() and value[0] == 2

    workers = ranks(2)
    workers.start(body)
    assert workers.wait_for(0, "asked") is False, "complete although rank 1 had not called"
    workers.tell(1, "call")
    assert all(hasattr(outcome, "value") for outcome in workers.finish())


def test_waiting_twice_and_with_a_timeout_is_harmless(ranks):
    def body(rank, size):
        value = torch.ones(1000)
        work = dist.all_reduce(value, async_op=True)
        assert work.wait() is True
        assert work.wait() is True
        assert work.wait(timedelta(seconds=1)) is True
        assert work.is_completed() and value[0] == size

    ranks(2).run(body)


def test_another_thread_may_wait(ranks):
    def body(rank, size):
        for count in COUNTS:
            value = torch.ones(count)
            work = dist.all_reduce(value, async_op=True)
            sums: list[float] = []

            def finish(work=work, value=value, sums=sums):
                work.wait()
                sums.append(float(value[-1]))

            threads = [threading.Thread(target=finish) for _ in range(4)]
            for thread in threads:
                thread.start()
            work.wait()
            for thread in threads:
                thread.join()
            assert sums == [float(size)] * 4, sums

    ranks(2).run(body)


def test_waiting_lets_other_python_threads_run(ranks):
    """Rank 1 calls only after a thread of rank 0 said so, and that thread needs the GIL while rank 0 waits."""

    def body(rank, size):
        if rank == 1:
            hear_parent()
        else:
            entered = threading.Event()
            threading.Thread(target=lambda: (entered.wait(), tell_parent("thread ran"))).start()
            entered.set()
        dist.all_reduce(torch.ones(10))

    workers = ranks(2)
    workers.start(body)
    workers.wait_for(0, "thread ran")
    workers.tell(1, "call")
    assert all(hasattr(outcome, "value") for outcome in workers.finish())


def test_the_future_of_every_op_holds_its_outputs(ranks):
    def body(rank, size):
        other = 1 - rank
        value, cast, gathered, message = torch.ones(50), torch.full((5,), float(rank)), torch.zeros(2), torch.zeros(4)
        parts = [torch.zeros(3) for _ in range(size)]
        futures = {
            "all_reduce": (dist.all_reduce(value, async_op=True).get_future(), [value]),
            "broadcast": (dist.broadcast(cast, src=0, async_op=True).get_future(), [cast]),
            "all_gather_into_tensor": (
                dist.all_gather_into_tensor(gathered, torch.tensor([float(rank)]), async_op=True).get_future(),
                [gathered],
            ),
            "all_gather": (dist.all_gather(parts, torch.ones(3), async_op=True).get_future(), parts),
            "isend": (dist.isend(torch.ones(4), dst=other).get_future(), None),
            "irecv": (dist.irecv(message, src=other).get_future(), [message]),
            "barrier": (dist.barrier(async_op=True).get_future(), None),
        }
        for name, (future, expected) in futures.items():
            got = future.wait()
            assert future.done(), name
            flat = [each for item in got for each in (item if isinstance(item, list) else [item])] if got else []
            if expected is not None:
                assert [each.data_ptr() for each in flat] == [each.data_ptr() for each in expected], f"{name}: {got}"
        assert value[0] == size and gathered.tolist() == [0, 1] and message[0] == 1

    ranks(2).run(body)


def test_callbacks_of_futures_run_after_the_data_has_arrived_and_may_chain_collectives(ranks):
    def body(rank, size):
        value = torch.ones(70_000)
        first = dist.all_reduce(value, async_op=True).get_future()
        halved = first.then(lambda future: future.value()[0] / size)
        again = halved.then(lambda future: float(future.value().sum()))
        assert again.wait() == 70_000.0

        def reduce_again(future):
            return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

        other = torch.ones(10)
        assert dist.all_reduce(other, async_op=True).get_future().then(reduce_again).wait()[0] == size * size

    ranks(2).run(body)


def test_the_work_keeps_its_tensors_alive(ranks):
    def body(rank, size):
        works = []
        for turn in range(30):
            works.append(dist.all_reduce(torch.full((30_000,), float(turn)), async_op=True))
            torch.full((30_000,), -1.0)  # takes the memory at once if it was given back
        for turn, work in enumerate(works):
            work.wait()
            assert bool((work.get_future().value()[0] == size * turn).all()), f"work {turn}"

    ranks(2).run(body)


def test_the_memory_stays_when_its_tensor_is_given_other_memory(ranks):
    """`x.data = y`, as Module.to() does it, gives x's memory back; here it is numpy's, which tells if it lives."""

    def body(rank, size):
        array = np.full(COUNTS[1], rank + 1.0, dtype=np.float32)
        memory = weakref.ref(array)
        value = torch.from_numpy(array)
        del array
        if rank == 0:
            work = dist.all_reduce(value, async_op=True)
            value.data = torch.full((4,), 7.0)
            assert memory() is not None
            dist.send(torch.ones(1), dst=1)
            work.wait()
            assert bool((memory() == 3).all())
            assert value.tolist() == [7, 7, 7, 7]
        else:
            dist.recv(torch.empty(1), src=0)
            dist.all_reduce(value)
            assert bool((value == 3).all())

    ranks(2).run(body)


def test_threads_may_use_different_groups_at_once(ranks):
    """The two ranks start their threads in different order, so the groups' calls interleave differently."""

    def body(rank, size):
        groups = [dist.new_group() for _ in range(3)]
        errors: list[str] = []
        ended: list[int] = []

        def work(index):
            for turn in range(40):
                value = torch.full((turn * 50,), float(index))
                dist.all_reduce(value, group=groups[index])
                if not bool((value == size * index).all()):
                    errors.append(f"group {index}, turn {turn}")
            ended.append(index)  # not where a call has failed

        order = range(3) if rank == 0 else reversed(range(3))
        threads = [threading.Thread(target=work, args=(index,)) for index in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for group in groups:
            dist.destroy_process_group(group)
        assert not errors, errors
        assert sorted(ended) == [0, 1, 2]

    ranks(2).run(body)
