"""A rank fails in customccl_init before others have come: they hear why, and nothing is left once all have come."""

import os
import time

import pytest
from meeting import LATE, Meeting

FAILING = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000000, 1000000))
    comm = Comm(token, rank, size)
    assert comm.code == UNREACHABLE and "file size limit" in last_error(), last_error()
"""


@pytest.mark.parametrize("both", [False, True])
def test_a_limit_of_this_process_is_an_error_that_the_other_hears_and_leaves_nothing(meeting, both):
    """A file size limit of 0 kills whoever writes; with few descriptors the directory is made and cannot be opened."""
    meeting.run(
        f"""
        import resource
        free = 1 + max(map(int, os.listdir("/proc/self/fd")))  # listing them took one
        limits = [(resource.RLIMIT_FSIZE, 0, "ulimit -f")]
        limits += [(resource.RLIMIT_NOFILE, free + more, "Too many open files") for more in range(8)]
        for what, amount, words in limits:
            token = make_token()
            before = resource.getrlimit(what)
            resource.setrlimit(what, (amount, before[1]))
            comm = Comm(token, 0, 2, timeout_ms=200)
            if not {both}:
                resource.setrlimit(what, before)
            assert comm.code in (SYSTEM, UNREACHABLE, TIMEOUT), last_error()
            assert words in last_error() or comm.code == TIMEOUT, last_error()
            failed = comm.code != TIMEOUT
            if failed:
                comm = Comm(token, 1, 2, timeout_ms=60000)
                assert comm.code == ABORTED or {both}, last_error()
                assert words in last_error(), last_error()
            resource.setrlimit(what, before)
            assert os.listdir(os.environ["XDG_RUNTIME_DIR"]) == [], (amount, last_error())
        """,
        1,
    )


def test_those_who_wait_hear_of_a_lack_of_descriptors(meeting):
    for rank in (0, 1):
        meeting.start(LATE.format(words="Too many open files", culprit=2), rank, 3)
    for rank in (0, 1):
        meeting.wait_for(f"customccl-*/rank-{rank}")
    meeting.start(
        """
        import resource
        abi.library.customccl_mem_alloc(ctypes.byref(ctypes.c_void_p()), 1)  # the descriptors of the memory
        free = 1 + max(map(int, os.listdir("/proc/self/fd")))  # listing them took one
        resource.setrlimit(resource.RLIMIT_NOFILE, (free - 1, free - 1))
        assert Comm(token, rank, size).code == SYSTEM and "Too many open files" in last_error(), last_error()
        assert abi.library.customccl_last_error_rank() == rank
        """,
        2,
        3,
    )
    meeting.join()


def test_a_rank_with_too_little_address_space_is_named_and_not_the_one_that_it_cannot_map(meeting):
    failing = """
        import resource
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 30), used + (24 << 30)))  # for its own 16 GiB
        comm = Comm(token, rank, size)
        assert comm.code == SYSTEM and "to global rank 0: Cannot map" in last_error(), last_error()
        assert abi.library.customccl_last_error_rank() == rank
    """
    healthy = """
        comm = Comm(token, rank, size)
        assert comm.code in (SYSTEM, ABORTED) and "Cannot map" in last_error(), last_error()
        assert abi.library.customccl_last_error_rank() == 1
    """
    for rank, program in enumerate([healthy, failing, healthy]):
        meeting.start(program, rank, 3)
    meeting.join()


def test_who_comes_after_a_rank_has_failed_hears_why(meeting):
    meeting.start(FAILING, 1, 3).wait(timeout=60)
    for rank in (2, 0):
        meeting.start(LATE.format(words="file size limit of 1000000", culprit=1), rank, 3).wait(timeout=60)
    meeting.join()


def test_ranks_that_come_while_others_fail_hear_it_and_leave_nothing(meeting):
    meeting.run(
        """
        import random, resource
        for turn in range(300):
            token, children = make_token(), []
            for rank in range(4):
                children.append(os.fork())
                if children[-1]:
                    continue
                time.sleep(random.Random(5 * turn + rank).random() * 0.002)
                if rank % 2:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (1000000, 1000000))
                comm = Comm(token, rank, 4, timeout_ms=60000)
                os._exit(0 if comm.code in (ABORTED, UNREACHABLE) and "file size limit" in last_error() else 1)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
            assert os.listdir(os.environ["XDG_RUNTIME_DIR"]) == [], turn
        """,
        1,
    )


def test_ranks_that_lack_descriptors_at_the_same_time_leave_nothing(meeting):
    meeting.run(
        """
        import mmap, resource
        for turn in range(100):
            token, children, here = make_token(), [], mmap.mmap(-1, 2)
            for rank in range(2):
                children.append(os.fork())
                if children[-1]:
                    continue
                free = os.dup(2)
                resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, free + 1))
                here[rank] = 1
                while not (here[0] and here[1]):
                    pass  # so that neither is the first
                comm = Comm(token, rank, 2, timeout_ms=60000)
                os._exit(0 if comm.code != OK and "Too many open files" in last_error() else 1)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 2
            assert os.listdir(os.environ["XDG_RUNTIME_DIR"]) == [], turn
        """,
        1,
    )


def test_ranks_that_disagree_on_their_number_wait_for_the_last_one(meeting):
    early = """
        comm = Comm(token, rank, size)
        assert comm.code in (MISMATCH, ABORTED) and "it makes a group of" in last_error(), last_error()
        """
    for process in [meeting.start(early, 0, 2), meeting.start(early, 1, 3)]:
        process.wait(timeout=60)
    meeting.start(
        """
        comm = Comm(token, rank, size)
        assert comm.code == ABORTED and "it makes a group of" in last_error(), last_error()
        """,
        2,
        3,
    )
    meeting.join()


def test_what_a_failure_left_for_a_rank_that_never_came_goes_with_a_later_meeting(meeting):
    meeting.start(FAILING, 1, 2).wait(timeout=60)
    (left,) = meeting.folder.iterdir()

    def meet():
        later = Meeting(meeting.folder)
        for rank in (0, 1):
            later.start("comm = Comm(token, rank, size)\nassert comm.code == OK, last_error()", rank, 2)
        for process in later.started:
            assert process.wait(timeout=60) == 0, process.communicate()

    stranger = meeting.folder / ("customccl-" + "0" * 32)
    stranger.mkdir(mode=0o700)
    meet()
    assert sorted(meeting.folder.iterdir()) == sorted([left, stranger])  # one may still come
    past = time.time() - 31 * 60
    os.utime(left / "gave-up", (past, past), follow_symlinks=False)
    os.utime(stranger, (past, past))
    meet()
    assert list(meeting.folder.iterdir()) == [stranger]  # nobody has given up there: some may wait
    stranger.rmdir()
    meeting.join()
