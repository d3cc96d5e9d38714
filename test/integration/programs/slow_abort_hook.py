"""A rank whose abort hook takes a while, and then writes the file that is named; the exit code is 5.

With "spawn" the rank is a process of multiprocessing, and the exit code is its.
"""

import multiprocessing
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def fail(file: str) -> None:
    dist.init_process_group("customccl", store=dist.HashStore(), rank=0, world_size=1)

    def write() -> None:
        time.sleep(1)  # the process is at its end by then
        Path(file).write_text("written")

    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.register_abort_hook(7, write)
    backend.abort()
    sys.exit(5)


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        child = multiprocessing.get_context("spawn").Process(target=fail, args=(sys.argv[2],))
        child.start()
        child.join()
        sys.exit(child.exitcode)
    fail(sys.argv[2])
