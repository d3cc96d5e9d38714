"""A rank that ends while threads of it wait for what nobody sends.

What it registered for its end before it had a group uses the group once more.
"""

import atexit
import os
import threading

import torch
import torch.distributed as dist


def say_last_words() -> None:
    value = torch.full((300_000,), dist.get_rank() + 1.0)
    if dist.get_rank() == 1:
        dist.recv(torch.empty(1), 0, tag=7)
    future = dist.all_reduce(value, async_op=True).get_future()
    if dist.get_rank() == 0:
        dist.send(torch.empty(1), 1, tag=7)  # only now rank 1 comes, so the future is not there at once
    print("sum", future.wait()[0].unique().tolist(), flush=True)


atexit.register(say_last_words)
dist.init_process_group(os.environ["TEST_BACKEND"])
peer = 1 - dist.get_rank()
waits = [
    lambda: dist.recv(torch.empty(1), peer),
    lambda: dist.recv(torch.empty(1), tag=8),
    lambda: dist.irecv(torch.empty(1), peer, tag=9).wait(),
]
threads = [threading.Thread(target=wait, daemon=True) for wait in waits]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(0.2)  # until it has begun to wait
    assert thread.is_alive()
