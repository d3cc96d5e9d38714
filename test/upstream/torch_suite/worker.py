"""Runs tests whose names come in on stdin, one a line, and answers each with a line of JSON on stdout.

The backend and the number of ranks come from the environment (BACKEND, WORLD_SIZE). Everything that tests print goes
to stderr.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
import unittest
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from . import cases

    multiprocessing.get_context("forkserver").set_forkserver_preload([cases.__name__])
    cases.Suite.setUpClass()
    tests = [name for name in dir(cases.Suite) if name.startswith("test_")]
    print(json.dumps(tests), file=answers)
    for line in sys.stdin:
        print(json.dumps(run(cases, line.strip())), file=answers)


def run(cases: Any, name: str) -> dict[str, Any]:
    """The outcome of one test, as the fields of results.Outcome."""
    print(f"---- {name}", file=sys.stderr, flush=True)
    cases.evidence.started, cases.evidence.exit_codes = 0, []
    result, begin = unittest.TestResult(), time.monotonic()
    cases.Suite(name).run(result)
    outcome, reason = "passed", ""
    if result.errors or result.failures:
        outcome, reason = "failed", (result.errors + result.failures)[0][1]
    elif result.skipped:
        outcome, reason = "skipped", result.skipped[0][1]
    elif cases.evidence.started != cases.SIZE or cases.evidence.exit_codes != [0] * cases.SIZE:
        # Never seen, and it must stay so: a suite that starts no ranks passes in no time and proves nothing.
        outcome, reason = "failed", f"not {cases.SIZE} processes with checked exit codes: {cases.evidence}"
    seconds = round(time.monotonic() - begin, 2)
    return {"name": name, "outcome": outcome, "reason": reason, "seconds": seconds, **vars(cases.evidence)}


if __name__ == "__main__":
    main()
