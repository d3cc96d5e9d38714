"""Tensor parallelism: layers cut over ranks compute what whole layers compute."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

WIDTH, HEADS, LENGTH = 12, 6, 6


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        def heads(y: Tensor) -> Tensor:
            return y.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)

        mixed = nn.functional.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), is_causal=True
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(torch.tanh(self.up(self.norm2(x))))


COLUMNS_AND_ROWS = {
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}
# Between the layers, activations are cut along the sequence: all_gather before a layer, reduce_scatter after it.
ALONG_THE_SEQUENCE = {
    **COLUMNS_AND_ROWS,
    "norm1": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "norm2": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
}


def fresh_block() -> Block:
    torch.manual_seed(5)
    return Block().double()


def batch() -> Tensor:
    return torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def check_gradients(block: nn.Module, reference: nn.Module) -> None:
    for (name, mine), wanted in zip(block.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(full(mine.grad), wanted.grad, msg=lambda text, name=name: f"{name}: {text}")


def test_attention_and_mlp_cut_by_columns_and_rows(ranks):
    def body(rank, size):
        block, reference = fresh_block(), fresh_block()
        parallelize_module(block, init_device_mesh("cpu", (size,)), COLUMNS_AND_ROWS)
        assert block.up.weight.to_local().shape[0] == 4 * WIDTH // size
        result, wanted = block(batch()), reference(batch())
        torch.testing.assert_close(full(result), wanted)
        result.square().sum().backward()
        wanted.square().sum().backward()
        check_gradients(block, reference)

    ranks(3).run(body)


def test_the_same_with_activations_cut_along_the_sequence(ranks):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (size,))
        block, reference = fresh_block(), fresh_block()
        parallelize_module(block, mesh, ALONG_THE_SEQUENCE)
        result, wanted = block(batch().chunk(size, 1)[rank]), reference(batch())
        torch.testing.assert_close(DTensor.from_local(result, mesh, [Shard(1)]).full_tensor(), wanted)
        result.square().sum().backward()
        wanted.square().sum().backward()
        check_gradients(block, reference)

    ranks(2).run(body)
