"""One rank of a job whose rank 1 comes to the second operation some seconds late (argument)."""

import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ["TEST_BACKEND"])
dist.barrier()
if dist.get_rank() == 1:
    time.sleep(float(sys.argv[1]))
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
