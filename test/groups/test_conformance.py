"""The conformance kit's cases with Group objects in the place of torch's groups."""

from __future__ import annotations

import inspect

import torch
import torch.distributed as dist
from rich.console import Console
from shared import LIMIT, store

from torch_customccl.conformance.model import Tier
from torch_customccl.conformance.plan import Selection
from torch_customccl.conformance.session import Request, run

MODULE = "torch_customccl.conformance.through_group"


def test_torchs_functions_work_through_groups(ranks):
    def body(rank, size):
        from torch_customccl import Group
        from torch_customccl.conformance import through_group

        assert dist.all_reduce.__wrapped__ is not None and through_group
        dist.init_process_group("customccl", store=store(), rank=rank, world_size=size, timeout=LIMIT)
        keeps_order = "sort_ranks" in inspect.signature(dist.new_group).parameters  # torch 2.11 does not
        last = dist.new_group([2, 1], timeout=LIMIT, **({"sort_ranks": False} if keeps_order else {}))
        world = dist.group.WORLD
        assert isinstance(world, Group) and isinstance(last, Group) == (rank > 0)
        assert dist.get_backend() == "customccl" and dist.get_rank() == rank
        x = torch.full((3,), rank)
        if rank > 0:
            dist.broadcast(x, src=2, group=last)
            assert last.rank() == (2 - rank if keeps_order else rank - 1) and x.tolist() == [2, 2, 2]
        dist.all_reduce(x)
        dist.destroy_process_group()
        assert world.closed and not dist.is_initialized()
        return x.tolist()

    assert ranks(3, fresh=True, init=False).run(body) == [[4, 4, 4]] * 3


def test_the_smoke_tier():
    request = Request("customccl", (MODULE,), Selection(Tier.SMOKE), budget_s=600.0)
    result = run(request, Console(quiet=True))
    broken = [(case["id"], case["verdict"], case["message"]) for case in result["cases"] if case["gate"] != "ok"]
    assert not broken
    assert len(result["cases"]) > 200 and "not_run" not in result["summary"]["verdicts"]
