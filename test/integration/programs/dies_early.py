"""A rank of a torchrun job of which one ends at its first start, before it joins the world or a group of the others.

TEST_VICTIM: its number; TEST_MOMENT: "world" or "group". The victim ends when the others have left their addresses.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

rank, restarts = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def end_as_the_others_wait(moment: str) -> None:
    if restarts > 0 or moment != os.environ["TEST_MOMENT"] or rank != int(os.environ["TEST_VICTIM"]):
        return
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    while not any(key.endswith(f"/rank/{1 - rank}") for key in store.list_keys()):
        time.sleep(0.01)
    sys.exit(3)


def total(group: dist.ProcessGroup | None) -> float:
    value = torch.tensor(rank + 1.0)
    dist.all_reduce(value, group=group)
    return value.item()


end_as_the_others_wait("world")
dist.init_process_group(os.environ["TEST_BACKEND"])
end_as_the_others_wait("group")
group = dist.new_group()
print(f"rank {rank} of {dist.get_world_size()}, start {restarts}: {total(None)} {total(group)}\n", end="", flush=True)
dist.destroy_process_group()
