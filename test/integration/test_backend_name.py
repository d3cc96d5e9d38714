"""What a ProcessGroup says its backend is: torch has one name, "custom", for all that are not its own."""

from __future__ import annotations

import torch.distributed as dist
from harness.settings import BACKEND


def test_a_group_and_get_backend_give_the_same_name(ranks):
    def body(rank, size):
        reversed_ranks = list(reversed(range(size)))
        groups = [dist.group.WORLD, dist.new_group(reversed_ranks), dist.new_group(backend=f"cpu:{BACKEND}")]
        assert [group._get_backend_name() for group in groups] == [BACKEND] * 3
        assert [dist.get_backend(group) for group in groups[:2]] == [BACKEND] * 2
        assert dist.new_group(backend="gloo")._get_backend_name() == "gloo"
        last = groups[1]
        dist.destroy_process_group(last)
        assert last._get_backend_name() == BACKEND

    ranks(2, fresh=True).run(body)


def test_the_backends_of_others_keep_the_name_that_torch_gives_them(ranks):
    def body(rank, size):
        from torch_customccl.conformance import mutants  # noqa: F401  (registers them)

        theirs = dist.new_group(backend="donothing")
        assert theirs._get_backend_name() == dist.ProcessGroup._get_backend_name.__wrapped__(theirs) != BACKEND

    ranks(2, fresh=True).run(body)
