"""The store in which the ranks of a launch meet, however they were launched.

Rank 0 holds a port from the moment it is chosen, serves a TCPStore on a second one and answers the others at a door
(door.py). What differs is how the others learn where the door is:

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
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import Any

import torch.distributed as dist

from torch_customccl._interrupts import InterruptibleLock
from torch_customccl.group_store import serve_store
from torch_customccl.launch.board import Board
from torch_customccl.launch.door import PATIENCE_S, Door, ForeignError, RefusedError, knock
from torch_customccl.launch.info import LaunchInfo
from torch_customccl.launch.pmi import open_pmi
from torch_customccl.launch.pmix import open_pmix
from torch_customccl.launch.ports import drawn_ports, hold_port, own_addresses, resolve

_LAST_WORDS_S = 5.0
_GLANCE_S = 2.0  # for the holder of a port to say that it is this launch's rank 0
_PAUSE_S = 0.02  # between two rounds of knocking at doors that are not open yet
_Place = tuple[str, int]


class Meeting:
    """A store that all ranks of `info` share, and what keeps it open: if this rank serves it, `door` and `boards`."""

    def __init__(self, info: LaunchInfo, store: dist.Store, door: Door | None = None) -> None:
        self.info, self.store, self.door = info, store, door
        self.boards: deque[Board] = deque(maxlen=16)  # the latest: what came before has been read

    def all_are_in(self) -> None:
        """Nobody will knock any more. The store lives as long as this process."""
        if self.door is not None:
            self.close_door()
            # Not atexit: processes of multiprocessing end without it.
            Finalize(None, self._last_words, args=(os.getpid(),), exitpriority=0)

    def close_door(self) -> None:
        """Answers nobody any more, and lets go of the port."""
        if self.door is not None:
            self.door.close()
            self.door = None

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
    if found is not None:
        return found
    made = _meet(info, time.monotonic() + timeout.total_seconds(), timeout)
    with _lock:
        return _meetings.setdefault(key, made)


def forget(meeting: Meeting) -> None:
    """The ranks did not all come: who tries again meets anew."""
    meeting.close_door()
    with _lock:
        for key in [key for key, known in _meetings.items() if known is meeting]:
            del _meetings[key]


def _meet(info: LaunchInfo, deadline: float, timeout: timedelta) -> Meeting:
    if info.world_size == 1:
        return Meeting(info, dist.HashStore())
    if _agent_serves(info):
        assert info.master_addr is not None and info.master_port is not None
        _check_known(info.master_addr, info)
        return Meeting(info, _connect(info.master_addr, info.master_port, timeout, deadline))
    board = _launchers_board(info)
    if board is not None and not info.launch_id:
        info = dataclasses.replace(info, launch_id=board.job)
    if board is None:
        _check_place(info)
    if info.rank == 0:
        return _open_store(info, board, timeout, deadline)
    places = _published(board, deadline) if board is not None else _places(info)
    return _enter(info, places, board, timeout, deadline)


def launch_key(info: LaunchInfo) -> str:
    """What only processes of this launch, and of this start of it, have in common."""
    return f"{info.launch_id}/{info.restart_count}/{info.world_size}"


def _one_machine(info: LaunchInfo) -> bool:
    return info.local_size == info.world_size


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


def _check_place(info: LaunchInfo) -> None:
    if info.master_port is None and not info.launch_id:
        raise ValueError(
            f'nothing tells where the ranks meet (source "{info.source}"): give master_addr and master_port, or a '
            "launch_id from which a port can be drawn, the same on all ranks and other than that of other launches"
        )
    if info.master_addr is None and info.local_size is not None and not _one_machine(info):
        raise ValueError(
            f"{info.local_size} of {info.world_size} ranks are on this machine: give master_addr, the host of rank 0"
        )


def _open_store(info: LaunchInfo, board: Any, timeout: timedelta, deadline: float) -> Meeting:
    """Rank 0: the door first, since its port is the one that others may want."""
    host = _own_host(info, board)
    if host is not None:
        _check_known(host, info)
    listener = _hold(info, host, board, deadline)
    port = listener.getsockname()[1]
    with hold_port(host) as held:
        store = serve_store(held, timeout=timeout)
    meeting = Meeting(info, store, Door(listener, launch_key(info), store.port))
    if board is not None:
        hosts = ["127.0.0.1"] if _one_machine(info) else own_addresses()
        try:
            board.publish("customccl-door", f"{port}@{','.join(hosts)}", timeout.total_seconds())
        except BaseException:
            meeting.close_door()
            raise
    return meeting


def _check_known(host: str, info: LaunchInfo) -> None:
    """ConnectionError, saying who gave that name, if this machine does not know it."""
    try:
        resolve(host)
    except OSError as error:
        by = "MASTER_ADDR" if host == os.environ.get("MASTER_ADDR") else f'master_addr, source "{info.source}"'
        raise ConnectionError(f"{error} (given by {by}): the ranks cannot meet there") from error


def _own_host(info: LaunchInfo, board: Any) -> str | None:
    """What rank 0 listens at: on one machine, or if a loopback address was asked for, nobody outside can connect.

    A name is no such wish: many machines know themselves by one that is 127.0.1.1 to them alone.
    """
    given = info.master_addr
    if _one_machine(info) or (board is None and (given is None or given == "localhost")):
        return given
    if given is not None and (given[0].isdigit() or ":" in given):
        return given
    return own_addresses()[0]


def _hold(info: LaunchInfo, host: str | None, board: Any, deadline: float) -> socket.socket:
    if board is not None:
        return hold_port(host)
    ports = _ports(info)
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


def _published(board: Any, deadline: float) -> list[_Place]:
    port, _, hosts = board.lookup("customccl-door", max(0.0, deadline - time.monotonic())).partition("@")
    return [(host, int(port)) for host in hosts.split(",")]


def _places(info: LaunchInfo) -> list[_Place]:
    host = info.master_addr or "127.0.0.1"
    return [(host, port) for port in _ports(info)]


def _ports(info: LaunchInfo) -> list[int]:
    return [info.master_port] if info.master_port is not None else drawn_ports(launch_key(info))


def _enter(info: LaunchInfo, places: list[_Place], board: Any, timeout: timedelta, deadline: float) -> Meeting:
    """The other ranks: knock until rank 0 answers. A stranger at the one place is the end; a board may tell another."""
    nonce, began = secrets.token_hex(16), time.monotonic()
    met: dict[_Place, str] = {}  # what was found at places that are not rank 0's
    latest = ""  # why nobody was found
    for place in _rounds(places, board, met, deadline):
        try:
            port = knock(*place, launch_key(info), nonce, info.rank, deadline - time.monotonic())
        except RefusedError:
            raise
        except ForeignError as error:
            met[place] = str(error)
            if len(places) == 1 and board is None:
                raise ForeignError(
                    f"rank {info.rank} of launch {info.launch_id!r} (restart {info.restart_count}) did not find its "
                    f"rank 0: {error}. Is the port another job's, or is the launch id not the same on all ranks?"
                ) from error
        except OSError as error:  # not there yet, the name not known yet, the host not reached yet
            latest = f" ({error})"
        else:
            return Meeting(info, _connect(place[0], port, timeout, deadline))
    where = f"{places[0][0]}:{places[0][1]}" + (f" and {len(places) - 1} more places" if len(places) > 1 else "")
    strangers = list(met.values())[:3] + ([f"{len(met) - 3} more strangers"] if len(met) > 3 else [])
    raise TimeoutError(
        f"rank {info.rank} waited {time.monotonic() - began:.1f} s in vain for rank 0 of launch {info.launch_id!r} "
        f"(restart {info.restart_count}) at {'; '.join([where, *strangers])}{latest}. Is rank 0 running, on that host, "
        "with the same launch id, world size and restart count?"
    )


def _rounds(places: list[_Place], board: Any, strangers: Collection[_Place], deadline: float) -> Iterator[_Place]:
    """The places over and over, with pauses. Rank 0 was not where a stranger is: it has passed on as well."""
    while time.monotonic() < deadline:
        yield from [place for place in places if place not in strangers] or places
        time.sleep(min(_PAUSE_S, max(0.0, deadline - time.monotonic())))
        if board is not None and time.monotonic() < deadline:  # rank 0 may have given up and begun anew
            places[:] = _published(board, deadline)


def _connect(host: str, port: int, timeout: timedelta, deadline: float) -> dist.Store:
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
