"""Drives a worker: sends it tests, takes outcomes, ends it with all its ranks when a test passes its limit."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from .results import Outcome

START_S = 120  # to import torch and its tests on a busy machine
TEST_S = 120  # after which torch ends the ranks itself
LIMIT_S = TEST_S + 30  # after which we end everything


class Runner:
    """Runs single tests for one backend and number of ranks; the process behind it is replaced when lost."""

    def __init__(self, backend: str, size: int, log: IO[Any] | int = subprocess.DEVNULL) -> None:
        self.backend, self.size = backend, size
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._directory = tempfile.TemporaryDirectory(prefix="upstream-")
        self.tests: list[str] = []
        self._start()

    def run(self, name: str) -> Outcome:
        begin = time.monotonic()
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{name}\n".encode())
            process.stdin.flush()
            return Outcome(**self._answer(LIMIT_S))
        except (OSError, EOFError, TimeoutError) as error:
            code = process.poll()
            self.end()
            lost = f"the test's parent process was lost: {type(error).__name__} {error}, exit code {code}"
            return Outcome(name, "failed", lost, round(time.monotonic() - begin, 2))

    def end(self) -> None:
        """Kill the worker and every process it started. Repeating it is harmless."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process, self._buffer = None, b""

    def close(self) -> None:
        """The end for good."""
        self.end()
        self._directory.cleanup()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "BACKEND": self.backend,
            "WORLD_SIZE": str(self.size),
            "INIT_METHOD": f"file://{self._directory.name}/init",
            "TEMP_DIR": self._directory.name,
            "TMPDIR": self._directory.name,  # torch's files of killed tests go with it
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
            "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(TEST_S),
            "CUDA_VISIBLE_DEVICES": "",  # with fewer devices than ranks every test would skip
            "OMP_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )
        self.tests = self._answer(START_S)
        return self._process

    def _answer(self, limit: float) -> Any:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"after {limit} s")
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise EOFError("it ended")
                self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)
