"""What a case body can see and do inside a rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from .groupings import GROUPINGS
from .model import Case, CheckFailed, Verdict
from .refusal import is_refusal

if TYPE_CHECKING:
    from .worker import WorkerSpec


class Context:
    """One rank's view of one case."""

    def __init__(self, case: Case, rank: int, spec: WorkerSpec, groups: dict[str, Any]) -> None:
        self.case = case
        self.dims = case.dims
        self.rank = rank
        self.size = case.world_size
        self.spec = spec
        self.backend = spec.backend
        self.device = spec.device
        self.op_timeout_s = spec.op_timeout_s
        self.info: dict[str, Any] = {}
        self.settle = False
        """Set by a calling mode that does not wait: the body must poll for the data."""
        self.release_inputs: Callable[[], None] = lambda: None
        """Drops the body's references to the inputs."""
        self._groups = groups

    def group(self, name: str) -> Any:
        """The named grouping's group of this rank, made once per worker set; None when this rank is in none."""
        if name == "world":
            return dist.group.WORLD
        key = f"{name}/{self.size}"
        if key not in self._groups:
            row = GROUPINGS[name]
            mine = None
            for ranks in row.members(self.size):
                made = dist.new_group(ranks, backend=self.backend, sort_ranks=row.sort_ranks,
                                      timeout=timedelta(seconds=self.op_timeout_s))
                mine = made if self.rank in ranks else mine
            self._groups[key] = mine
        return self._groups[key]

    def fresh_group(self, timeout_s: float | None = None) -> Any:
        """A new group of all ranks that no other case uses."""
        seconds = timeout_s if timeout_s is not None else self.op_timeout_s
        return dist.new_group(list(range(self.size)), backend=self.backend, timeout=timedelta(seconds=seconds))

    def note(self, **values: Any) -> None:
        """Keep measured values with the result."""
        self.info.update(values)

    def expect(self, condition: bool, message: str, verdict: Verdict = Verdict.ERROR) -> None:
        """Fail the case with this verdict unless the condition holds."""
        if not condition:
            raise CheckFailed(verdict, message)

    def refused(self, call: Callable[[], Any], what: str, words: Sequence[str] = (), limit_s: float | None = None,
                accepted: Verdict = Verdict.ACCEPTED_INVALID) -> None:
        """``call`` must raise within the limit, with a message that has one of the words.

        A backend that does not support the operation at all raises on through, so that the verdict is unsupported.
        """
        started = time.monotonic()
        try:
            result = call()
            if hasattr(result, "wait"):
                result.wait()
        except Exception as error:
            self._judge_refusal(error, time.monotonic() - started, what, words, limit_s)
            return
        raise CheckFailed(accepted, f"{what}: accepted without an error")

    def _judge_refusal(self, error: Exception, waited: float, what: str, words: Sequence[str],
                       limit_s: float | None) -> None:
        text = f"{type(error).__name__}: {error}"
        self.note(detect_ms=round(waited * 1e3, 1), refused_with=text[:300])
        if isinstance(error, CheckFailed) or is_refusal(text, (self.case.op,), strict=True):
            raise error
        limit = limit_s if limit_s is not None else 1.5 * self.op_timeout_s + 1.0
        if waited > 2 * limit:
            raise CheckFailed(Verdict.ERROR, f"{what}: refused only after {waited:.1f} s (limit {limit:.1f} s): {text}")
        if waited > limit:
            raise CheckFailed(Verdict.NONSTRICT, f"{what}: refused after {waited:.1f} s, limit {limit:.1f} s: {text}")
        if words and not any(word.lower() in text.lower() for word in words):
            raise CheckFailed(Verdict.NONSTRICT, f"{what}: refused, but the message names none of {list(words)}: {text}")
