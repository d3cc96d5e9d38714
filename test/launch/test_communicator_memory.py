"""Tensors that a Communicator allocates, by ranks that are threads: peers read them where they lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.distributed as dist
from processes import LIMIT, coordinators

from torch_customccl.communicator import Communicator


def test_tensors_in_memory_that_peers_use_in_place():
    def body(comm):
        rank, size = comm.rank, comm.size
        for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64, torch.float8_e5m2):
            made = comm.allocate_tensor(100_000, dtype)
            assert made.dtype == dtype and made.shape == (100_000,) and made.data_ptr() % 4096 == 0
            made.fill_(1)
            comm.broadcast(made)
        tensor = comm.allocate_tensor(300_000)
        for factor in (1, 10):
            tensor.copy_(torch.arange(300_000) % 1000 * factor + rank)
            comm.allreduce(tensor)
            assert torch.equal(tensor, torch.arange(300_000) % 1000 * factor * size + sum(range(size)))
        part = tensor[1024 : 1024 + 204_800].view(200, 1024).fill_(rank)  # keeps the memory, which peers still reach
        del tensor
        comm.allreduce(part)
        assert bool((part == sum(range(size))).all())
        assert comm.allocate_tensor(0).numel() == 0
        own = [comm.allocate_tensor(50_000 + rank).data_ptr() for _ in range(3)]  # each goes before the next is made
        assert len(set(own)) == 1
        for count in (-1, 1 << 60, 1 << 62):
            with pytest.raises((ValueError, dist.DistBackendError)):
                comm.allocate_tensor(count, torch.float64)
        with pytest.raises(ValueError, match="4611686018427387904 elements"):
            comm.allocate_tensor(np.int64(1 << 62))  # whose bytes numpy would count as none
        for count, dtype, says in ((2.5, torch.float32, r"count of .* an int, not 2\.5"), (3, "f4", "no dtype .f4.")):
            with pytest.raises(TypeError, match=says):
                comm.allocate_tensor(count, dtype)
        comm.close()
        assert bool((part == sum(range(size))).all())

    coordinators(2, lambda coordinator: body(Communicator(coordinator, timeout=LIMIT)))
