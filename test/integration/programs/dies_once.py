"""A rank of a torchrun job whose last rank dies at its first start; after the restart all finish.

TEST_DEATH: how it dies, the name of a signal or "exit". Every rank prints one line for each start.
"""

import os
import signal
import sys

import torch
import torch.distributed as dist

dist.init_process_group(os.environ["TEST_BACKEND"])
rank, size = dist.get_rank(), dist.get_world_size()
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
value = torch.full((1000,), rank + 1.0)
dist.all_reduce(value)
if restarts == 0 and rank == size - 1:
    if os.environ["TEST_DEATH"] == "exit":
        sys.exit(3)
    os.kill(os.getpid(), getattr(signal, os.environ["TEST_DEATH"]))
dist.all_reduce(value)
print(f"rank {rank} of {size}, start {restarts}: {value[0].item()}\n", end="", flush=True)
dist.destroy_process_group()
