"""result.json: the one source of every other report. Its shape is fixed by schema.json beside this file."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import SCHEMA_VERSION, SUITE_NAME, SUITE_VERSION
from ..contract import CLAUSES, level_of
from ..model import CaseResult, Level, Verdict, gate
from ..profiles import profile_results
from ..runner import finding_key
from .portable import portable
from .shape import wrong, wrong_score

Result = dict[str, Any]


@dataclass
class RunFacts:
    """What is known about a run besides its cases."""

    backend: str
    device: str
    tier: str
    seed: int
    command: str
    official: bool
    unofficial_because: list[str]
    git: str
    product: dict[str, Any]
    environment: dict[str, Any]
    started: str
    seconds: float
    repro_prefix: str
    scale: float = 1.0
    runs: int = 1
    warnings: list[str] = field(default_factory=list)
    mutation_score: dict[str, Any] | None = None


def build(facts: RunFacts, results: list[CaseResult]) -> Result:
    """The whole result as plain data."""
    cases = [_case(facts, result) for result in results]
    gates = Counter(row["gate"] for row in cases if not row.get("expected"))
    whole: Result = {
        "schema_version": SCHEMA_VERSION,
        "suite": {
            "name": SUITE_NAME,
            "version": SUITE_VERSION,
            "git": facts.git,
            "tier": facts.tier,
            "runs": facts.runs,
            "seed": facts.seed,
            "official": facts.official,
            "unofficial_because": facts.unofficial_because,
            "command": facts.command,
        },
        "product": {**facts.product, "device": facts.device},
        "environment": facts.environment,
        "timing": {"started": facts.started, "seconds": round(facts.seconds, 2), "clock_scale": round(facts.scale, 2)},
        "summary": {
            "verdicts": dict(sorted(Counter(row["verdict"] for row in cases).items())),
            "red": gates["red"],
            "amber": gates["amber"],
        },
        "profiles": [{**asdict(row), "verdict": row.verdict} for row in profile_results(results)],
        "mutation_score": facts.mutation_score,
        "warnings": facts.warnings,
        "clauses": {
            clause.id: {"level": clause.level.value, "text": clause.text, "source": clause.source}
            for clause in CLAUSES.values()
        },
        "cases": cases,
    }
    # Plain data and valid text: what a backend gave for a value or wrote into an error must not spoil a report.
    text = json.dumps(whole, default=str, ensure_ascii=False).encode(errors="replace")
    return portable(json.loads(text, parse_constant=str))


def _case(facts: RunFacts, result: CaseResult) -> Result:
    case = result.case
    level = level_of(case.clause)
    row: Result = {
        "id": case.id,
        "family": case.family,
        "clause": case.clause,
        "level": level.value,
        "dims": {**case.dims, "world_size": case.world_size, "device": facts.device},
        "verdict": result.verdict.value,
        "gate": gate(result.verdict, level),
        "duration_ms": result.duration_ms,
    }
    if result.rerun:
        row["rerun"] = result.rerun
    if result.verdict is Verdict.PASS:
        return row
    row |= {
        "message": result.message,
        "finding": finding_key(result),
        "repro": f"{facts.repro_prefix} --case {case.id}",
        "ranks": [rank.as_dict() for rank in result.ranks],
    }
    if result.expected:
        row["expected"] = result.expected
    return row


def exit_code(result: Result) -> int:
    """0: gates met. 1: something is red. 3: the kit itself failed. 4: nothing ran, or all of it is unsupported."""
    verdicts = result["summary"]["verdicts"]
    if verdicts.get(Verdict.HARNESS_ERROR.value):
        return 3
    if result["summary"]["red"]:
        return 1
    ran = [
        name
        for name in verdicts
        if name not in (Verdict.NOT_RUN.value, Verdict.NOT_APPLICABLE.value, Verdict.UNSUPPORTED.value)
    ]
    return 0 if ran else 4


def findings(result: Result) -> list[Result]:
    """One row per finding that is not ok, worst first, each with its first case and how many cases show it."""
    rows: dict[str, Result] = {}
    for case in result["cases"]:
        if case["gate"] == "ok":
            continue
        row = rows.setdefault(case["finding"], {"case": case, "count": 0})
        row["count"] += 1
    order = [verdict.value for verdict in Verdict]
    strict = [Level.INFORMATIONAL.value, Level.RECOMMENDED.value, Level.REQUIRED.value]
    return sorted(
        rows.values(),
        key=lambda row: (
            row["case"]["gate"] != "red",
            -order.index(row["case"]["verdict"]),
            -strict.index(row["case"]["level"]),
            row["case"]["id"],
        ),
    )


def save(result: Result, path: Path) -> None:
    """Write as JSON, packed if the name ends in .gz."""
    text = json.dumps(result, indent=1) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    else:
        path.write_text(text)


def load(path: Path) -> Result:
    """Read a result file, also one packed with gzip; a newer schema, or what is no whole result, is refused."""
    result = _read(path)
    if not isinstance(result, dict):
        raise ValueError(f"{path} is no result of this kit")
    if result.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"{path}: schema version {result.get('schema_version')}, this kit reads {SCHEMA_VERSION}")
    if found := wrong(result):
        raise ValueError(f"{path} is no whole result: {found}")
    return result


def load_score(path: Path) -> Result:
    """Read the score that ``selftest --out`` wrote."""
    score = _read(path)
    if found := wrong_score(score):
        raise ValueError(f"{path} is no score of the selftest: {found}")
    return dict(score)


def _read(path: Path) -> Any:
    raw = path.read_bytes()
    try:
        return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise ValueError(f"{path}: {error}") from None
