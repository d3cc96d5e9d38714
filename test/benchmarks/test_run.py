"""A small real run: two ranks, real backends, a results file and its page."""

import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import c_level, machine, results
from benchmarks.c_libraries import Library, libraries
from benchmarks.plan import OWN_CALLS, Cell, Plan
from benchmarks.report import page
from benchmarks.run import run
from benchmarks.sampling import Limits


@pytest.mark.timeout(300)
def test_a_small_run_writes_samples_that_a_page_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "handover", partial(machine.handover, sizes=(4096, 65536)))  # all sizes: 15 s
    monkeypatch.setattr(machine, "sums", partial(machine.sums, sizes=(4096, 65536), seconds=0.1))
    plan = Plan(
        "quick",
        ranks=[2],
        peers=["customccl", "gloo"],
        limits=Limits(seconds=0.05, least=3, most=3),
        detailed=[2],
        operations=["all_reduce", "barrier"],
        sizes=[8],
        styles=["dist", "direct"],
        dtypes=["float32"],
        own_calls=list(OWN_CALLS),
        message_sizes=[4096],
        c_level=False,
    )
    path = run(plan, tmp_path, Console(file=io.StringIO()))
    found = results.load(path)
    assert [(line.style, line.operation) for line in found.lines()] == [
        ("dist", "all_reduce"),
        ("dist", "barrier"),
        ("direct", "all_reduce"),
        ("direct", "barrier"),
        ("own", "message"),
        ("own", "group_ready"),
        ("own", "commit"),
        ("own", "communicator"),
    ]
    for line in found.lines():
        alone = line.style == "own" and line.operation != "message"
        assert line.peers == (["customccl"] if alone else ["customccl", "gloo"]), line.values["peers"]
        summary = line.summary("customccl")
        assert summary is not None and summary.count == 3 * 2 * len(line.samples("customccl")[0][0])
        assert summary.least > 0
    assert found.values["machine"]["cores_usable"] >= 1
    assert found.values["before"]["placement"] or found.cores == 1
    assert found.values["ceiling"][0]["copies"]
    assert [tensor["bytes"] for tensor in found.values["after"]["sums"]] == ([] if found.cores == 1 else [4096, 65536])
    assert found.values["python_level"]["footprint"]["2"].keys() == {
        "idle share of a core",
        "waiting share of a core",
        "bytes per group",
    }
    page.write([found], tmp_path / "page" / "performance.md")
    assert "barrier" in (tmp_path / "page" / "performance.md").read_text()


@pytest.mark.timeout(300)
def test_the_c_level_measures_ours_in_turns_and_finds_all_results_right() -> None:
    level = c_level.Level(2, [ours(), ours("another")])
    try:
        for operation, size in (("all_reduce", 8), ("all_to_all_skewed", 4096), ("send_recv", 64), ("barrier", 0)):
            line = level.measure(Cell(operation, "c", "float32", size), Limits(0.01, 3, 3))
            assert line["peers"].keys() == {"customccl", "another"}
            for peer in line["peers"].values():
                assert peer["wrong"] == 0
                assert [len(both) for both in peer["samples"]] == [2, 2, 2]
                assert min(call for both in peer["samples"] for calls in both for call in calls) > 0
        assert level.versions().keys() == {"customccl", "another"} and not level.failed
        assert len(level.exchanges) == 8 and min(level.exchanges) > 0
    finally:
        level.end()


@pytest.mark.timeout(300)
def test_a_library_that_fails_is_left_out_and_the_others_go_on() -> None:
    level = c_level.Level(
        2, [ours(), Library("broken", Path("/bin/false"), ["/usr/bin/env", "--ignore"]), ours("mortal")]
    )
    try:
        assert level.failed.keys() == {"broken"}
        barrier = Cell("barrier", "c", "float32", 0)
        assert level.measure(barrier, Limits(0.01, 3, 3))["peers"].keys() == {"customccl", "mortal"}
        for process in level.running["mortal"].processes:
            process.kill()
        assert level.measure(barrier, Limits(0.01, 3, 3))["peers"].keys() == {"customccl"}
        assert level.failed.keys() == {"broken", "mortal"}
    finally:
        level.end()


@pytest.mark.timeout(300)
def test_a_library_that_fails_in_the_middle_of_a_cell_has_no_part_in_its_ratios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    level, turns = c_level.Level(2, [ours(), ours("mortal")]), iter(range(100))
    ask = level._ask

    def ask_and_kill(name: str, *words: object) -> dict[str, Any] | None:
        if (name, words[0]) == ("mortal", "calls") and next(turns) == 3:  # of the second round
            for process in level.running["mortal"].processes:
                process.kill()
        return ask(name, *words)

    monkeypatch.setattr(level, "_ask", ask_and_kill)
    try:
        peers = level.measure(Cell("barrier", "c", "float32", 0), Limits(0.01, 3, 3))["peers"]
    finally:
        level.end()
    assert level.failed.keys() == {"mortal"}
    assert {name: len(peer["samples"]) for name, peer in peers.items()} == {"customccl": 3}


def ours(name: str = "customccl") -> Library:
    return replace(libraries()[0][0], name=name)
