"""Lets DistributedDataParallel ask the backend for its buckets: in shared memory their all_reduce takes half the time.

torch asks if DDP_DISABLE_COMM_MEM is "0" when it makes buckets: at the construction of the module, and again after its
first step. It is a variable of the process, so it is set only where no accelerator is, whose backends would be asked
as well: of those for CPU tensors, this one alone has memory of its own. What the user has set stays.
"""

import functools
import os

import torch

SWITCH = "DDP_DISABLE_COMM_MEM"


@functools.cache
def offer() -> None:
    """Called with every backend of a process; the first call counts."""
    if SWITCH not in os.environ and torch.accelerator.current_accelerator(check_available=True) is None:
        os.environ[SWITCH] = "0"
