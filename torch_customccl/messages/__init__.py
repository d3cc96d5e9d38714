"""Whole Python values from rank to rank, in one message: nested containers of tensors, numbers, bytes, objects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from torch_customccl._loader import load
from torch_customccl.group_arguments import checked_tag, clamped, limited
from torch_customccl.group_operations import Operations
from torch_customccl.messages.endpoint import Endpoint

__all__ = ["Endpoint", "Messages"]

_shim = load()
_ANY = -1
_BROADCAST_TAG = 1 << 32  # beyond what callers may use
_GROUPS_LIMIT = timedelta(0)


class Messages(Operations):
    """The messages of a Group. See docs/messages.md for what a message may hold and what it costs.

    A message is a header (written without pickle for None, bool, int, float, complex, str, bytes, bytearray, list,
    tuple, set, frozenset and dict) and the memory of its tensors (CPU, any dtype that customccl knows, any dense
    layout, which is kept; others arrive contiguous). Anything else is pickled (protocol 5, its buffers out of band).
    The receiver needs to know no size. Messages of one source and tag arrive in the order they were sent. `tag`: 0 to
    2**32 - 1, apart from the tags of send() and recv(). Any thread may call.
    """

    _backend: Any

    def send_message(self, message: Any, dst: int, tag: int = 0, *, timeout: timedelta | None = None) -> None:
        """Sends `message` to rank `dst`. Returns when its memory may be changed again.

        Up to 64 KiB in all it returns at once, unless 2 MiB wait unread: then, and for larger ones, when rank `dst`
        takes it. Raises ValueError for tensors that are not on the CPU, what pickle raises for objects
        that cannot be pickled, torch.distributed.DistBackendError when the group fails (a `timeout` that passes, or
        the group's, ends it) and ValueError for a `timeout` that has passed already.
        """
        self._send_tagged(message, dst, checked_tag(tag, "a message", 32), timeout)

    def recv_message(
        self,
        src: int | None = None,
        tag: int = 0,
        *,
        timeout: timedelta | None = None,
        into: Any = None,
        weights_only: bool = False,
    ) -> Any:
        """The next message of rank `src`, by default of any rank. Tensors in it are new and belong to the caller.

        into: a container like the message, with tensors at some of its places: these are filled, and are in the
        result; shape and dtype must agree. weights_only: refuse messages that hold pickles.
        Raises TimeoutError when no message comes within `timeout` (the group's by default; zero: only what is there):
        the group goes on, and no message is lost. The rest of a large message has the group's timeout once it has
        begun to come, and ends the group when that passes. Raises ValueError for a message that `into` or
        `weights_only` refuses, which is gone then.
        """
        return self.recv_message_from(src, tag, timeout=timeout, into=into, weights_only=weights_only)[1]

    def recv_message_from(
        self,
        src: int | None = None,
        tag: int = 0,
        *,
        timeout: timedelta | None = None,
        into: Any = None,
        weights_only: bool = False,
    ) -> tuple[int, Any]:
        """recv_message() that returns (source rank, message)."""
        return self._receive_tagged(src, checked_tag(tag, "a message", 32), timeout, weights_only, into)

    def probe_message(self, src: int | None = None, tag: int = 0) -> tuple[int, int] | None:
        """(source rank, size in bytes) of the message that recv_message() would return now, or None. Does not wait."""
        return self._probe_tagged(src, checked_tag(tag, "a message", 32))

    def broadcast_message(
        self, message: Any = None, src: int = 0, *, timeout: timedelta | None = None, weights_only: bool = False
    ) -> Any:
        """The message of rank `src`, on every rank (there, `message` itself). All ranks call it, in one order.

        A call that raises TimeoutError has received nothing: the next one with that `src` gets that message.
        """
        root = self._checked(src, "src")
        if self.rank() != root:
            try:
                return self._receive_tagged(root, _BROADCAST_TAG, timeout, weights_only, None)[1]
            except TimeoutError as error:
                told = str(error).replace(f" with tag {_BROADCAST_TAG}", " by broadcast_message()")
                raise TimeoutError(f"{told}. Call again: the next call gets it") from None
        others = [rank for rank in range(self.size()) if rank != root]
        if not others:
            self._check_alive()  # there is nobody whose message would be refused
        _shim.send_message(self._messenger(self._backend), message, others, _BROADCAST_TAG, _limit_of_send(timeout))
        return message

    def open_endpoint(self, name: str) -> Endpoint:
        """This rank receives what others send to `name`. ValueError if a rank of the group has that name already."""
        return Endpoint.opened(self, name)

    def endpoint(self, name: str, *, timeout: timedelta | None = None) -> Endpoint:
        """The endpoint that some rank has opened, or opens within `timeout`; else DistStoreError."""
        return Endpoint.found(self, name, timeout)

    # For endpoints: with any tag, also one that callers may not use.

    def _send_tagged(self, message: Any, dst: int, tag: int, timeout: timedelta | None) -> None:
        self._send_over(self._backend, message, self._checked(dst, "dst"), tag, timeout)

    def _send_over(self, backend: Any, message: Any, peer: int, tag: int, timeout: timedelta | None) -> None:
        _shim.send_message(self._messenger(backend), message, [peer], tag, _limit_of_send(timeout))

    def _receive_tagged(
        self, src: int | None, tag: int, timeout: timedelta | None, weights_only: bool, into: Any
    ) -> tuple[int, Any]:
        peer = _ANY if src is None else self._checked(src, "src")
        limit = _GROUPS_LIMIT if timeout is None else clamped(timeout)
        if not isinstance(weights_only, bool):
            raise TypeError(f"customccl: weights_only must be a bool, not {weights_only!r}")
        own = self._messenger(self._backend)
        return cast("tuple[int, Any]", _shim.receive_message(own, peer, tag, limit, weights_only, into))

    def _probe_tagged(self, src: int | None, tag: int) -> tuple[int, int] | None:
        peer = _ANY if src is None else self._checked(src, "src")
        return cast("tuple[int, int] | None", _shim.probe_message(self._messenger(self._backend), peer, tag))

    def _check_alive(self) -> None:
        """Raises DistBackendError when the group has failed, or fails now, as a member is found dead."""
        if isinstance(self._backend, _shim.CustomBackend):
            _shim.probe_message(self._backend, _ANY, _BROADCAST_TAG)

    def _messenger(self, backend: Any) -> Any:
        if isinstance(backend, _shim.CustomBackend):
            return backend
        raise RuntimeError(f"customccl: messages need shared memory; group {self.group_desc} runs over gloo")


def _limit_of_send(timeout: timedelta | None) -> timedelta:
    return _GROUPS_LIMIT if timeout is None else limited(timeout, "a message")
