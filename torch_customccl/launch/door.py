"""How the other ranks recognise rank 0 behind a port.

A port alone proves nothing: a web server, another job or a process that never answers may be there. Rank 0 opens a
door on it, and who knocks gets, for a number of its own, a digest that only this launch can make, and the port of the
store. Both sides speak one line:

    customccl-door 1 <nonce> <digest> <rank>    from who knocks: the digest is that of its launch
    customccl-door 1 <digest> <answer>          from the door: the digest is that of its launch and the nonce; the
                                                answer is the store's port, or why not

It guards against mistakes, not against attackers: a launch id is no secret.
"""

import hashlib
import re
import socket
import socketserver
import threading
import time

MARK = "customccl-door 1"
PATIENCE_S = 10.0  # for one answer: a starting rank 0 on a crowded machine is slow, but not that slow
_LONGEST_LINE = 300  # bytes


class ForeignError(ConnectionError):
    """Somebody else answers at a port, or somebody who never does."""


class RefusedError(ConnectionError):
    """Rank 0 answers, and does not let this process in."""


def proof(launch_key: str, nonce: str = "") -> str:
    """The digest that only who knows the launch key can make."""
    return hashlib.sha256(f"{launch_key}/{nonce}".encode()).hexdigest()


class Door(socketserver.ThreadingTCPServer):
    """Rank 0's side: answers at `listener` (which it owns from now on) in a thread until close()."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, launch_key: str, store_port: int) -> None:
        super().__init__(("", 0), _Knock, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.launch_key, self.store_port = launch_key, store_port
        self.came: dict[int, str] = {0: "rank 0 is here"}
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="customccl-door", daemon=True)
        self.thread.start()

    def answer(self, nonce: str, launch: str, rank: int) -> str:
        """What who knocks is told: the store's port, or why not."""
        if launch != proof(self.launch_key):
            return "another launch"
        with self.lock:  # who asks again has the same nonce; another process does not
            known = self.came.setdefault(rank, nonce)
        return str(self.store_port) if known == nonce else f"rank {rank} is here already"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Knock(socketserver.StreamRequestHandler):
    server: Door

    def handle(self) -> None:
        try:
            line = _read_line(self.connection, time.monotonic() + PATIENCE_S)
            match = re.fullmatch(MARK + r" ([0-9a-f]{32}) ([0-9a-f]{64}) (\d+)\n", line)
            if match:
                digest = proof(self.server.launch_key, match[1])
                answer = self.server.answer(match[1], match[2], int(match[3]))
                self.wfile.write(f"{MARK} {digest} {answer}\n".encode())
        except OSError:  # who knocked is gone
            return


def knock(host: str, port: int, launch_key: str, nonce: str, rank: int, limit_s: float) -> int:
    """The store's port, from rank 0 of this very launch.

    limit_s: seconds, at most PATIENCE_S, to connect and to be answered.
    Raises ForeignError when somebody else is there, RefusedError when rank 0 lets nobody in, another OSError when
    nobody is there.
    """
    limit = max(0.1, min(limit_s, PATIENCE_S))
    deadline = time.monotonic() + limit
    with socket.create_connection((host, port), timeout=limit) as line:
        try:
            line.sendall(f"{MARK} {nonce} {proof(launch_key)} {rank}\n".encode())
            answer = _read_line(line, deadline)
        except TimeoutError as error:
            raise ForeignError(f"somebody holds {host}:{port} but did not answer within {limit:g} s") from error
        except OSError as error:
            raise ForeignError(f"somebody at {host}:{port} broke the connection off: {error}") from error
    match = re.fullmatch(MARK + r" ([0-9a-f]{64}) (.+)\n", answer)
    if match is None:
        said = f"said {answer[:40]!r}" if answer else "hung up"
        raise ForeignError(f"who answers at {host}:{port} is no rank 0 of customccl (it {said})")
    if match[1] != proof(launch_key, nonce):
        raise ForeignError(f"rank 0 of another launch answers at {host}:{port}")
    if not match[2].isdigit():
        raise RefusedError(f"rank 0 at {host}:{port} refuses: {match[2]}. Two processes were given the same rank")
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
