"""Run by mpirun on two ranks: the first attempt of rank 0 to meet fails, and rank 1 looks for it before the next."""

import sys
import time
from datetime import timedelta
from pathlib import Path

from torch_customccl.launch import Coordinator, LaunchInfo

has_failed, looks = Path(sys.argv[1] + " has failed"), Path(sys.argv[1] + " looks")


def wait_for(what: Path) -> None:
    while not what.exists():
        time.sleep(0.01)


if LaunchInfo.detect().rank == 0:
    try:
        Coordinator(timeout=timedelta(seconds=2))  # the process manager may take some of it to publish
    except TimeoutError as error:
        assert "rank 1 did not come" in str(error), error
    else:
        raise AssertionError("rank 1 was there already")
    has_failed.touch()
    wait_for(looks)
    time.sleep(0.5)  # rank 1 finds what the first attempt published, most probably
else:
    wait_for(has_failed)
    looks.touch()
coordinator = Coordinator(timeout=timedelta(seconds=60))
coordinator.barrier()
sys.stdout.write(f"rank {coordinator.rank} is done\n")
