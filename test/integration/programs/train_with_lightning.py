"""A rank of a small training with lightning; prints the parameters that it ends with."""

import os

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(lightning.LightningModule):
    """A line through points, fitted by gradient descent."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.line = nn.Linear(6, 1)

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        assert dist.get_backend() == os.environ["TEST_BACKEND"]
        return nn.functional.mse_loss(self.line(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


x = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
data = TensorDataset(x, x.sum(1, keepdim=True))
share = DistributedSampler(data, num_replicas=2, rank=int(os.environ["RANK"]), shuffle=False)
loader = DataLoader(data, batch_size=4, sampler=share)
net = Net()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    max_epochs=1,
    use_distributed_sampler=False,
    strategy=DDPStrategy(process_group_backend=os.environ["TEST_BACKEND"]),
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(net, loader)

reference = Net()
optimizer = torch.optim.SGD(reference.parameters(), lr=0.05)
for step in range(3):  # the sampler gives rank r every second sample, beginning with r
    part = x[8 * step : 8 * step + 8]
    optimizer.zero_grad()
    nn.functional.mse_loss(reference.line(part), part.sum(1, keepdim=True)).backward()
    optimizer.step()
for mine, wanted in zip(net.parameters(), reference.parameters(), strict=True):
    torch.testing.assert_close(mine, wanted)
print(f"rank {trainer.global_rank} learnt what one process learns\n", end="", flush=True)
dist.destroy_process_group()
