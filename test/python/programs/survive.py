"""A rank of a job whose last rank dies in the way that the argument names. Rank 0 chooses 5 as its exit code then."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

death = sys.argv[1]
dist.init_process_group(os.environ["TEST_BACKEND"])
rank = dist.get_rank()
value = torch.ones(100_000)
dist.all_reduce(value)
if rank == dist.get_world_size() - 1:
    if death == "ends without destroying":
        sys.exit(0)
    os.kill(os.getpid(), getattr(signal, death))
start = time.monotonic()
try:
    dist.all_reduce(value)
except dist.DistBackendError as error:
    print(f"after {1e3 * (time.monotonic() - start):.1f} ms: {error}", flush=True)
    if rank > 0:
        raise
    sys.exit(5)
