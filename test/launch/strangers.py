"""Others than rank 0 at a port."""

from __future__ import annotations

import contextlib
import socket
import threading

from torch_customccl.launch.ports import hold_port


@contextlib.contextmanager
def stranger(answer, port=0):
    """Somebody who holds a port and does `answer(connection)` with who connects. Gives the port."""
    listener = hold_port(port=port)
    connections = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connections.append(listener.accept()[0])
                answer(connections[-1])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    for each in [listener, *connections]:
        each.close()
