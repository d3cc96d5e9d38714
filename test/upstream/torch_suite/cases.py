"""The test class, for the backend and number of ranks that the environment names (BACKEND, WORLD_SIZE).

Two things differ from torch's own set-up. Ranks are forked from a server that has imported torch, which saves some
seconds a rank; and the exit code of *every* rank is checked, where torch looks at rank 0 alone unless a rank raised.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.testing._internal import common_distributed

from . import rewrite

BACKEND, SIZE = os.environ["BACKEND"], int(os.environ["WORLD_SIZE"])
PER_TEST = ("TEMP_DIR", "INIT_METHOD", "MASTER_ADDR")  # what torch's set-up writes into the environment for the ranks
LARGEST_GROUP = 3  # the tests that torch skips below 8 ranks make groups of ranks 1 and 2


@dataclass
class Evidence:
    """That a test ran: the processes it started, and their exit codes once they were checked."""

    started: int = 0
    exit_codes: list[int] = field(default_factory=list)


evidence = Evidence()  # of the test that this process ran last


def skip_below_three_ranks(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if SIZE < LARGEST_GROUP:
            sys.exit(common_distributed.TEST_SKIPS["small_worldsize"].exit_code)
        return function(*args, **kwargs)

    return wrapper


common_distributed.skip_if_small_worldsize = skip_below_three_ranks
upstream = rewrite.load(BACKEND)


class Suite(upstream.TestDistBackend, upstream.DistributedTest._DistTestBase):  # type: ignore[misc, name-defined]
    """All tests of distributed_test.py."""

    def setUp(self) -> None:
        super().setUp()
        evidence.started, evidence.exit_codes = 0, []
        self._spawn_processes()

    def _spawn_processes(self) -> None:
        environment = {name: os.environ[name] for name in PER_TEST}
        context = multiprocessing.get_context("forkserver")

        def process(target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            evidence.started += 1
            return context.Process(target=run_rank, name=name, args=(environment, target, args, kwargs))

        self._start_processes(process)

    def _check_return_codes(self, fn: Any, elapsed_time: float) -> None:
        evidence.exit_codes = [process.exitcode for process in self.processes]
        super()._check_return_codes(fn, elapsed_time)  # raises the skip that rank 0 asked for
        assert evidence.exit_codes == [0] * SIZE, f"exit codes of the ranks: {evidence.exit_codes}"


def run_rank(environment: dict[str, str], target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What a rank's process runs."""
    os.environ.update(environment)
    upstream.INIT_METHOD = environment["INIT_METHOD"]  # torch reads it at import, which here was long ago
    target(*args, **kwargs)
