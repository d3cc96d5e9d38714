"""The table of targets, where something failed or is not known: nothing counts as reached that is not."""

import pytest
from made_up import cell, made_up, peer

from benchmarks.peers import COPY, EXCHANGE, FLOOR, OURS, OURS_SHARED
from benchmarks.report import aims
from benchmarks.results import Results

FAILED = {"missing": "RuntimeError: no memory"}
NEVER = "DeepSpeed, direct call, 4 KiB to 64 MiB"
GATHER = "`dist` all_gather, 64 KiB to 64 MiB"
BEST = "C level, every operation and size, 2 ranks"


def rows(run: Results) -> dict[str, list[str]]:
    """What -> measured, verdict; of what has several rows, the first."""
    found: dict[str, list[str]] = {}
    for what, _, *rest in aims.rows(run):
        found.setdefault(what, rest)
    return found


@pytest.mark.parametrize("ours, why", [(peer(1.0, wrong=5), "5 wrong elements"), (FAILED, "RuntimeError: no memory")])
def test_what_failed_has_not_reached_its_target_however_fast(ours: dict[str, object], why: str) -> None:
    sizes = {"all_reduce": 1 << 20, "all_gather": 64 << 10}
    run = made_up(
        [
            cell("all_reduce", sizes["all_reduce"], {OURS: ours, "deepspeed": peer(300.0)}, style="direct"),
            cell("all_gather", sizes["all_gather"], {OURS: ours, "gloo": peer(300.0)}),
            cell("barrier", 0, {OURS: ours, FLOOR: peer(3.0)}),
            cell("all_reduce", 8, {OURS: ours, "MPICH": peer(9.0), "Open MPI": peer(9.0)}, style="c"),
            cell("all_reduce", 1 << 10, {OURS: peer(1.0), "MPICH": peer(9.0)}, style="c"),
        ]
    )
    found = rows(run)
    assert found[NEVER] == [f"0 of 1 cells: not all_reduce 1 MiB {why}", "**missed**"]
    assert found[GATHER] == [f"0 of 1 cells: not all_gather 64 KiB {why}", "**missed**"]
    assert found[BEST] == [f"1 of 2 cells: not all_reduce 8 B {why}", "**missed**"]
    assert found["`dist.barrier`"] == [f"customccl: {why}", "**missed**"]


def test_cells_after_the_end_of_our_program_at_the_c_level_are_not_forgotten() -> None:
    ended = cell("broadcast", 8, {"MPICH": peer(9.0), "Open MPI": peer(9.0)}, style="c")
    run = made_up([cell("all_reduce", 8, {OURS: peer(1.0), "MPICH": peer(9.0)}, style="c"), ended])
    assert rows(run)[BEST] == ["1 of 2 cells: not broadcast 8 B failed", "**missed**"]


def test_what_a_peer_does_not_have_or_was_not_asked_for_is_no_failure() -> None:
    has_none = {"missing": "UnsupportedError: has no all_gather"}
    run = made_up([cell("all_gather", 64 << 10, {OURS: has_none, "gloo": peer(300.0)}), cell("barrier", 0, {})])
    found = rows(run)
    assert found[GATHER] == found["`dist.barrier`"] == ["not in this run", "?"]


@pytest.mark.parametrize(
    "noisy, verdict", [(0, "reached"), (1, "reached (1 too noisy)"), (2, "reached (2 too noisy)"), (3, "?")]
)
def test_cells_too_noisy_to_count_are_named_and_as_many_as_the_others_are_no_answer(noisy: int, verdict: str) -> None:
    cells = [
        cell(
            "all_reduce",
            8 << number,
            {OURS: peer(10.0, drift=1.5 if number < noisy else 1.0), "MPICH": peer(11.0)},
            style="c",
        )
        for number in range(5)
    ]
    assert rows(made_up(cells))[BEST][1] == verdict


@pytest.mark.parametrize("drift, verdict", [(1.0, "out of reach"), (1.5, "**missed**")])
def test_what_is_out_of_reach_is_so_whatever_the_noise_of_the_proof(drift: float, verdict: str) -> None:
    run = made_up([cell("all_reduce", 8, {OURS: peer(18.0), EXCHANGE: peer(13.0, drift=drift)}, ranks=4)])
    told, judged = rows(run)["4 ranks, `dist.all_reduce` 8 B"]
    assert judged == verdict, told


@pytest.mark.parametrize(("handed", "verdict"), [(300_000, "**missed**"), (900_000, "out of reach")])
def test_a_copy_is_no_proof_where_the_data_has_crossed_in_less(handed: int, verdict: str) -> None:
    peers = {OURS: peer(2000.0), "gloo": peer(11_000.0), FLOOR: peer(3.0), COPY: peer(1900.0)}
    run = made_up([cell("all_reduce", 16 << 20, peers)])
    tensor = {"bytes": 16 << 20, "in_ns": handed, "out_ns": handed}
    run.values["before"] = {**run.values["before"], "handover": [tensor]}
    ((told, judged),) = [
        rest for what, target, *rest in aims.rows(run) if (what, target) == ("`dist.all_reduce` 16 MiB", "11x gloo")
    ]
    assert judged == verdict, told
    assert "memcpy" not in told


@pytest.mark.parametrize(("drift", "verdict"), [(1.0, "reached"), (1.3, "?")])
def test_tensors_of_the_backend_are_compared_with_copies_through_the_gate_too(drift: float, verdict: str) -> None:
    run = made_up([cell("all_reduce", 64 << 20, {OURS_SHARED: peer(5800.0, drift=drift)}, style="direct")])
    ((told, judged),) = [rest for _, target, *rest in aims.rows(run) if target == "as fast as concurrent copies"]
    assert judged == verdict, told
