"""Is a finding the backend's doing? Run the case again alone, look for what it depends on, else call it flaky."""

from __future__ import annotations

import time
from collections.abc import Callable

from .model import Case, CaseResult, Verdict

Alone = Callable[[Case, list[Case]], CaseResult]
"""Runs a case in a new worker set, after the given cases."""
TIMEOUT_LIKE = frozenset({Verdict.HANG, Verdict.ASYMMETRIC, Verdict.CRASH})
TIMED = frozenset({Verdict.HANG, Verdict.ASYMMETRIC, Verdict.ERROR, Verdict.LEAK, Verdict.NONSTRICT})
"""What a rank may get because it came too late."""
_STARVED_SHARE = 0.2


def starved(result: CaseResult, op_timeout_s: float) -> bool:
    """True if a rank stood in line for a processor so long that time alone may have made this verdict."""
    return result.verdict in TIMED and result.queued_s > _STARVED_SHARE * op_timeout_s


def confirmed(result: CaseResult, before: list[Case], alone: Alone, until: float, was_starved: bool) -> CaseResult:
    """The result with what its reruns say. ``before``: the cases its worker set had run already."""
    again = alone(result.case, [])
    if _same(again.verdict, result.verdict):
        result.rerun = {"confirmed": True}
        return result
    others = [again, alone(result.case, []), alone(result.case, [])]
    agreed = len({other.verdict for other in others}) == 1
    if agreed and before:
        cause = _bisected(result, before, alone, until)
        if cause:
            result.rerun = {"confirmed": True, "state_dependent": True, "after": [case.id for case in cause]}
            return result
    if agreed and was_starved:
        again.rerun = {"confirmed": True, "first": result.verdict.value, "queued_s": round(result.queued_s, 2)}
        return again
    words = [other.verdict.value for other in others]
    result.rerun = {"confirmed": False, "first": result.verdict.value, "reruns": words}
    result.reason = f"{result.verdict.value} at first ({result.message[:300]}), then {', '.join(words)}"
    result.verdict = Verdict.FLAKY
    return result


def _same(one: Verdict, other: Verdict) -> bool:
    return one is other or (one in TIMEOUT_LIKE and other in TIMEOUT_LIKE)


def _bisected(result: CaseResult, before: list[Case], alone: Alone, until: float) -> list[Case]:
    """The fewest earlier cases found that bring the failure back; empty if all of them do not."""
    if alone(result.case, before).verdict is not result.verdict:
        return []
    while len(before) > 1 and time.monotonic() < until:
        half = len(before) // 2
        if alone(result.case, before[half:]).verdict is result.verdict:
            before = before[half:]
        elif alone(result.case, before[:half]).verdict is result.verdict:
            before = before[:half]
        else:
            break
    return before
