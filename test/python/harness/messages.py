"""What travels between the test and its ranks: plain pickles, so that no tensor is ever put into shared memory."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from .remote import FunctionName


@dataclass(frozen=True)
class Task:
    """Run `body(rank, size, *args)`."""

    body: FunctionName
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Leave:
    """Destroy the groups and end."""


@dataclass(frozen=True)
class Event:
    """Something that a body reports while it runs."""

    name: str
    payload: Any


@dataclass(frozen=True)
class Returned:
    value: Any


@dataclass(frozen=True)
class Failed:
    error: str  # type and text on one line
    traceback: str
    skipped: bool = False


def pack(message: object) -> bytes:
    return pickle.dumps(message)


def unpack(data: bytes) -> Any:
    return pickle.loads(data)
