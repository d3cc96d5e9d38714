"""A rank whose asynchronous work no thread moves on: a future that is asked for is over, or has failed in time."""

import os
import threading
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

os.environ["CUSTOMCCL_PROGRESS_THREAD"] = "0"
dist.init_process_group(os.environ["TEST_BACKEND"], timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()

for count in (1, 1000, 3_000_000):
    values = torch.arange(float(count)) + rank
    work = dist.all_reduce(values, async_op=True)
    result = work.get_future()
    assert result.done() and work.get_future_result().value() == 0
    assert torch.equal(result.value()[0], torch.arange(float(count)) * size + sum(range(size))), count

torch.manual_seed(rank)
net = DistributedDataParallel(nn.Sequential(nn.Linear(20, 700), nn.ReLU(), nn.Linear(700, 900)), bucket_cap_mb=0.1)
for _ in range(3):
    net(torch.randn(4, 20)).sum().backward()
gradients = torch.cat([parameter.grad.flatten() for parameter in net.parameters()])
first = gradients.clone()
dist.broadcast(first, 0)
assert torch.equal(first, gradients)

# Ranks may be threads of one process: who asks lets Python's other threads run.
message, came = torch.zeros(3), threading.Event()
if rank == 0:
    work = dist.irecv(message, 1)
    helper = threading.Thread(target=lambda: (dist.send(torch.ones(1), 1), came.set()))
    helper.start()
    assert work.get_future().done() and came.wait(60) and message.tolist() == [1.0, 2.0, 3.0]
    helper.join()
else:
    dist.recv(torch.zeros(1), 0)
    dist.send(torch.tensor([1.0, 2.0, 3.0]), 0)

dist.barrier()
if rank == 0:
    options = dist.AllreduceOptions()
    options.timeout = timedelta(milliseconds=300)
    failing = dist.group.WORLD.allreduce([torch.ones(3)], options).get_future()
    assert failing.done()
    try:
        failing.wait()
    except dist.DistBackendError as error:
        print("rank 0 heard:", error, flush=True)
    dist.destroy_process_group()
    dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])).set("rank 0 has heard", "yes")
else:
    dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])).wait(["rank 0 has heard"])
    dist.destroy_process_group()
