"""Ranks as Python processes of the C ABI, started one by one."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAD = "import os, signal, sys, threading, time\nimport abi\nfrom abi import *\ntoken, rank, size = arguments()\n"
TAIL = "\nassert 'torch' not in sys.modules\n"
LATE = """
    comm = Comm(token, rank, size, timeout_ms=60000)
    assert comm.code == ABORTED and "{words}" in last_error(), (comm.code, last_error())
    assert abi.library.customccl_last_error_rank() == {culprit}
"""


class Meeting:
    """Ranks started one by one, which meet in a directory that must be empty in the end."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
        self.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
        self.token = subprocess.run(
            [sys.executable, "-c", "import abi; print(abi.make_token())"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        self.started: list[subprocess.Popen[str]] = []

    def start(self, code: str, rank: int, size: int) -> subprocess.Popen[str]:
        program = HEAD + textwrap.dedent(code) + TAIL
        command = [sys.executable, "-c", program, self.token, str(rank), str(size)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.started.append(subprocess.Popen(command, env=self.environment, cwd=self.folder.parent, **streams))
        return self.started[-1]

    def run(self, code: str, size: int) -> None:
        """The same program on all ranks, to a good end."""
        for rank in range(size):
            self.start(code, rank, size)
        self.join()

    def join(self) -> None:
        for process in self.started:
            output, _ = process.communicate(timeout=60)
            assert process.returncode in (0, -signal.SIGKILL), output
        assert list(self.folder.iterdir()) == []

    def wait_for(self, pattern: str) -> Path:
        for _ in range(6000):
            for found in self.folder.glob(pattern):
                return found
            time.sleep(0.01)  # a look now and then, until it is there
        raise AssertionError(f"no {pattern} in {self.folder}")
