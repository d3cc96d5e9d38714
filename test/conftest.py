"""Fixtures for all tests that run ranks."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

sys.path.insert(0, str(Path(__file__).parent / "python"))

from harness.footprint import Footprint
from harness.pool import Pool, Ranks


@pytest.fixture(scope="session")
def rank_pool() -> Iterator[Pool]:
    """The warm processes. When the session ends, all ranks must end in good order and leave nothing behind."""
    before = Footprint.now()
    pool = Pool()
    yield pool
    pool.close()
    before.check_nothing_new(compare_descriptors=False)  # the store and multiprocessing's helpers keep some


@pytest.fixture
def ranks(rank_pool: Pool) -> Iterator[Ranks]:
    """`ranks(3).run(body)` runs `body(rank, size)` in each rank of a warm group of 3."""
    yield Ranks(rank_pool)
    rank_pool.end_fresh()


@pytest.fixture
def nothing_left(rank_pool: Pool) -> Iterator[None]:
    """Around tests that hurt ranks: no process, descriptor, socket or name in /dev/shm stays."""
    before = Footprint.now()
    yield
    before.check_nothing_new()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, float], None]:
    """`figure("what was measured, in its unit", value)`: shown at the end of the run, never judged."""
    return lambda what, value: request.node.user_properties.append((what, value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures: dict[str, list[float]] = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                for what, value in report.user_properties:
                    figures[what].append(value)
    if not figures:
        return
    terminalreporter.section("figures")
    for what, values in sorted(figures.items()):
        low, middle, high = min(values), median(values), max(values)
        terminalreporter.line(f"{what}: median {middle:.3g}, from {low:.3g} to {high:.3g} ({len(values)} times)")
