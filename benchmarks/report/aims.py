"""What the project set out to reach: the rows of the table of targets."""

from collections.abc import Iterator
from typing import Any

from benchmarks.peers import OURS, OURS_SHARED
from benchmarks.plan import OWN, STEP
from benchmarks.report import targets, words
from benchmarks.report.targets import KIB, MIB, MS, US, Target
from benchmarks.results import Results

_TWO: dict[str, Any] = {"style": "dist", "ranks": 2}
_ALL_REDUCE: dict[str, Any] = {"operation": "all_reduce", "ranks": 2}


def _share_of_a_core(figure: str) -> targets.Check:
    return targets.footprint(figure, 0.01, lambda share: f"{share:.2%} of a core")


def _c_level(ranks: int) -> Iterator[Target]:
    yield Target(f"C level, every operation and size, {ranks} ranks", "no MPI is faster", targets.best_in_c(ranks))
    for text, factor, size in (("16 MiB", 2.5, 16 * MIB), ("64 MiB", 4, 64 * MIB)):
        check = targets.fastest_mpi(factor, "all_reduce", ranks, size)
        yield Target(f"C level, all_reduce {text}, {ranks} ranks", f"{factor}x the best MPI", check)


TARGETS = (
    Target(
        "`dist.all_reduce` 8 B",
        "floor + 0.3 us",
        targets.over_floor(0.3 * US, style="dist", operation="all_reduce", size=8),
    ),
    Target("`dist.all_reduce` 8 B", "50x gloo", targets.faster(50, "gloo", **_TWO, operation="all_reduce", size=8)),
    Target("`dist.barrier`", "floor + 0.6 us", targets.over_floor(0.6 * US, style="dist", operation="barrier")),
    Target(
        "`dist.broadcast` 8 B",
        "floor + 0.6 us",
        targets.over_floor(0.6 * US, style="dist", operation="broadcast", size=8),
    ),
    Target(
        "`dist.all_gather_into_tensor` 8 B",
        "floor + 0.6 us",
        targets.over_floor(0.6 * US, style="dist", operation="all_gather", size=8),
    ),
    Target(
        "`dist.send`, `dist.recv` round trip, 4 B each way",
        "floor + 2 x 0.6 us (two calls)",
        targets.over_floor(1.2 * US, style="dist", operation="send_recv", size=8),
    ),
    Target(
        "`_c10d_functional.all_reduce_` + `wait_tensor` 8 B",
        "floor + 0.6 us",
        targets.over_floor(0.6 * US, style="functional", operation="all_reduce", size=8),
    ),
    Target(
        "async all_reduce + wait 8 B",
        "floor + 1 us",
        targets.over_floor(1 * US, style="async", operation="all_reduce", size=8),
    ),
    *(
        Target(
            f"`dist.all_reduce` {text}",
            f"{factor}x gloo",
            targets.faster(factor, "gloo", **_TWO, operation="all_reduce", size=size),
        )
        for text, factor, size in (
            ("64 KiB", 45, 64 * KIB),
            ("1 MiB", 14, MIB),
            ("16 MiB", 11, 16 * MIB),
            ("64 MiB", 9, 64 * MIB),
        )
    ),
    *(
        Target(f"`dist.all_reduce` {text}", "floor + 0.3 us + 1.05 x C level", targets.c_level_plus_floor(size))
        for text, size in (("8 B", 8), ("64 KiB", 64 * KIB), ("1 MiB", MIB), ("16 MiB", 16 * MIB), ("64 MiB", 64 * MIB))
    ),
    Target("direct call, all_reduce 8 B", "1.2 us", targets.at_most(1.2 * US, **_ALL_REDUCE, style="direct", size=8)),
    Target("DeepSpeed, direct call, 4 KiB to 64 MiB", "never slower", targets.never_slower("deepspeed", 2, 4 * KIB)),
    *(
        Target(
            f"DeepSpeed, direct call, {size // MIB} MiB",
            "2x",
            targets.faster(2, "deepspeed", **_ALL_REDUCE, style="direct", size=size),
        )
        for size in (16 * MIB, 64 * MIB)
    ),
    Target(
        "DeepSpeed, 4 ranks on 2 cores, 64 KiB",
        "100x",
        targets.faster(100, "deepspeed", style="direct", operation="all_reduce", ranks=4, size=64 * KIB),
    ),
    *(
        Target(f"`dist` {operation}, 64 KiB to 64 MiB", "5x gloo or 70 % of memcpy", targets.gloo_or_ceiling(operation))
        for operation in ("all_gather", "reduce_scatter", "broadcast", "all_to_all")
    ),
    *_c_level(2),
    Target(
        "all_reduce 64 MiB, tensors allocated by the backend",
        "1.8x other tensors",
        targets.faster(1.8, OURS, OURS_SHARED, **_ALL_REDUCE, style="direct", size=64 * MIB),
    ),
    Target(
        "all_reduce 64 MiB, tensors allocated by the backend", "as fast as concurrent copies", targets.as_fast_as_copies
    ),
    Target(
        "4 ranks, `dist.all_reduce` 8 B",
        "12 us",
        targets.at_most(12 * US, style="dist", operation="all_reduce", ranks=4, size=8),
    ),
    *(
        Target(
            f"4 ranks, `dist.all_reduce` {size // MIB} MiB",
            f"{factor}x gloo",
            targets.faster(factor, "gloo", style="dist", operation="all_reduce", ranks=4, size=size),
        )
        for factor, size in ((25, MIB), (5, 64 * MIB))
    ),
    Target(
        "8 ranks, C level, all_reduce 8 B",
        "8 us",
        targets.at_most(8 * US, level="c", operation="all_reduce", ranks=8, size=8),
    ),
    *(
        Target(f"{dtype} all_reduce, elements per second", "at least float32's", targets.low_precision(dtype))
        for dtype in ("bfloat16", "float16")
    ),
    Target("an idle process with groups of all peers", "under 1 % of a core", _share_of_a_core("idle share of a core")),
    Target(
        "a rank that waits two seconds, beyond idling",
        "under 1 % of a core",
        _share_of_a_core("waiting share of a core"),
    ),
    Target(
        "memory of one more group, Python objects included",
        "under 64 KiB",
        targets.footprint("bytes per group", 64 * KIB, lambda count: words.size(int(count))),
    ),
    Target(
        "new group over the same ranks, barrier, end",
        "1 ms more than torch alone",
        targets.over_floor(1 * MS, style=STEP, operation="new_group"),
    ),
    *(
        Target(
            f"message of 512 B and 8 tensors of {size // KIB} KiB, one way", wanted, targets.one_way(limit, 8 * size)
        )
        for size, wanted, limit in ((4 * KIB, "40 us", 40 * US), (64 * KIB, "80 us", 80 * US))
    ),
    Target("group of 2 ranks, made and ready", "10 ms", targets.at_most(10 * MS, style=OWN, operation="group_ready")),
    Target("group changes its members: commit", "1 ms", targets.at_most(1 * MS, style=OWN, operation="commit")),
    Target("`Communicator.allreduce` 8 B", "C call + 1 us", targets.over_c(1 * US, 8)),
    Target("DDP step: communication", "5x below gloo", targets.communication(5, "ddp_step")),
    Target("DDP step: total", "never slower than gloo", targets.faster(1, "gloo", style=STEP, operation="ddp_step")),
)


def rows(results: Results) -> Iterator[list[str]]:
    """what, target, measured, and how they compare. Of a big run: the C level, where each rank has a core."""
    big = (target for ranks in results.values["plan"]["ranks"] if ranks <= results.cores for target in _c_level(ranks))
    for target in big if results.preset == "big" else TARGETS:
        verdict = target.check(results)
        missed = "missed, machine busy" if results.busy else "**missed**"
        missed = "out of reach" if verdict.forbidden else missed
        reached = "reached" + (f" ({verdict.noisy} too noisy)" if verdict.noisy else "")
        met = "?" if verdict.met is None else reached if verdict.met else missed
        yield [target.what, target.wanted, verdict.measured, met]
