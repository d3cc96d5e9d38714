"""The smoke tier of this project's own backend: nothing red, and the kept feature matrix still says what is true."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from torch_customccl.conformance.model import Tier
from torch_customccl.conformance.plan import Selection
from torch_customccl.conformance.report import matrix
from torch_customccl.conformance.report.result import load
from torch_customccl.conformance.session import Request, run

KEPT = Path(__file__).parents[2] / "docs" / "results" / "conformance"
UPDATE = (
    "run `make conformance` and `make matrix`, look at what changed, and commit docs/results/conformance and the page"
)


def test_the_smoke_tier_says_what_the_feature_matrix_says() -> None:
    result = run(Request("customccl", selection=Selection(Tier.SMOKE), budget_s=600.0), Console(quiet=True))
    broken = [(case["id"], case["verdict"], case["message"]) for case in result["cases"] if case["gate"] != "ok"]
    assert not broken
    stale = matrix.stale([load(path) for path in sorted(KEPT.glob("*.json.gz"))], result)
    assert not stale, f"{stale}: {UPDATE}"
    assert len(result["cases"]) > 200 and "not_run" not in result["summary"]["verdicts"]
