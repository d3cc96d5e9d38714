"""JUnit XML: one suite per family. Hang, crash and harness errors are errors, other red verdicts failures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import Any

from .result import Result

_ERRORS = ("hang", "crash", "error", "asymmetric", "harness_error")
_SKIPS = ("unsupported", "not_run", "not_applicable")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]")


def save(result: Result, path: Path) -> None:
    """Write the file."""
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in result["cases"]:
        families[case["family"]].append(case)
    root = ET.Element("testsuites", name=f"{result['suite']['name']} {result['product']['backend']}")
    for family, cases in families.items():
        suite = ET.SubElement(root, "testsuite", name=family)
        counts = {"tests": 0, "errors": 0, "failures": 0, "skipped": 0}
        for case in cases:
            counts["tests"] += 1
            kind = _add(suite, family, case)
            if kind:
                counts[kind] += 1
        suite.attrib.update({name: str(count) for name, count in counts.items()})
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _add(suite: ET.Element, family: str, case: dict[str, Any]) -> str:
    element = ET.SubElement(
        suite, "testcase", classname=family, name=case["id"], time=f"{case['duration_ms'] / 1e3:.3f}"
    )
    verdict, message = case["verdict"], _NOT_XML.sub("?", case.get("message", ""))
    if case.get("expected", {}).get("status") == "expected_fail":
        reason = _NOT_XML.sub("?", case["expected"]["reason"])
        ET.SubElement(element, "skipped", message=f"expected {verdict}: {reason}")
        return "skipped"
    if verdict in _SKIPS:
        ET.SubElement(element, "skipped", message=f"{verdict}: {message}")
        return "skipped"
    if case["gate"] != "red" and verdict != "harness_error":
        return ""
    kind = "error" if verdict in _ERRORS else "failure"
    child = ET.SubElement(element, kind, type=verdict, message=message)
    child.text = _NOT_XML.sub(
        "?",
        "\n".join(
            f"rank {rank['rank']}: {rank['outcome']} {rank.get('message', '')}\n{rank.get('stack', '')}"
            for rank in case.get("ranks", [])
        )
        + f"\nrepro: {case['repro']}",
    )
    return f"{kind}s"
