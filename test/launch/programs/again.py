"""Run by mpirun on two ranks: the first attempt of rank 0 to meet fails, since rank 1 comes after it."""

import sys
import time
from datetime import timedelta
from pathlib import Path

from torch_customccl.launch import Coordinator, LaunchInfo

has_failed = Path(sys.argv[1])
if LaunchInfo.detect().rank == 0:
    try:
        Coordinator(timeout=timedelta(milliseconds=10))
    except TimeoutError as error:
        assert "rank 1 did not come" in str(error), error
        has_failed.touch()
    else:
        raise AssertionError("rank 1 was there already")
else:
    while not has_failed.exists():
        time.sleep(0.01)
while True:
    try:
        coordinator = Coordinator(timeout=timedelta(seconds=10))
        break
    except TimeoutError:  # rank 1 may have looked up what the first attempt published
        continue
coordinator.barrier()
sys.stdout.write(f"rank {coordinator.rank} is done\n")
