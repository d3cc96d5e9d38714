"""Starts the ranks itself: `start_children.py spawn 2 PORT` with one of multiprocessing's start methods."""

import multiprocessing
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank: int, size: int, port: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    limit = timedelta(seconds=60)
    dist.init_process_group(os.environ["TEST_BACKEND"], store=store, rank=rank, world_size=size, timeout=limit)
    value = torch.full((1000,), float(rank + 1))
    dist.all_reduce(value)
    assert value[0].item() == size * (size + 1) / 2
    dist.destroy_process_group()


if __name__ == "__main__":
    method, size = sys.argv[1], int(sys.argv[2])
    if method == "forkserver":
        multiprocessing.set_forkserver_preload(["torch"])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    mp.start_processes(train, args=(size, store.port), nprocs=size, start_method=method)
    print("all children ended well")
