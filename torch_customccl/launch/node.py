"""Which ranks share memory: found out by doing it.

Names of hosts, LOCAL_WORLD_SIZE and addresses all lie in containers, behind network namespaces and under unusual
launchers. So each rank makes a page of memory with a random number in it, and hands it as a descriptor to who connects
to its abstract unix socket. Who maps the page and reads the number, whose digest is on the board, shares memory.
"""

import contextlib
import hashlib
import io
import mmap
import os
import secrets
import select
import socket
import threading
import time

from torch_customccl._pauses import pauses

_NUMBER = 32  # bytes
_PAUSE_S = 0.01  # for a descriptor to become free


class Page:
    """A page of this process, shown to everybody who may share memory with it until close().

    Its thread does not know it: so where making or closing it is interrupted, its last reference goes, and it ends.
    """

    def __init__(self) -> None:
        number = secrets.token_bytes(_NUMBER)
        self.name, self.digest = f"customccl-node-{secrets.token_hex(16)}", hashlib.sha256(number).hexdigest()
        # Both calls are made in C, where no Ctrl-C comes between them: a bare descriptor would have no owner there.
        memory = next(map(io.FileIO, map(os.memfd_create, ["customccl-node"], [os.MFD_CLOEXEC]), ["r+"]))
        memory.truncate(mmap.PAGESIZE)
        memory.write(number)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.name)
        self._listener.listen(256)
        self._thread = threading.Thread(target=_show, args=(self._listener, memory), name="customccl-node", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.__del__()
        self._thread.join()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # never made, or closed
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the thread


def _show(listener: socket.socket, memory: io.FileIO) -> None:
    """Until the listener is shut down, which accept() does not tell while no descriptor is left."""
    watch = select.poll()
    watch.register(listener, select.POLLIN)
    with listener, memory:
        while watch.poll()[0][1] == select.POLLIN:
            try:
                line, _ = listener.accept()
            except OSError:  # no descriptor is left; who waits must not be told that nobody is here
                time.sleep(_PAUSE_S)
                continue
            with line, contextlib.suppress(OSError):
                socket.send_fds(line, [b"."], [memory.fileno()])


def shares_memory(name: str, digest: str, deadline: float) -> bool:
    """Whether the page behind `name` can be mapped here and is the one that `digest` promises.

    Raises TimeoutError when its process is on this machine, but has not shown the page by `deadline`
    (time.monotonic()): it may be stopped.
    """
    try:
        fds = _ask(name, deadline)
    except (ConnectionError, PermissionError):  # another machine, network namespace or user
        return False
    if not fds:
        return False
    try:
        with mmap.mmap(fds[0], mmap.PAGESIZE, prot=mmap.PROT_READ) as page:
            return hashlib.sha256(page[:_NUMBER]).hexdigest() == digest
    except OSError:
        return False
    finally:
        os.close(fds[0])


def _ask(name: str, deadline: float) -> list[int]:
    """The descriptors that the process behind `name` hands out.

    Asks in pauses: a socket's own timeout takes no limit above 24 days, and none at all while the queue is full.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.setblocking(False)
        connected = False
        for _ in pauses(deadline):
            try:
                if not connected:
                    line.connect("\0" + name)
                    connected = True
                return socket.recv_fds(line, 1, 1, socket.MSG_CMSG_CLOEXEC)[1]
            except BlockingIOError:
                continue
    raise TimeoutError(f"who listens at {name} does not answer")
