"""The live display: verdict counts and the time left."""

from __future__ import annotations

import time
from collections import Counter

from rich.console import Console
from rich.live import Live
from rich.table import Table

from .model import AMBER, RED, CaseResult

_COLOURS = {"pass": "green", "unsupported": "blue", "not_run": "dim"}


class Progress:
    """Counts verdicts as results come in; draws on a terminal, stays silent elsewhere."""

    def __init__(self, total: int, budget_s: float, console: Console) -> None:
        self._total, self._budget_s = total, budget_s
        self._counts: Counter[str] = Counter()
        self._started = time.monotonic()
        self._drawn = 0.0
        self._live = Live(self._table(), console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Progress:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def add(self, result: CaseResult) -> None:
        """Count one result."""
        self._counts[result.verdict.value] += 1
        now = time.monotonic()
        if now - self._drawn > 0.25:
            self._drawn = now
            self._live.update(self._table())

    def _table(self) -> Table:
        done = sum(self._counts.values())
        spent = time.monotonic() - self._started
        left = min(self._budget_s - spent, spent / done * (self._total - done)) if done else self._budget_s
        table = Table.grid(padding=(0, 2))
        red, amber = {verdict.value for verdict in RED}, {verdict.value for verdict in AMBER}
        cells = [f"{done}/{self._total}", f"{spent:.0f} s, at most {max(left, 0):.0f} s left"]
        for name, count in sorted(self._counts.items()):
            colour = _COLOURS.get(name, "red" if name in red else "yellow" if name in amber else "white")
            cells.append(f"[{colour}]{name} {count}[/]")
        table.add_row(*cells)
        return table
