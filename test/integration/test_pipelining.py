"""torch.distributed.pipelining: stages on several ranks compute the losses and gradients of the whole model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)

WIDTH, BATCH, MICROBATCHES = 6, 12, 4


def layers(count: int) -> list[nn.Module]:
    torch.manual_seed(3)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double() for _ in range(count)]


def batch(step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    return x, x.flip(1)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.mse_loss(output, target)


def check_step(schedule, step: int, rank: int, size: int, stages: dict[int, nn.Module], count: int) -> None:
    """One step; the losses of the micro-batches and the gradients of this rank's stages."""
    x, y = batch(step)
    losses: list[Tensor] = []
    first, last = rank == 0, rank == size - 1
    for stage in stages.values():
        stage.zero_grad()
    schedule.step(*([x] if first else []), **({"target": y, "losses": losses} if last else {}))

    reference = layers(count)
    parts = zip(x.chunk(MICROBATCHES), y.chunk(MICROBATCHES), strict=True)
    wanted = torch.stack([loss_of(nn.Sequential(*reference)(part), target) for part, target in parts])
    if last:
        torch.testing.assert_close(torch.stack(losses), wanted)
    wanted.mean().backward()
    for index, stage in stages.items():
        for mine, other in zip(stage.parameters(), reference[index].parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("schedule", [ScheduleGPipe, Schedule1F1B])
def test_one_stage_a_rank(ranks, size, schedule):
    def body(rank, size):
        stage = layers(size)[rank]
        pipe = schedule(PipelineStage(stage, rank, size, torch.device("cpu")), MICROBATCHES, loss_fn=loss_of)
        for step in range(2):
            check_step(pipe, step, rank, size, {rank: stage}, size)

    ranks(size).run(body)


@pytest.mark.parametrize("schedule", [ScheduleInterleaved1F1B, ScheduleLoopedBFS])
def test_two_stages_a_rank(ranks, schedule):
    def body(rank, size):
        count = 2 * size
        mine = {index: layers(count)[index] for index in (rank, rank + size)}
        stages = [PipelineStage(module, index, count, torch.device("cpu")) for index, module in mine.items()]
        pipe = schedule(stages, MICROBATCHES, loss_fn=loss_of)
        for step in range(2):
            check_step(pipe, step, rank, size, mine, count)

    ranks(2).run(body)
