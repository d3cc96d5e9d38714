"""Imported once by the fork server, so that ranks start fast and no case waits for an import."""

import torch.distributed._functional_collectives
import torch.profiler  # noqa: F401

from . import registry

registry.load()
