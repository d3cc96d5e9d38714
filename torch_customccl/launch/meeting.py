"""The store in which the ranks of a launch meet, however they were launched.

Rank 0 holds a port from the moment it is chosen, serves a TCPStore on a second one and answers the others at a door
(door.py), at which they knock (entrance.py). What differs is how the others learn where the door is:

    torchrun            there is no door: the agent serves a store already, at MASTER_ADDR:MASTER_PORT
    mpirun, srun        rank 0 publishes host and port through the launcher (pmi.py, pmix.py)
    a given port        MASTER_ADDR:MASTER_PORT, or master_addr and master_port
    no port             the first free one of a row drawn from the launch id; the others try that row

The TCPStore inside torch is what all else in torch expects of a store (threads, clone(), queues), and the launcher's
wires are left alone once the ranks have met, so MPI_Init and MPI_Finalize of the program find them as they expect.
"""

import dataclasses
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import Any

import torch.distributed as dist

from torch_customccl._interrupts import InterruptibleLock
from torch_customccl.group_store import serve_store
from torch_customccl.launch.board import Board
from torch_customccl.launch.door import Door, RefusedError, knock, stay
from torch_customccl.launch.entrance import enter
from torch_customccl.launch.info import LaunchInfo
from torch_customccl.launch.places import check_known, check_place, launch_key, one_machine, own_host, ports_of
from torch_customccl.launch.pmi import open_pmi
from torch_customccl.launch.pmix import open_pmix
from torch_customccl.launch.ports import hold_port, own_addresses
from torch_customccl.launch.store_client import await_store

_LAST_WORDS_S = 5.0
_GLANCE_S = 2.0  # for the holder of a port to say that it is this launch's rank 0


class Meeting:
    """A store that all ranks of `info` share, and what keeps it open: if this rank serves it, `door` and `boards`.

    line: the connection to rank 0's door of who was let in there. While it is open, this rank has its place.
    """

    def __init__(
        self, info: LaunchInfo, store: dist.Store, door: Door | None = None, line: socket.socket | None = None
    ) -> None:
        self.info, self.store, self.door, self.line = info, store, door, line
        self.boards: deque[Board] = deque(maxlen=16)  # the latest: what came before has been read
        self.given_up = False

    def open_door(self) -> None:
        """Those who knock are answered, if this is rank 0. Once more does no harm."""
        if self.door is not None:
            self.door.open()

    def all_are_in(self) -> None:
        """Nobody will knock any more. The store lives as long as this process."""
        if self.door is not None:
            # Not atexit: processes of multiprocessing end without it.
            Finalize(None, self._last_words, args=(os.getpid(),), exitpriority=0)
        if self.line is not None:
            stay(self.line)
        self.close_door()

    def close_door(self) -> None:
        """Answers nobody any more, and lets go of the port; or gives up the place that rank 0's door keeps."""
        if self.door is not None:
            self.door.close()
        if self.line is not None:
            self.line.close()
        self.door = self.line = None

    def _last_words(self, pid: int) -> None:
        """The store ends with this process: give the others a moment to read what they were told last."""
        if os.getpid() == pid:
            deadline = time.monotonic() + _LAST_WORDS_S
            for board in self.boards:
                board.wait_until_read(deadline)


_meetings: dict[tuple[int, LaunchInfo], Meeting] = {}
_lock = InterruptibleLock()


def meet(info: LaunchInfo, timeout: timedelta) -> Meeting:
    """Collective. Every launch meets once per process: a second call gives the same store.

    Raises TimeoutError when rank 0 is not found within `timeout`, ConnectionError when somebody else is found in its
    place or the launcher cannot be asked, ValueError when `info` does not tell where to meet.
    """
    key = os.getpid(), info  # a forked child must not speak on its parent's connection
    with _lock:
        found = _meetings.get(key)
    if found is not None and found.given_up:  # an interrupt kept it from being forgotten
        forget(found)
        found = None
    if found is None:
        made = _meet(info, time.monotonic() + timeout.total_seconds(), timeout)
        with _lock:
            found = _meetings.setdefault(key, made)
    # Only now, when the next attempt would find it: an interrupt leaves no door that is open and that nobody closes.
    found.open_door()
    return found


def forget(meeting: Meeting) -> None:
    """The ranks did not all come: who tries again meets anew."""
    meeting.given_up = True  # first, and taken out last: an interrupt in between leaves the rest to the next attempt
    meeting.close_door()
    with _lock:
        for key in [key for key, known in _meetings.items() if known is meeting]:
            del _meetings[key]


def _meet(info: LaunchInfo, deadline: float, timeout: timedelta) -> Meeting:
    if info.world_size == 1:
        return Meeting(info, dist.HashStore())
    if _agent_serves(info):
        assert info.master_addr is not None and info.master_port is not None
        check_known(info.master_addr, info)
        return Meeting(info, await_store(info.master_addr, info.master_port, timeout, deadline))
    board = _launchers_board(info)
    if board is not None and not info.launch_id:
        info = dataclasses.replace(info, launch_id=board.job)
    if board is None:
        check_place(info)
    if info.rank == 0:
        return _open_store(info, board, timeout, deadline)
    store, line = enter(info, board, timeout, deadline)
    return Meeting(info, store, line=line)


def _agent_serves(info: LaunchInfo) -> bool:
    """torchrun's agent serves a store at the master's port, which rank 0 could not bind."""
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and info.source == "torchrun"
    return agent and (info.master_addr, str(info.master_port)) == (
        os.environ.get("MASTER_ADDR"),
        os.environ.get("MASTER_PORT"),
    )


def _launchers_board(info: LaunchInfo) -> Any:
    """Where rank 0 publishes and the others look up; None if the ranks meet at a port."""
    openers: dict[str, Callable[[], Any]] = {"openmpi": open_pmix, "pmix": open_pmix, "mpich": open_pmi}
    if info.source not in openers or info.master_port is not None:
        return None
    return openers[info.source]()


def _open_store(info: LaunchInfo, board: Any, timeout: timedelta, deadline: float) -> Meeting:
    """Rank 0: the door first, since its port is the one that others may want."""
    host = own_host(info, board)
    if host is not None:
        check_known(host, info)
    listener = _hold(info, host, board, deadline)
    port = listener.getsockname()[1]
    with hold_port(host) as held:
        store = serve_store(held, timeout=timeout)
    meeting = Meeting(info, store, Door(listener, launch_key(info), store.port))
    if board is not None:
        hosts = ["127.0.0.1"] if one_machine(info) else own_addresses()
        try:
            board.publish("customccl-door", f"{port}@{','.join(hosts)}", timeout.total_seconds())
        except BaseException:
            meeting.close_door()
            raise
    return meeting


def _hold(info: LaunchInfo, host: str | None, board: Any, deadline: float) -> socket.socket:
    if board is not None:
        return hold_port(host)
    ports = ports_of(info)
    for port in ports:
        try:
            return hold_port(host, port)
        except ConnectionError:
            _refuse_second_rank_0(info, host, port, deadline)
            if info.master_port is not None:
                raise
    raise ConnectionError(f"all {len(ports)} ports drawn from the launch id are held by others; give a master_port")


def _refuse_second_rank_0(info: LaunchInfo, host: str | None, port: int, deadline: float) -> None:
    """RefusedError if the holder of the port is rank 0 of this launch already."""
    try:
        limit = min(_GLANCE_S, deadline - time.monotonic())
        knock(host or "127.0.0.1", port, launch_key(info), secrets.token_hex(16), info.rank, limit)
    except RefusedError:
        raise
    except OSError:  # a stranger, or nobody any more
        return
