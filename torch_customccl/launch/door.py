"""How the other ranks recognise rank 0 behind a port.

A port alone proves nothing: a web server, another job or a process that never answers may be there. Rank 0 opens a
door on it, and who knocks gets, for a number of its own, a digest that only this launch can make, and the port of the
store. Both sides speak one line:

    customccl-door 1 <nonce> <digest> <rank>    from who knocks: the digest is that of its launch
    customccl-door 1 <digest> <answer>          from the door: the digest is that of its launch and the nonce; the
                                                answer is the store's port, or why not

It guards against mistakes, not against attackers: a launch id is no secret.
"""

import contextlib
import hashlib
import itertools
import re
import socket
import threading
import time

MARK = "customccl-door 1"
PATIENCE_S = 10.0  # for one answer: a starting rank 0 on a crowded machine is slow, but not that slow
_LONGEST_LINE = 300  # bytes
_PAUSE_S = 0.05  # where the system is short of something


class ForeignError(ConnectionError):
    """Somebody else answers at a port, or somebody who never does."""


class RefusedError(ConnectionError):
    """Rank 0 answers, and does not let this process in."""


def proof(launch_key: str, nonce: str = "") -> str:
    """The digest that only who knows the launch key can make."""
    return hashlib.sha256(f"{launch_key}/{nonce}".encode()).hexdigest()


class Door:
    """Rank 0's side: answers at `listener` (which it owns from now on) in a thread, from open() until close().

    A rank has its place from when it is let in until its line ends: it has given up, or has died, and may come again.
    """

    def __init__(self, listener: socket.socket, launch_key: str, store_port: int) -> None:
        self._listener, self._launch_key, self._store_port = listener, launch_key, store_port
        self._lines: dict[int, list[tuple[str, socket.socket]]] = {}  # who was let in: nonce and line, by rank
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Answers from now on. Once more does no harm.

        Apart from the making, so that an interrupt can leave no thread with a door that nobody else knows of. One in
        here, with the thread started and not noted, lets the next call start a second: both answer, and both end.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="customccl-door", daemon=True)
            thread.start()
            self._thread = thread

    def close(self) -> None:
        """Answers nobody any more, and lets go of the port. Once more ends what an interrupt left."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if self._thread is not None:
            self._thread.join()
        self._listener.close()
        with self._lock:
            for _, line in itertools.chain(*self._lines.values()):
                line.close()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
                threading.Thread(target=self._hear, args=(line,), name="customccl-knock", daemon=True).start()
            except (OSError, RuntimeError):  # closed; or no descriptor or no thread is free just now
                if self._closed:
                    return
                time.sleep(_PAUSE_S)

    def _hear(self, line: socket.socket) -> None:
        """One who knocks."""
        stays = False
        try:
            said = _read_line(line, time.monotonic() + PATIENCE_S)
            match = re.fullmatch(MARK + r" ([0-9a-f]{32}) ([0-9a-f]{64}) (\d+)\n", said)
            if match:
                answer, stays = self._answer(line, match[1], match[2], int(match[3]))
                line.sendall(f"{MARK} {proof(self._launch_key, match[1])} {answer}\n".encode())
        except OSError:  # who knocked is gone
            return
        finally:
            if not stays:
                line.close()

    def _answer(self, line: socket.socket, nonce: str, launch: str, rank: int) -> tuple[str, bool]:
        """What who knocks is told, the store's port or why not; and whether its line stays open."""
        if launch != proof(self._launch_key):
            return "another launch", False
        with self._lock:
            here = []
            for each, other in self._lines.get(rank, []):
                if _has_ended(other):
                    other.close()
                else:
                    here.append((each, other))
            if rank == 0 or any(each != nonce for each, _ in here):
                return f"rank {rank} is here already", False
            if not self._closed:
                self._lines[rank] = [*here, (nonce, line)]
            return str(self._store_port), not self._closed


def knock(host: str, port: int, launch_key: str, nonce: str, rank: int, limit_s: float) -> tuple[int, socket.socket]:
    """The store's port, from rank 0 of this very launch, and the line that keeps this rank's place at its door.

    limit_s: seconds, at most PATIENCE_S, to connect and to be answered.
    Raises ForeignError when somebody else is there, RefusedError when rank 0 lets nobody in, another OSError when
    nobody is there.
    """
    limit = max(0.1, min(limit_s, PATIENCE_S))
    deadline = time.monotonic() + limit
    line = socket.create_connection((host, port), timeout=limit)
    try:
        try:
            line.sendall(f"{MARK} {nonce} {proof(launch_key)} {rank}\n".encode())
            answer = _read_line(line, deadline)
        except TimeoutError as error:
            raise ForeignError(f"somebody holds {host}:{port} but did not answer within {limit:.3g} s") from error
        except OSError as error:
            raise ForeignError(f"somebody at {host}:{port} broke the connection off: {error}") from error
        return _store_port(answer, f"{host}:{port}", proof(launch_key, nonce)), line
    except BaseException:
        line.close()
        raise


def stay(line: socket.socket) -> None:
    """Keeps the place at the door for good, also when `line` is closed: this rank has met, another one would not."""
    with contextlib.suppress(OSError):  # the door is closed already
        line.sendall(b".")


def _store_port(answer: str, place: str, expected: str) -> int:
    """What rank 0 at `place` answered, if it is rank 0's answer: the digest is the expected one."""
    match = re.fullmatch(MARK + r" ([0-9a-f]{64}) (.+)\n", answer)
    if match is None:
        said = f"said {answer[:40]!r}" if answer else "hung up"
        raise ForeignError(f"who answers at {place} is no rank 0 of customccl (it {said})")
    if match[1] != expected:
        raise ForeignError(f"rank 0 of another launch answers at {place}")
    if not match[2].isdigit():
        raise RefusedError(f"rank 0 at {place} refuses: {match[2]}. Two processes were given the same rank")
    return int(match[2])


def _read_line(line: socket.socket, deadline: float) -> str:
    """What the other side says, up to the end of a line. TimeoutError at `deadline`, also if it drips."""
    got = b""
    while not got.endswith(b"\n") and len(got) < _LONGEST_LINE:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the line did not end in time")
        line.settimeout(left)
        more = line.recv(_LONGEST_LINE)
        if not more:
            break
        got += more
    return got.decode(errors="replace")


def _has_ended(line: socket.socket) -> bool:
    """Whether the other side has closed `line`, or has died. Not if it said first that it stays."""
    try:
        line.setblocking(False)
        return not line.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:  # broken, or closed here: the answer did not arrive
        return True
