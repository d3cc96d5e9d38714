"""Where the tensors of a Group's operations are, and what is taken of them as bytes."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of
from shared import LIMIT, group

from torch_customccl import create_group


def test_tensors_of_another_device_are_refused_on_their_rank(ranks):
    """torch's dispatcher finds code for "meta" that does nothing, and others would wait."""

    def body(rank, size):
        x, nowhere = torch.ones(1), torch.ones(1, device="meta")
        with group(rank, size, "devices") as made:
            refused = [
                error_of(call)
                for call in (
                    lambda: made.all_reduce(nowhere, async_op=True),
                    lambda: made.broadcast(nowhere),
                    lambda: made.reduce(nowhere),
                    lambda: made.all_gather([x, x.clone()], nowhere),
                    lambda: made.all_gather_into_tensor(torch.ones(2), nowhere),
                    lambda: made.allgather(nowhere),
                    lambda: made.reduce_scatter_tensor(x, torch.ones(2, device="meta")),
                    lambda: made.all_to_all_single(torch.ones(2), torch.ones(2, device="meta")),
                    lambda: made.gather(nowhere, [x, x.clone()] if rank == 0 else None),
                    lambda: made.send(nowhere, 1 - rank),
                    lambda: made.recv(nowhere, 1 - rank),
                )
            ]
            made.barrier()  # nothing was sent
            return refused

    for refused in ranks(2).run(body):
        assert all(each.is_a("ValueError") and "a tensor on meta was given" in each.text for each in refused)


def test_bytes_of_tensors_are_those_of_their_values():
    with create_group(dist.HashStore(), 0, 1, "bytes", timeout=LIMIT) as made:
        x = torch.tensor([1 + 2j], dtype=torch.complex64)
        assert made.allgather(x.conj()) == [bytes(x.conj().resolve_conj().numpy())]
        assert made.allgather(x.conj().imag) == [bytes(x.conj().imag.resolve_neg().numpy())]
        for tensor in (torch.arange(6.0).view(2, 3)[:1, ::3], torch.arange(6.0).view(2, 3).t(), torch.ones(0, 2)):
            assert made.allgather(tensor) == [tensor.numpy().tobytes()]
        with pytest.raises(TypeError, match="a dense tensor is needed, not a torch"):
            made.allgather(torch.eye(2).to_sparse())


def test_what_has_no_bytes_is_refused_before_lengths_are_told(ranks):
    def body(rank, size):
        with group(rank, size, "no bytes") as made, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of both kinds
            x = torch.ones(2)
            strange = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), torch.nested.nested_tensor([x])
            refused = [error_of(made.allgather, each) for each in strange] if rank == 0 else []
            return refused, made.allgather(b"%d" % rank)

    for refused, gathered in ranks(2).run(body):
        assert all(each.is_a("TypeError") and "a dense tensor is needed" in each.text for each in refused)
        assert gathered == [b"0", b"1"]
