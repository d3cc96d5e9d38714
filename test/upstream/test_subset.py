"""A part of torch's own distributed tests; `make test-upstream` runs them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch_suite.results import Outcome
from torch_suite.runner import Runner
from torch_suite.subset import SUBSET

CASES = [(size, name) for size, names in SUBSET.items() for name in names]


class Runners:
    """One worker for each number of ranks, started when first needed and one at a time."""

    def __init__(self) -> None:
        self._runner: Runner | None = None

    def run(self, size: int, name: str) -> Outcome:
        if self._runner is None or self._runner.size != size:
            self.end()
            self._runner = Runner("customccl", size)
        return self._runner.run(name)

    def end(self) -> None:
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(scope="module")
def runners() -> Iterator[Runners]:
    found = Runners()
    yield found
    found.end()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("size", "name"), CASES, ids=[f"{name}-{size}" for size, name in CASES])
def test_of_torch(runners: Runners, size: int, name: str) -> None:
    outcome = runners.run(size, name)
    assert outcome.outcome == "passed", f"{name} with {size} ranks {outcome.outcome}: {outcome.reason}"
