"""A slow backend without known bugs: every mutant is this one with one thing broken.

Each rank sends its flat input bytes to all others; each computes its own output from all inputs. Python only.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .mailbox import ANY, Mailbox
from .reducing import combine, op_name
from .work import ReferenceWork

Flat = list[torch.Tensor]
Finish = Callable[[list[Flat]], Any]


def pack(tensor: torch.Tensor) -> bytes:
    """The logical elements of a tensor as bytes."""
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def unpack(raw: bytes, dtype: torch.dtype) -> torch.Tensor:
    """The inverse of ``pack``: a flat tensor."""
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype) if raw else torch.empty(0, dtype=dtype)


def refuse(condition: bool, message: str) -> None:
    """Raise a ValueError if the condition holds."""
    if condition:
        raise ValueError(message)


class ReferenceGroup(dist.ProcessGroup):
    """A process group over a Mailbox."""

    backend_name = "reference"

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._timeout_s = timeout.total_seconds()
        self._mail = Mailbox(store, rank, size)
        self._sequence = 0
        self._name, self._desc = "", ""
        self._issue_lock = threading.Lock()

    # What every operation is made of.

    def exchange(self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish) -> ReferenceWork:
        """Give all ranks these inputs; when theirs are here and their meta is the same, ``finish(all inputs)``."""
        with self._issue_lock:
            self._sequence += 1
            number = self._sequence
        work = ReferenceWork(f"{what} #{number} of rank {self.rank()}", self.timeout_of(what), self._who())
        dtypes = [tensor.dtype for tensor in inputs]
        payload = pickle.dumps(((what, *meta), [(pack(tensor), tensor.dtype) for tensor in inputs]))
        arrived: dict[int, bytes] = {}

        def received(source: int, raw: bytes) -> None:
            arrived[source] = raw
            if len(arrived) == self.size():
                self._complete(work, (what, *meta), dtypes, arrived, finish)

        for peer in range(self.size()):
            self._mail.expect(peer, ("collective", number), received, work.fail)
        for peer in range(self.size()):
            try:
                self._mail.send(peer, ("collective", number), self.outgoing(peer, payload))
            except OSError as error:
                work.fail(error)
        return work

    def timeout_of(self, what: str) -> float:
        """Seconds an operation may take."""
        return self._timeout_s

    def outgoing(self, peer: int, payload: bytes) -> bytes:
        """What really goes to a peer."""
        return payload

    def _who(self) -> str:
        return f"in a group of {self.size()}"

    def _complete(self, work: ReferenceWork, meta: tuple[Any, ...], dtypes: list[torch.dtype],
                  arrived: dict[int, bytes], finish: Finish) -> None:
        try:
            everyone: list[Flat] = []
            for peer in range(self.size()):
                theirs, blocks = pickle.loads(arrived[peer])
                if theirs != meta:
                    raise ValueError(f"mismatch: rank {peer} called {theirs}, rank {self.rank()} called {meta}")
                everyone.append([unpack(raw, dtype) for raw, dtype in blocks])
            with torch.inference_mode():
                value = finish(everyone)
        except Exception as error:
            work.fail(error)
        else:
            work.finish(value)

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        """Put flat values into a tensor of any layout."""
        target.copy_(flat.reshape(target.shape))

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        """All ranks' values combined in rank order."""
        return combine(flats, op)

    def _root(self, root: int) -> None:
        refuse(not 0 <= root < self.size(), f"root {root} is not a rank of this group of {self.size()}")

    def _inputs(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        dtypes = {tensor.dtype for tensor in tensors}
        refuse(len(dtypes) > 1, f"{what}: tensors of different dtype {dtypes}")
        refuse(any(tensor.is_sparse for tensor in tensors), f"{what}: backend reference does not support sparse tensors")

    def _outputs(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        for tensor in tensors:
            shared = any(step == 0 and extent > 1 for step, extent in zip(tensor.stride(), tensor.shape, strict=True))
            refuse(shared, f"{what}: elements of an output share memory (stride 0)")

    # Collectives.

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        root, target = opts.rootRank, tensors[0]
        self._root(root)
        self._inputs(tensors, "broadcast")
        self._outputs(tensors, "broadcast")

        def finish(everyone: list[Flat]) -> Flat:
            if self.rank() != root:
                self.write(target, everyone[root][0])
            return [target]

        mine = [target] if self.rank() == root else []
        return self.exchange("broadcast", (root, target.numel(), target.dtype), mine, finish)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        return self.allreduce_coalesced(tensors, opts, "all_reduce")

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any, what: str = "all_reduce_coalesced") \
            -> ReferenceWork:
        op = opts.reduceOp
        self._inputs(tensors, what)
        self._outputs(tensors, what)

        def finish(everyone: list[Flat]) -> Flat:
            for index, target in enumerate(tensors):
                self.write(target, self.reduced([flats[index] for flats in everyone], op))
            return tensors

        sizes = tuple((tensor.numel(), tensor.dtype) for tensor in tensors)
        return self.exchange(what, (op_name(op), *sizes), tensors, finish)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        root, target, op = opts.rootRank, tensors[0], opts.reduceOp
        self._root(root)

        def finish(everyone: list[Flat]) -> Flat:
            if self.rank() == root:
                self.write(target, self.reduced([flats[0] for flats in everyone], op))
            return [target]

        return self.exchange("reduce", (root, op_name(op), target.numel(), target.dtype), [target], finish)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) \
            -> ReferenceWork:
        targets = outputs[0]
        refuse(len(targets) != self.size(), f"all_gather: {len(targets)} outputs for {self.size()} ranks")
        self._inputs([*targets, *inputs], "all_gather")
        self._outputs(targets, "all_gather")
        return self.exchange("all_gather", (inputs[0].dtype, tuple(each.numel() for each in targets)), inputs,
                             lambda everyone: self._fill(targets, [flats[0] for flats in everyone]))

    def _fill(self, targets: Sequence[torch.Tensor], flats: Flat) -> Any:
        for target, flat in zip(targets, flats, strict=True):
            refuse(target.numel() != flat.numel(), f"mismatch: {flat.numel()} elements for an output of {target.numel()}")
            self.write(target, flat)
        return list(targets)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> ReferenceWork:
        refuse(output.numel() != input.numel() * self.size(),
               f"all_gather_into_tensor: output size {output.numel()}, must be {input.numel()} x {self.size()}")
        return self.all_gather_single_coalesced([output], [input], opts, "all_gather_into_tensor")

    def all_gather_single_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None,
                                    what: str = "all_gather_coalesced") -> ReferenceWork:
        self._inputs([*outputs, *inputs], what)
        self._outputs(outputs, what)

        def finish(everyone: list[Flat]) -> Flat:
            for index, output in enumerate(outputs):
                self.write(output, torch.cat([flats[index] for flats in everyone]))
            return outputs

        return self.exchange(what, tuple((each.numel(), each.dtype) for each in inputs), inputs, finish)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> ReferenceWork:
        root = opts.rootRank
        self._root(root)
        targets = outputs[0] if outputs else []
        refuse(self.rank() == root and len(targets) != self.size(), f"gather: {len(targets)} outputs, not {self.size()}")
        self._inputs([*targets, *inputs], "gather")

        def finish(everyone: list[Flat]) -> Any:
            return self._fill(targets, [flats[0] for flats in everyone]) if self.rank() == root else []

        return self.exchange("gather", (root, inputs[0].dtype, inputs[0].numel()), inputs, finish)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> ReferenceWork:
        root = opts.rootRank
        self._root(root)
        sources = inputs[0] if inputs else []
        refuse(self.rank() == root and len(sources) != self.size(), f"scatter: {len(sources)} inputs, not {self.size()}")
        self._inputs([*sources, *outputs], "scatter")
        return self.exchange("scatter", (root, outputs[0].dtype, outputs[0].numel()), sources,
                             lambda everyone: self._fill(outputs, [everyone[root][self.rank()]]))

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> ReferenceWork:
        sources, op = inputs[0], opts.reduceOp
        refuse(len(sources) != self.size(), f"reduce_scatter: {len(sources)} inputs, not {self.size()}")
        self._inputs([*sources, *outputs], "reduce_scatter")
        self._outputs(outputs, "reduce_scatter")
        return self.exchange("reduce_scatter", (op_name(op), *((each.numel(), each.dtype) for each in sources)), sources,
                             lambda everyone: self._fill(outputs, [self.reduced([f[self.rank()] for f in everyone], op)]))

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> ReferenceWork:
        refuse(input.numel() != output.numel() * self.size(),
               f"reduce_scatter_tensor: input size {input.numel()}, must be {output.numel()} x {self.size()}")
        return self.reduce_scatter_single_coalesced([output], [input], opts, "reduce_scatter_tensor")

    def reduce_scatter_single_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any,
                                        what: str = "reduce_scatter_coalesced") -> ReferenceWork:
        op, rank = opts.reduceOp, self.rank()
        self._inputs([*inputs, *outputs], what)
        self._outputs(outputs, what)

        def finish(everyone: list[Flat]) -> Flat:
            for index, output in enumerate(outputs):
                part = slice(rank * output.numel(), (rank + 1) * output.numel())
                self.write(output, self.reduced([flats[index][part] for flats in everyone], op))
            return outputs

        return self.exchange(what, (op_name(op), *((each.numel(), each.dtype) for each in inputs)), inputs, finish)

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> ReferenceWork:
        refuse(len(outputs) != self.size() or len(inputs) != self.size(),
               f"all_to_all: {len(outputs)} outputs and {len(inputs)} inputs, not {self.size()}")
        self._inputs([*inputs, *outputs], "all_to_all")
        self._outputs(outputs, "all_to_all")
        return self.exchange("all_to_all", (inputs[0].dtype,), inputs,
                             lambda everyone: self._fill(outputs, [flats[self.rank()] for flats in everyone]))

    def all_to_all_single(self, output: torch.Tensor, input: torch.Tensor, output_splits: list[int],
                          input_splits: list[int], opts: Any = None) -> ReferenceWork:
        self._outputs([output], "all_to_all_single")
        parts = [self._rows(tensor, splits) for tensor, splits in ((input, input_splits), (output, output_splits))]

        def finish(everyone: list[Flat]) -> Flat:
            flats = [theirs[self.rank()] for theirs in everyone]
            for flat, want in zip(flats, parts[1], strict=True):
                refuse(flat.numel() != want, f"mismatch: got {flat.numel()} elements, output split holds {want}")
            self.write(output, torch.cat(flats))
            return [output]

        pieces = list(input.detach().reshape(-1).split(parts[0]))
        return self.exchange("all_to_all_single", (input.dtype,), pieces, finish)

    def _rows(self, tensor: torch.Tensor, splits: list[int]) -> list[int]:
        rows = tensor.shape[0] if tensor.dim() else 1
        refuse(not splits and rows % self.size() != 0, f"all_to_all_single: {rows} rows do not divide by {self.size()}")
        refuse(bool(splits) and (len(splits) != self.size() or sum(splits) != rows),
               f"all_to_all_single: splits {splits} do not add up to {rows} rows")
        width = tensor.numel() // rows if rows else 0
        return [count * width for count in splits or [rows // self.size()] * self.size()]

    def barrier(self, opts: Any = None) -> ReferenceWork:
        return self.exchange("barrier", (), [], lambda everyone: [])

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        self.exchange("monitored_barrier", (), [], lambda everyone: []).wait(timeout or timedelta(0))

    # Messages.

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> ReferenceWork:
        self._root(peer)
        refuse(tag < 0, f"send: tag {tag} is negative")
        work = ReferenceWork(f"send to rank {peer}, tag {tag}", self._timeout_s, self._who())
        try:
            meta = (tensors[0].dtype, tensors[0].numel())
            self._mail.send(peer, ("message", self.tag_sent(tag)), pickle.dumps((meta, pack(tensors[0]))))
            work.finish(tensors)
        except OSError as error:
            work.fail(error)
        return work

    def tag_sent(self, tag: int) -> int:
        """The tag that goes with a message."""
        return tag

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> ReferenceWork:
        if peer != ANY:
            self._root(peer)
        work = ReferenceWork(f"recv from rank {peer}, tag {tag}", self._timeout_s, self._who())
        target = tensors[0]

        def received(source: int, payload: bytes) -> None:
            try:
                (dtype, numel), raw = pickle.loads(payload)
                refuse((dtype, numel) != (target.dtype, target.numel()),
                       f"mismatch: rank {source} sent {numel} x {dtype} for {target.numel()} x {target.dtype}")
                with torch.inference_mode():
                    self.write(target, unpack(raw, dtype))
                work.finish(tensors, source)
            except Exception as error:
                work.fail(error)

        self._mail.expect(peer, ("message", self.tag_sent(tag)), received, work.fail)
        return work

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> ReferenceWork:
        return self.recv(tensors, ANY, tag)

    # Life.

    def getBackendName(self) -> str:  # noqa: N802
        return self.backend_name

    def name(self) -> str:
        return self.backend_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        self._desc = desc

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._desc

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._desc

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout_s = timeout.total_seconds()

    def abort(self) -> None:
        self._mail.close(ConnectionError("the group was aborted"))

    def shutdown(self) -> None:
        self._mail.close(ConnectionError("the group was destroyed"))

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        return None
