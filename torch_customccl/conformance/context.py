"""What a case body can see and do inside a rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from .groupings import GROUPINGS
from .model import Case, CheckFailedError, Verdict
from .refusal import is_refusal

if TYPE_CHECKING:
    from .worker import WorkerSpec


_FAILED = "a rank has failed"


class Context:
    """One rank's view of one case."""

    def __init__(self, case: Case, rank: int, spec: WorkerSpec, groups: dict[str, list[Any]]) -> None:
        self.case = case
        self.dims = case.dims
        self.rank = rank
        self.size = case.world_size
        self.spec = spec
        self.backend = spec.backend
        self.device = spec.device
        self.op_timeout_s = spec.op_timeout_s
        self.op = case.op
        self.info: dict[str, Any] = {}
        self.settle = False
        """Set by a calling mode that does not wait: the body must poll for the data."""
        self.release_inputs: Callable[[], None] = lambda: None
        """Drops the body's references to the inputs."""
        self._groups = groups
        self._store: Any = None

    def groups(self, name: str) -> list[Any]:
        """This rank's groups of the named grouping, made once per worker set; empty when it is in none."""
        if name == "world":
            return [dist.group.WORLD]
        if name not in self._groups:
            row = GROUPINGS[name]
            order: dict[str, Any] = {} if row.sort_ranks else {"sort_ranks": False}
            if order and "sort_ranks" not in signature(dist.new_group).parameters:
                raise CheckFailedError(Verdict.NOT_APPLICABLE, "new_group() of this torch sorts all ranks")
            limit = timedelta(seconds=self.op_timeout_s)
            made = [
                (ranks, dist.new_group(ranks, backend=self.backend, timeout=limit, **order))
                for ranks in row.members(self.size)
            ]
            self._groups[name] = [group for ranks, group in made if self.rank in ranks]
        return list(self._groups[name])

    def fresh_group(self, timeout_s: float | None = None) -> Any:
        """A new group of all ranks that no other case uses."""
        seconds = timeout_s if timeout_s is not None else self.op_timeout_s
        return dist.new_group(list(range(self.size)), backend=self.backend, timeout=timedelta(seconds=seconds))

    @property
    def store(self) -> Any:
        """A store of the parent's, for this case alone."""
        if self._store is None:
            from .worker import make_store

            self._store = dist.PrefixStore(self.case.id, make_store(self.spec))
        return self._store

    def exchange(self, name: str, mine: bytes) -> list[bytes]:
        """Give bytes to all ranks and get theirs, over the parent's store."""
        self.store.set(f"{name}/{self.rank}", mine)
        keys = [f"{name}/{rank}" for rank in range(self.size)]
        return [self.store.get(key) for key in keys] if self._wait_for(keys) else [mine] * self.size

    def meet(self, name: str, ranks: Sequence[int] | None = None) -> None:
        """Wait until the given ranks (all) have come here, over the parent's store.

        Goes on at once when a rank has failed its case: that rank's outcome is the verdict, not this one's waiting.
        """
        self.store.set(f"meet/{name}/{self.rank}", b"1")
        self._wait_for([f"meet/{name}/{rank}" for rank in ranks or range(self.size)])

    def _wait_for(self, keys: list[str]) -> bool:
        while not self.store.check(keys):
            if self.store.check([_FAILED]):
                return False
            time.sleep(0.003)
        return True

    def give_up(self) -> None:
        """Tell ranks that wait for this one that it failed."""
        with suppress(RuntimeError):
            self.store.set(_FAILED, b"1")

    def require_support(self, op: str) -> None:
        """Do the operation once; a backend without it raises here, which makes the case unsupported."""
        value = torch.ones(4, device=self.device)
        if op == "send_recv":
            if self.rank < 2:
                dist.send(value, 1) if self.rank == 0 else dist.recv(value, 0)
        elif op == "barrier":
            dist.barrier()
        else:
            dist.all_reduce(value)

    def note(self, **values: Any) -> None:
        """Keep measured values with the result."""
        self.info.update(values)

    def expect(self, condition: bool, message: str, verdict: Verdict = Verdict.ERROR) -> None:
        """Fail the case with this verdict unless the condition holds."""
        if not condition:
            raise CheckFailedError(verdict, message)

    def refused(
        self,
        call: Callable[[], Any],
        what: str,
        words: Sequence[str] = (),
        limit_s: float | None = None,
        accepted: Verdict = Verdict.ACCEPTED_INVALID,
    ) -> None:
        """``call`` must raise within the limit, with a message that has one of the words.

        A backend that does not support the operation at all raises on through, so that the verdict is unsupported.
        So do errors of the kind a mistake in the case itself makes.
        """
        started = time.monotonic()
        try:
            result = call()
            if hasattr(result, "wait"):
                result.wait()
        except Exception as error:
            self._judge_refusal(error, time.monotonic() - started, what, words, limit_s)
            return
        raise CheckFailedError(accepted, f"{what}: accepted without an error")

    def _judge_refusal(
        self, error: Exception, waited: float, what: str, words: Sequence[str], limit_s: float | None
    ) -> None:
        text = f"{type(error).__name__}: {error}"
        self.note(detect_ms=round(waited * 1e3, 1), refused_with=text[:300])
        if isinstance(error, (CheckFailedError, AttributeError, NameError)) or is_refusal(
            text, (self.case.op,), strict=True
        ):
            raise error
        limit = limit_s if limit_s is not None else 1.5 * self.op_timeout_s + 1.0
        if waited > 2 * limit:
            raise CheckFailedError(
                Verdict.ERROR, f"{what}: refused only after {waited:.1f} s (limit {limit:.1f} s): {text}"
            )
        if waited > limit:
            raise CheckFailedError(
                Verdict.NONSTRICT, f"{what}: refused after {waited:.1f} s, limit {limit:.1f} s: {text}"
            )
        if words and not any(word.lower() in text.lower() for word in words):
            raise CheckFailedError(
                Verdict.NONSTRICT, f"{what}: refused, but the message names none of {list(words)}: {text}"
            )
