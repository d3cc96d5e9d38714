"""What a Communicator refuses: this rank is told, nothing was sent, and it goes on."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.distributed as dist
from processes import communicators

from torch_customccl.communicator import Communicator


def cut() -> torch.Tensor:
    """Eight elements in the memory of four."""
    tensor = torch.ones(8)
    tensor.untyped_storage().resize_(16)
    return tensor


REFUSED = {
    "too little memory": (
        lambda comm: comm.allreduce(cut()),
        ValueError,
        "needs a storage of 32 bytes and has one of 16",
    ),
    "too little memory to read": (
        lambda comm: comm.broadcast(cut()),
        ValueError,
        "needs a storage of 32 bytes and has",
    ),
    "too little memory to write": (
        lambda comm: comm.allgather(cut(), torch.ones(4)),
        ValueError,
        "needs a storage of 32 bytes and has one of 16",
    ),
    "not contiguous": (lambda comm: comm.allreduce(torch.ones(4, 4).t()), ValueError, r"shape \(4, 4\), is not contig"),
    "another device": (lambda comm: comm.allreduce(torch.ones(2, device="meta")), ValueError, "is on meta"),
    "sparse": (lambda comm: comm.allreduce(torch.eye(2).to_sparse()), TypeError, "a dense CPU tensor"),
    "a lazy conjugate": (lambda comm: comm.allreduce(torch.ones(2) + 0j), None, None),
    "conjugated": (lambda comm: comm.allreduce((torch.ones(2) + 1j).conj()), ValueError, "conjugates or negates"),
    "negated": (lambda comm: comm.allreduce((torch.ones(1) + 1j).conj().imag), ValueError, "conjugates or negates"),
    "a list": (lambda comm: comm.allreduce([1.0]), TypeError, "got list"),
    "an unknown op": (
        lambda comm: comm.allreduce(torch.ones(2), op="xor"),
        ValueError,
        "unknown reduce op 'xor'; known",
    ),
    "an op without a meaning": (
        lambda comm: comm.allreduce(torch.ones(2), op="band"),
        ValueError,
        "BAND is not defined",
    ),
    "an unknown dtype": (lambda comm: comm.allreduce(0, 0, "float"), TypeError, "no dtype float"),
    "a null address": (lambda comm: comm.allreduce(0, 4, torch.float32), ValueError, "NULL"),
    "a negative count": (lambda comm: comm.allreduce(8, -1, torch.float32), ValueError, "all_reduce: count -1 or an"),
    "a count that is no number": (lambda comm: comm.broadcast(8, 1.5, torch.float32), ValueError, "count 1.5"),
    "an op that is None": (lambda comm: comm.allreduce(torch.ones(2), op=None), ValueError, "unknown reduce op None"),
    "an op that is a list": (
        lambda comm: comm.allreduce(torch.ones(2), op=["sum"]),
        ValueError,
        r"op \['sum'\]; known",
    ),
    "a dtype that is a list": (lambda comm: comm.allreduce(8, 0, []), TypeError, r"no dtype \[\]"),
    "a root of too many bits": (
        lambda comm: comm.broadcast(torch.ones(2), root=1 << 32),
        ValueError,
        "root is 4294967",
    ),
    "a root of a bit too many": (lambda comm: comm.broadcast(torch.ones(2), root=1 << 31), ValueError, "than 32 bits"),
    "a root that is no number": (
        lambda comm: comm.reduce(torch.ones(2), root="0"),
        TypeError,
        "root of reduce must be",
    ),
    "a peer of too many bits": (lambda comm: comm.send(torch.ones(2), 1 << 32), ValueError, "dst is 4294967296, more"),
    "a tag of too many bits": (lambda comm: comm.recv(torch.ones(2), 0, tag=1 << 64), ValueError, "tag is 18446744"),
    "a tag to send of too many bits": (
        lambda comm: comm.send(torch.ones(2), 0, tag=1 << 64),
        ValueError,
        "tag is 18446744",
    ),
    "a tag to send of a bit too many": (
        lambda comm: comm.send(torch.ones(2), 0, tag=1 << 63),
        ValueError,
        "tag is 9223372",
    ),
    "a tag that is no number": (lambda comm: comm.send(torch.ones(2), 0, tag=0.5), TypeError, "tag of send must be"),
    "a tensor with a count": (
        lambda comm: comm.allreduce(torch.tensor([7]), 1, torch.int64),
        TypeError,
        "a buffer is an address, an int, not Tensor",
    ),
    "tensors with a count": (
        lambda comm: comm.allgather(torch.zeros(2), torch.tensor([7]), 1, torch.int64),
        TypeError,
        "an int, not Tensor",
    ),
    "an op in the place of a count": (
        lambda comm: comm.allreduce(torch.ones(2), "max"),
        TypeError,
        "op and root go by name",
    ),
    "nothing with a count": (lambda comm: comm.broadcast(None, 1, torch.int64), TypeError, "an int, not NoneType"),
    "a count to receive of too many bits": (
        lambda comm: comm.recv(torch.ones(3).data_ptr(), 0, (1 << 64) + 3, torch.float32),
        ValueError,
        "recv: count 18446744073709551619 or an address",
    ),
    "a negative count to receive": (
        lambda comm: comm.recv(torch.ones(3).data_ptr(), 0, -1, torch.uint8),
        ValueError,
        "recv: count -1 or an address",
    ),
    "an address to receive at of too many bits": (
        lambda comm: comm.recv((1 << 64) + torch.ones(3).data_ptr(), 0, 3, torch.float32),
        ValueError,
        "recv: count 3 or an address",
    ),
    "an abort for a number": (lambda comm: comm.abort(5), TypeError, "aborted is a str, not 5"),
    "a copy": (copy.copy, TypeError, "cannot be copied or pickled"),
    "a deep copy": (copy.deepcopy, TypeError, "cannot be copied or pickled"),
    "a pickle": (pickle.dumps, TypeError, "cannot be copied or pickled"),
    "a negative source": (lambda comm: comm.recv(torch.ones(2), -1), ValueError, "src is -1, .* None receives"),
    "a source that is no number": (lambda comm: comm.recv(torch.ones(2), 0.5), TypeError, "src of recv must be an int"),
    "a root outside": (lambda comm: comm.broadcast(torch.ones(2), root=2), ValueError, "root is 2"),
    "sizes that do not fit": (
        lambda comm: comm.allgather(torch.ones(3), torch.ones(2)),
        ValueError,
        "2 elements of input",
    ),
    "blocks that do not fit": (lambda comm: comm.alltoall(torch.ones(3), torch.ones(3)), ValueError, "2 equal blocks"),
    "two dtypes": (
        lambda comm: comm.scatter(torch.ones(1), torch.ones(2).int()),
        TypeError,
        "the input is torch.int32",
    ),
    "no buffer": (lambda comm: comm.gather(None, None), TypeError, "neither an input nor an output"),
}


def test_what_is_refused_and_that_it_ends_nothing():
    def body(comm):
        for what, (call, error, says) in REFUSED.items():
            for _ in range(2):  # as the first of its kind, and again
                if error is None:
                    call(comm)
                    continue
                with pytest.raises(error, match=says):
                    call(comm)
                    pytest.fail(what)
        tensor = torch.ones(1)
        comm.allreduce(tensor)
        assert tensor.item() == 2

    communicators(2, body)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"timeout": 5}, TypeError, "timeout of a Communicator must be a datetime.timedelta, not 5"),
        ({"name": b"n"}, TypeError, "the name of a Communicator must be a str, not b'n'"),
        ({"name": "\udc80"}, ValueError, r"the name of a Communicator is '.udc80', which UTF-8 cannot say"),
    ],
)
def test_what_it_cannot_be_made_with_is_refused_before_the_ranks_meet(given, error, says):
    with pytest.raises(error, match=says):
        Communicator(**given)


def test_an_abort_is_one_whatever_its_reason_holds():
    def body(comm):
        comm.abort("half a letter: \udc80")
        with pytest.raises(dist.DistBackendError, match=r"half a letter: \?"):
            comm.barrier()

    communicators(1, body)
