"""What changed between two runs, regressions first.

A case that no longer ran is one, whatever it was before, also where the later run lacks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model import Verdict
from .result import Result


@dataclass
class Difference:
    """Case ids with (before, after) verdicts."""

    regressions: list[tuple[str, str, str]] = field(default_factory=list)
    improvements: list[tuple[str, str, str]] = field(default_factory=list)
    added: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    unchanged: int = 0


def compare(before: Result, after: Result, force: bool = False) -> Difference:
    """Compare verdict by verdict. Different suite versions or tiers are refused unless forced.

    ``force``: the later run need not have all cases of the earlier one.
    """
    for what in ("version", "tier"):
        if before["suite"][what] != after["suite"][what] and not force:
            raise ValueError(
                f"suite {what} differs: {before['suite'][what]} and {after['suite'][what]}; "
                "use --force to compare all the same"
            )
    old = {case["id"]: case["verdict"] for case in before["cases"]}
    new = {case["id"]: case["verdict"] for case in after["cases"]}
    if not force:
        new = dict.fromkeys(old, Verdict.NOT_RUN.value) | new
    difference = Difference(
        added=[(name, new[name]) for name in new if name not in old],
        deleted=[(name, old[name]) for name in old if name not in new],
    )
    for name in old:
        if name not in new:
            continue
        if old[name] == new[name]:
            difference.unchanged += 1
        elif new[name] == Verdict.NOT_RUN.value or Verdict(new[name]).severity > Verdict(old[name]).severity:
            difference.regressions.append((name, old[name], new[name]))
        else:
            difference.improvements.append((name, old[name], new[name]))
    difference.regressions.sort(key=lambda row: -Verdict(row[2]).severity)
    return difference


def as_text(difference: Difference) -> str:
    """One line per change."""
    lines = [f"regression  {name}: {old} -> {new}" for name, old, new in difference.regressions]
    lines += [f"changed     {name}: {old} -> {new}" for name, old, new in difference.improvements]
    lines += [f"added       {name}: {verdict}" for name, verdict in difference.added]
    lines += [f"deleted     {name}: {verdict}" for name, verdict in difference.deleted]
    lines.append(
        f"{len(difference.regressions)} regressions, {len(difference.improvements)} other changes, "
        f"{len(difference.added)} added, {len(difference.deleted)} deleted, {difference.unchanged} unchanged"
    )
    return "\n".join(lines)
