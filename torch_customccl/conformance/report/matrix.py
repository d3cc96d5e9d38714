"""The feature-support matrix: operations by backend and device, then dtype, reduce op and layout per operation."""

from __future__ import annotations

from typing import Any

from .markdown import by_dims, mostly
from .result import Result

_DIMENSIONS = (("dtype", "Data types"), ("reduce_op", "Reduce operations"), ("layout", "Memory layouts"))


def column(result: Result) -> str:
    """How a run is called at the head of its column."""
    return f"{result['product']['backend']} ({result['product']['device']})"


def as_markdown(results: list[Result]) -> str:
    """The whole page, from result files alone."""
    lines = [
        "# What each backend supports",
        "",
        "Generated from conformance runs by `python -m torch_customccl.conformance matrix`; do not edit.",
        "A cell shows the worst verdict of its cases: ✓ all pass, - refused clearly, ~ passes with a remark, ✗ broken "
        "(the word says how). Numbers are cases.",
        "",
    ]
    lines += _runs(results)
    shown = _with_placeholders(results)
    lines += _operations(shown)
    for name, title in _DIMENSIONS:
        lines += _dimension(shown, name, title)
    return "\n".join(lines).rstrip() + "\n"


def stale(kept: list[Result], fresh: Result) -> list[str]:
    """What a new run says otherwise than the kept run of the same backend and device; one line per case."""
    old = [result for result in kept if column(result) == column(fresh)]
    if not old:
        return [f"no kept run of {column(fresh)}"]
    said = {case["id"]: case["verdict"] for case in old[0]["cases"]}
    return [
        f"{case['id']}: kept {said.get(case['id'], 'nothing')}, now {case['verdict']} ({case.get('message', '')[:200]})"
        for case in fresh["cases"]
        if case["verdict"] not in (said.get(case["id"]), "not_run")
    ]


def _with_placeholders(results: list[Result]) -> list[Result | str]:
    """nccl is named even when nobody ran it."""
    shown: list[Result | str] = list(results)
    if not any(result["product"]["backend"] == "nccl" for result in results):
        shown.append("nccl (cuda)")
    return shown


def _runs(results: list[Result]) -> list[str]:
    lines = ["| run | version | torch | suite | tier | date | command |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for result in results:
        suite, product = result["suite"], result["product"]
        lines.append(
            f"| {column(result)} | {product['version']} | {result['environment']['torch']} | {suite['version']} "
            f"({suite['git']}) | {suite['tier']} | {result['timing']['started'][:10]} | `{suite['command']}` |"
        )
    return [*lines, ""]


def _header(shown: list[Result | str], first: str) -> list[str]:
    names = [each if isinstance(each, str) else column(each) for each in shown]
    return [f"| {first} | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]


def _cells(each: Result | str, family: str, *names: str) -> dict[tuple[str, ...], list[str]]:
    if isinstance(each, str):
        return {}
    cases = [case for case in each["cases"] if not family or case["family"] == family]
    return by_dims(_plain(cases, names), *names)


def _plain(cases: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """For a dtype or reduce op the layout is contiguous; for a layout anything goes."""
    if names[1:] in (("dtype",), ("reduce_op",)):
        return [case for case in cases if case["dims"].get("layout") in ("contiguous", "offset")]
    return cases


def _table(
    shown: list[Result | str], rows: list[tuple[str, ...]], cells: list[dict[tuple[str, ...], list[str]]]
) -> list[str]:
    return [
        "| " + " ".join(row) + " | " + " | ".join(mostly(each.get(row, [])) for each in cells) + " |" for row in rows
    ]


def _operations(shown: list[Result | str]) -> list[str]:
    cells = [_cells(each, "", "op") for each in shown]
    rows = sorted({row for each in cells for row in each if row[0]})
    return ["## Operations", "", *_header(shown, "operation"), *_table(shown, rows, cells), ""]


def _dimension(shown: list[Result | str], name: str, title: str) -> list[str]:
    cells = [_cells(each, "data", "op", name) for each in shown]
    rows = sorted({row for each in cells for row in each})
    return [
        f"## {title}",
        "",
        *_header(shown, f"operation and {name.replace('_', ' ')}"),
        *_table(shown, rows, cells),
        "",
    ]
