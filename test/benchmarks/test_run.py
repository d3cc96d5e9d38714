"""A small real run: two ranks, real backends, a results file and its page."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import c_level, intervals, results
from benchmarks.plan import OWN_CALLS, Cell, Plan
from benchmarks.report import page
from benchmarks.run import run
from benchmarks.sampling import Limits


@pytest.mark.timeout(300)
def test_a_small_run_writes_samples_that_a_page_is_made_of(tmp_path: Path) -> None:
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
    assert found.values["python_level"]["footprint"]["2"].keys() == {
        "idle share of a core",
        "waiting share of a core",
        "bytes per group",
    }
    page.write([found], tmp_path / "page" / "performance.md")
    assert "barrier" in (tmp_path / "page" / "performance.md").read_text()


@pytest.mark.timeout(300)
def test_the_c_program_measures_ours_and_finds_all_results_right() -> None:
    cells = [Cell("all_reduce", "c", "float32", 8), Cell("all_to_all_skewed", "c", "float32", 4096)]
    cells += [Cell("send_recv", "c", "float32", 64), Cell("barrier", "c", "float32", 0)]
    library = c_level._MAKERS["customccl"]()
    version, measured = c_level.run_once(library, 2, cells, 0.001)
    assert version
    assert [key[0] for key in measured] == [cell.operation for cell in cells]
    for line in measured.values():
        assert line["wrong"] == 0 and len(line["samples"]) >= 4 and min(line["samples"]) > 0
    json.dumps(measured[("all_reduce", 2)])
    assert intervals.summary([[measured[("all_reduce", 2)]["samples"]]]).median > 0
