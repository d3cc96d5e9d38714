"""MPICH's process manager, played by the test: what a rank says to one that answers late."""

from __future__ import annotations

import atexit
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from torch_customccl.launch.pmi import Pmi


class Manager:
    """The other end of PMI_FD: says nothing but what a test has it say, in the order of the questions."""

    def __init__(self) -> None:
        self._socket, self._ranks = socket.socketpair()
        greeting = threading.Thread(target=self._greet)
        greeting.start()
        self.pmi = Pmi(self._ranks.fileno())
        greeting.join()

    def _greet(self) -> None:
        for answer in ("cmd=response_to_init rc=0", "cmd=my_kvsname kvsname=job"):
            self.question()
            self.answer(answer)

    def question(self) -> str:
        return self._socket.recv(4096).decode().rstrip()

    def answer(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\n")

    def end(self) -> None:
        atexit.unregister(self.pmi._leave)
        self._socket.close()
        self._ranks.close()


@pytest.fixture
def manager() -> Iterator[Manager]:
    made = Manager()
    yield made
    made.end()


def test_an_answer_that_comes_late_is_not_taken_for_that_of_the_next_question(manager: Manager) -> None:
    with pytest.raises(TimeoutError, match="did not answer 'cmd=lookup_name service=door' in time"):
        manager.pmi.lookup("door", 0)
    manager.answer("cmd=lookup_result rc=0 port=old")
    manager.answer("cmd=lookup_result rc=0 port=new")
    assert manager.pmi.lookup("door", 10) == "new"


def test_what_was_published_too_late_for_its_call_is_replaced(manager: Manager) -> None:
    with pytest.raises(TimeoutError):
        manager.pmi.publish("door", "old", 0)
    assert manager.question() == "cmd=publish_name service=door port=old"
    for answer in ("cmd=publish_result rc=0", "cmd=unpublish_result rc=0", "cmd=publish_result rc=0"):
        manager.answer(answer)
    manager.pmi.publish("door", "new", 10)
    assert manager.question().splitlines() == [
        "cmd=unpublish_name service=door",
        "cmd=publish_name service=door port=new",
    ]


def test_a_name_that_another_process_has_is_left_to_it(manager: Manager) -> None:
    with pytest.raises(TimeoutError):
        manager.pmi.publish("door", "old", 0)
    assert manager.question() == "cmd=publish_name service=door port=old"
    manager.answer("cmd=publish_result rc=1 msg=key_already_present")
    manager.answer("cmd=publish_result rc=1 msg=key_already_present")
    with pytest.raises(RuntimeError, match="did not take door: key_already_present"):
        manager.pmi.publish("door", "new", 10)
    assert manager.question() == "cmd=publish_name service=door port=new"


def test_a_manager_that_hangs_up_is_an_error_that_says_so(manager: Manager) -> None:
    manager._socket.close()
    with pytest.raises(ConnectionError, match="over PMI_FD"):
        manager.pmi.lookup("door", 10)


def test_a_late_answer_is_not_looked_for_in_another_file_of_that_number(manager: Manager) -> None:
    with pytest.raises(TimeoutError):
        manager.pmi.lookup("door", 0)
    anothers, its_peer = socket.socketpair()
    with anothers, its_peer:
        os.dup2(anothers.fileno(), manager.pmi._fd)
        its_peer.sendall(b"not for us\n")
        with pytest.raises(ConnectionError, match="PMI_FD is another file by now"):
            manager.pmi.lookup("door", 10)
        anothers.setblocking(False)
        assert anothers.recv(100) == b"not for us\n"
