"""A rank ends while a thread of it comes back from an operation that the other rank carries out only then."""

import os
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

dist.init_process_group(os.environ["TEST_BACKEND"])
group = dist.group.WORLD
word = [torch.ones(1)]


class Last:
    """Goes when Python takes its modules apart, so it has what it needs with it."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self.tell, self.sleep = tell, time.sleep

    def __del__(self) -> None:
        self.tell()
        self.sleep(0.3)  # in which the thread comes back


if dist.get_rank() == 0:
    last = Last(lambda send=group.send, word=word: send(word, 1, 7).wait())
    thread = threading.Thread(target=dist.all_reduce, args=word, daemon=True)
    thread.start()
    thread.join(0.2)  # until it has begun to wait
    assert thread.is_alive()
else:
    dist.recv(torch.empty(1), 0, tag=7)
    dist.all_reduce(word[0])
