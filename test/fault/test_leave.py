"""After a fault: groups are destroyed without a hang, programs end as they want, survivors make a new group."""

from __future__ import annotations

import os
import re

import pytest
import torch
import torch.distributed as dist
from expectations import check_names, reports_of, survive
from harness import worker
from harness.messages import Returned
from harness.programs import Ended, run_ranks
from harness.rank import error_of, group_works, hear_parent, init_group, tell_parent
from harness.settings import GROUP_TIMEOUT_S, OURS

pytestmark = pytest.mark.usefixtures("nothing_left")

VICTIM = 1


def loop() -> None:
    for turn in range(1_000_000):
        dist.all_reduce(torch.ones(1000))
        if turn == 2:
            tell_parent("looping")


def kill_in_loop(workers, body) -> list:
    workers.start(body)
    for rank in range(workers.size):
        workers.wait_for(rank, "looping")
    workers.kill(VICTIM)
    return workers.finish()


def test_destroying_a_group_with_a_dead_rank_ends(ranks):
    def body(rank, size):
        report = survive(loop)
        dist.destroy_process_group()
        assert not dist.is_initialized()
        return report

    for report in reports_of(kill_in_loop(ranks(3, fresh=True), body), [0, 2]).values():
        check_names(report.first, "all_reduce", VICTIM)


def test_a_rank_that_dies_while_the_others_destroy_the_group_holds_nobody_up(ranks):
    def body(rank, size):
        group_works()
        tell_parent("ready")
        if rank == VICTIM:
            hear_parent()
        dist.destroy_process_group()

    workers = ranks(3, fresh=True)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "ready")
    workers.kill(VICTIM)
    outcomes = workers.finish()
    assert all(isinstance(outcomes[rank], Returned) for rank in (0, 2)), outcomes


def test_a_group_with_works_in_flight_may_be_destroyed(ranks):
    def body(rank, size):
        if rank == VICTIM:
            hear_parent()
            return
        works = [dist.all_reduce(torch.ones(n), async_op=True) for n in (4, 20_000, 2_000_000)]
        dist.destroy_process_group()
        for work in works:
            error_of(work.wait)

    workers = ranks(2, fresh=True)
    workers.start(body)
    outcome = workers.finish(without=frozenset({VICTIM}))[0]
    assert isinstance(outcome, Returned), outcome


def test_a_rank_that_left_and_ended_has_left(ranks):
    def body(rank, size):
        dist.all_reduce(torch.ones(3))
        if rank == VICTIM:
            dist.destroy_process_group()
            os._exit(0)
        hear_parent()
        return error_of(dist.all_reduce, torch.ones(3))

    workers = ranks(2, fresh=True)
    workers.start(body)
    workers.wait_for_death(VICTIM)
    workers.tell(0, "call")
    error = workers.finish()[0].value
    check_names(error, "all_reduce", VICTIM)
    if OURS:
        assert "destroyed the group" in error.text and "died" not in error.text, error


def test_an_orderly_goodbye_is_not_a_death(ranks):
    """Rank 1 has destroyed the group; whoever still calls is told that it left."""

    def body(rank, size):
        group = dist.new_group()
        dist.all_reduce(torch.ones(3), group=group)
        if rank == VICTIM:
            dist.destroy_process_group(group)
            tell_parent("left")
            return None
        hear_parent()
        error = error_of(dist.all_reduce, torch.ones(3), group=group)
        dist.destroy_process_group(group)
        return error

    workers = ranks(2, fresh=True)
    workers.start(body)
    workers.wait_for(VICTIM, "left")
    workers.tell(0, "call")
    outcomes = workers.finish()
    assert all(isinstance(outcome, Returned) for outcome in outcomes), outcomes
    error = outcomes[0].value
    check_names(error, "all_reduce", VICTIM)
    if OURS:
        assert "died" not in error.text and re.search("destroyed|left|closed", error.text), error


def test_the_survivors_make_a_smaller_group_in_the_same_processes(ranks):
    def body(rank, size):
        survive(loop)
        dist.destroy_process_group()
        store = dist.PrefixStore("second life", worker.seat.store())
        init_group([0, None, 1][rank], 2, store, GROUP_TIMEOUT_S)
        for turn in range(50):
            value = torch.full((turn * 1000,), 1.0)
            dist.all_reduce(value)
            assert bool((value == 2).all()), turn
        group_works(dist.new_group())
        dist.barrier()
        dist.destroy_process_group()
        return True

    outcomes = kill_in_loop(ranks(3, fresh=True), body)
    assert [outcomes[rank] for rank in (0, 2)] == [Returned(True)] * 2, outcomes


@pytest.mark.parametrize(("death", "size"), [("SIGKILL", 3), ("ends without destroying", 2)])
def test_programs_that_lose_a_rank_end_with_the_exit_code_they_chose(figure, death, size):
    """The last rank dies; rank 0 catches the error and chooses 5, the one between lets it rise.

    Nobody reaps the dead program until the others have ended: it stays a zombie, which still has its pid.
    """
    ended = run_ranks("survive.py", size, death)
    victim = size - 1
    assert ended[victim].exit_code == (-9 if death == "SIGKILL" else 0), ended[victim]
    for rank, exit_code in list({0: 5, 1: 1}.items())[:victim]:
        assert ended[rank].exit_code == exit_code, f"rank {rank}: {ended[rank]}"
        assert "terminate called" not in ended[rank].output, f"rank {rank}: {ended[rank]}"
        noticed = re.search(r"after ([\d.]+) ms: (.*)", ended[rank].output)
        assert noticed and f"rank {victim}" in noticed[2], f"rank {rank}: {ended[rank]}"
        figure("ms that an op waited in a program whose peer died", float(noticed[1]))


def test_programs_end_while_their_threads_wait_and_keep_their_futures_until_then():
    for ended in run_ranks("end_while_threads_wait.py", 2):
        assert ended == Ended(0, "sum [3.0]\n")


def test_programs_end_while_a_thread_comes_back_from_an_operation_that_went_well():
    assert run_ranks("end_while_a_thread_returns.py", 2) == [Ended(0, "")] * 2
