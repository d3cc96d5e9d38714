"""The operations of a Group: those of torch.distributed, on tensors, numpy arrays and bytes-like buffers.

Names and arguments follow torch.distributed, except that ranks are always those of the group. Each method fills in
c10d's options and calls the ProcessGroup, so there is one implementation of every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from torch_customccl._loader import load
from torch_customccl.group_arguments import checked_tag, integer, limited, listed, reduce_op
from torch_customccl.group_buffers import bytes_of, tensor_of, tensors_of

if TYPE_CHECKING:
    _Base = dist.ProcessGroup
else:
    _Base = load().StandaloneGroup

_c10d = dist.ProcessGroup
_Method = TypeVar("_Method", bound=Callable[..., Any])
_OPTIONS = tuple(getattr(c10d, name) for name in dir(c10d) if name.endswith("Options"))
_SUM = dist.ReduceOp.SUM
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack


def _splits(sizes: Sequence[int] | None, what: str) -> list[int]:
    return [] if sizes is None else [integer(size, f"each of {what}", 64) for size in listed(sizes, what)]


def _also_as_c10d_calls(method: _Method) -> _Method:
    """torch.distributed calls methods of this name with lists of tensors and an options object: that goes to c10d."""
    base = getattr(_c10d, method.__name__, None)  # torch up to 2.12 has no all_to_all_single

    @wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if base is not None and ("opts" in keywords or (args and isinstance(args[-1], _OPTIONS)) or _lists(args)):
            return base(self, *args, **keywords)
        return method(self, *args, **keywords)

    return cast(_Method, call)


def _lists(args: Sequence[Any]) -> bool:
    """send() and recv() get no options."""
    return bool(args) and isinstance(args[0], list) and all(isinstance(each, (torch.Tensor, list)) for each in args[0])


def _done(work: Any, async_op: bool) -> Any:
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


class Operations(_Base):
    """What a Group can do with its ranks. See docs/groups.md.

    Everywhere: `tensor` is a torch.Tensor on the CPU (any dtype and strides), a numpy array or another buffer; what is
    received is written to it. `timeout` is a timedelta, the group's if None. `async_op=True` returns a torch Work.
    Raises ValueError or TypeError for bad arguments, before anything is sent; torch.distributed.DistBackendError when
    the operation fails, which ends the group on all ranks.
    """

    # The backend's all_reduce, where it has one: for calls that nobody watches in torch's dispatcher.
    _direct: Callable[[torch.Tensor, Any], None] | None

    def all_reduce(
        self, tensor: Any, op: Any = _SUM, *, async_op: bool = False, timeout: timedelta | None = None
    ) -> Any:
        """Replaces `tensor` on every rank by the elementwise reduction of all ranks' tensors."""
        if type(tensor) is torch.Tensor and not async_op and timeout is None and self._direct and not _dispatch_modes():
            try:
                return self._direct(tensor, op)
            except TypeError:
                reduce_op(op)
                raise
        options = c10d.AllreduceOptions()
        options.reduceOp = reduce_op(op)
        _set(options, async_op, timeout)
        return _done(self.allreduce([tensor_of(tensor, output=True)], options), async_op)

    @_also_as_c10d_calls
    def reduce(  # type: ignore[override]
        self, tensor: Any, dst: int = 0, op: Any = _SUM, *, async_op: bool = False, timeout: timedelta | None = None
    ) -> Any:
        """all_reduce of which only rank `dst` gets the result; the other ranks' tensors stay as they are."""
        options = c10d.ReduceOptions()
        options.reduceOp, options.rootRank = reduce_op(op), self._checked(dst, "dst")
        _set(options, async_op, timeout)
        return _done(_c10d.reduce(self, [tensor_of(tensor, output=True)], options), async_op)

    @_also_as_c10d_calls
    def broadcast(self, tensor: Any, src: int = 0, *, async_op: bool = False, timeout: timedelta | None = None) -> Any:  # type: ignore[override]
        """Copies `tensor` of rank `src` to all ranks; same shape and dtype everywhere.

        With `bytes` on rank `src` and None elsewhere: returns the bytes on every rank; no size has to be known.
        """
        self._checked(src, "src")
        if tensor is None or isinstance(tensor, bytes):
            return self.broadcast_message(tensor, src, timeout=timeout)
        options = c10d.BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        _set(options, async_op, timeout)
        tensor = tensor_of(tensor, output=self.rank() != src)
        return _done(_c10d.broadcast(self, [tensor], options), async_op)

    def all_gather(
        self, outputs: Sequence[Any], tensor: Any, *, async_op: bool = False, timeout: timedelta | None = None
    ) -> Any:
        """outputs[r] becomes rank r's `tensor`; sizes may differ between ranks."""
        options = c10d.AllgatherOptions()
        _set(options, async_op, timeout)
        outs = tensors_of(outputs, "outputs", output=True)
        return _done(_c10d.allgather(self, [outs], [tensor_of(tensor)], options), async_op)

    def all_gather_into_tensor(
        self, output: Any, tensor: Any, *, async_op: bool = False, timeout: timedelta | None = None
    ) -> Any:
        """`output`, of size() times as many elements, becomes all ranks' tensors one behind the other."""
        options = c10d.AllgatherOptions()
        _set(options, async_op, timeout)
        return _done(self._allgather_base(tensor_of(output, output=True), tensor_of(tensor), options), async_op)

    @_also_as_c10d_calls
    def allgather(self, data: bytes, *, timeout: timedelta | None = None) -> list[bytes]:  # type: ignore[override]
        """The bytes of all ranks, by rank; any length on any rank. Of other buffers, their memory."""
        mine = bytes_of(data)
        sizes = torch.empty(self.size(), dtype=torch.int64, device="cpu")
        self.all_gather_into_tensor(sizes, torch.tensor([mine.numel()], device="cpu"), timeout=timeout)
        lengths = sizes.tolist()
        if self._direct is None:  # gloo gathers what is of one size alone
            mine = torch.nn.functional.pad(mine, (0, max(lengths) - mine.numel()))
        outputs = [bytearray(size if self._direct else mine.numel()) for size in lengths]
        self.all_gather(outputs, mine, timeout=timeout)
        return [bytes(memoryview(output)[:size]) for output, size in zip(outputs, lengths, strict=True)]

    @_also_as_c10d_calls
    def reduce_scatter(  # type: ignore[override]
        self,
        output: Any,
        inputs: Sequence[Any],
        op: Any = _SUM,
        *,
        async_op: bool = False,
        timeout: timedelta | None = None,
    ) -> Any:
        """`output` becomes the reduction of all ranks' inputs[rank()]."""
        options = c10d.ReduceScatterOptions()
        options.reduceOp = reduce_op(op)
        _set(options, async_op, timeout)
        ins = tensors_of(inputs, "inputs")
        return _done(_c10d.reduce_scatter(self, [tensor_of(output, output=True)], [ins], options), async_op)

    def reduce_scatter_tensor(
        self, output: Any, tensor: Any, op: Any = _SUM, *, async_op: bool = False, timeout: timedelta | None = None
    ) -> Any:
        """reduce_scatter of one tensor of size() equal blocks; `output` has the size of a block."""
        options = c10d.ReduceScatterOptions()
        options.reduceOp = reduce_op(op)
        _set(options, async_op, timeout)
        return _done(self._reduce_scatter_base(tensor_of(output, output=True), tensor_of(tensor), options), async_op)

    @_also_as_c10d_calls
    def gather(  # type: ignore[override]
        self,
        tensor: Any,
        outputs: Sequence[Any] | None = None,
        dst: int = 0,
        *,
        async_op: bool = False,
        timeout: timedelta | None = None,
    ) -> Any:
        """On rank `dst`, outputs[r] becomes rank r's `tensor`; the other ranks give no outputs."""
        options = c10d.GatherOptions()
        options.rootRank = self._checked(dst, "dst")
        _set(options, async_op, timeout)
        outs = [] if outputs is None else [tensors_of(outputs, "outputs", output=True)]
        return _done(_c10d.gather(self, outs, [tensor_of(tensor)], options), async_op)

    @_also_as_c10d_calls
    def scatter(  # type: ignore[override]
        self,
        tensor: Any,
        inputs: Sequence[Any] | None = None,
        src: int = 0,
        *,
        async_op: bool = False,
        timeout: timedelta | None = None,
    ) -> Any:
        """`tensor` becomes inputs[rank()] of rank `src`; the other ranks give no inputs."""
        options = c10d.ScatterOptions()
        options.rootRank = self._checked(src, "src")
        _set(options, async_op, timeout)
        ins = [] if inputs is None else [tensors_of(inputs, "inputs")]
        return _done(_c10d.scatter(self, [tensor_of(tensor, output=True)], ins, options), async_op)

    def all_to_all(
        self, outputs: Sequence[Any], inputs: Sequence[Any], *, async_op: bool = False, timeout: timedelta | None = None
    ) -> Any:
        """outputs[r] becomes inputs[rank()] of rank r."""
        options = c10d.AllToAllOptions()
        _set(options, async_op, timeout)
        both = tensors_of(outputs, "outputs", output=True), tensors_of(inputs, "inputs")
        if not any(both):  # torch's dispatcher would look for a tensor to find the backend by
            raise ValueError(f"customccl: all_to_all needs tensors for each of {self.size()} ranks: got none")
        return _done(self.alltoall(*both, options), async_op)

    @_also_as_c10d_calls
    def all_to_all_single(  # type: ignore[override]
        self,
        output: Any,
        tensor: Any,
        output_splits: Sequence[int] | None = None,
        input_splits: Sequence[int] | None = None,
        *,
        async_op: bool = False,
        timeout: timedelta | None = None,
    ) -> Any:
        """all_to_all of the rows of one tensor: input_splits[r] rows go to rank r; without splits, equally many."""
        options = c10d.AllToAllOptions()
        _set(options, async_op, timeout)
        both = tensor_of(output, output=True), tensor_of(tensor)
        splits = _splits(output_splits, "output_splits"), _splits(input_splits, "input_splits")
        return _done(self.alltoall_base(*both, *splits, options), async_op)

    @_also_as_c10d_calls
    def barrier(self, *, async_op: bool = False, timeout: timedelta | None = None) -> Any:  # type: ignore[override]
        """Returns when every rank has called it."""
        options = c10d.BarrierOptions()
        options.device = torch.device("cpu")
        _set(options, async_op, timeout)
        return _done(_c10d.barrier(self, options), async_op)

    @_also_as_c10d_calls
    def send(self, tensor: Any, dst: int, tag: int = 0) -> None:  # type: ignore[override]
        """Sends `tensor` to rank `dst`; returns when it may be changed again."""
        self.isend(tensor, dst, tag).wait()

    @_also_as_c10d_calls
    def recv(self, tensor: Any, src: int | None = None, tag: int = 0) -> int:  # type: ignore[override]
        """Receives into `tensor`, of the sender's shape and dtype, from rank `src`, by default any; returns it."""
        work = self.irecv(tensor, src, tag)
        work.wait()
        return work._source_rank()

    def isend(self, tensor: Any, dst: int, tag: int = 0) -> dist.Work:
        """send() that returns a Work at once."""
        return _c10d.send(self, [tensor_of(tensor)], self._checked(dst, "dst"), _tag(tag))

    def irecv(self, tensor: Any, src: int | None = None, tag: int = 0) -> dist.Work:
        """recv() that returns a Work at once."""
        output, tag = [tensor_of(tensor, output=True)], _tag(tag)
        if src is None:
            return self.recv_anysource(output, tag)
        return _c10d.recv(self, output, self._checked(src, "src"), tag)

    if TYPE_CHECKING:

        def broadcast_message(self, message: Any = None, src: int = 0, *, timeout: timedelta | None = None) -> Any: ...

    def _checked(self, rank: int, what: str) -> int:
        rank = integer(rank, what)
        if not 0 <= rank < self.size():
            raise ValueError(f"customccl: {what}={rank} is no rank of group {self.group_desc}, which has {self.size()}")
        return rank


def _tag(tag: Any) -> int:
    return checked_tag(tag, "send() and recv()", 31)


def _set(options: Any, async_op: bool, timeout: timedelta | None) -> None:
    try:
        options.asyncOp = async_op
    except TypeError:
        raise TypeError(f"customccl: async_op must be a bool, not {async_op!r}") from None
    if timeout is not None:
        options.timeout = limited(timeout, "an operation")  # c10d takes what is no whole millisecond for the group's
