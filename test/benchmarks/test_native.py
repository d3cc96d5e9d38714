"""The small C programs of the benchmark."""

import subprocess

import psutil

from benchmarks import native


def test_ranks_end_with_the_program_that_is_killed() -> None:
    program = subprocess.Popen([native.memory_program(), "3", "60", "4096"], stdout=subprocess.DEVNULL)
    try:
        while len(ranks := psutil.Process(program.pid).children()) < 2:
            assert program.poll() is None
    finally:
        program.kill()
        program.wait()
    _gone, alive = psutil.wait_procs(ranks, timeout=30)
    for rank in alive:
        rank.kill()
    assert not alive
