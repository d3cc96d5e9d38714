"""The oracle and the guarded buffers: right values are accepted, each kind of damage is told apart."""

from __future__ import annotations

import math

import pytest
import torch

from torch_customccl.conformance import oracle
from torch_customccl.conformance.buffers import GUARD_BYTES, GuardedTensor
from torch_customccl.conformance.model import CheckFailedError, Verdict
from torch_customccl.conformance.mutants.reducing import combine
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


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "bool"])
def test_moved_values_use_every_bit_and_all_codes_of_small_types(name: str) -> None:
    dtype = DTYPES[name]
    values = oracle.transport_values(0, 0, 5000, dtype)
    raw = values.view(torch.uint8).reshape(5000, -1)
    assert bool(((raw.unsqueeze(-1) >> torch.arange(8)) & 1).any(0).all()), "a bit that is never set"
    assert bool((~raw.unsqueeze(-1) >> torch.arange(8) & 1).any(0).all()), "a bit that is always set"
    assert dtype.itemsize > 1 or len(torch.unique(raw)) == 256
    assert dtype.kind in ("fp8", "int", "uint") or bool(values.isfinite().all())


@pytest.mark.parametrize("layout", ["contiguous", "stride2", "transposed"])
@pytest.mark.parametrize("name", ["fp8e4m3", "f16", "c64"])
def test_filling_a_tensor_keeps_every_bit(name: str, layout: str) -> None:
    row, dtype = LAYOUTS[layout], DTYPES[name]
    shape = row.shape(600)
    values = oracle.transport_values(0, 0, torch.Size(shape).numel(), dtype)
    guarded = GuardedTensor("x", shape, row, dtype).fill(values)
    kept = guarded.tensor.contiguous().view(torch.uint8).reshape(-1)
    assert torch.equal(kept, values.view(torch.uint8).reshape(-1))


NARROWER = {"i64": torch.int32, "i32": torch.int16, "i16": torch.int8, "f64": torch.float32, "c128": torch.complex64}


@pytest.mark.parametrize("reduce_op", ["sum", "product", "min", "max", "avg", "bxor"])
@pytest.mark.parametrize("name", NARROWER)
def test_a_reduction_in_a_narrower_type_shows(name: str, reduce_op: str) -> None:
    dtype = DTYPES[name]
    if dtype.kind not in REDUCE_OPS[reduce_op].kinds:
        return
    for size in (2, 3):
        inputs = [oracle.reduce_inputs(rank, 0, 31, dtype, reduce_op, size) for rank in range(size)]
        expected = oracle.reduce_expected(inputs, dtype, reduce_op)
        assert not torch.equal(expected.to(NARROWER[name]).to(dtype.torch), expected)


@pytest.mark.parametrize("reduce_op", ["sum", "avg", "premul_sum", "min", "max"])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_a_reduction_of_floats_in_whole_numbers_shows(name: str, reduce_op: str) -> None:
    dtype = DTYPES[name]
    for size in (2, 3, 8):
        inputs = [oracle.reduce_inputs(rank, 0, 31, dtype, reduce_op, size) for rank in range(size)]
        expected = oracle.reduce_expected(inputs, dtype, reduce_op)
        assert not torch.equal(expected.trunc(), expected)


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("name", ["u8", "i8", "i16", "i32", "u32", "i64"])
@pytest.mark.parametrize("reduce_op", ["sum", "product"])
def test_integer_results_are_representable(name: str, reduce_op: str, size: int) -> None:
    dtype = DTYPES[name]
    inputs = [oracle.reduce_inputs(rank, 0, 300, dtype, reduce_op, size).tolist() for rank in range(size)]
    exact = [math.prod(column) if reduce_op == "product" else sum(column) for column in zip(*inputs, strict=True)]
    range_of = torch.iinfo(dtype.torch)
    assert all(range_of.min <= value <= range_of.max for value in exact)
    if reduce_op == "sum" and dtype.kind == "int" and size >= 3:
        first_two = [sum(column) for column in zip(*inputs[:2], strict=True)]
        assert any(value < range_of.min for value in first_two) and any(value > range_of.max for value in first_two)


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
        assert torch.equal(combine(inputs, row.make()), expected), "the reference backend computes it otherwise"
        if reduce_op in ("sum", "avg") and dtype.kind in ("float", "int"):
            total = inputs[0].clone()
            for each in inputs[1:]:
                total += each
            assert torch.equal(total / size if reduce_op == "avg" else total, expected)


@pytest.mark.parametrize("reduce_op", ["sum", "min", "max"])
@pytest.mark.parametrize("name", ["f32", "bf16"])
def test_special_operands_are_reduced_as_by_torch_in_every_order(name: str, reduce_op: str) -> None:
    dtype = DTYPES[name]
    for size in SIZES:
        inputs = [oracle.special_operands(rank, 31, dtype) for rank in range(size)]
        expected = oracle.reduce_expected(inputs, dtype, reduce_op)
        for order in (inputs, inputs[::-1]):
            torch.testing.assert_close(
                combine(order, REDUCE_OPS[reduce_op].make()), expected, rtol=0, atol=0, equal_nan=True
            )
        nans = torch.stack([each.isnan() for each in inputs])
        assert torch.equal(expected.isnan() & nans.any(0), nans.any(0))
        assert all(bool((nans[rank] & ~nans.roll(1, 0)[rank]).any()) for rank in range(size) if size > 1)


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
    guarded.tensor[3] *= -1
    with pytest.raises(CheckFailedError, match="is wrong: 1 of 10 elements, first at index 3") as caught:
        guarded.check(oracle.transport_values(0, 0, 10, dtype))
    assert caught.value.verdict is Verdict.WRONG_RESULT


def test_a_bool_that_is_neither_0_nor_1_is_wrong() -> None:
    guarded = GuardedTensor("x", (4,), LAYOUTS["contiguous"], DTYPES["bool"])
    guarded.fill(torch.ones(4, dtype=torch.bool))
    guarded.raw[GUARD_BYTES] = 2
    with pytest.raises(CheckFailedError, match="1 of 4"):
        guarded.check(torch.ones(4, dtype=torch.bool))
