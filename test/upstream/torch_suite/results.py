"""Outcomes on disk: one file of JSON lines for a backend and a number of ranks, so that a broken run goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """What became of one test. `started` and `exit_codes` prove that it had ranks."""

    name: str
    outcome: str  # passed, failed or skipped
    reason: str
    seconds: float
    started: int = 0
    exit_codes: list[int] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """The reason on one line: of a traceback, the error that ended it."""
        lines = [line.strip() for line in self.reason.splitlines() if line.strip()]
        errors = [line for line in lines if line.split(":")[0].replace(".", "").isidentifier() and ": " in line]
        chosen = (errors or lines or [""])[-1 if self.outcome == "skipped" else 0]
        for line in errors:
            if not line.startswith(("RuntimeError: Process", "Traceback")):
                chosen = line
                break
        return chosen[:300]


@dataclass(frozen=True)
class Run:
    """All tests for one backend and number of ranks."""

    backend: str
    size: int
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / f"{self.backend}-{self.size}.jsonl"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.backend}-{self.size}.log"

    def outcomes(self) -> dict[str, Outcome]:
        """The last outcome of each test."""
        if not self.path.exists():
            return {}
        found = (Outcome(**json.loads(line)) for line in self.path.read_text().splitlines())
        return {outcome.name: outcome for outcome in found}

    def add(self, outcome: Outcome) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
