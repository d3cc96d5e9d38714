"""Imported by the fork server when functional or integration cases are to run: the slow parts of torch."""

import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.optim
import torch.distributed.pipelining
import torch.distributed.tensor.parallel  # noqa: F401
