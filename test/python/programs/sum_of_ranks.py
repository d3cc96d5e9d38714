"""One rank of a job: sums the ranks and prints the result. Arguments for init_process_group come as a JSON object."""

import json
import os
import sys

import torch
import torch.distributed as dist

options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
dist.init_process_group(options.pop("backend", os.environ["TEST_BACKEND"]), **options)
value = torch.full((1000,), float(dist.get_rank()))
dist.all_reduce(value)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {value[-1].item():g}", flush=True)
if "LEAVE_GROUP_OPEN" not in os.environ:
    dist.destroy_process_group()
sys.exit(int(os.environ.get("EXIT_CODE", "0")))
