"""A rank of a job in which rank 1 dies in the way that the first argument names; the others end as the second says."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

death, reaction = sys.argv[1:]
dist.init_process_group(os.environ["TEST_BACKEND"])
rank = dist.get_rank()
value = torch.ones(100_000)
dist.all_reduce(value)
if rank == 1:
    print("dying", flush=True)
    if death == "ends without destroying":
        sys.exit(0)
    if death == "_exit":
        os._exit(0)
    os.kill(os.getpid(), getattr(signal, death))
start = time.monotonic()
try:
    dist.all_reduce(value)
except dist.DistBackendError as error:
    print(f"after {1e3 * (time.monotonic() - start):.1f} ms: {error}", flush=True)
    if reaction == "raise":
        raise
    sys.exit(int(reaction))
