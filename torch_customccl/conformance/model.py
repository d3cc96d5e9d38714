"""The nouns of the kit: a case, what one rank saw, the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

Dims = dict[str, Any]


class Level(str, Enum):
    """How binding a clause is."""

    REQUIRED = "REQUIRED"
    RECOMMENDED = "RECOMMENDED"
    INFORMATIONAL = "INFORMATIONAL"


class Tier(str, Enum):
    """How much of the kit runs; each tier contains the one before it."""

    SMOKE = "smoke"
    STANDARD = "standard"
    FULL = "full"
    LARGE = "large"

    @property
    def depth(self) -> int:
        return list(Tier).index(self)


class Verdict(str, Enum):
    """One word per case, ordered from best to worst: silent wrong data is the worst."""

    PASS = "pass"
    INFO = "info"
    NOT_APPLICABLE = "not_applicable"
    NONSTRICT = "nonstrict"
    UNSUPPORTED = "unsupported"
    UNCLEAR_UNSUPPORTED = "unclear_unsupported"
    NOT_RUN = "not_run"
    ERROR = "error"
    LEAK = "leak"
    FLAKY = "flaky"
    ASYMMETRIC = "asymmetric"
    HANG = "hang"
    CRASH = "crash"
    ACCEPTED_INVALID = "accepted_invalid"
    WRONG_SIDE_EFFECT = "wrong_side_effect"
    WRONG_RESULT = "wrong_result"
    HARNESS_ERROR = "harness_error"

    @property
    def severity(self) -> int:
        return list(Verdict).index(self)


RED = frozenset(
    {
        Verdict.ERROR,
        Verdict.LEAK,
        Verdict.FLAKY,
        Verdict.ASYMMETRIC,
        Verdict.HANG,
        Verdict.CRASH,
        Verdict.ACCEPTED_INVALID,
        Verdict.WRONG_SIDE_EFFECT,
        Verdict.WRONG_RESULT,
    }
)
AMBER = frozenset({Verdict.NONSTRICT, Verdict.UNCLEAR_UNSUPPORTED})
ALWAYS_RED = frozenset({Verdict.HANG, Verdict.CRASH})


def worst(verdicts: list[Verdict]) -> Verdict:
    """The worst of some verdicts; NOT_RUN when there is none."""
    return max(verdicts, key=lambda verdict: verdict.severity) if verdicts else Verdict.NOT_RUN


def gate(verdict: Verdict, level: Level) -> str:
    """``red``, ``amber`` or ``ok``: does this verdict break the run, given how binding the clause is."""
    if verdict in ALWAYS_RED:
        return "red"
    if verdict in RED:
        return {Level.REQUIRED: "red", Level.RECOMMENDED: "amber", Level.INFORMATIONAL: "ok"}[level]
    if verdict in AMBER and level is not Level.INFORMATIONAL:
        return "amber"
    return "ok"


@dataclass(frozen=True)
class Case:
    """One thing to try. ``body`` names the function that tries it; ``dims`` are its arguments."""

    id: str
    family: str
    clause: str
    body: str
    world_size: int
    dims: Dims = field(default_factory=dict, hash=False)
    tier: Tier = Tier.STANDARD
    isolation: str = "warm"
    """``warm``: shares a worker set; ``fresh``: owns one, thrown away afterwards."""
    setup: Dims = field(default_factory=dict, hash=False)
    """How the worker set is started: op_timeout_s, env, init (False: no default group)."""
    may_die: tuple[int, ...] = ()
    """Ranks whose death is part of the case."""

    @property
    def op(self) -> str:
        return str(self.dims.get("op", ""))


@dataclass
class RankOutcome:
    """What one rank reported, or what the parent saw of it."""

    rank: int
    outcome: str
    """ok, check (a check of the case failed), raised, died, stuck, or harness."""
    verdict: str = ""
    exc_type: str = ""
    message: str = ""
    traceback: str = ""
    stack: str = ""
    duration_ms: float = 0.0
    exit_code: int | None = None
    signal: str = ""
    usable: bool | None = None
    info: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in ("", None, {})}


@dataclass
class CaseResult:
    """A case with its verdict and the evidence."""

    case: Case
    verdict: Verdict
    ranks: list[RankOutcome] = field(default_factory=list)
    reason: str = ""
    duration_ms: float = 0.0
    queued_s: float = 0.0
    """How long a rank stood in line for a processor meanwhile; measured where time may have made the verdict."""
    rerun: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The most telling line: the reason, else the first rank's message."""
        if self.reason:
            return self.reason
        told = [rank.message for rank in self.ranks if rank.outcome != "ok" and rank.message]
        return told[0] if told else ""


class CheckFailedError(Exception):
    """Raised by a case body: the backend did something the clause forbids."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
