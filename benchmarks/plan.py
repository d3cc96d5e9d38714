"""What a run measures: cells (operation x style x dtype x size) per number of ranks, for each preset."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks import styles
from benchmarks.operations import COALESCED_TENSORS, ELEMENT_BYTES, OPERATIONS, sums_are_exact
from benchmarks.sampling import Limits

KIB, MIB = 1024, 1024 * 1024
QUICK_SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB)
FULL_SIZES = (8, 128, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
COARSE_SIZES = (8, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
STEP = "step"  # the style of workloads
OWN = "own"  # the style of own_calls.py
OWN_CALLS = ("message", "group_ready", "commit", "communicator")
C_STYLE = "c"
C_SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
DDP_WIDTH, DDP_LAYERS = 2048, 6  # the net of the step of DistributedDataParallel


@dataclass(frozen=True)
class Cell:
    """One line of a table. style STEP: the operation is a workload of workloads.py; OWN: a call of own_calls.py."""

    operation: str
    style: str
    dtype: str
    size: int

    def widened(self) -> "Cell":
        """As many elements of float32."""
        return replace(self, dtype="float32", size=self.size * ELEMENT_BYTES["float32"] // ELEMENT_BYTES[self.dtype])

    def title(self, ranks: int) -> str:
        return f"{ranks} ranks: {self.style} {self.operation} {self.dtype} {self.size} B"


@dataclass
class Plan:
    """All that a run does."""

    preset: str
    ranks: list[int]
    peers: list[str]
    limits: Limits
    detailed: list[int]  # numbers of ranks that are measured in every detail; the others coarsely
    operations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    workloads: list[str] = field(default_factory=list)
    own_calls: list[str] = field(default_factory=list)
    message_sizes: list[int] = field(default_factory=list)
    most_seconds: float = 600.0  # per number of ranks; cells that would begin later are left out
    coarse_seconds: float = 80.0  # the same for numbers of ranks that are measured coarsely
    c_level: bool = True
    c_sizes: list[int] = field(default_factory=list)
    c_coarse_sizes: list[int] = field(default_factory=list)
    c_seconds: float = 60.0  # per number of ranks; a cell that begins later gets the fewest rounds

    def cells(self, ranks: int) -> list[Cell]:
        if ranks in self.detailed:
            workloads = [Cell(name, STEP, "float32", 0) for name in self.workloads]
            fine = (cell for cell in self._all() if _fine(cell) and sums_are_exact(cell.dtype, ranks))
            return [*fine, *self._own_cells(), *workloads]
        coarse = [cell for cell in self._all() if _coarse(cell)]
        return sorted(coarse, key=lambda cell: cell.operation != "all_reduce")  # first what matters most

    def limits_of(self, cell: Cell) -> Limits:
        """A step takes a tenth of a second, and a few of them say little about what some take longer than others."""
        return replace(self.limits, seconds=16 * self.limits.seconds) if cell.style == STEP else self.limits

    def time_limit(self, ranks: int) -> float:
        return self.most_seconds if ranks in self.detailed else self.coarse_seconds

    def _all(self) -> Iterator[Cell]:
        for style in self.styles:
            for operation in self.operations:
                if operation not in styles.operations(style):
                    continue
                for size in _sizes_of(operation, self.sizes):
                    for dtype in self.dtypes:
                        if dtype == self.dtypes[0] or (style == "dist" and operation in _LOW_PRECISION[dtype]):
                            # As many elements in every dtype, one soon after the other: rates are compared per element.
                            same_elements = size * ELEMENT_BYTES[dtype] // ELEMENT_BYTES[self.dtypes[0]]
                            yield Cell(operation, style, dtype, same_elements)

    def _own_cells(self) -> Iterator[Cell]:
        for name in self.own_calls:
            for size in {"message": self.message_sizes, "communicator": [8]}.get(name, [0]):
                yield Cell(name, OWN, "float32", size)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def c_cells(self, ranks: int) -> list[Cell]:
        """The C level: one style, float32."""
        if not self.c_level:
            return []
        fine = ranks in self.detailed
        wanted = [name for name in self.operations if name != "coalesced" and (fine or name in _COMMON)]
        sizes = self.c_sizes if fine else self.c_coarse_sizes
        return [Cell(name, C_STYLE, "float32", size) for name in wanted for size in _sizes_of(name, sizes)]

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Plan":
        return Plan(**{**values, "limits": Limits(**values["limits"])})


_LOW_PRECISION = {
    "float32": list(OPERATIONS),
    "bfloat16": ["all_reduce", "reduce_scatter"],
    "float16": ["all_reduce"],
}
_SMALL_ONLY = {"functional": 64 * KIB, "async": MIB}


def _sizes_of(operation: str, sizes: Sequence[int]) -> list[int]:
    if operation == "barrier":
        return [0]
    if operation == "coalesced":
        return [COALESCED_TENSORS * 64, COALESCED_TENSORS * 4 * KIB]
    return list(sizes)


def _fine(cell: Cell) -> bool:
    """Everything, but few sizes of low precision, and small ones of styles that differ only in what a call costs."""
    if cell.size > _SMALL_ONLY.get(cell.style, cell.size):
        return False
    return cell.dtype == "float32" or 2 * cell.size in (*QUICK_SIZES, 64 * MIB)


def _coarse(cell: Cell) -> bool:
    """`dist` calls of the common operations and the direct all_reduce, few sizes."""
    wanted = cell.style == "dist" or (cell.style, cell.operation) == ("direct", "all_reduce")
    usual = cell.operation in _COMMON and cell.dtype == "float32"
    return wanted and usual and cell.size in (0, *COARSE_SIZES)


_COMMON = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv", "barrier")


def quick(ranks: list[int], peers: list[str]) -> Plan:
    """About two minutes on two cores."""
    return Plan(
        "quick",
        ranks,
        peers,
        Limits(seconds=0.7, least=5, most=40),
        detailed=ranks,
        operations=list(_COMMON),
        sizes=list(QUICK_SIZES),
        styles=["dist", "direct", "async", "functional"],
        dtypes=["float32"],
        workloads=["ddp_step", "ddp_step_staged", "new_group"],
        own_calls=list(OWN_CALLS),
        message_sizes=[32 * KIB, 512 * KIB],
        most_seconds=180.0,
        c_sizes=[8, 64 * KIB, MIB, 16 * MIB],
        c_seconds=20.0,
    )


def full(ranks: list[int], peers: list[str]) -> Plan:
    """About ten minutes on two cores."""
    return Plan(
        "full",
        ranks,
        peers,
        Limits(seconds=0.8, least=8, most=40),
        detailed=ranks[:1],
        operations=list(OPERATIONS),
        sizes=list(FULL_SIZES),
        styles=["dist", "direct", "async", "functional"],
        dtypes=["float32", "bfloat16", "float16"],
        workloads=["ddp_step", "ddp_step_staged", "fsdp2_step", "fsdp2_step_shared", "token_loop", "new_group"],
        own_calls=list(OWN_CALLS),
        message_sizes=[4 * KIB, 32 * KIB, 512 * KIB, 8 * MIB],
        most_seconds=290.0,
        c_sizes=list(C_SIZES),
        c_coarse_sizes=[8, 64 * KIB, MIB, 16 * MIB],
        c_seconds=100.0,
    )


def big(ranks: list[int], peers: list[str]) -> Plan:
    """Under nine minutes on sixteen cores: how everything changes with the number of ranks, each with a core."""
    return Plan(
        "big",
        ranks,
        peers,
        Limits(seconds=0.5, least=5, most=40),
        detailed=[],
        operations=list(_COMMON),
        sizes=list(COARSE_SIZES),
        styles=["dist", "direct"],
        dtypes=["float32"],
        coarse_seconds=40.0,
        c_coarse_sizes=list(COARSE_SIZES),
        c_seconds=25.0,
    )


PRESETS = {"quick": (quick, "2"), "full": (full, "2,4,8"), "big": (big, "2,4,8,16")}  # and their numbers of ranks
