"""The oracle and the guarded buffers: right values are accepted, each kind of damage is told apart."""

from __future__ import annotations

import pytest
import torch

from torch_customccl.conformance import oracle
from torch_customccl.conformance.buffers import GUARD_BYTES, GuardedTensor
from torch_customccl.conformance.model import CheckFailedError, Verdict
from torch_customccl.conformance.tables import DTYPES, LAYOUTS, REDUCE_OPS

SIZES = (1, 2, 3, 4, 8)


@pytest.mark.parametrize("name", DTYPES)
def test_values_differ_per_position_rank_and_slot(name: str) -> None:
    dtype = DTYPES[name]
    few = 2 if dtype.kind in ("bool", "fp8") else 20
    base = oracle.transport_values(0, 0, 500, dtype).view(torch.uint8)
    assert len(torch.unique(oracle.transport_values(0, 0, 500, dtype).cpu().to(torch.complex128).abs())) >= few
    assert not torch.equal(base, oracle.transport_values(1, 0, 500, dtype).view(torch.uint8))
    assert not torch.equal(base, oracle.transport_values(0, 1, 500, dtype).view(torch.uint8))


@pytest.mark.parametrize("reduce_op", REDUCE_OPS)
@pytest.mark.parametrize("name", [name for name in DTYPES if DTYPES[name].kind != "fp8"])
def test_reductions_are_exact_in_every_order(name: str, reduce_op: str) -> None:
    dtype, row = DTYPES[name], REDUCE_OPS[reduce_op]
    if dtype.kind not in row.kinds:
        return
    for size in SIZES:
        inputs = [oracle.reduce_inputs(rank, 0, 300, dtype, reduce_op, size) for rank in range(size)]
        expected = oracle.reduce_expected(inputs, dtype, reduce_op)
        assert expected.dtype == dtype.torch
        assert torch.equal(expected, oracle.reduce_expected(inputs[::-1], dtype, reduce_op))
        if reduce_op in ("sum", "avg") and dtype.kind in ("float", "int"):
            total = inputs[0].clone()
            for each in inputs[1:]:
                total += each
            assert torch.equal(total / size if reduce_op == "avg" else total, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f32", "bool", "bf16", "c128", "u8"])
def test_right_values_pass_in_every_layout(layout: str, dtype: str) -> None:
    row = LAYOUTS[layout]
    shape = row.shape(60)
    values = oracle.transport_values(0, 0, torch.Size(shape).numel(), DTYPES[dtype])
    guarded = GuardedTensor("x", shape, row, DTYPES[dtype])
    guarded.tensor.copy_(values.reshape(shape))
    guarded.check(values)


def damage(guarded: GuardedTensor, byte: int) -> tuple[Verdict, str]:
    guarded.raw[byte] ^= 1
    with pytest.raises(CheckFailedError) as caught:
        guarded.check(None)
    guarded.raw[byte] ^= 1
    return caught.value.verdict, str(caught.value)


def test_each_kind_of_damage_is_told_apart() -> None:
    dtype = DTYPES["f32"]
    guarded = GuardedTensor("x", (10,), LAYOUTS["stride2"], dtype)
    guarded.fill(oracle.transport_values(0, 0, 10, dtype))
    assert damage(guarded, GUARD_BYTES - 1) == (
        Verdict.WRONG_SIDE_EFFECT,
        "x: 1 bytes outside the tensor were written (before it)",
    )
    assert "in a gap" in damage(guarded, GUARD_BYTES + 5)[1]
    assert "after its end" in damage(guarded, GUARD_BYTES + 19 * 4)[1]
    assert "was changed" in damage(guarded, GUARD_BYTES)[1]
    guarded.tensor[3] += 1
    with pytest.raises(CheckFailedError, match="is wrong: 1 of 10 elements, first at index 3") as caught:
        guarded.check(oracle.transport_values(0, 0, 10, dtype))
    assert caught.value.verdict is Verdict.WRONG_RESULT


def test_a_bool_that_is_neither_0_nor_1_is_wrong() -> None:
    guarded = GuardedTensor("x", (4,), LAYOUTS["contiguous"], DTYPES["bool"])
    guarded.fill(torch.ones(4, dtype=torch.bool))
    guarded.raw[GUARD_BYTES] = 2
    with pytest.raises(CheckFailedError, match="1 of 4"):
        guarded.check(torch.ones(4, dtype=torch.bool))
