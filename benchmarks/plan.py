"""What a run measures: cells (operation x style x dtype x size) per number of ranks, for each preset."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks import styles
from benchmarks.operations import COALESCED_TENSORS, ELEMENT_BYTES, OPERATIONS
from benchmarks.sampling import Limits

KIB, MIB = 1024, 1024 * 1024
QUICK_SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB)
FULL_SIZES = (8, 128, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
OVERSUBSCRIBED_SIZES = (8, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
STEP = "step"  # the style of workloads
C_STYLE = "c"
C_SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)


@dataclass(frozen=True)
class Cell:
    """One line of a table. style STEP: the operation is a workload of workloads.py."""

    operation: str
    style: str
    dtype: str
    size: int

    def title(self, ranks: int) -> str:
        return f"{ranks} ranks: {self.style} {self.operation} {self.dtype} {self.size} B"


@dataclass
class Plan:
    """All that a run does."""

    preset: str
    ranks: list[int]
    peers: list[str]
    limits: Limits
    operations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    workloads: list[str] = field(default_factory=list)
    c_level: bool = True
    c_sizes: list[int] = field(default_factory=list)
    c_rounds: int = 2
    c_seconds: float = 0.02

    def cells(self, ranks: int) -> list[Cell]:
        cells = [cell for cell in self._all() if self.preset != "full" or _wanted(cell, ranks, self.ranks[0])]
        return cells + [Cell(name, STEP, "float32", 0) for name in self.workloads if ranks == self.ranks[0]]

    def _all(self) -> Iterator[Cell]:
        for style in self.styles:
            for operation in self.operations:
                if operation not in styles.operations(style):
                    continue
                for dtype in self.dtypes:
                    for size in _sizes_of(operation, self.sizes):
                        if dtype == self.dtypes[0] or (style == "dist" and operation in _LOW_PRECISION):
                            # As many elements in every dtype: rates are compared per element.
                            same_elements = size * ELEMENT_BYTES[dtype] // ELEMENT_BYTES[self.dtypes[0]]
                            yield Cell(operation, style, dtype, same_elements)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def c_cells(self, ranks: int) -> list[Cell]:
        """The C level: one style, float32."""
        sizes = (
            self.c_sizes if ranks == self.ranks[0] else [size for size in self.c_sizes if size in OVERSUBSCRIBED_SIZES]
        )
        wanted = [name for name in self.operations if name != "coalesced"] if self.c_level else []
        return [Cell(name, C_STYLE, "float32", size) for name in wanted for size in _sizes_of(name, sizes)]

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Plan":
        return Plan(**{**values, "limits": Limits(**values["limits"])})


_LOW_PRECISION = ("all_reduce", "reduce_scatter")
_SMALL_ONLY = {"functional": 64 * KIB, "async": MIB}


def _sizes_of(operation: str, sizes: Sequence[int]) -> list[int]:
    if operation == "barrier":
        return [0]
    if operation == "coalesced":
        return [COALESCED_TENSORS * 64, COALESCED_TENSORS * 4 * KIB]
    return list(sizes)


def _wanted(cell: Cell, ranks: int, headline: int) -> bool:
    """Full preset: everything at the first number of ranks, less detail at the others."""
    if cell.size > _SMALL_ONLY.get(cell.style, cell.size):
        return False
    if ranks == headline:
        return cell.dtype == "float32" or 2 * cell.size in (*QUICK_SIZES, 64 * MIB)
    return cell.style == "dist" and cell.dtype == "float32" and (cell.size in OVERSUBSCRIBED_SIZES or cell.size == 0)


def quick(ranks: list[int], peers: list[str]) -> Plan:
    """About two minutes on two cores."""
    operations = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv", "barrier"]
    limits = Limits(seconds=1.0, least=5, most=50)
    chosen = ["dist", "direct", "async", "functional"]
    return Plan(
        "quick", ranks, peers, limits, operations, list(QUICK_SIZES), chosen, ["float32"], c_sizes=[8, 64 * KIB, MIB]
    )


def full(ranks: list[int], peers: list[str]) -> Plan:
    """About ten minutes on two cores."""
    limits = Limits(seconds=1.2, least=8, most=60)
    dtypes = ["float32", "bfloat16"]
    chosen = ["dist", "direct", "async", "functional"]
    workloads = ["ddp_step", "fsdp2_step", "token_loop", "new_group"]
    operations, sizes = list(OPERATIONS), list(FULL_SIZES)
    return Plan(
        "full", ranks, peers, limits, operations, sizes, chosen, dtypes, workloads, c_sizes=list(C_SIZES), c_rounds=4
    )
