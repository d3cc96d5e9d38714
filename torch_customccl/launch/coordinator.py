"""What processes that were started together need before, and besides, collectives on tensors."""

import contextlib
import json
import pickle
import secrets
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from torch_customccl.group_arguments import integer, limited
from torch_customccl.launch.board import Board
from torch_customccl.launch.info import LaunchInfo
from torch_customccl.launch.meeting import Meeting, forget, meet
from torch_customccl.launch.node import Page, shares_memory
from torch_customccl.launch.ports import hold_port
from torch_customccl.launch.roll_call import RollCall
from torch_customccl.launch.wait_errors import no_show

T = TypeVar("T")


class Coordinator:
    """The processes of one launch, and a store in which they meet. Collective: every process makes one.

    launch_info: who this process is; default `LaunchInfo.detect()`.
    timeout: limit of the meeting and of every call that names none. A rank that does not come in time is named.

    Needs no `init_process_group`, makes none, and calls no MPI function that has an effect, so a program's own mpi4py
    goes on undisturbed; under mpirun make it before MPI_Finalize. Several in one process are fine: all ranks
    make them in the same order. Used by one thread at a time. What is called "collective" is called by all ranks in the
    same order; a failure ends the coordinator, and later calls are refused with the first cause.

    Raises ValueError (the launch does not tell who this is or where to meet), ConnectionError (somebody else answers in
    rank 0's place, a port is held by others, the launcher or the store is gone), TimeoutError (a rank did not come),
    RuntimeError (the ranks called different things). Source: the ranks meet in a TCPStore of rank 0.
    """

    def __init__(self, launch_info: LaunchInfo | None = None, *, timeout: timedelta = timedelta(minutes=5)) -> None:
        timeout = limited(timeout, "a Coordinator")
        if not isinstance(launch_info, LaunchInfo | None):
            raise TypeError(f"customccl: launch_info of a Coordinator must be a LaunchInfo, not {launch_info!r}")
        asked = launch_info or LaunchInfo.detect()
        meeting = meet(asked, timeout)
        self.launch_info, self.timeout = meeting.info, timeout
        self.rank, self.world_size = asked.rank, asked.world_size
        try:
            leaders = self._gather_ranks(meeting)
        except BaseException:
            forget(meeting)
            raise
        meeting.all_are_in()
        nodes = list(dict.fromkeys(leader for leader, _ in leaders))
        leader, self.node_id = leaders[self.rank]
        self.local_ranks = tuple(i for i in range(self.world_size) if leaders[i][0] == leader)
        self.node_rank, self.node_count = nodes.index(leader), len(nodes)
        self._node = Board(meeting.store, f"{self._name}/node {leader}", self.local_ranks, self.rank, timeout)
        meeting.boards.append(self._node)

    # Attributes, all constant:
    rank: int
    """This process's number in the launch."""
    world_size: int
    """How many processes there are."""
    local_ranks: tuple[int, ...]
    """The ranks that share memory with this one, itself among them, ascending."""
    node_rank: int
    """Number of this group of ranks, counted by their lowest ranks."""
    node_count: int
    """How many such groups there are."""
    node_id: str
    """32 hexadecimal digits, the same on exactly the ranks that share memory. Other in every launch."""
    launch_info: LaunchInfo
    """What the launcher said, with the launch id filled in."""
    store: dist.Store
    """A store of this coordinator's ranks that nobody else writes to."""

    @property
    def local_rank(self) -> int:
        """This process's place among those that share memory with it."""
        return self.local_ranks.index(self.rank)

    @property
    def local_size(self) -> int:
        """How many ranks share memory with this one, itself included."""
        return len(self.local_ranks)

    def is_master(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def is_local_master(self) -> bool:
        """Whether this is the lowest rank of its node. Every node has one."""
        return self.local_rank == 0

    def broadcast(self, data: bytes | None, src: int = 0, *, timeout: timedelta | None = None) -> bytes:
        """Collective: the bytes of rank `src`. The others may give None, or anything else: it is not looked at."""
        if not 0 <= integer(src, "src of broadcast") < self.world_size:
            raise ValueError(f"broadcast: src is {src}, in a world of {self.world_size}")
        if self.rank == src:
            _check_bytes("broadcast", data)
        return self._world.broadcast("broadcast", bytes(data or b"") if self.rank == src else b"", src, timeout)

    def allgather(self, data: bytes, *, timeout: timedelta | None = None) -> list[bytes]:
        """Collective: the bytes of every rank, by rank. They may differ in length."""
        _check_bytes("allgather", data)
        return self._world.gather("allgather", bytes(data), timeout)

    def barrier(self, *, timeout: timedelta | None = None) -> None:
        """Collective: returns when every rank has called it."""
        self._world.gather("barrier", b"", timeout)

    def local_barrier(self, *, timeout: timedelta | None = None) -> None:
        """Collective among the ranks of this node: returns when each has called it."""
        self._node.gather("local_barrier", b"", timeout)

    def once_per_node(self, fn: Callable[[], T], *, timeout: timedelta | None = None) -> T:
        """Collective among the ranks of this node: the local master calls `fn`, the others wait; all get its result.

        The result travels as a pickle. If `fn` raises, the local master raises that, and the others a RuntimeError that
        quotes it. timeout: how long `fn` may take.
        """
        master = self.local_ranks[0]
        if self.rank != master:
            good, value = pickle.loads(self._node.broadcast("once_per_node", b"", master, timeout))
            if not good:
                raise RuntimeError(f"once_per_node: the function failed on rank {master}: {value}")
            result: T = value
            return result
        try:
            result = fn()
            letter = pickle.dumps((True, result))
        except BaseException as error:
            letter = pickle.dumps((False, _quoted(error)))
            self._node.broadcast("once_per_node", letter, master, timeout)
            raise
        self._node.broadcast("once_per_node", letter, master, timeout)
        return result

    def reserve_port(self, host: str | None = None) -> socket.socket:
        """A listening TCP socket on a free port, this process's own: `.getsockname()[1]` is the number.

        Nobody else can get the port while it is open. Hand the socket on (`TCPStore(master_listen_fd=s.detach())`,
        a server that takes a socket) rather than closing it and binding again.
        host: a name or address of this machine; default 127.0.0.1. One that is no loopback address: all interfaces.
        """
        return hold_port(host)

    def unique_token(self) -> str:
        """Collective: 32 hexadecimal digits, random, the same on all ranks; new ones with every call."""
        mine = secrets.token_hex(16).encode()
        return self._world.broadcast("unique_token", mine, 0).decode()

    def _gather_ranks(self, meeting: Meeting) -> list[tuple[int, str]]:
        """Meet, in a world and a store of its own name. For every rank, the lowest rank that it shares memory with, and
        that rank's node id.
        """
        start, limit = f"customccl/{meeting.info.launch_id}/{meeting.info.restart_count}", self.timeout
        with contextlib.closing(Page()) as page:
            # Random names of the page and of the node: no other letter is like this one.
            shown = json.dumps([page.name, page.digest, secrets.token_hex(16)])
            call = RollCall(dist.PrefixStore(f"{start}/roll call", meeting.store), self.rank, self.world_size, shown)
            gathering, letters = call.gather(f"meeting of {start}", limit)
            pages: list[Any] = [json.loads(letter) for letter in letters]
            self._name = f"{start}/{gathering}"
            # For init_process_group(store=...), which takes it whole.
            self.store: dist.Store = dist.PrefixStore(f"{self._name}/store", meeting.store)
            self._world = Board(meeting.store, f"{self._name}/world", range(self.world_size), self.rank, limit)
            meeting.boards.append(self._world)
            leader = self._lowest_here([(name, digest) for name, digest, _ in pages])
            leaders = [int(each) for each in self._world.gather("meeting", str(leader).encode())]
        return [(leader, pages[leader][2]) for leader in leaders]

    def _lowest_here(self, pages: list[tuple[str, str]]) -> int:
        """The lowest rank that this one shares memory with. pages: name and digest of every rank's, by rank."""
        limit_s = self.timeout.total_seconds()
        deadline = time.monotonic() + limit_s
        for i, (name, digest) in enumerate(pages[: self.rank]):
            try:
                if shares_memory(name, digest, deadline):
                    return i
            except TimeoutError as error:
                raise no_show(f"showing of memory in {self._name}", self.rank, [i], limit_s) from error
        return self.rank


def _quoted(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as second:  # the others wait for some answer
        return f"{name}, which cannot be quoted ({type(second).__name__})"


def _check_bytes(call: str, data: Any) -> None:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{call} takes bytes, not {type(data).__name__}")
