"""What a planted bug is: a backend, and the verdict that its cases must get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..model import Verdict


@dataclass(frozen=True)
class Mutant:
    """A backend with a planted bug, the cases that look for it, and what they must say."""

    name: str
    group: Callable[..., Any]
    verdict: Verdict
    cases: tuple[str, ...]
    bug: str
    slow: bool = False
    deadline_s: float = 10.0
    """Short where the wanted verdict is a hang."""
