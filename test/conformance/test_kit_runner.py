"""The runner with ranks that are only played: reruns, dependence on other cases, starved ranks, budgets."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from torch_customccl.conformance import cli, fair_clock, session
from torch_customccl.conformance.fair_clock import FairClock
from torch_customccl.conformance.model import Case, CaseResult, RankOutcome, Verdict
from torch_customccl.conformance.plan import Portion
from torch_customccl.conformance.pool import StartFailedError
from torch_customccl.conformance.runner import Limits, Runner
from torch_customccl.conformance.session import merge_repeat

Play = Callable[[Case, list[str]], str]
"""(case, ids of the cases that this worker set has run before) -> outcome of both ranks."""
MESSAGES = {"raised": "RuntimeError: internal failure 7", "stuck": "no answer", "check": "values differ"}


class PlayedSet:
    """A worker set without processes."""

    def __init__(self, play: Play, queued: float) -> None:
        self.ran: list[Case] = []
        self.alive = True
        self._play, self._queued = play, queued

    def run(self, case: Case, deadline_s: float) -> list[RankOutcome]:
        outcome = self._play(case, [each.id for each in self.ran])
        self.ran.append(case)
        self.alive = outcome != "stuck"
        verdict = Verdict.WRONG_RESULT.value if outcome == "check" else ""
        return [RankOutcome(rank, outcome, verdict, message=MESSAGES.get(outcome, "")) for rank in (0, 1)]

    def usable(self, case: Case, deadline_s: float) -> bool:
        return True

    def queued_s(self) -> float:
        return self._queued

    def stop(self) -> None:
        self.alive = False

    kill = stop


class PlayedPool:
    """Hands out played sets; ``queued``: how long the ranks of the first set stand in line."""

    def __init__(self, play: Play, queued: float = 0.0) -> None:
        self._play, self._queued = play, queued

    def start(self, *arguments: Any) -> PlayedSet:
        queued, self._queued = self._queued, 0.0
        return PlayedSet(self._play, queued)


def cases(*names: str, op: str = "all_reduce") -> list[Case]:
    return [Case(name, "data", "AR-01", "data", 2, {"op": op, "kind": "x"}) for name in names]


def run(pool: Any, chosen: Sequence[Case], **limits: Any) -> dict[str, CaseResult]:
    runner = Runner(pool, Limits(lanes=1, **limits), lambda result: None)
    return {result.case.id: result for result in runner.run([Portion(2, list(chosen))])}


def in_turn(*outcomes: str) -> Play:
    left = list(outcomes)
    return lambda case, before: left.pop(0)


def test_a_failure_that_comes_back_is_confirmed() -> None:
    result = run(PlayedPool(in_turn("check", "check")), cases("a"))["a"]
    assert result.verdict is Verdict.WRONG_RESULT and result.rerun == {"confirmed": True}


def test_a_failure_that_does_not_come_back_is_flaky() -> None:
    result = run(PlayedPool(in_turn("raised", "ok", "ok", "ok")), cases("a"))["a"]
    assert result.verdict is Verdict.FLAKY
    assert result.rerun == {"confirmed": False, "first": "error", "reruns": ["pass", "pass", "pass"]}


@pytest.mark.parametrize(
    ("first", "verdict"), [("stuck", Verdict.PASS), ("raised", Verdict.PASS), ("check", Verdict.FLAKY)]
)
def test_what_a_starved_rank_could_not_do_in_time_is_decided_by_the_reruns(first: str, verdict: Verdict) -> None:
    result = run(PlayedPool(in_turn(first, "ok", "ok", "ok"), queued=2.0), cases("a"))["a"]
    assert result.verdict is verdict


def test_a_failure_is_traced_to_the_case_it_depends_on() -> None:
    def play(case: Case, before: list[str]) -> str:
        return "check" if case.id == "victim" and "culprit" in before else "ok"

    result = run(PlayedPool(play), cases("a", "b", "culprit", "c", "d", "victim", "e"))["victim"]
    assert result.verdict is Verdict.WRONG_RESULT
    assert result.rerun == {"confirmed": True, "state_dependent": True, "after": ["culprit"]}


def test_after_three_hangs_of_a_kind_the_rest_of_that_kind_does_not_run() -> None:
    chosen = cases("a", "b", "c", "d", "e") + cases("other", op="broadcast")
    results = run(PlayedPool(lambda case, before: "ok" if case.op == "broadcast" else "stuck"), chosen)
    assert [result.verdict.value for result in results.values()] == ["hang"] * 3 + ["not_run"] * 2 + ["pass"]
    assert results["d"].reason == "blocked by c"


def test_when_the_time_is_spent_the_rest_does_not_run() -> None:
    results = run(PlayedPool(in_turn()), cases("a", "b"), budget_s=-1.0)
    assert {(result.verdict, result.reason) for result in results.values()} == {(Verdict.NOT_RUN, "budget")}


def test_a_run_that_is_stopped_has_a_result_for_every_case_and_none_of_ranks_it_ended() -> None:
    stop = threading.Event()

    def play(case: Case, before: list[str]) -> str:
        if case.id == "b":
            stop.set()
            return "stuck"
        return "ok"

    runner = Runner(PlayedPool(play), Limits(lanes=1), lambda result: None, stop)  # type: ignore[arg-type]
    results = {result.case.id: result for result in runner.run([Portion(2, cases("a", "b", "c"))])}
    assert [result.verdict.value for result in results.values()] == ["pass", "not_run", "not_run"]
    assert {results[name].reason for name in "bc"} == {"interrupted"}


def test_a_verdict_that_changes_between_runs_is_flaky() -> None:
    one, two = cases("a", "b")
    results = [CaseResult(one, Verdict.PASS), CaseResult(two, Verdict.PASS)]
    again = [CaseResult(one, Verdict.PASS), CaseResult(two, Verdict.ERROR, reason="internal failure 7")]
    merge_repeat(results, again)
    assert [result.verdict for result in results] == [Verdict.PASS, Verdict.FLAKY]
    assert results[1].reason == "pass, then error on repeat: internal failure 7"


def test_a_case_that_ran_in_one_repeat_only_has_what_it_got_there() -> None:
    one, two, three = cases("a", "b", "c")
    first = [CaseResult(one, Verdict.NOT_RUN), CaseResult(two, Verdict.PASS), CaseResult(three, Verdict.PASS)]
    again = [CaseResult(one, Verdict.WRONG_RESULT), CaseResult(two, Verdict.NOT_RUN), CaseResult(three, Verdict.PASS)]
    assert not merge_repeat(first, again)
    assert [result.verdict for result in first] == [Verdict.WRONG_RESULT, Verdict.PASS, Verdict.PASS]
    assert merge_repeat(first, [CaseResult(each.case, each.verdict) for each in first])


def test_an_official_run_allows_no_filter_and_is_three_runs() -> None:
    parse = cli._parser().parse_args
    assert cli._request(parse(["--backend", "toy", "--official"])).repeat == 3
    for words in (["--case", "x"], ["--profile", "core"], ["--tier", "smoke"], ["--launcher", "mpirun -n {n} {cmd}"]):
        with pytest.raises(ValueError, match="--official allows no"):
            cli._request(parse(["--backend", "toy", "--official", *words]))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--backend", "gloo", "--import", "nosuchmodule"], "there is no module 'nosuchmodule'"),
        (["--backend", "gloo", "--pg-options", "nosuchmodule:f"], "there is no module 'nosuchmodule'"),
        (["--backend", "gloo", "--pg-options", "json"], "write MODULE:FUNCTION"),
        (["--backend", "gloo", "--profile", "core,"], "no profile named ''"),
        (["--backend", "nosuchbackend"], "no backend is named 'nosuchbackend'"),
        (["--backend", "gloo", "--expected", "/nosuchfile"], "/nosuchfile"),
        (["--backend", "gloo", "--selftest-score", "/nosuchfile"], "/nosuchfile"),
        (["--backend", "gloo", "--out", "/proc/1/nosuchfolder"], "/proc/1/nosuchfolder"),
        (["--backend", "gloo", "--env", "=value"], "write NAME=VALUE"),
        (["--backend", "gloo", "--repeat", "0"], "is not 1 or more"),
    ],
)
def test_a_mistake_of_the_caller_is_told_before_anything_runs(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "_run_cases", lambda *_: pytest.fail("cases ran"))
    try:
        code = cli.main([*words, "--tier", "smoke"])
    except SystemExit as ended:
        code = ended.code
    assert code == cli.USAGE
    assert told in capsys.readouterr().err.replace("\n", "")


def test_the_help_names_every_command() -> None:
    told = cli._parser().format_help()
    assert all(name in told for name in ("compare", "matrix", "contract", "selftest", "pack"))


def test_a_repro_line_starts_the_ranks_as_the_run_did() -> None:
    words = ["--backend", "toy", "--env", "A=b c", "--pg-options", "module:function"]
    request = cli._request(cli._parser().parse_args(words))
    started = datetime.datetime.now(datetime.timezone.utc)
    prefix = session._facts(request, started, 1.0, 1.0, []).repro_prefix
    assert "--env 'A=b c'" in prefix and "--pg-options module:function" in prefix


def test_a_group_that_cannot_be_made_is_a_verdict_for_each_case() -> None:
    class NoPool:
        def start(self, *arguments: Any) -> PlayedSet:
            raise StartFailedError([RankOutcome(0, "raised", message="RuntimeError: no such backend")])

    results = run(NoPool(), cases("a", "b"))
    assert [result.verdict for result in results.values()] == [Verdict.ERROR, Verdict.ERROR]
    assert "the process group could not be made" in results["a"].reason


def test_a_rank_that_ends_while_the_group_is_made_is_named_with_what_happened() -> None:
    class NoPool:
        def start(self, *arguments: Any) -> PlayedSet:
            stuck = RankOutcome(0, "stuck", message="no answer within 60.0 s")
            raise StartFailedError([stuck, RankOutcome(1, "died", message="rank process exited with code 0")])

    result = run(NoPool(), cases("a"))["a"]
    assert result.verdict is Verdict.CRASH and "rank 1: rank process exited with code 0" in result.reason


def test_time_in_line_for_a_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, queued = [0.0], [{7: 10**9}]
    monkeypatch.setattr(fair_clock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(fair_clock, "_queued", lambda process: queued[0])
    monkeypatch.setattr(fair_clock, "_sessions", lambda leaders: leaders)
    clock = FairClock(10.0, [4])
    now[0], queued[0] = 4.0, {7: 4 * 10**9}
    assert clock.left() == 6.0 and clock.queued_s() == 3.0
    now[0] = 11.0
    assert clock.left() == 2.0
    now[0] = 13.5
    assert clock.left() < 0
    queued[0] = {7: 10**12}
    assert 80 < clock.left() < 100, "but not for ever"
    clock.shorten(1.0)
    assert clock.left() == 1.0


def test_this_machine_tells_how_long_threads_wait_for_a_processor() -> None:
    assert fair_clock.queue_is_told() == bool(fair_clock._queued(fair_clock.os.getpid()))
    assert FairClock(1.0, []).queued_s() == 0.0
