"""The kit judges backends with planted bugs: each must get its verdict. The full, repeated score: make conformance."""

from __future__ import annotations

import fnmatch

import pytest

from torch_customccl.conformance import cli, registry, selftest
from torch_customccl.conformance.model import Verdict
from torch_customccl.conformance.mutants import PLANTED
from torch_customccl.conformance.mutants.planted import Mutant
from torch_customccl.conformance.plan import Selection, select
from torch_customccl.conformance.profiles import PROFILES
from torch_customccl.conformance.selftest import judge_backend, judge_mutant

QUICK = [mutant for mutant in PLANTED if not mutant.slow]
SAMPLE = (
    "coll/*/ws2/f32/*contiguous/n31/*",
    "call/all_reduce/*/ws2",
    "p2p/*/ws2",
    "objects/*/first/ws2",
    "misuse/all_gather/*/ws2",
    "honesty/*",
)


def test_there_are_enough_mutants_and_the_quick_ones_leave_no_verdict_out() -> None:
    assert len(PLANTED) >= 18
    assert len({mutant.name for mutant in PLANTED}) == len(PLANTED)
    assert {mutant.verdict for mutant in PLANTED} == {mutant.verdict for mutant in QUICK}
    without_a_bug = {Verdict.PASS, Verdict.INFO, Verdict.NOT_APPLICABLE, Verdict.UNSUPPORTED, Verdict.HARNESS_ERROR}
    of_the_runner = {Verdict.NOT_RUN, Verdict.FLAKY}  # test_kit_runner.py
    assert {mutant.verdict for mutant in QUICK} == set(Verdict) - without_a_bug - of_the_runner


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_planted_bug_gets_its_verdict(mutant: Mutant) -> None:
    caught = judge_mutant(mutant)
    assert caught.right, f"{mutant.bug}: {caught.verdicts}, {caught.messages}"


@pytest.mark.parametrize(
    ("words", "told"), [(["--repeat", "0"], "'0' is not 1 or more"), (["--out", "/proc/x.json"], "/proc/x.json")]
)
def test_a_mistake_of_the_caller_is_told_before_a_bug_is_judged(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "judge_mutant", lambda *_: pytest.fail("a bug was judged"))
    try:
        code = cli.main(["selftest", *words])
    except SystemExit as ended:
        code = ended.code
    assert code == cli.USAGE
    assert told in capsys.readouterr().err.replace("\n", "")


def test_the_reference_passes() -> None:
    result = judge_backend("reference", SAMPLE, rerun=True)
    wrong = [case for case in result["cases"] if case["verdict"] not in ("pass", "unsupported")]
    assert not [(case["id"], case["verdict"], case["message"]) for case in wrong]
    denied = {case["family"] for case in result["cases"] if case["verdict"] == "unsupported"}
    assert denied == {"honesty"}, "only a capability that the reference does not declare may be unsupported"
    chosen = [case.id for case in select(registry.all_cases(), Selection(patterns=SAMPLE), PROFILES)]
    assert sorted(case["id"] for case in result["cases"]) == sorted(chosen), "a chosen case got no result"
    assert all(fnmatch.filter(chosen, pattern) for pattern in SAMPLE)


def test_a_backend_that_does_nothing_is_only_unsupported() -> None:
    result = judge_backend("donothing", SAMPLE)
    assert set(result["summary"]["verdicts"]) == {Verdict.UNSUPPORTED.value}


def test_a_backend_that_never_comes_back_ends_soon() -> None:
    result = judge_backend("deadlock", ("coll/all_reduce/ws2/f32/*/contiguous/n31/*",), deadline_s=1.5)
    verdicts = result["summary"]["verdicts"]
    assert set(verdicts) == {"hang", "not_run"} and verdicts["hang"] <= 4, verdicts
    hangs = [case for case in result["cases"] if case["verdict"] == "hang"]
    assert all("useless.py" in rank["stack"] for case in hangs for rank in case["ranks"])


def test_gloo_shows_its_known_bugs() -> None:
    known = {
        "coll/all_reduce/ws2/f32/sum/stride2/n120/sync/world": "wrong_result",
        "coll/reduce/ws2/f32/sum/contiguous/n31/sync/world/first/checked": "wrong_side_effect",
        "p2p/polled_recv/ws2": "error",
        "call/send_recv/future/ws2": "unsupported",
        "coll/all_reduce/ws2/i16/sum/contiguous/n31/sync/world": "unsupported",
        "coll/all_reduce/ws2/f32/premul_sum/contiguous/n31/sync/world": "unsupported",
        "uneven/all_gather/ws2": "unsupported",
        "misuse/all_reduce/size/ws2": "",
    }
    result = judge_backend("gloo", tuple(known))
    verdicts = {case["id"]: case["verdict"] for case in result["cases"]}
    assert verdicts.pop("misuse/all_reduce/size/ws2") in ("crash", "accepted_invalid", "asymmetric")
    del known["misuse/all_reduce/size/ws2"]
    assert verdicts == known
