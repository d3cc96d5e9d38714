"""Which ranks form the group an operation runs in. To add a grouping, add one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Grouping:
    """``members(size)`` lists the groups to make; a rank uses those it is in, one after the other."""

    name: str
    members: Callable[[int], list[list[int]]]
    min_size: int = 1
    sort_ranks: bool = True


GROUPINGS: dict[str, Grouping] = {
    row.name: row
    for row in (
        Grouping("world", lambda n: []),
        Grouping("all", lambda n: [list(range(n))]),
        Grouping("reversed", lambda n: [list(range(n))[::-1]], 2, sort_ranks=False),
        Grouping("single", lambda n: [[rank] for rank in range(n)]),
        Grouping("half", lambda n: [list(range(n // 2)), list(range(n // 2, n))], 2),
        Grouping("odd_even", lambda n: [list(range(0, n, 2)), list(range(1, n, 2))], 2),
        Grouping("upper", lambda n: [list(range(1, n))], 2),
        Grouping("overlapping", lambda n: [list(range(n - 1)), list(range(1, n))], 3),
    )
}
