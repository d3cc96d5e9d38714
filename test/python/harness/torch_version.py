"""Which torch the tests run with."""

from __future__ import annotations

import pytest

from torch_customccl._loader import torch_minor


def since_torch(minor: str) -> pytest.MarkDecorator:
    """A mark for tests of what torch has from `minor` ("2.15") on: skipped before."""
    here = torch_minor()
    older = [int(part) for part in here.split(".")] < [int(part) for part in minor.split(".")]
    return pytest.mark.skipif(older, reason=f"torch {here} does not have it, {minor} does")
