"""What Hydra, the process manager of MPICH, knows: a name for the job, and a board on which names are published.

The wire protocol PMI-1: lines of key=value words over the inherited socket PMI_FD, one answer for each question.
MPICH's own MPI_Init and MPI_Finalize use the same socket, so questions are asked while a Coordinator is made and at no
other time, and never while another thread is inside those two.

Hydra ends the whole job when a process that has spoken leaves without saying so. At exit that is said, unless MPI
is initialised in this process and says it itself.
"""

import atexit
import ctypes
import os
import re
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch_customccl.launch.loaded_libraries import loaded_libraries

_LOOK_S = 0.005  # between two looks at the board


class Pmi:
    """This process's side of the socket. One per process, by one thread at a time. See `open_pmi`."""

    def __init__(self, fd: int) -> None:
        self._fd, self._pid, self._file = fd, os.getpid(), os.fstat(fd)
        self._rest = b""
        self._unanswered = ""  # the question whose answer nobody has read yet: it comes before that of the next
        self._published: set[str] = set()
        self._ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", time.monotonic() + 60)
        self.job = "mpich-" + self._ask("cmd=get_my_kvsname", "my_kvsname", time.monotonic() + 60)["kvsname"]
        atexit.register(self._leave)

    def publish(self, name: str, value: str, limit_s: float) -> None:
        """Make `value` (no spaces, no "=") known under `name`, in place of what this process published there before.

        RuntimeError if another process has the name.
        """
        deadline = time.monotonic() + limit_s
        self._settle(deadline)  # it may tell what is published
        if name in self._published:
            self._ask(f"cmd=unpublish_name service={name}", "unpublish_result", deadline)
        answer = self._ask(f"cmd=publish_name service={name} port={value}", "publish_result", deadline)
        if answer.get("rc") != "0":
            raise RuntimeError(f"the launcher did not take {name}: {answer.get('msg')}")

    def lookup(self, name: str, limit_s: float) -> str:
        """Wait until `name` is published. TimeoutError when it is not after `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while True:
            answer = self._ask(f"cmd=lookup_name service={name}", "lookup_result", deadline)
            if answer.get("rc") == "0":
                return answer["port"]
            if time.monotonic() > deadline:
                raise TimeoutError(f"rank 0 did not publish {name} within {limit_s:g} s: is it running?")
            time.sleep(_LOOK_S)  # PMI-1 has no way to be told

    def _settle(self, deadline: float) -> None:
        """Have read every answer that was asked for, also when the call that asked did not wait for it."""
        with self._ours():
            if self._unanswered:
                self._answer(deadline)

    def _ask(self, question: str, expected: str, deadline: float) -> dict[str, str]:
        self._settle(deadline)
        with self._ours():
            os.write(self._fd, question.encode() + b"\n")
            self._unanswered = question
            line = self._answer(deadline)
        answer = _words(line)
        if answer.get("cmd") != expected:
            raise ConnectionError(f"the process manager answered {question!r} with {line!r}")
        return answer

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """Around every use of the socket: the number may be another file's by now, and failures are said in one way."""
        try:
            if not os.path.samestat(os.fstat(self._fd), self._file):
                raise OSError("PMI_FD is another file by now")
            yield
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionError(
                f"cannot ask the process manager over PMI_FD ({error}). Make the Coordinator before MPI_Finalize"
            ) from error

    def _answer(self, deadline: float) -> str:
        """The line that answers `_unanswered`; what it says of the names of this process is kept."""
        question = self._unanswered
        while b"\n" not in self._rest:
            if not select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"the process manager did not answer {question!r} in time")
            more = os.read(self._fd, 4096)
            if not more:
                raise OSError("the process manager hung up")
            self._rest += more
        self._unanswered = ""
        first, _, self._rest = self._rest.partition(b"\n")
        line = first.decode(errors="replace")
        answer, name = _words(line), _words(question).get("service", "")
        if answer.get("cmd") == "publish_result" and answer.get("rc") == "0":
            self._published.add(name)
        elif answer.get("cmd") == "unpublish_result":
            self._published.discard(name)
        return line

    def _leave(self) -> None:
        if os.getpid() != self._pid or _mpi_will_say_it():
            return
        try:
            self._ask("cmd=finalize", "finalize_ack", time.monotonic() + 5)
        except OSError:  # MPI has closed the socket, or Hydra is gone
            return


def _words(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", line))


def _mpi_will_say_it() -> bool:
    """Whether an MPI library of this process is between MPI_Init and MPI_Finalize. Both may be asked at any time."""
    for path in loaded_libraries("libmpi"):
        try:
            library = ctypes.CDLL(path)
            begun, ended = ctypes.c_int(0), ctypes.c_int(0)
            library.MPI_Initialized(ctypes.byref(begun))
            library.MPI_Finalized(ctypes.byref(ended))
        except (OSError, AttributeError):  # a library of another kind
            continue
        if begun.value and not ended.value:
            return True
    return False


_open: Pmi | None = None


def open_pmi() -> Pmi:
    """The socket of this process. ConnectionError, with the reason, if it was not inherited."""
    global _open
    if _open is not None and _open._pid == os.getpid():
        return _open
    text = os.environ.get("PMI_FD", "")
    try:
        fd = int(text)
        if _open is not None or not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise ValueError(text)
    except (ValueError, OSError) as error:
        raise ConnectionError(
            f"PMI_FD ({text or 'unset'}) is no socket of this process: it was not started by mpirun itself, but by a "
            "process that mpirun started. Give master_addr and master_port, or an explicit rank and world_size"
        ) from error
    _open = Pmi(fd)
    return _open
