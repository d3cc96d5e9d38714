"""The file of findings a vendor knows about: per case pattern a verdict, a reason, a link, perhaps an expiry date.

TOML::

    [[case]]
    pattern = "coll/*/stride2/*"
    verdict = "wrong_result"
    reason = "non-contiguous tensors"
    link = "https://example.org/issue/1"
    expires = 2027-01-01

Or JSON with the same keys under ``case``.
"""

from __future__ import annotations

import datetime
import fnmatch
import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .model import CaseResult, Verdict


class BadExpectationsError(Exception):
    """The file cannot be used; the message says why."""


@dataclass
class Expectation:
    """One line of the file."""

    pattern: str
    verdict: Verdict
    reason: str
    link: str = ""
    expires: datetime.date | None = None
    used: int = 0


def load(path: Path) -> list[Expectation]:
    """Read and check an expectations file."""
    rows = _parse(path).get("case")
    if not isinstance(rows, list):
        raise BadExpectationsError(f"{path}: no list named 'case'")
    return [_expectation(path, row) for row in rows]


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
        if path.suffix == ".json":
            return dict(json.loads(text))
        try:
            tomllib: Any = import_module("tomllib")
        except ModuleNotFoundError:
            raise BadExpectationsError(f"{path}: TOML needs Python 3.11; give the same content as JSON") from None
        return dict(tomllib.loads(text))
    except (OSError, ValueError) as error:
        raise BadExpectationsError(f"{path}: {error}") from None


def _expectation(path: Path, row: dict[str, Any]) -> Expectation:
    missing = [name for name in ("pattern", "verdict", "reason") if not row.get(name)]
    if missing:
        raise BadExpectationsError(f"{path}: an entry lacks {', '.join(missing)}: {row}")
    try:
        verdict = Verdict(row["verdict"])
    except ValueError:
        raise BadExpectationsError(f"{path}: {row['verdict']!r} is no verdict") from None
    expires = row.get("expires")
    if isinstance(expires, str):
        expires = datetime.date.fromisoformat(expires)
    return Expectation(row["pattern"], verdict, row["reason"], row.get("link", ""), expires)


def apply(results: list[CaseResult], expectations: list[Expectation], today: datetime.date) -> list[str]:
    """Mark results as expected_fail or unexpected_pass; gives a warning for each stale or expired entry."""
    warnings = []
    for row in expectations:
        if row.expires and row.expires < today:
            warnings.append(f"expired on {row.expires}: {row.pattern}")
            continue
        for result in results:
            if not fnmatch.fnmatchcase(result.case.id, row.pattern):
                continue
            if result.verdict is row.verdict:
                row.used += 1
                result.expected = {"status": "expected_fail", "reason": row.reason, "link": row.link}
            elif result.verdict in (Verdict.PASS, Verdict.INFO):
                result.expected = {"status": "unexpected_pass", "reason": row.reason, "link": row.link}
        if not row.used:
            warnings.append(f"stale, matched no failing case: {row.pattern}")
    return warnings
