"""Ranks that write their staging differently read each other's all the same."""

import pytest
from harness.programs import run_ranks
from harness.settings import BACKEND


@pytest.mark.skipif(BACKEND != "customccl", reason="only customccl has kinds of stores")
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_need_not_agree_on_the_kind_of_store(size: int) -> None:
    for rank, ended in enumerate(run_ranks("different_stores.py", size)):
        assert ended.exit_code == 0, f"rank {rank}: {ended.output}"
