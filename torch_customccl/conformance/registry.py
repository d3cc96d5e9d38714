"""Case bodies by name, and the functions that generate cases. A family module fills both when imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from .model import Case

if TYPE_CHECKING:
    from .context import Context

Body = Callable[["Context"], None]
Generator = Callable[[], Iterator[Case]]

BODIES: dict[str, Body] = {}
GENERATORS: dict[str, Generator] = {}
FAMILIES = (
    "data",
    "calling",
    "overwriting",
    "programs",
    "groups",
    "devices",
    "p2p",
    "objects",
    "misuse",
    "faults",
    "leaving",
    "observability",
    "honesty",
    "capability",
    "coalescing",
    "training",
    "integration",
    "large",
)


def body(function: Body) -> Body:
    """Register a function that tries one case, under its own name."""
    if function.__name__ in BODIES:
        raise ValueError(f"two case bodies are named {function.__name__}")
    BODIES[function.__name__] = function
    return function


def family(function: Generator) -> Generator:
    """Register a case generator under the name of its module."""
    GENERATORS[function.__module__.rpartition(".")[2]] = function
    return function


def load() -> None:
    """Import every family."""
    for name in FAMILIES:
        import_module(f"{__package__}.families.{name}")


def all_cases() -> list[Case]:
    """Every case of every family, in a fixed order; ids are unique."""
    load()
    cases: dict[str, Case] = {}
    for name in FAMILIES:
        for case in GENERATORS[name]():
            if case.id in cases:
                raise ValueError(f"two cases have the id {case.id}")
            cases[case.id] = case
    return list(cases.values())
