"""One rank that reads its data through DataLoader workers, between collectives.

Arguments: for each rank, the start methods of its workers, with commas between.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


def loaded_libraries() -> list[str]:
    """Shared libraries of the backend that are mapped into this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[-1] for line in lines if line.endswith(".so") and "torch_customccl" in line})


class Numbers(Dataset):
    """Sample i is i; its worker adds how many of the backend's libraries it has loaded."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, len(loaded_libraries())


def main() -> None:
    dist.init_process_group(os.environ["TEST_BACKEND"])
    total = torch.zeros(1)
    dist.all_reduce(total)
    methods = sys.argv[1 + dist.get_rank()].split(",")
    for method in methods:
        loader = DataLoader(Numbers(), batch_size=4, num_workers=1, multiprocessing_context=method)
        for indices, libraries in loader:
            if method != "fork":  # a forked worker inherits the mappings of its parent
                assert int(libraries.sum()) == 0, "a data loader worker loaded the backend's C++ library"
            value = indices.sum().float().reshape(1)
            dist.all_reduce(value)
            total += value
    size = dist.get_world_size()
    assert total.item() == len(methods) * size * sum(range(16)), total
    dist.destroy_process_group()
    print("read everything")


if __name__ == "__main__":
    main()
