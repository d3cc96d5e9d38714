"""The few constants of the harness. `TEST_BACKEND=gloo pytest test/python` judges another backend by the same tests."""

import os

BACKEND = os.environ.get("TEST_BACKEND", "customccl")
OURS = BACKEND == "customccl"

# A body that takes longer hangs: stacks of all ranks are dumped and the ranks are killed.
HARD_LIMIT_S = 30.0
# After one rank has failed, its peers get this long to fail too; then they are stopped.
GRACE_S = 5.0
# The timeout of the groups under test: shorter than the hard limit, so a stuck op explains itself first.
GROUP_TIMEOUT_S = 20.0
