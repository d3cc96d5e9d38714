"""The contract: every clause a case may cite, with how binding it is and where that comes from.

The one list is contract.json beside this file: per chapter rows of id, level, text, source.
docs/contract.md is printed from it by ``python -m torch_customccl.conformance contract``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .model import Level


@dataclass(frozen=True)
class Clause:
    """One sentence a backend is held to."""

    id: str
    level: Level
    text: str
    source: str


def _read() -> dict[str, list[Clause]]:
    chapters = json.loads(Path(__file__).with_name("contract.json").read_text())
    return {
        title: [Clause(name, Level(level), text, source) for name, level, text, source in rows]
        for title, rows in chapters.items()
    }


CHAPTERS = _read()
CLAUSES: dict[str, Clause] = {clause.id: clause for clauses in CHAPTERS.values() for clause in clauses}

_HEAD = """# The contract of a c10d backend

Every case of the conformance kit cites one clause of this page. REQUIRED: a backend that breaks it fails.
RECOMMENDED: breaking it is shown in amber (a hang or a crash always fails). INFORMATIONAL: recorded only.
A case that demands more than its clause is a bug of the case.

This page is printed by `python -m torch_customccl.conformance contract`; the list itself is
`torch_customccl/conformance/contract.json`.
"""


def level_of(clause_id: str) -> Level:
    """How binding a clause is."""
    return CLAUSES[clause_id].level


def as_markdown() -> str:
    """The contract as a page."""
    lines = [_HEAD]
    for title, clauses in CHAPTERS.items():
        lines += [f"## {title}", "", "| clause | level | text | source |", "| --- | --- | --- | --- |"]
        lines += [f"| {each.id} | {each.level.value} | {each.text} | <{each.source}> |" for each in clauses]
        lines.append("")
    return "\n".join(lines)
