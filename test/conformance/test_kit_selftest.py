"""The kit judges backends with planted bugs: each must get its verdict. The full, repeated score: make selftest."""

from __future__ import annotations

import fnmatch

import pytest

from torch_customccl.conformance import registry
from torch_customccl.conformance.model import Verdict
from torch_customccl.conformance.mutants import PLANTED
from torch_customccl.conformance.mutants.planted import Mutant
from torch_customccl.conformance.plan import Selection, select
from torch_customccl.conformance.profiles import PROFILES
from torch_customccl.conformance.selftest import judge_backend, judge_mutant

QUICK = [mutant for mutant in PLANTED if not mutant.slow]
SLOW = [mutant for mutant in PLANTED if mutant.slow]
SAMPLE = (
    "coll/*/ws2/f32/*contiguous/n31/*",
    "call/all_reduce/*/ws2",
    "p2p/*/ws2",
    "objects/*/first/ws2",
    "misuse/all_gather/*/ws2",
)


def test_there_are_enough_mutants() -> None:
    assert len(PLANTED) >= 18
    assert len({mutant.name for mutant in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_planted_bug_gets_its_verdict(mutant: Mutant) -> None:
    caught = judge_mutant(mutant)
    assert caught.right, f"{mutant.bug}: {caught.verdicts}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", SLOW, ids=lambda mutant: mutant.name)
def test_a_planted_hang_or_large_count_gets_its_verdict(mutant: Mutant) -> None:
    caught = judge_mutant(mutant)
    assert caught.right, f"{mutant.bug}: {caught.verdicts}"


def test_the_reference_passes() -> None:
    result = judge_backend("reference", SAMPLE)
    bad = [(case["id"], case["verdict"], case["message"]) for case in result["cases"] if case["verdict"] != "pass"]
    assert not bad
    chosen = select(registry.all_cases(), Selection(patterns=SAMPLE), PROFILES)
    assert sorted(case["id"] for case in result["cases"]) == sorted(case.id for case in chosen), (
        "a chosen case got no result"
    )
    assert all(fnmatch.filter([case.id for case in chosen], pattern) for pattern in SAMPLE)


def test_a_backend_that_does_nothing_is_only_unsupported() -> None:
    result = judge_backend("donothing", SAMPLE)
    assert set(result["summary"]["verdicts"]) == {Verdict.UNSUPPORTED.value}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_backend_that_never_comes_back_ends_within_its_budget() -> None:
    result = judge_backend("deadlock", ("coll/all_reduce/ws2/*/contiguous/*", "coll/broadcast/ws2/f32/*"), budget_s=60)
    assert set(result["summary"]["verdicts"]) <= {"hang", "not_run"}
    assert result["timing"]["seconds"] < 200
    hangs = [case for case in result["cases"] if case["verdict"] == "hang"]
    assert hangs and all("useless.py" in rank["stack"] for rank in hangs[0]["ranks"])


def test_gloo_shows_its_known_bugs() -> None:
    result = judge_backend(
        "gloo",
        (
            "coll/all_reduce/ws2/f32/sum/stride2/*/sync/world",
            "coll/reduce/ws2/f32/sum/contiguous/n31/*/first/checked",
            "p2p/polled_recv/ws2",
            "call/send_recv/future/ws2",
            "coll/all_reduce/ws2/i16/sum/contiguous/n31/sync/world",
            "coll/all_reduce/ws2/f32/premul_sum/contiguous/n31/sync/world",
            "uneven/all_gather/ws2",
            "misuse/all_reduce/size/ws2",
        ),
    )
    verdicts = {case["id"]: case["verdict"] for case in result["cases"]}
    red = ("crash", "accepted_invalid", "asymmetric")
    assert verdicts.pop("misuse/all_reduce/size/ws2") in red
    assert sorted(verdicts.values()) == ["error"] + ["unsupported"] * 4 + ["wrong_result", "wrong_side_effect"], (
        verdicts
    )
