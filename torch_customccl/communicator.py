"""Collectives on CPU memory with one thin layer of Python above the C interface: no process group, no dispatch."""

import ctypes
import struct
from collections.abc import Callable, Hashable
from ctypes import addressof, byref, c_int32, c_void_p
from datetime import timedelta
from typing import Any, NoReturn, cast

import torch
import torch.distributed as dist

from torch_customccl._c_interface import DTYPES, OPS, REDUCE_OPS, Call, Options, Token, last_error, library
from torch_customccl._loader import shim
from torch_customccl._plain_memory import address_of, allocate_tensor, fail, memory_of, number_of
from torch_customccl.group_arguments import limited, utf8
from torch_customccl.launch import Coordinator

_OP = {name: number for number, name in enumerate(OPS)}
_DTYPE = {getattr(torch, name.lower()): number for number, name in enumerate(DTYPES) if hasattr(torch, name.lower())}
# PREMUL_SUM needs a factor, which torch's op carries; the C interface has it.
_REDUCE: dict[Any, int] = {name.lower(): number for number, name in enumerate(REDUCE_OPS) if name != "PREMUL_SUM"}
_REDUCE |= {getattr(dist.ReduceOp, name.upper()): number for name, number in _REDUCE.items()}
_REDUCING = {_OP["ALL_REDUCE"], _OP["REDUCE"], _OP["REDUCE_SCATTER"]}
_PEER = {"SEND": "dst", "RECV": "src"}
_ANY_SOURCE = -1
_NOT_PLAIN = -1  # the shim's answer to what is more, or less, than memory

_write_call = struct.Struct("=qQQQ").pack_into  # tag, send, recv, count, which lie behind each other
_TAG = Call.tag.offset

# What a call is prepared for: (op, dtype, reduce op, root or peer). A slot: a customccl_call with all of this
# filled in, and its address for ctypes.
_Key = tuple[int, Any, Any, int]
_Slot = tuple[Any, c_void_p]


class Communicator:
    """The ranks of a Coordinator, joined through shared memory. Collective: every rank makes one.

    coordinator: default `Coordinator()`. All its ranks must share memory (one machine). It is needed only while the
        communicator is made: rank 0 draws a token, the coordinator spreads it.
    name: what messages call it, the same on all ranks; by default made from the token.
    timeout: limit of joining and of every operation.

    Every operation blocks until it is done and works on memory: a contiguous CPU tensor, whose dtype and size count; or
    an address (int) with `count` elements of `dtype` (torch's), which the caller keeps alive. Without autograd; also
    under inference_mode. Dtypes, reduce ops, order and errors are those of customccl.h (docs/c-abi.md): elements are
    reduced in the order of ranks, and all ranks get the same bits. op is a name ("sum", "product", "min", "max", "avg",
    "band", "bor", "bxor") or torch's ReduceOp.

    Raises ValueError or TypeError for what this rank is told wrong: nothing was sent and the communicator goes on.
    Raises DistBackendError for all else (a dead rank, a timeout, ranks that call different things): it ends the
    communicator on all ranks; make a new one. Any thread may call; the order of collectives is then that in which
    threads enter. Leaving is `close()` or the end of the object; it waits for nobody.
    """

    def __init__(
        self,
        coordinator: Coordinator | None = None,
        *,
        name: str | None = None,
        timeout: timedelta = timedelta(minutes=30),
    ) -> None:
        self._handle = c_void_p()
        timeout = limited(timeout, "a Communicator")
        if not isinstance(name, str | None):
            raise TypeError(f"customccl: the name of a Communicator must be a str, not {name!r}")
        label = utf8(name, "the name of a Communicator") if name else None
        coordinator = coordinator or Coordinator()
        self.rank, self.size = coordinator.rank, coordinator.world_size
        self._library = library()
        self._run: Callable[..., int] = self._library["customccl_run"]  # an object of its own: no argtypes, so faster
        self._slots: dict[_Key, list[_Slot]] = {}
        self._all_reduce: Callable[..., int] = _all_reduce_of_this_torch()
        token = Token()
        failed = self._library.customccl_make_token(byref(token)) if self.rank == 0 else 0
        text = coordinator.broadcast(last_error().encode() if failed else token.text)
        if not text.startswith(b"customccl"):
            raise dist.DistBackendError(f"rank 0 could not make a token: {text.decode()}")
        limit_ms = int(timeout.total_seconds() * 1000)
        options = Options(size=ctypes.sizeof(Options), timeout_ms=limit_ms, name=label)
        code = self._library.customccl_init(
            byref(Token(text)), self.rank, self.size, byref(options), byref(self._handle)
        )
        if code:
            fail(code)

    def allreduce(self, buffer: Any, count: int | None = None, dtype: Any = None, op: Any = "sum") -> None:
        """Reduce `buffer` over all ranks, in place.

        buffer: a tensor; or an address, with count and dtype. The same size, dtype and op on all ranks.
        """
        if count is None:
            try:
                code = self._all_reduce(self._handle.value, buffer, _REDUCE[op])
            except (KeyError, TypeError, RuntimeError):  # told below in its own words
                code = _NOT_PLAIN
            if code == 0:
                return
            if code != _NOT_PLAIN:
                self._refuse(code)
        # `buffer` keeps its name: the tensor may be nobody else's, and must outlive the call.
        count, dtype, at = memory_of(buffer) if count is None else (count, dtype, address_of(buffer))
        self._call((0, dtype, op, 0), at, at, count)

    def reduce(
        self, buffer: Any, count: int | None = None, dtype: Any = None, op: Any = "sum", *, root: int = 0
    ) -> None:
        """Reduce over all ranks into `buffer` of rank `root`, in place; buffers of the others are only read."""
        count, dtype, at = memory_of(buffer) if count is None else (count, dtype, address_of(buffer))
        self._call((_OP["REDUCE"], dtype, op, root), at, at if self.rank == root else 0, count)

    def broadcast(self, buffer: Any, count: int | None = None, dtype: Any = None, *, root: int = 0) -> None:
        """Make `buffer` on all ranks what it is on rank `root`. The same size and dtype on all ranks."""
        count, dtype, at = memory_of(buffer) if count is None else (count, dtype, address_of(buffer))
        self._call((_OP["BROADCAST"], dtype, None, root), at, at, count)

    def allgather(self, output: Any, input: Any, count: int | None = None, dtype: Any = None) -> None:
        """Put the inputs of all ranks behind each other into `output`, by rank.

        output has size times as many elements as input. count: elements of input, if both are addresses.
        """
        send, recv, count, dtype = self._pair(input, output, count, dtype, "allgather", recv_blocks=self.size)
        self._call((_OP["ALL_GATHER"], dtype, None, 0), send, recv, count)

    def reduce_scatter(
        self, output: Any, input: Any, count: int | None = None, dtype: Any = None, op: Any = "sum"
    ) -> None:
        """Reduce `input` over all ranks; rank r gets its r-th block of `size` in `output`.

        input has size times as many elements as output. count: elements of output, if both are addresses.
        """
        send, recv, count, dtype = self._pair(input, output, count, dtype, "reduce_scatter", send_blocks=self.size)
        self._call((_OP["REDUCE_SCATTER"], dtype, op, 0), send, recv, count)

    def gather(self, output: Any, input: Any, count: int | None = None, dtype: Any = None, *, root: int = 0) -> None:
        """Like allgather, on rank `root` alone; `output` of the others is None."""
        send, recv, count, dtype = self._pair(input, output, count, dtype, "gather", recv_blocks=self.size)
        self._call((_OP["GATHER"], dtype, None, root), send, recv, count)

    def scatter(self, output: Any, input: Any, count: int | None = None, dtype: Any = None, *, root: int = 0) -> None:
        """Rank r gets the r-th block of `size` of rank `root`'s `input`; `input` of the others is None."""
        send, recv, count, dtype = self._pair(input, output, count, dtype, "scatter", send_blocks=self.size)
        self._call((_OP["SCATTER"], dtype, None, root), send, recv, count)

    def alltoall(self, output: Any, input: Any, count: int | None = None, dtype: Any = None) -> None:
        """Block i of `input` goes to rank i; block i of `output` is from rank i. count: elements of one block."""
        blocks = {"send_blocks": self.size, "recv_blocks": self.size}
        send, recv, count, dtype = self._pair(input, output, count, dtype, "alltoall", **blocks)
        self._call((_OP["ALL_TO_ALL"], dtype, None, 0), send, recv, count)

    def barrier(self) -> None:
        """Return when every rank has called it."""
        self._call((_OP["BARRIER"], torch.uint8, None, 0), 0, 0, 0)

    def send(self, buffer: Any, dst: int, count: int | None = None, dtype: Any = None, *, tag: int = 0) -> None:
        """Send `buffer` to rank `dst`, which receives it with the same tag, dtype and size."""
        count, dtype, at = memory_of(buffer) if count is None else (count, dtype, address_of(buffer))
        self._call((_OP["SEND"], dtype, None, dst), at, 0, count, tag)

    def recv(
        self, buffer: Any, src: int | None = None, count: int | None = None, dtype: Any = None, *, tag: int = 0
    ) -> int:
        """Receive into `buffer` from rank `src`, or from any (None). Returns the sender's rank."""
        count, dtype, at = memory_of(buffer) if count is None else (count, dtype, address_of(buffer))
        source = c_int32(-1)
        peer = _ANY_SOURCE if src is None else src
        if src == _ANY_SOURCE:  # of the C interface, where None would not do
            raise ValueError(f"recv: src is {src}, in a communicator of {self.size} ranks; None receives from any")
        call = self._prepared((_OP["RECV"], dtype, None, peer))
        call.source = ctypes.pointer(source)
        try:
            _write_call(call, _TAG, tag, 0, at, count)
        except struct.error:
            _refuse_numbers(_OP["RECV"], tag, count)
        code = self._run(self._handle, byref(call))
        if code:
            self._refuse(code)
        return source.value

    def allocate_tensor(self, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """`count` elements in memory that peers read and write where it lies; not initialised. That saves copies: in
        allreduce and reduce from 32 KiB on, else from 1 MiB. For any communicator of this process, now and later.
        """
        return allocate_tensor(count, dtype)

    def abort(self, why: str = "") -> None:
        """End the communicator on all ranks: their calls raise, and quote `why`. From any thread."""
        if not isinstance(why, str):
            raise TypeError(f"customccl: why a Communicator is aborted is a str, not {why!r}")
        if self._handle:
            self._library.customccl_abort(self._handle, why.encode(errors="replace"))

    def close(self) -> None:
        """Leave. A rank that still needs this one gets an error that says so. No other thread may be inside a call."""
        handle, self._handle = self._handle, c_void_p()
        if handle:
            self._library.customccl_destroy(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __reduce__(self) -> NoReturn:
        # A copy would use, and give back, what this one has given back.
        raise TypeError("customccl: a Communicator cannot be copied or pickled: every rank makes its own")

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, key: _Key, send: int, recv: int, count: int, tag: int = 0) -> None:
        try:
            slots = self._slots[key]
            slot = slots.pop()  # of this thread alone until it is put back
        except (KeyError, IndexError, TypeError):  # TypeError: what cannot be a key is refused there
            slots, slot = self._new_slot(key)
        try:
            _write_call(slot[0], _TAG, tag, send, recv, count)
        except struct.error:
            slots.append(slot)
            _refuse_numbers(key[0], tag, count)
        code = self._run(self._handle, slot[1])
        slots.append(slot)
        if code:
            self._refuse(code)

    def _new_slot(self, key: _Key) -> tuple[list[_Slot], _Slot]:
        call = self._prepared(key)
        return self._slots.setdefault(key, []), (call, c_void_p(addressof(call)))

    def _prepared(self, key: _Key) -> Call:
        op, dtype, reduce_op, peer = key
        what = OPS[op].lower()
        if not isinstance(dtype, torch.dtype) or dtype not in _DTYPE:
            raise TypeError(f"{what}: customccl has no dtype {dtype}")
        if op in _REDUCING and (not isinstance(reduce_op, Hashable) or reduce_op not in _REDUCE):
            known = ", ".join(name for name in _REDUCE if isinstance(name, str))
            raise ValueError(f"{what}: unknown reduce op {reduce_op!r}; known: {known}, and torch's ReduceOp")
        reduces = _REDUCE[reduce_op] if op in _REDUCING else 0
        call = Call(size=ctypes.sizeof(Call), op=op, dtype=_DTYPE[dtype], reduce_op=reduces)
        call.root = call.peer = number_of(peer, 32, what, _PEER.get(OPS[op], "root"))
        return call

    def _pair(
        self,
        input: Any,
        output: Any,
        count: int | None,
        dtype: Any,
        op: str,
        send_blocks: int = 1,
        recv_blocks: int = 1,
    ) -> tuple[int, int, int, Any]:
        """Addresses of both buffers (0: not given), elements of one block, dtype."""
        if count is not None:
            send, recv = (0 if buffer is None else address_of(buffer) for buffer in (input, output))
            return send, recv, count, dtype
        sent = (0, None, 0) if input is None else memory_of(input)
        got = (0, None, 0) if output is None else memory_of(output)
        if input is None and output is None:
            raise TypeError(f"{op}: neither an input nor an output was given")
        if input is not None and output is not None:
            if sent[1] != got[1]:
                raise TypeError(f"{op}: the input is {sent[1]}, the output {got[1]}")
            if sent[0] * recv_blocks != got[0] * send_blocks:
                raise ValueError(
                    f"{op}: {sent[0]} elements of input do not fit {got[0]} of output in a communicator of {self.size}"
                )
        given, blocks = (sent, send_blocks) if input is not None else (got, recv_blocks)
        if given[0] % blocks:
            raise ValueError(f"{op}: {given[0]} elements cannot be cut into {blocks} equal blocks")
        return sent[2], got[2], given[0] // blocks, given[1]

    def _refuse(self, code: int) -> NoReturn:
        if not self._handle:
            raise ValueError("the communicator is closed")
        fail(code)


def _refuse_numbers(op: int, tag: Any, count: Any) -> NoReturn:
    """What _write_call() could not write."""
    what = OPS[op].lower()
    number_of(tag, 64, what, "tag")
    raise ValueError(f"{what}: count {count!r} or an address is no number from 0 to 2**64 - 1") from None


def _all_reduce_of_this_torch() -> Callable[..., int]:
    """The shim's all_reduce of a plain tensor; without a shim for this torch the way through ctypes does it all."""
    try:
        return cast(Callable[..., int], shim().all_reduce_memory)
    except RuntimeError:
        return lambda *_: _NOT_PLAIN
