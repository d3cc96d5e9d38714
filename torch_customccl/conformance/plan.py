"""Which cases run, and in what portions: each portion is one worker set's work."""

from __future__ import annotations

import fnmatch
import random
from dataclasses import dataclass, field, replace
from typing import Any

from .model import Case, Tier

BATCH = 250
LAST = "last"
"""In the setup of a portion's last case: its ranks leave after it, and how they leave counts."""


@dataclass(frozen=True)
class Selection:
    """What the user asked for."""

    tier: Tier = Tier.STANDARD
    patterns: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    world_sizes: tuple[int, ...] = ()
    device: str = "cpu"

    @property
    def filtered(self) -> bool:
        return bool(self.patterns or self.profiles or self.world_sizes)


@dataclass
class Portion:
    """Cases that share one kind of worker set, in the order they run."""

    world_size: int
    cases: list[Case] = field(default_factory=list)
    setup: dict[str, Any] = field(default_factory=dict)
    cost_s: float = 0.0
    start: int = 0
    """Position of the first case in the whole plan; used for ordering only."""


def select(cases: list[Case], selection: Selection, profile_patterns: dict[str, tuple[str, ...]]) -> list[Case]:
    """The cases that the tier and the filters let through. A pattern that names a case runs it whatever its tier."""
    wanted: list[str] = [pattern for name in selection.profiles for pattern in profile_patterns[name]]
    chosen = []
    for case in cases:
        if selection.patterns:
            if not any(fnmatch.fnmatch(case.id, pattern) for pattern in selection.patterns):
                continue
        elif (case.tier is Tier.LARGE and selection.tier is not Tier.LARGE) or case.tier.depth > selection.tier.depth:
            continue
        if wanted and not any(fnmatch.fnmatch(case.id, pattern) for pattern in wanted):
            continue
        if selection.world_sizes and case.world_size not in selection.world_sizes:
            continue
        if selection.device != "cpu" and case.dims.get("device", selection.device) != selection.device:
            continue
        chosen.append(case)
    return chosen


def portions(cases: list[Case], seed: int) -> list[Portion]:
    """Cut the cases into portions: warm ones shuffled and batched, fresh ones alone, the slow ones first."""
    rng = random.Random(seed)
    slow, warm = [], {}  # type: ignore[var-annotated]
    for case in cases:
        if case.isolation == "fresh":
            slow.append(Portion(case.world_size, [case], dict(case.setup), float(case.setup.get("cost_s", 3.0))))
        else:
            key = (case.world_size, tuple(sorted((name, str(value)) for name, value in case.setup.items())))
            warm.setdefault(key, []).append(case)
    batches = []
    for (world_size, _), members in sorted(warm.items(), key=lambda item: str(item[0])):
        rng.shuffle(members)
        for start in range(0, len(members), BATCH):
            part = members[start : start + BATCH]
            batches.append(Portion(world_size, part, dict(part[0].setup), 0.01 * len(part)))
    slow.sort(key=lambda portion: -portion.cost_s)
    rng.shuffle(batches)
    for portion in slow + batches:
        last = portion.cases[-1]
        portion.cases[-1] = replace(last, setup=last.setup | {LAST: True})
    return slow + batches
