"""The one-screen summary."""

from __future__ import annotations

import html
from collections import defaultdict
from typing import Any

from ..model import Verdict, worst
from .result import Result, findings

GLYPHS = {  # anything that is not here is a cross
    "pass": "✓",
    "info": "·",
    "nonstrict": "~",
    "unsupported": "-",
    "unclear_unsupported": "?",
    "not_run": " ",
    "not_applicable": " ",
}
WORST_SHOWN = 12


def glyph(verdict: str) -> str:
    """A sign for a verdict that does not rely on colour; anything red is a cross."""
    return GLYPHS.get(verdict, "✗")


def mostly(verdicts: list[str]) -> str:
    """The worst verdict of a cell with how many cases passed, e.g. ``✗ wrong_result 3/12``."""
    ran = [name for name in verdicts if name not in ("not_run", "not_applicable", "info")]
    if not ran:
        return "not run"
    top = worst([Verdict(name) for name in ran]).value
    if top == "pass":
        return f"✓ {len(ran)}"
    return f"{glyph(top)} {top} ({sum(name == 'pass' for name in ran)}/{len(ran)} pass)"


def by_dims(cases: list[dict[str, Any]], *names: str) -> dict[tuple[str, ...], list[str]]:
    """Verdicts of the data cases, grouped by the given dimensions."""
    cells: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for case in cases:
        if all(name in case["dims"] for name in names):
            cells[tuple(str(case["dims"][name]) for name in names)].append(case["verdict"])
    return cells


def as_markdown(result: Result) -> str:
    """Badges, operations, worst findings, environment."""
    suite, product, env = result["suite"], result["product"], result["environment"]
    kind = "official" if suite["official"] else "unofficial: " + "; ".join(suite["unofficial_because"])
    count = suite.get("runs", 1)
    tier = f"tier {suite['tier']}" + (f", {count} runs" if count > 1 else "")
    lines = [
        f"# {product['backend']} on {product['device']}: conformance",
        "",
        f"{suite['name']} {suite['version']} ({suite['git']}), {tier}, seed {suite['seed']}, {kind}. "
        f"{result['timing']['started']}, {result['timing']['seconds']:.0f} s.",
        "",
    ]
    lines += [
        "Verdicts: "
        + ", ".join(f"{name} {count}" for name, count in result["summary"]["verdicts"].items())
        + f". Red {result['summary']['red']}, amber {result['summary']['amber']}.",
        "",
    ]
    lines += [
        "Profiles: "
        + ", ".join(
            f"**{row['name']}** {row['verdict']} ({row['passed']}/{row['required']})" for row in result["profiles"]
        )
        + ".",
        "",
    ]
    lines += _operations(result) + _worst(result)
    lines += [
        "",
        f"torch {env['torch']}, Python {env['python']}, {env['os']}, {env['cpu']}, {env['cores']} cores, "
        f"{env['ram_gib']} GiB; {product['backend']} {product['version']}.",
        f"Command: `{suite['command']}`",
    ]
    if result["mutation_score"]:
        score = result["mutation_score"]
        lines.append(f"Kit tested on itself: {score['caught']} of {score['total']} planted bugs named.")
    lines += [f"Warning: {html.escape(text, quote=False)}" for text in result["warnings"]]
    return "\n".join(lines) + "\n"


def _operations(result: Result) -> list[str]:
    cells = by_dims(result["cases"], "op")
    lines = [f"| operation | {result['product']['device']} |", "| --- | --- |"]
    return [*lines, *(f"| {op} | {mostly(verdicts)} |" for (op,), verdicts in sorted(cells.items()) if op)]


def _worst(result: Result) -> list[str]:
    rows = findings(result)
    if not rows:
        return ["", "No findings."]
    lines = ["", f"Worst findings ({min(len(rows), WORST_SHOWN)} of {len(rows)}):", ""]
    for row in rows[:WORST_SHOWN]:
        case = row["case"]
        text = html.escape(case["message"].replace("\n", " ")[:160], quote=False)
        lines.append(f"- **{case['verdict']}** {case['clause']} {case['level']}, {row['count']} cases: {text}  ")
        lines.append(f"  `{case['repro']}`")
    return lines
