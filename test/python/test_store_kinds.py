"""Ranks that hand their data over in different ways read each other's all the same."""

import pytest
from harness.programs import run_ranks
from harness.settings import BACKEND

VALUES = [
    "CUSTOMCCL_STORE_POLICY=plain,streaming",
    "CUSTOMCCL_READ_PEERS=1,20K",
    "CUSTOMCCL_ONE_SHOT_BYTES=1M,1K",
]


@pytest.mark.skipif(BACKEND != "customccl", reason="only customccl has such settings")
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_need_not_agree_on(values: str, size: int) -> None:
    for rank, ended in enumerate(run_ranks("different_settings.py", size, values)):
        assert ended.exit_code == 0, f"rank {rank}: {ended.output}"
