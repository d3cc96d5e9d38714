"""The connection to a TCPStore that another process serves, within a limit."""

import threading
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl.launch.door import PATIENCE_S, ForeignError
from torch_customccl.launch.ports import resolve


def connect_store(host: str, port: int, timeout: timedelta, deadline: float) -> dist.Store:
    """A client of the TCPStore at host:port.

    In a thread, because torch waits without limit for a server that takes the connection and never answers.
    """
    result: list[Any] = []
    address = str(resolve(host))

    def connect() -> None:
        try:
            result.append(dist.TCPStore(address, port, None, False, timeout, wait_for_workers=False))
        except Exception as error:  # handed to the caller, whatever it is
            result.append(error)

    thread = threading.Thread(target=connect, name="customccl-connect", daemon=True)
    thread.start()
    limit = max(PATIENCE_S, deadline - time.monotonic())
    thread.join(limit)
    if not result:
        raise ForeignError(f"somebody holds {host}:{port} but did not answer as a store within {limit:.0f} s")
    if isinstance(result[0], Exception):
        failure = TimeoutError if time.monotonic() >= deadline else ConnectionError
        raise failure(f"no store at {host}:{port}: {result[0]}") from result[0]
    store: dist.Store = result[0]
    return store
