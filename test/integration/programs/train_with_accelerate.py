"""A rank of a small training with accelerate; ends well if it learns what one process learns."""

import os

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, BATCH = 24, 4


def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(4)
    net = nn.Linear(6, 1).double()
    return net, torch.optim.SGD(net.parameters(), lr=0.05)


x = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
y = x.sum(1, keepdim=True)

dist.init_process_group(os.environ["TEST_BACKEND"])  # accelerate itself knows backends by name
accelerator = Accelerator(cpu=True)
rank, size = accelerator.process_index, accelerator.num_processes
assert size == 2 and dist.get_backend() == os.environ["TEST_BACKEND"], (size, dist.get_backend())
net, optimizer, loader = accelerator.prepare(*fresh(), DataLoader(TensorDataset(x, y), batch_size=BATCH))
for inputs, targets in loader:
    optimizer.zero_grad()
    accelerator.backward(nn.functional.mse_loss(net(inputs), targets))
    optimizer.step()

reference, optimizer = fresh()
for part in torch.arange(SAMPLES).split(BATCH * size):  # a step of all ranks takes consecutive batches
    optimizer.zero_grad()
    nn.functional.mse_loss(reference(x[part]), y[part]).backward()
    optimizer.step()
for mine, wanted in zip(accelerator.unwrap_model(net).parameters(), reference.parameters(), strict=True):
    torch.testing.assert_close(mine, wanted)
assert accelerator.gather(torch.tensor([rank])).tolist() == list(range(size))
print(f"rank {rank} learnt what one process learns\n", end="", flush=True)
accelerator.end_training()
if dist.is_initialized():
    dist.destroy_process_group()
