"""A results file that nobody measured."""

from typing import Any

from benchmarks.peers import FLOOR, OURS
from benchmarks.results import FORMAT, Results

ROUNDS = 12


def peer(microseconds: float, *, wrong: int = 0, drift: float = 1.0) -> dict[str, Any]:
    """Steady samples; with `drift` the second half of each round is that much slower."""
    halves = [[microseconds * 1e3 * factor] * 4 for factor in (1.0, drift)]
    return {"wrong": wrong, "samples": [halves] * ROUNDS}


def cell(operation: str, size: int, peers: dict[str, Any], style: str = "dist", ranks: int = 2) -> dict[str, Any]:
    level = "c" if style == "c" else "python"
    names = {"operation": operation, "style": style, "dtype": "float32", "level": level}
    return {**names, "size": size, "size_wanted": size, "ranks": ranks, "peers": peers}


def made_up(cells: list[dict[str, Any]], others: float = 0.0) -> Results:
    near = {"processors": [0, 1], "round_trip_ns": 80.0, "distance": "near (one last-level cache)"}
    copies = [{"bytes": 4096, "plain": 50.0, "streaming": 20.0}, {"bytes": 1 << 20, "plain": 10.0, "streaming": None}]
    now = {"load_average": 0.5, "placement": [near]}
    facts = {
        "missing": {"deepspeed": "not here"},
        "failed": {},
        "footprint": {"2": {"idle share of a core": 0.001, "bytes per group": 1e5}},
        "left_out": [],
    }
    machine = {
        "date": "2026-01-02T03:04:05+00:00",
        "processor": "Some CPU",
        "cores_usable": 2,
        "caches": ["L3 Unified 32M, processors 0-1"],
        "memory_bytes": 8 << 30,
        "governor": "not told",
        "virtual": True,
        "versions": {"torch": "2.13.0"},
        "commit": "abc",
        "settings": {},
    }
    plan = {"preset": "quick", "ranks": sorted({cell["ranks"] for cell in cells}), "detailed": [2]}
    return Results(
        {
            "format": FORMAT,
            "command": "python -m benchmarks run",
            "plan": plan,
            "machine": machine,
            "before": now,
            "after": now,
            "cores_taken": {"others": others, "stolen": 0.0},
            "seconds": 10,
            "ceiling": [{"ranks": 2, "copies": copies}],
            "cells": cells,
            "python_level": facts,
            "c_level": {"missing": {}, "failed": {}, "versions": {OURS: "0.1", "MPICH": "4.0"}},
        }
    )


def usual() -> list[dict[str, Any]]:
    """A steady cell, a wrong peer, a noisy one, a missing one, two levels, two numbers of ranks."""
    return [
        cell("all_reduce", 8, {OURS: peer(3.1), "gloo": peer(186.0), FLOOR: peer(3.0)}),
        cell("all_reduce", 1 << 20, {OURS: peer(50.0), "gloo": peer(500.0, wrong=7), FLOOR: peer(3.0)}),
        cell("all_gather", 8, {OURS: peer(3.2), "gloo": peer(200.0, drift=1.5), FLOOR: peer(3.0)}),
        cell("broadcast", 8, {OURS: peer(9.0), "gloo": {"missing": "no such call"}, FLOOR: peer(3.0)}),
        cell("barrier", 0, {OURS: peer(3.3), "gloo": peer(150.0), FLOOR: peer(3.0)}),
        cell("all_reduce", 8, {OURS: peer(0.4), "MPICH": peer(0.3)}, style="c"),
        cell("all_reduce", 8, {OURS: peer(10.0), "gloo": peer(3000.0)}, ranks=4),
        cell("message", 32 << 10, {OURS: peer(70.0), "gloo": peer(2100.0)}, style="own"),
        cell("message", 512 << 10, {OURS: peer(200.0), "gloo": peer(2100.0)}, style="own"),
        cell("group_ready", 0, {OURS: peer(4000.0), "gloo": {"missing": "no such call"}}, style="own"),
        cell("communicator", 8, {OURS: peer(1.3)}, style="own"),
        cell("ddp_step", 0, {OURS: peer(1000.0), "gloo": peer(3000.0), FLOOR: peer(800.0)}, style="step"),
    ]
