"""Operation x dtype x reduce op x layout x size x root x world size: is every byte right, and only those."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from ..context import Context
from ..datacall import run_data_calls
from ..groupings import GROUPINGS
from ..model import Case, Tier
from ..ops import OPS, P2P_OPS, Op
from ..registry import body, family
from ..tables import DTYPES, LAYOUTS, REDUCE_OPS

SIZES = (1, 2, 257, 4095, 4096, 4097, 65537)
BIG_SIZES = (262147, 1048577)
SMOKE_DTYPES = ("f32", "bf16", "i64", "u8")
CORE_REDUCE = ("sum", "avg", "max")
RANDOM_CASES = 1500


def data_case(op: Op, size: int, tier: Tier, clause: str = "", **dims: Any) -> Case:
    """One data case; its id spells its dimensions in a fixed order."""
    shown: dict[str, Any] = {
        "dtype": "f32",
        "layout": "contiguous",
        "numel": 31,
        "mode": "sync",
        "group": "world",
    } | dims
    shown["numel"] = {"zero_dim": 1, "empty": 0, "empty_dim": 0}.get(shown["layout"], shown["numel"])
    if op.reduces:
        shown = {"reduce_op": "sum"} | shown
    if op.rooted:
        shown = {"root": "first"} | shown
    parts = [
        str(shown.get("reduce_op", "")),
        str(shown["layout"]),
        f"n{shown['numel']}",
        f"x{shown['in_flight']}" if "in_flight" in shown else str(shown["mode"]),
        str(shown["group"]),
        str(shown.get("root", "")),
        str(shown.get("payload", "")),
        str(shown.get("bystanders", "")),
        str(shown.get("strided", "")),
    ]
    name = "/".join([op.name, f"ws{size}", str(shown["dtype"]), *(part for part in parts if part)])
    return Case(f"coll/{name}", "data", clause or _clause(op, shown), "data", size, {"op": op.name, **shown}, tier)


def _clause(op: Op, dims: dict[str, Any]) -> str:
    if dims.get("payload") == "special":
        return "RO-10" if op.reduces else "DT-05"
    if dims["layout"] == "channels_last_rank0":
        return "LA-04"
    if dims["layout"] in ("empty", "empty_dim"):
        return "LA-03"
    if dims["layout"] not in ("contiguous", "offset", "zero_dim"):
        return "LA-01"
    if dims["dtype"] == "bool" and op.reduces:
        return "DT-04"
    if dims.get("reduce_op", "sum") != "sum" or (op.reduces and dims["dtype"] != "f32"):
        return f"RO-{list(REDUCE_OPS).index(dims['reduce_op']) + 1:02d}"
    if dims["dtype"].startswith("fp8") or dims["dtype"] in ("u16", "u32", "u64"):
        return "DT-03"
    return op.clause


def supported_sum(dtype: str, reduce_op: str = "sum") -> bool:
    """True if the contract gives this reduction of this dtype a meaning."""
    return DTYPES[dtype].kind in REDUCE_OPS[reduce_op].kinds


def fits(op: Op, size: int, dims: dict[str, Any]) -> bool:
    """False for combinations that mean nothing: a ring of one rank, a sum of fp8."""
    if op.name in P2P_OPS and (size < 2 or dims.get("group", "world") in ("single", "upper", "overlapping")):
        return False
    if op.name in P2P_OPS and dims.get("group") in ("half", "odd_even") and size < 4:
        return False
    if size < GROUPINGS[dims.get("group", "world")].min_size:
        return False
    return not op.reduces or supported_sum(dims.get("dtype", "f32"), dims.get("reduce_op", "sum"))


def _dtype_cases() -> Iterator[Case]:
    for op in OPS.values():
        for dtype in DTYPES:
            for size in (2, 3):
                if fits(op, size, {"dtype": dtype}):
                    tier = Tier.SMOKE if size == 2 and dtype in SMOKE_DTYPES else Tier.STANDARD
                    yield data_case(op, size, tier, dtype=dtype)
            if not op.reduces and DTYPES[dtype].kind == "float":
                yield data_case(op, 2, Tier.STANDARD, dtype=dtype, payload="special")


def _reduce_cases() -> Iterator[Case]:
    for op in OPS.values():
        for name in REDUCE_OPS if op.reduces else ():
            for dtype in DTYPES:
                for size in (2, 3):
                    if name != "sum" and supported_sum(dtype, name):
                        smoke = size == 2 and name in CORE_REDUCE and dtype in ("f32", "bf16")
                        tier = Tier.SMOKE if smoke else Tier.STANDARD
                        yield data_case(op, size, tier, dtype=dtype, reduce_op=name)


def _special_cases() -> Iterator[Case]:
    for op in OPS.values():
        for name in ("sum", "min", "max") if op.reduces else ():
            for dtype in ("f32", "bf16"):
                for size in (2, 3):
                    yield data_case(op, size, Tier.STANDARD, dtype=dtype, reduce_op=name, payload="special")


def _layout_cases() -> Iterator[Case]:
    for op in OPS.values():
        for layout in LAYOUTS:
            for size in (2, 3):
                for dtype in ("f32", "bf16", "i64"):
                    smoke = size == 2 and dtype == "f32" and layout in ("offset", "stride2", "transposed", "empty")
                    alone = LAYOUTS[layout].only_rank is not None and op.name in P2P_OPS
                    if layout != "contiguous" and fits(op, size, {}) and not alone:
                        yield data_case(
                            op, size, Tier.SMOKE if smoke else Tier.STANDARD, layout=layout, numel=120, dtype=dtype
                        )


def _mixed_layout_cases() -> Iterator[Case]:
    """Only the inputs, or only the outputs, are not contiguous.

    Not where a root alone has those, which would refuse alone, nor where a send and a receive would refuse one by one.
    """
    for op in OPS.values():
        for strided in () if op.in_place or op.name in P2P_OPS else ("only_inputs", "only_outputs"):
            for layout in ("stride2", "transposed"):
                if (op.name, strided) not in (("gather", "only_outputs"), ("scatter", "only_inputs")):
                    yield data_case(op, 2, Tier.STANDARD, layout=layout, numel=120, strided=strided)


def _size_cases() -> Iterator[Case]:
    for op in OPS.values():
        for numel in (*SIZES, *BIG_SIZES):
            for size in (2, 3, 4) if numel < 60000 else (2, 3) if numel == SIZES[-1] else (2,):
                smoke = size == 2 and numel in (1, 4097)
                if fits(op, size, {}):
                    tier = Tier.SMOKE if smoke else Tier.FULL if numel > 1 << 20 else Tier.STANDARD
                    yield data_case(op, size, tier, "SZ-01", numel=numel)
        if op.name not in P2P_OPS:
            yield data_case(op, 1, Tier.STANDARD, "SZ-03")
            yield data_case(op, 1, Tier.STANDARD, "SZ-03", layout="stride2", numel=64)
        for size in (5, 8):
            yield data_case(op, size, Tier.FULL, numel=1021)
        for dtype in ("u8", "bf16", "i64"):
            yield data_case(op, 2, Tier.STANDARD, "SZ-01", numel=SIZES[-1], dtype=dtype)


def _root_cases() -> Iterator[Case]:
    for op in OPS.values():
        for root in ("middle", "last"):
            for size in (2, 3, 4) if op.rooted else ():
                if (root, size) != ("middle", 2):
                    yield data_case(op, size, Tier.STANDARD, "RT-01", root=root)


def _bystander_cases() -> Iterator[Case]:
    for size in (2, 3):
        for root in ("first", "last"):
            yield data_case(OPS["reduce"], size, Tier.SMOKE, "RD-02", root=root, bystanders="checked")
    for dims in ({"dtype": "bf16"}, {"dtype": "i64"}, {"numel": SIZES[-1]}):
        yield data_case(OPS["reduce"], 2, Tier.STANDARD, "RD-02", bystanders="checked", **dims)


def _random_cases() -> Iterator[Case]:
    """Seeded combinations of all dimensions, beyond the products above."""
    rng = random.Random(20260917)
    seen: set[str] = set()
    while len(seen) < RANDOM_CASES:
        op = rng.choice(list(OPS.values()))
        dims: dict[str, Any] = {
            "dtype": rng.choice(list(DTYPES)),
            "layout": rng.choice([name for name in LAYOUTS if "rank0" not in name]),
            "numel": rng.choice((1, 7, 96, 1021, 4099)),
            "mode": rng.choice(("sync", "wait", "wait_thread")),
            "group": rng.choice([name for name in GROUPINGS if name != "single"]),
        }
        if op.reduces:
            dims["reduce_op"] = rng.choice(list(REDUCE_OPS))
        if op.rooted:
            dims["root"] = rng.choice(("first", "middle", "last"))
        size = rng.choice((2, 3, 4))
        case = data_case(op, size, Tier.STANDARD, **dims)
        if case.id not in seen and fits(op, size, dims):
            seen.add(case.id)
            yield case


@family
def generate() -> Iterator[Case]:
    """All data cases; a combination that two products name is kept once."""
    seen: set[str] = set()
    for source in (
        _dtype_cases,
        _reduce_cases,
        _special_cases,
        _layout_cases,
        _mixed_layout_cases,
        _size_cases,
        _root_cases,
        _bystander_cases,
        _random_cases,
    ):
        for case in source():
            if case.id not in seen:
                seen.add(case.id)
                yield case


@body
def data(context: Context) -> None:
    """Issue the call on guarded tensors and compare every byte."""
    run_data_calls(context)
