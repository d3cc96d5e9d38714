"""One self-contained page: heat maps, filters kept in the address, messages and stacks of each rank."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..model import Verdict
from .markdown import GLYPHS
from .matrix import column
from .result import Result

_HERE = Path(__file__).parent


def available() -> bool:
    """True if jinja2 is installed."""
    return find_spec("jinja2") is not None


def render(results: list[Result]) -> str:
    """The page for one or more runs; each run is a column."""
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True)
    data = {
        "order": [verdict.value for verdict in Verdict],
        "glyphs": GLYPHS,
        "runs": [_slim(result) for result in results],
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return environment.get_template("page.html.j2").render(
        results=results,
        columns=[column(each) for each in results],
        data=text,
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
    )


def _slim(result: Result) -> dict[str, Any]:
    """What the page needs of a run; passing cases carry only their dimensions."""
    keep = (
        "id",
        "family",
        "clause",
        "level",
        "verdict",
        "gate",
        "message",
        "repro",
        "ranks",
        "rerun",
        "expected",
        "duration_ms",
    )
    cases = []
    for case in result["cases"]:
        dims = case["dims"]
        row = {name: case[name] for name in keep if name in case}
        row["d"] = {
            name: str(dims[name])
            for name in ("op", "dtype", "reduce_op", "layout", "mode", "group", "world_size")
            if name in dims
        }
        cases.append(row)
    return {"name": column(result), "clauses": result["clauses"], "cases": cases}
