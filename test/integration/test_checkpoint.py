"""torch.distributed.checkpoint: what some ranks save, other numbers and layouts of shards load."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

WHOLE = torch.arange(35, dtype=torch.float32).reshape(5, 7)


def contents(mesh, placement, fill: bool) -> dict[str, object]:
    tensor = WHOLE if fill else torch.zeros_like(WHOLE)
    return {"tensor": distribute_tensor(tensor, mesh, [placement]), "plain": tensor.clone(), "step": 7 if fill else 0}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_saved_shards_load_into_other_shards(ranks, tmp_path, asynchronous):
    def body(rank, size, folder):
        mesh = init_device_mesh("cpu", (size,))
        saved = contents(mesh, Shard(0), fill=True)
        if asynchronous:
            dcp.async_save(saved, checkpoint_id=folder).result()
            dist.barrier()
        else:
            dcp.save(saved, checkpoint_id=folder)
        for placement in (Replicate(), Shard(0), Shard(1)):
            loaded = contents(mesh, placement, fill=False)
            dcp.load(loaded, checkpoint_id=folder)
            assert torch.equal(loaded["tensor"].full_tensor(), WHOLE)
            assert torch.equal(loaded["plain"], WHOLE)
            assert loaded["step"] == 7

    ranks(2).run(body, str(tmp_path))


def test_a_checkpoint_of_two_ranks_loads_into_three(ranks, tmp_path):
    def save(rank, size, folder):
        dcp.save(contents(init_device_mesh("cpu", (size,)), Shard(0), fill=True), checkpoint_id=folder)

    def load(rank, size, folder):
        loaded = contents(init_device_mesh("cpu", (size,)), Shard(1), fill=False)
        dcp.load(loaded, checkpoint_id=folder)
        assert torch.equal(loaded["tensor"].full_tensor(), WHOLE)

    ranks(2).run(save, str(tmp_path))
    ranks(3).run(load, str(tmp_path))


def test_a_sharded_model_and_its_optimizer_continue_from_a_checkpoint(ranks, tmp_path):
    def body(rank, size, folder):
        def fresh(seed):
            torch.manual_seed(seed)
            net = fully_shard(nn.Linear(5, 3), mesh=init_device_mesh("cpu", (size,)))
            return net, torch.optim.AdamW(net.parameters(), lr=0.1)

        def step(net, optimizer):
            net(torch.ones(2, 5) * (rank + 1)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        net, optimizer = fresh(0)
        step(net, optimizer)
        model_state, optimizer_state = get_state_dict(net, optimizer)
        dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
        step(net, optimizer)

        other, other_optimizer = fresh(1)
        step(other, other_optimizer)  # makes the states that the checkpoint is loaded into
        model_state, optimizer_state = get_state_dict(other, other_optimizer)
        dcp.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
        set_state_dict(other, other_optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
        step(other, other_optimizer)
        for mine, wanted in zip(other.parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(mine.full_tensor(), wanted.full_tensor())

    ranks(2).run(body, str(tmp_path))
