"""The few constants of the harness.

TEST_BACKEND=gloo    judge another backend by the same tests
TEST_PATIENCE=10     on a machine that is busy with other work: all limits of the harness times this (and pytest's own
                     with `-o timeout=1200`)
TEST_LONG=1          tests marked `long` take the counts of a long run: `make test-long`
"""

import os

BACKEND = os.environ.get("TEST_BACKEND", "customccl")
OURS = BACKEND == "customccl"
PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))
LONG = os.environ.get("TEST_LONG") == "1"

# A body that takes longer hangs: stacks of all ranks are dumped and the ranks are killed.
HARD_LIMIT_S = (1800.0 if LONG else 30.0) * PATIENCE
# After one rank has failed, its peers get this long to fail too; then they are stopped.
GRACE_S = 5.0 * PATIENCE
# The timeout of the groups under test: shorter than the hard limit, so a stuck op explains itself first.
GROUP_TIMEOUT_S = 20.0 * PATIENCE
# Whole programs: several interpreters import torch at once.
LAUNCH_LIMIT_S = 100.0 * PATIENCE


def rounds(short: int, long: int) -> int:
    """How often a test marked `long` does what it does."""
    return long if LONG else short
