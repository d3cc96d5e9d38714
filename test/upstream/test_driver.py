"""The driver believes a test only with its ranks' processes and exit codes before it."""

from __future__ import annotations

import unittest
from types import SimpleNamespace

import pytest
from torch_suite import worker


def judged(started: int, exit_codes: list[int]) -> dict[str, object]:
    """What the driver says of a test that raises nothing, with two ranks, after starting so many processes."""
    evidence = SimpleNamespace(started=0, exit_codes=[])

    class Suite(unittest.TestCase):
        def test_something(self) -> None:
            evidence.started, evidence.exit_codes = started, exit_codes

    return worker.run(SimpleNamespace(Suite=Suite, SIZE=2, evidence=evidence), "test_something")


def test_ranks_that_all_ended_well_are_a_pass():
    assert judged(2, [0, 0])["outcome"] == "passed"


@pytest.mark.parametrize(("started", "exit_codes"), [(0, []), (2, []), (1, [0]), (2, [0]), (2, [0, 1])])
def test_a_test_that_ran_without_its_ranks_has_failed(started, exit_codes):
    outcome = judged(started, exit_codes)
    assert outcome["outcome"] == "failed"
    assert "not 2 processes with checked exit codes" in str(outcome["reason"])
