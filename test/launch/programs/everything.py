"""Run by mpirun or torchrun with no address given: coordinator, process group and communicator in one process."""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from torch_customccl.communicator import Communicator
from torch_customccl.launch import Coordinator

source, size = sys.argv[1], int(sys.argv[2])
limit = timedelta(seconds=80)
coordinator = Coordinator(timeout=limit)
info = coordinator.launch_info
assert (info.source, info.world_size, coordinator.local_size) == (source, size, size), info
assert info.launch_id and info.local_rank == coordinator.local_rank == info.rank, info
assert coordinator.allgather(b"%d" % info.rank) == [b"%d" % i for i in range(size)]
assert coordinator.once_per_node(lambda: coordinator.rank) == 0

dist.init_process_group("customccl", store=coordinator.store, rank=coordinator.rank, world_size=size, timeout=limit)
tensor = torch.full((1000,), coordinator.rank)
dist.all_reduce(tensor)
assert tensor.tolist() == [sum(range(size))] * 1000
dist.destroy_process_group()

with Communicator(coordinator, timeout=limit) as communicator:
    communicator.allreduce(tensor)
assert tensor.tolist() == [sum(range(size)) * size] * 1000

assert Coordinator(info if source == "torchrun" else None, timeout=limit).unique_token()
sys.stdout.write(f"rank {info.rank} is done\n")
