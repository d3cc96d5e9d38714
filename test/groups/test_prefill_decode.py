"""examples/prefill_decode.py does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.programs import starting_quickly
from harness.settings import LAUNCH_LIMIT_S

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "prefill_decode.py"


@pytest.mark.slow
def test_two_worlds_pair_up_and_part():
    command = [sys.executable, str(EXAMPLE)]
    environment = starting_quickly(os.environ)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LAUNCH_LIMIT_S)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("120 requests in 10 pairings")
