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
    parsed = _parse(path)
    rows = parsed.get("case") if isinstance(parsed, dict) else None
    if not isinstance(rows, list):
        raise BadExpectationsError(f"{path}: no list named 'case'")
    return [_expectation(path, row) for row in rows]


def _parse(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        try:
            tomllib: Any = import_module("tomllib")
        except ModuleNotFoundError:
            raise BadExpectationsError(f"{path}: TOML needs Python 3.11; give the same content as JSON") from None
        return tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadExpectationsError(f"{path}: {error}") from None


def _expectation(path: Path, row: Any) -> Expectation:
    if not isinstance(row, dict):
        raise BadExpectationsError(f"{path}: an entry is no table: {row!r}")
    missing = [name for name in ("pattern", "verdict", "reason") if not row.get(name)]
    if missing:
        raise BadExpectationsError(f"{path}: an entry lacks {', '.join(missing)}: {row}")
    try:
        verdict = Verdict(row["verdict"])
    except ValueError:
        raise BadExpectationsError(f"{path}: {row['verdict']!r} is no verdict") from None
    texts = [row["pattern"], row["reason"], row.get("link", "")]
    if not all(isinstance(text, str) for text in texts):
        raise BadExpectationsError(f"{path}: pattern, reason and link must be texts: {row}")
    return Expectation(texts[0], verdict, texts[1], texts[2], _date(path, row.get("expires")))


def _date(path: Path, value: Any) -> datetime.date | None:
    try:
        if value is None or type(value) is datetime.date:
            return value
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise BadExpectationsError(f"{path}: expires = {value} is no date such as 2027-01-01") from None


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
