"""Sizes and bandwidths: the definitions of nccl-tests, by hand."""

import pytest

from benchmarks import operations
from benchmarks.operations import OPERATIONS, actual_size, element_count, skewed_weights


@pytest.mark.parametrize(
    ("operation", "ranks", "expected"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 4, 1.5),
        ("all_reduce", 8, 1.75),
        ("all_gather", 2, 0.5),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 8, 0.875),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
    ],
)
def test_busbw_of_one_gigabyte_in_a_second(operation: str, ranks: int, expected: float) -> None:
    assert operations.busbw(operation, ranks, 10**9, 1.0) == pytest.approx(expected)


def test_algbw_counts_gigabytes_of_1e9() -> None:
    assert operations.algbw(64 << 20, 0.01) == pytest.approx(6.7108864)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ranks", [2, 3, 4, 16])
@pytest.mark.parametrize("size", [1, 8, 4096, 1 << 20])
def test_every_size_can_be_divided_and_is_close_to_what_was_asked(operation: str, ranks: int, size: int) -> None:
    count = element_count(operation, "float32", ranks, size)
    if operation == "barrier":
        assert count == 0
        return
    assert count >= 1
    if operation in ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"):
        assert count % ranks == 0
    if size >= 1 << 20:
        assert actual_size(operation, "float32", ranks, size) == pytest.approx(size, rel=0.01)


def test_the_favourite_rank_gets_three_quarters() -> None:
    for ranks in (2, 4, 8):
        weights = skewed_weights(ranks)
        assert weights[0] == 0.75 * sum(weights)
