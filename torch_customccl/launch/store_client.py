"""The connection to a TCPStore that another process serves, within a limit."""

import socket
import threading
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl._pauses import pauses
from torch_customccl.launch.door import ForeignError
from torch_customccl.launch.ports import resolve

_LEAST_S = 1.0  # for a store that is there, also when it is found in the last moment


class AbsentError(ConnectionError):
    """No store is there: not yet, or no more."""


def await_store(host: str, port: int, timeout: timedelta, deadline: float) -> dist.Store:
    """As connect_store(), of one that may still have to come. TimeoutError if it has not at `deadline`."""
    latest = AbsentError(f"no store at {host}:{port}")
    for _ in pauses(deadline):
        try:
            return connect_store(host, port, timeout, deadline)
        except AbsentError as error:
            latest = error
    raise TimeoutError(str(latest)) from latest


def connect_store(host: str, port: int, timeout: timedelta, deadline: float) -> dist.Store:
    """A client of the TCPStore at host:port, with `timeout` for what it is asked later.

    Raises AbsentError when nobody listens there, ForeignError when somebody does who is silent until `deadline`. torch
    gets what is left until then, and is not asked to wait for a server that is not there: it pauses between its
    attempts as long as the limit allows and beyond. In a thread, because it waits without limit for a server that takes
    the connection and never answers.
    """
    address, result = str(resolve(host)), list[Any]()
    limit = max(_LEAST_S, deadline - time.monotonic())

    def connect() -> None:
        try:
            client = dist.TCPStore(address, port, None, False, timedelta(seconds=limit), wait_for_workers=False)
            client.set_timeout(timeout)
            result.append(client)
        except Exception as error:  # handed to the caller, whatever it is
            result.append(error)

    _check_listened_at(address, port, limit)
    thread = threading.Thread(target=connect, name="customccl-connect", daemon=True)
    thread.start()
    thread.join(limit)
    if not result:
        _check_listened_at(address, port, _LEAST_S)  # no stranger, but one who is gone: torch still tries
        raise ForeignError(f"somebody holds {host}:{port} but did not answer as a store within {limit:.0f} s")
    if isinstance(result[0], Exception):
        gone = isinstance(result[0], dist.DistNetworkError | dist.DistStoreError)
        raise (AbsentError if gone else ConnectionError)(f"no store at {host}:{port}: {result[0]}") from result[0]
    store: dist.Store = result[0]
    return store


def _check_listened_at(address: str, port: int, limit_s: float) -> None:
    """AbsentError if nobody listens there."""
    try:
        socket.create_connection((address, port), timeout=limit_s).close()
    except OSError as error:
        raise AbsentError(f"no store at {address}:{port}: {error}") from error
