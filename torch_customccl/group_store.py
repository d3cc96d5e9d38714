"""Where the ranks of a Group find each other: a store given by the caller, or one that a URI names."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import torch.distributed as dist

from torch_customccl._pauses import pauses
from torch_customccl.group_arguments import checked_store, checked_timeout, utf8

T = TypeVar("T")
NOT_ITS_OWNER = -1  # the rank of a process that runs no server, whoever a URI says does
# To connect to the server of this very process. Nobody else has a part in it, but torch asks the name servers for the
# name of the address first, and a question that is lost takes 5 s.
_OWN_SERVER = timedelta(seconds=60)
# What torch opens for the first server of a process and its own connection to it (11, seen with torch 2.13), and one
# for somebody else to connect. Where it gets some but not all, it tries for _OWN_SERVER to make its connection.
_DESCRIPTORS = 12


def poll(look: Callable[[], T | None], limit: timedelta) -> T | None:
    """The first thing that look() gives; None when that is nothing until the limit has passed."""
    for _ in pauses(time.monotonic() + limit.total_seconds()):
        if (found := look()) is not None:
            return found
    return None


def serve_store(
    listener: socket.socket | None = None, *, host: str = "127.0.0.1", port: int = 0, timeout: timedelta
) -> dist.TCPStore:
    """A store whose server lives in this process: in `listener`, a bound socket, or on a port of its own.

    With port 0 the system chooses a free one, and `.port` of the result says which: nobody can take it in between. The
    socket is taken over: the caller may close its own object. The server ends with the last reference to the store.
    `timeout` is the store's, for what it is asked. Raises ValueError for a socket that is not bound, or not of TCP,
    OSError when this process has not the descriptors that a server takes.
    """
    checked_timeout(timeout, "a store")
    if not isinstance(listener, socket.socket | None):
        raise TypeError(f"customccl: listener must be a bound socket.socket, not {listener!r}")
    if listener is None:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound = listener.getsockname()
    if listener.type != socket.SOCK_STREAM or not isinstance(bound, tuple) or not bound[1]:
        raise ValueError(f"customccl: a store needs a TCP socket that is bound to a port, not one at {bound!r}")
    listener.listen()
    _check_descriptors(listener)
    host, descriptor = str(bound[0]), socket.dup(listener.fileno())
    store = dist.TCPStore(
        {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host),
        bound[1],
        is_master=True,
        timeout=max(timeout, _OWN_SERVER),
        wait_for_workers=False,
        master_listen_fd=descriptor,
    )
    store.set_timeout(timeout)
    return store


def _check_descriptors(some: socket.socket) -> None:
    with contextlib.ExitStack() as taken:
        try:
            for _ in range(_DESCRIPTORS):
                taken.enter_context(some.dup())
        except OSError as error:
            raise OSError(
                error.errno,
                f"customccl: the server of a store takes {_DESCRIPTORS} descriptors, and this process cannot have as "
                f"many ({error.strerror}). Close some, or raise the limit (ulimit -n)",
            ) from error


def open_store(
    store_or_uri: dist.Store | str, rank: int, *, timeout: timedelta, listener: socket.socket | None = None
) -> dist.Store:
    """The store itself, or the one that a URI names.

    file:///PATH          a file that all ranks see; PATH must not be left from another job
    tcp://HOST:PORT       a server; rank 0 runs it, in `listener` if one is given
    tcp://HOST:PORT?owner=R       rank R runs it
    tcp://HOST:PORT?owner=other   somebody else runs it: every rank connects

    Neither uses torch's rendezvous, so a launcher's environment changes nothing (under torchrun, init_process_group
    takes a tcp:// address for the agent's own server). Raises ValueError for a URI that says something else.
    """
    if not isinstance(store_or_uri, str):
        return checked_store(store_or_uri, " or a URI")
    checked_timeout(timeout, "a store")
    utf8(uri := store_or_uri, "the URI of a store")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"customccl: {uri!r}: {error}") from None
    if parts.scheme == "file" and parts.path and not parts.netloc:
        if uri != f"file://{parts.path}":
            raise ValueError(f"customccl: {uri!r}: no '?' or '#' may be in the path of a file")
        _check_file(uri, parts.path)
        return dist.FileStore(parts.path)
    if parts.scheme != "tcp" or not parts.hostname or port is None:
        raise ValueError(f"customccl: {uri!r} is neither file:///PATH nor tcp://HOST:PORT")
    if _owner(uri, parts.query) == rank:
        return serve_store(listener, host=parts.hostname, port=port, timeout=timeout)
    if port == 0:
        raise ValueError(f"customccl: {uri!r}: nobody can connect to port 0; name the one that the server has")
    return dist.TCPStore(parts.hostname, port, is_master=False, timeout=timeout)


def _check_file(uri: str, path: str) -> None:
    """ValueError for one that cannot be opened: a FileStore would try for five minutes, whatever the limit."""
    if not Path(path).parent.is_dir():
        raise ValueError(f"customccl: {uri!r}: there is no folder {Path(path).parent}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)  # as a FileStore does
    except OSError as error:
        raise ValueError(f"customccl: {uri!r}: the file cannot be opened for writing: {error.strerror}") from None
    regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    os.close(descriptor)
    if not regular:
        raise ValueError(f"customccl: {uri!r} is no regular file")


def _owner(uri: str, query: str) -> int | None:
    words = parse_qs(query, keep_blank_values=True)
    owner = words.pop("owner", ["0"])[-1]
    if words or not (owner == "other" or owner.isdecimal()):
        raise ValueError(f"customccl: {uri!r} may only say ?owner=RANK or ?owner=other")
    return None if owner == "other" else int(owner)
