"""What the benchmark compiles: small C programs, and backends that do next to nothing."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

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


EXCHANGES = """
import os, sys, time
import torch.distributed as dist
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], 2), rank=int(sys.argv[2]), world_size=2)
from benchmarks.peers import EXCHANGE, PEERS
group = PEERS[EXCHANGE]().group
dist.barrier(group=group)
begin = time.process_time()
for _ in range(500):
    dist.barrier(group=group)
print(time.process_time() - begin, flush=True)
os._exit(0)
"""


@pytest.mark.timeout(300)
def test_flags_are_exchanged_on_one_processor_without_burning_time_slices(tmp_path: Path) -> None:
    native.load_noop()
    command = [sys.executable, "-c", EXCHANGES, str(tmp_path / "store")]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, cwd=native.ROOT) for rank in (0, 1)
    ]
    seconds = [float(rank.communicate()[0]) for rank in ranks]
    assert sum(seconds) < 0.2, seconds  # of processor time: half a slice each is four times that
