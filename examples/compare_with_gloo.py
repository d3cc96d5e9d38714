"""Times customccl against gloo, by turns in one run, and checks every result.

    torchrun --nproc-per-node 2 examples/compare_with_gloo.py

Each round times gloo, customccl, customccl, gloo. A time is the slowest rank's; the table shows the medians, and the
median of the rounds' own ratios, which a machine that slows down for a while does not move. Buffers are written before
every call.
"""

import os
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

ROUNDS = 15
SIZES = (8, 4 << 10, 64 << 10, 1 << 20, 16 << 20)


def operations(group: dist.ProcessGroup, count: int) -> dict[str, Callable[[], None]]:
    """name -> one call on `group`, which writes its buffers first and checks one element of the result."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    tensor = torch.empty(count)
    gathered = torch.empty(count * size)

    def all_reduce() -> None:
        tensor.fill_(rank + 1)
        dist.all_reduce(tensor, group=group)
        assert tensor[-1] == size * (size + 1) / 2

    def broadcast() -> None:
        tensor.fill_(rank + 1)
        dist.broadcast(tensor, group_src=0, group=group)
        assert tensor[-1] == 1

    def all_gather() -> None:
        tensor.fill_(rank + 1)
        dist.all_gather(list(gathered.chunk(size)), tensor, group=group)
        assert gathered[-1] == size

    return {"all_reduce": all_reduce, "broadcast": broadcast, "all_gather": all_gather}


def microseconds(call: Callable[[], None], repeats: int) -> float:
    """Time of one call, of the slowest rank."""
    dist.barrier()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    took = torch.tensor((time.perf_counter() - began) / repeats * 1e6)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def compare(name: str, size: int, ours: dist.ProcessGroup, theirs: dist.ProcessGroup) -> str:
    count = max(size // 4, 1)
    first, second = operations(theirs, count)[name], operations(ours, count)[name]
    repeats = max(2, min(200, (4 << 20) // size))
    for _ in range(10):
        first(), second()
    rounds = [[microseconds(call, repeats) for call in (first, second, second, first)] for _ in range(ROUNDS)]
    gloo = statistics.median((a + d) / 2 for a, _, _, d in rounds)
    customccl = statistics.median((b + c) / 2 for _, b, c, _ in rounds)
    ratio = statistics.median((a + d) / (b + c) for a, b, c, d in rounds)
    return f"{name:<11} {size:>10,} B {customccl:>12,.1f} {gloo:>12,.1f} {ratio:>9.1f}"


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("customccl")
    gloo = dist.new_group(backend="gloo")
    lines = [f"{'':<11} {'tensor':>12} {'customccl us':>12} {'gloo us':>12} {'gloo/ours':>9}"]
    for name in ("all_reduce", "broadcast", "all_gather"):
        lines += [compare(name, size, dist.group.WORLD, gloo) for size in SIZES]
    if dist.get_rank() == 0:
        load = os.getloadavg()[0]
        print(f"{dist.get_world_size()} ranks, float32, torch {torch.__version__}, load average {load:.1f}")
        print("\n".join(lines))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
