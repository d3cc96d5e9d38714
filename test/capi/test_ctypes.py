"""The C ABI from Python processes that never import torch: operations, failures with texts, nothing left behind."""

import os
import tempfile
import textwrap

import pytest
from meeting import LATE


@pytest.mark.parametrize("size", [1, 2, 4])
def test_operations(meeting, size):
    meeting.run(
        """
        comm = Comm(token, rank, size)
        assert comm.code == OK, last_error()
        assert comm.sum([rank, 5]) == [size * (size - 1) // 2, 5 * size]
        gathered = (c_int64 * size)()
        assert comm.run(ALL_GATHER, byref(c_int64(rank * 7)), gathered, 1) == OK
        assert list(gathered) == [7 * i for i in range(size)]
        source, got = c_int32(-9), c_double()
        if size > 1:
            assert comm.run(SEND, byref(c_double(rank)), None, 1, FLOAT64, peer=(rank + 1) % size, tag=3) == OK
            assert comm.run(RECV, None, byref(got), 1, FLOAT64, peer=-1, tag=3, source=pointer(source)) == OK
            assert source.value == got.value == (rank - 1) % size
        assert comm.barrier() == comm.async_error() == comm.destroy() == OK
        """,
        size,
    )


def test_a_killed_rank_is_named(meeting):
    meeting.run(
        """
        comm = Comm(token, rank, size, name="three", global_ranks=[10, 11, 12])
        assert comm.sum([1]) == [3]
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        assert comm.barrier() == PEER_DIED
        assert abi.library.customccl_last_error_rank() == 11
        assert 'of group "three" failed' in last_error() and "rank 11 (pid " in last_error(), last_error()
        assert comm.async_error() == PEER_DIED
        assert comm.destroy() == OK
        """,
        3,
    )


def test_a_timeout_in_init_names_the_rank_and_ends_the_others_wait(meeting):
    late = textwrap.dedent("""
        began = time.monotonic()
        comm = Comm(token, rank, size, timeout_ms={limit})
        assert comm.code == {code}, (comm.code, last_error())
        assert "global rank 1 did not join" in last_error(), last_error()
        assert abi.library.customccl_last_error_rank() == 1
        assert time.monotonic() - began < 30
        """)
    told = late.format(limit=60000, code="ABORTED") + 'assert "gave up: customccl: rank 2" in last_error()\n'
    meeting.start(told, 0, 3)
    meeting.wait_for("*/rank-0")
    meeting.start(late.format(limit=300, code="TIMEOUT"), 2, 3)
    meeting.join()


def test_a_rank_killed_in_init_leaves_nothing_once_the_others_return(meeting):
    victim = meeting.start("Comm(token, rank, size)", 1, 3)
    directory = meeting.wait_for("*/rank-1").parent
    assert directory.stat().st_mode & 0o777 == 0o700
    victim.kill()
    victim.wait()
    assert directory.exists()
    failing = """
        comm = Comm(token, rank, size, timeout_ms=2000)
        assert comm.code in (UNREACHABLE, PEER_DIED, TIMEOUT, ABORTED) and "global rank 1" in last_error(), last_error()
        """
    for rank in (0, 2):
        meeting.start(failing, rank, 3)
    meeting.join()


def test_two_processes_as_the_same_rank(meeting):
    meeting.start("comm = Comm(token, rank, size)\nassert comm.code == ABORTED, last_error()", 0, 2)
    meeting.wait_for("*/rank-0")
    meeting.start(
        """
        comm = Comm(token, rank, size)
        assert comm.code == MISMATCH and "two ranks join as rank/0" in last_error(), last_error()
        """,
        0,
        2,
    ).wait(timeout=60)
    meeting.start(LATE.format(words="two ranks join as rank/0", culprit=-1), 1, 2)
    meeting.join()


def test_places_where_nobody_can_meet(meeting):
    meeting.run(
        """
        comm = Comm(token, 0, 2, directory="/nowhere/at/all")
        assert comm.code == SYSTEM and "/nowhere/at/all/customccl-" in last_error(), last_error()
        assert "customccl_options.directory" in last_error()
        place = os.path.join(os.environ["XDG_RUNTIME_DIR"], "customccl-" + token.split(":")[1])
        os.mkdir(place, 0o755)
        comm = Comm(token, 0, 2)
        assert comm.code == SYSTEM and "open to others" in last_error(), last_error()
        os.rmdir(place)
        """,
        1,
    )


@pytest.mark.parametrize("size", [1, 2])
def test_what_a_rank_sends_to_itself_is_what_it_expects(meeting, size):
    meeting.run(
        """
        comm = Comm(token, rank, size)
        data, room = (c_int64 * 8)(*range(8)), (c_int64 * 8)()
        sent, expected = (c_size_t * size)(*[1] * size), (c_size_t * size)(*[1] * size)
        sent[rank] = 3
        assert comm.run(ALL_TO_ALL, data, room, counts=sent, recv_counts=expected) == INVALID_ARGUMENT
        assert "3 elements to itself, and expects 1" in last_error() and list(room) == [0] * 8
        assert comm.sum([1]) == [size]
        """,
        size,
    )


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_what_a_program_writes_where_it_was_started_without_meets_nothing_of_ours(meeting, closed):
    meeting.run(
        f"""
        import errno
        for number in {closed}:
            os.close(number)
        comm = Comm(token, rank, size)
        assert comm.code == OK, last_error()
        for number in {closed}:
            try:
                os.write(number, bytes(100_000))
            except OSError as error:
                assert error.errno == errno.EBADF, error
        assert comm.sum([rank, 5]) == [1, 10], last_error()
        """,
        2,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to make files as another user")
def test_a_directory_that_the_file_system_gave_to_another_user_does_not_stay(meeting):
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o777)
        meeting.run(
            f"""
            libc = ctypes.CDLL(None)
            libc.setfsuid(1)
            comm = Comm(token, 0, 2, directory={place!r})
            libc.setfsuid(0)
            assert comm.code == SYSTEM and "belongs to another user" in last_error(), last_error()
            """,
            1,
        )
        assert os.listdir(place) == []


def test_a_token_is_a_line_and_names_a_directory_that_its_maker_may_use(meeting, tmp_path):
    (tmp_path / "two\nlines").mkdir()
    meeting.run(
        f"""
        here = {str(tmp_path)!r}
        os.environ.update(XDG_RUNTIME_DIR=here + "/two\\nlines", TMPDIR=here)
        assert abi.make_token().endswith(":" + here)
        if os.geteuid() == 0:
            os.environ["XDG_RUNTIME_DIR"] = here
            os.environ["TMPDIR"] = "/tmp"
            os.seteuid(1)
            token = abi.make_token()
            os.seteuid(0)
            assert token.endswith(":/tmp"), token
        """,
        1,
    )


def test_an_explicit_directory(meeting, tmp_path):
    place = tmp_path / "elsewhere"
    place.mkdir()
    meeting.run(f"comm = Comm(token, rank, size, directory={str(place)!r})\nassert comm.sum([rank]) == [1]", 2)
    assert list(place.iterdir()) == []


def test_a_forked_child_cannot_use_its_parents_communicator(meeting):
    meeting.run(
        """
        comm = Comm(token, rank, size)
        child = os.fork()
        if child == 0:
            good = comm.barrier() == CLOSED and "forked" in last_error() and comm.abort("") == CLOSED
            good = good and comm.destroy() == OK
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert comm.sum([1]) == [2]
        assert comm.destroy() == OK
        """,
        2,
    )


def test_ranks_that_are_threads_and_an_abort_from_outside(meeting):
    meeting.run(
        """
        comms, failures = [None] * 3, []

        def be(i):
            comms[i] = Comm(token, i, 3)
            if comms[i].code != OK or comms[i].sum([i]) != [3] or last_error() != "":
                failures.append(last_error())
            ready.wait()
            if i != 2 and (comms[i].barrier() != ABORTED or "enough of it" not in last_error()):
                failures.append(f"{i}: {last_error()}")

        ready = threading.Barrier(4)
        threads = [threading.Thread(target=be, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        ready.wait()
        assert comms[0].abort("enough of it") == OK
        for thread in threads:
            thread.join()
        assert not failures, failures
        assert last_error() == ""
        assert [comms[i].destroy() for i in (1, 0, 2)] == [OK, OK, OK]
        """,
        1,
    )
