"""Whole Python values from rank to rank: customccl's messages against what one builds on gloo.

A message is 512 bytes of names and numbers and eight tensors. gloo: the size, the pickle of everything but the tensors,
one send per tensor, which is what programs do today.
"""

import pickle
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

TENSORS = 8

Send = Callable[[Any, int], None]
Recv = Callable[[int], Any]


def message_of(size: int) -> dict[str, Any]:
    """`size`: bytes of the eight tensors together."""
    metadata = {f"field {i}": i * 1000 for i in range(24)}
    count = size // TENSORS // 4
    return {**metadata, "tensors": [torch.arange(count, dtype=torch.float32) + i for i in range(TENSORS)]}


def round_trip(send: Send, recv: Recv, size: int) -> Callable[[], object]:
    """There and back between ranks 2k and 2k + 1; a rank without a partner does nothing. ValueError for a wrong one."""
    rank, message = dist.get_rank(), message_of(size)
    partner = rank ^ 1
    if partner >= dist.get_world_size():
        return lambda: None

    def trip() -> Any:
        if rank % 2 == 0:
            send(message, partner)
            return recv(partner)
        got = recv(partner)
        send(message, partner)
        return got

    got = trip()
    tensors = zip(got["tensors"], message["tensors"], strict=True)
    if {**got, "tensors": None} != {**message, "tensors": None} or not all(torch.equal(*pair) for pair in tensors):
        raise ValueError("another message arrived than was sent")
    return trip


def over_gloo(group: dist.ProcessGroup) -> tuple[Send, Recv]:
    def send(message: Any, peer: int) -> None:
        tensors = message["tensors"]
        shapes = [(tensor.shape, tensor.dtype) for tensor in tensors]
        data = torch.frombuffer(bytearray(pickle.dumps(({**message, "tensors": None}, shapes))), dtype=torch.uint8)
        dist.send(torch.tensor([data.numel()]), peer, group=group)
        dist.send(data, peer, group=group)
        for tensor in tensors:
            dist.send(tensor, peer, group=group)

    def recv(peer: int) -> Any:
        size = torch.empty(1, dtype=torch.int64)
        dist.recv(size, peer, group=group)
        data = torch.empty(int(size), dtype=torch.uint8)
        dist.recv(data, peer, group=group)
        message, shapes = pickle.loads(data.numpy().tobytes())
        message["tensors"] = [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
        for tensor in message["tensors"]:
            dist.recv(tensor, peer, group=group)
        return message

    return send, recv
