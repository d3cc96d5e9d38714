"""A group over a Mailbox: all ranks exchange their bytes, and send each other messages."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .bases import GroupBase
from .mailbox import ANY, Mailbox
from .reducing import combine
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


class PeerGroup(GroupBase):
    """Exchange, messages and life of a group; the collectives are in ReferenceGroup."""

    backend_name = "reference"

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._timeout_s = timeout.total_seconds()
        self._mail = Mailbox(store, rank, size, timeout)
        self._sequence = 0
        self._name, self._desc = "", ""
        self._issue_lock = threading.Lock()

    def _get_backend(self, device: torch.device) -> Any:
        """torch 2.15's batch_isend_irecv asks a group for the backend of a device: a Python group is its own."""
        return self

    # What every operation is made of.

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        """Give all ranks these inputs; when theirs are here and their meta is the same, ``finish(all inputs)``."""
        self._here(inputs, what)
        with self._issue_lock:
            self._sequence += 1
            number = self._sequence
        work = ReferenceWork(f"{what} #{number} of rank {self.rank()}", self.timeout_of(what), self._who())
        dtypes = [tensor.dtype for tensor in inputs]
        payload = pickle.dumps(((what, *meta), [(pack(tensor), tensor.dtype) for tensor in inputs]))
        arrived: dict[int, bytes] = {}
        work.came = arrived

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

    def _complete(
        self,
        work: ReferenceWork,
        meta: tuple[Any, ...],
        dtypes: list[torch.dtype],
        arrived: dict[int, bytes],
        finish: Finish,
    ) -> None:
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
        self._here(tensors, what)
        dtypes = {tensor.dtype for tensor in tensors}
        refuse(len(dtypes) > 1, f"{what}: tensors of different dtype {dtypes}")
        refuse(
            any(tensor.is_sparse for tensor in tensors), f"{what}: backend reference does not support sparse tensors"
        )

    def _here(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        away = {tensor.device.type for tensor in tensors} - {"cpu"}
        refuse(bool(away), f"{what}: backend reference does not serve tensors on {', '.join(sorted(away))}")

    def _outputs(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        self._here(tensors, what)
        for tensor in tensors:
            shared = any(step == 0 and extent > 1 for step, extent in zip(tensor.stride(), tensor.shape, strict=True))
            refuse(shared, f"{what}: elements of an output share memory (stride 0)")

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
                refuse(
                    (dtype, numel) != (target.dtype, target.numel()),
                    f"mismatch: rank {source} sent {numel} x {dtype} for {target.numel()} x {target.dtype}",
                )
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
