"""Whole Python values from rank to rank: customccl's messages against what one builds on gloo.

    torchrun --nproc-per-node 2 -m benchmarks.messages

A time is half of the way there and back, the median over the rounds; the two take turns, so their ratio holds on a busy
machine too. "gloo": the size, the pickle of everything but the tensors, one send per tensor, which is what programs do
today. Metadata: 512 bytes of names and numbers.
"""

import os
import pickle
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import torch_customccl

ROUNDS, TURNS = 11, 20
TENSORS = 8
SIZES = (512, 4 << 10, 64 << 10, 1 << 20)
LIMIT = timedelta(seconds=60)


def message_of(size: int) -> dict[str, Any]:
    metadata = {f"field {i}": i * 1000 for i in range(24)}
    return {**metadata, "tensors": [torch.ones(size, dtype=torch.uint8) for _ in range(TENSORS)]}


def over_gloo(group: dist.ProcessGroup) -> tuple[Callable[[Any, int], None], Callable[[int], Any]]:
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


def one_way(send: Callable[[Any, int], None], recv: Callable[[int], Any], message: Any, rank: int, turns: int) -> float:
    """Seconds."""
    peer = 1 - rank
    begun = time.perf_counter()
    for _ in range(turns):
        if rank == 0:
            send(message, peer)
            recv(peer)
        else:
            recv(peer)
            send(message, peer)
    return (time.perf_counter() - begun) / turns / 2


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    store = dist.distributed_c10d._get_default_store()
    world = dist.group.WORLD
    assert world is not None
    gloo = over_gloo(world)
    with torch_customccl.create_group(store, rank, 2, "messages", timeout=LIMIT) as group:
        ours = group.send_message, group.recv_message
        if rank == 0:
            print(f"{'tensors':>16} {'customccl us':>14} {'gloo us':>10} {'ratio':>7}")
        for size in SIZES:
            message = message_of(size)
            pairs = [
                (one_way(*ours, message, rank, TURNS), one_way(*gloo, message, rank, TURNS)) for _ in range(ROUNDS)
            ]
            mine, theirs = (1e6 * statistics.median(column) for column in zip(*pairs, strict=True))
            if rank == 0:
                ratio = statistics.median(there / here for here, there in pairs)
                print(f"{TENSORS:>4} x {size:>7} B {mine:>14.1f} {theirs:>10.1f} {ratio:>7.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
