"""Runs a piece of Python in a process of its own, away from the source tree."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_python(code: str, cwd: Path, *, expect: int = 0, **environment: str) -> str:
    """Standard output and error of `code`; it must end with exit code `expect` within a minute."""
    variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=cwd,
        env=variables | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == expect, f"exit code {done.returncode}, output:\n{done.stdout}"
    return done.stdout
