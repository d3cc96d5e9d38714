import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "groups"))


@pytest.fixture
def alone():
    """A group of this process only."""
    import torch.distributed as dist
    from shared import LIMIT

    from torch_customccl import create_group

    with create_group(dist.HashStore(), 0, 1, "alone", timeout=LIMIT) as made:
        yield made
