"""From outcomes of ranks to verdicts, and from verdicts to gates, exit codes and reports."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import torch

from torch_customccl.conformance import expected, registry, worker
from torch_customccl.conformance.contract import CLAUSES, as_markdown
from torch_customccl.conformance.judge import judge
from torch_customccl.conformance.model import Case, CaseResult, Level, RankOutcome, Tier, Verdict, gate
from torch_customccl.conformance.plan import Selection, portions, select
from torch_customccl.conformance.profiles import PROFILES
from torch_customccl.conformance.refusal import is_refusal

ROOT = Path(__file__).parents[2]
CASE = Case("coll/all_reduce/x", "data", "AR-01", "data", 2, {"op": "all_reduce", "dtype": "i16"})


def said(*outcomes: tuple[str, str], usable: bool | None = True) -> Verdict:
    ranks = [
        RankOutcome(rank, kind, message=message, verdict=message if kind == "check" else "")
        for rank, (kind, message) in enumerate(outcomes)
    ]
    return judge(CASE, ranks, usable)[0]


OK, STUCK = ("ok", ""), ("stuck", "no answer")
REFUSED = ("raised", "RuntimeError: Backend x does not support all_reduce")


def test_verdicts() -> None:
    assert said(OK, OK) is Verdict.PASS
    assert said(OK, ("check", "wrong_result")) is Verdict.WRONG_RESULT
    assert said(("check", "wrong_result"), ("check", "nonstrict")) is Verdict.WRONG_RESULT
    assert said(STUCK, STUCK) is Verdict.HANG
    assert said(OK, STUCK) is Verdict.HANG
    assert said(("raised", "RuntimeError: broken"), STUCK) is Verdict.ASYMMETRIC
    assert said(("died", "killed by SIGSEGV"), STUCK) is Verdict.CRASH
    assert said(REFUSED, REFUSED) is Verdict.UNSUPPORTED
    assert said(REFUSED, REFUSED, usable=False) is Verdict.UNCLEAR_UNSUPPORTED
    assert said(REFUSED, OK) is Verdict.ASYMMETRIC
    assert said(("raised", "RuntimeError: 7"), ("raised", "RuntimeError: 7")) is Verdict.ERROR
    scalar = ("raised", "RuntimeError: Invalid scalar type")
    assert said(scalar, scalar) is Verdict.UNSUPPORTED


@pytest.mark.parametrize(
    ("dims", "text", "refused"),
    [
        ({}, "all_reduce expected 3 acknowledgements, got 2", False),
        ({"dtype": "i32"}, "internal error: all_reduce expected 3 acknowledgements, got 2", False),
        ({"dtype": "i16"}, "all_reduce: only float32 can be reduced", True),
        ({"reduce_op": "premul_sum"}, "Cannot use ReduceOp.PREMUL_SUM", True),
        ({"reduce_op": "sum"}, "all_reduce must not be called twice: checksum", False),
        ({"layout": "stride2"}, "Tensors must be contiguous", True),
        ({"layout": "contiguous"}, "all_reduce: tensors must be contiguous", False),
        ({"layout": "zero_dim"}, "allgather: invalid tensor size at index 0", True),
        ({"dtype": "f32"}, "allgather: invalid tensor size at index 0", False),
        ({"elsewhere": "meta"}, "expected a tensor of another device", True),
        ({}, "all_reduce is not implemented", True),
    ],
)
def test_must_be_and_invalid_refuse_only_what_the_case_is_about(dims: dict[str, str], text: str, refused: bool) -> None:
    case = Case("coll/all_reduce/x", "data", "AR-01", "data", 2, {"op": "all_reduce", **dims})
    verdict, _ = judge(case, [RankOutcome(rank, "raised", message=f"RuntimeError: {text}") for rank in (0, 1)], True)
    assert verdict is (Verdict.UNSUPPORTED if refused else Verdict.ERROR)


def test_a_rank_that_refused_is_not_said_to_have_accepted() -> None:
    outcomes = [
        RankOutcome(0, "check", "nonstrict", message="refused late", info={"refused_with": "late"}),
        RankOutcome(1, "check", "accepted_invalid", message="accepted"),
    ]
    verdict, reason = judge(CASE, outcomes, True)
    assert verdict is Verdict.ASYMMETRIC and reason == "rank 0 refused, rank 1 accepted: accepted"
    outcomes[0] = RankOutcome(0, "check", "accepted_invalid", message="accepted", info={"refused_with": "earlier"})
    assert judge(CASE, outcomes, True)[0] is Verdict.ACCEPTED_INVALID


def test_what_a_rank_measured_reaches_the_parent_as_plain_data() -> None:
    assert worker._plain({"count": 1, "number": torch.tensor(3)}) == {"count": 1, "number": "tensor(3)"}
    assert worker._plain({"bad": {(): 1}}) == {"unreadable": "TypeError"}


def test_the_death_that_is_part_of_a_case_is_not_a_crash() -> None:
    case = Case("fault/kill", "faults", "FT-01", "killed_peer", 2, {"op": "all_reduce"}, may_die=(1,))
    outcomes = [RankOutcome(0, "ok"), RankOutcome(1, "died", signal="SIGKILL")]
    assert judge(case, outcomes, None)[0] is Verdict.PASS


def test_gates_depend_on_how_binding_the_clause_is() -> None:
    assert gate(Verdict.WRONG_RESULT, Level.REQUIRED) == "red"
    assert gate(Verdict.WRONG_RESULT, Level.RECOMMENDED) == "amber"
    assert gate(Verdict.WRONG_RESULT, Level.INFORMATIONAL) == "ok"
    assert gate(Verdict.CRASH, Level.RECOMMENDED) == "red"
    assert gate(Verdict.UNSUPPORTED, Level.REQUIRED) == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "Backend donothing does not support send",
        "Cannot use ReduceOp.PREMUL_SUM with Gloo",
        "Tensors must be contiguous",
        "Work::getFuture not implemented.",
    ],
)
def test_refusals_are_known_from_their_text(text: str) -> None:
    assert is_refusal(text, ("premul_sum", "future", "contiguous"))


@pytest.mark.parametrize("text", ["connection reset", "Timed out waiting 3000ms", "internal failure 7"])
def test_other_errors_are_no_refusals(text: str) -> None:
    assert not is_refusal(text, ("all_reduce",))


def test_every_case_is_well_formed() -> None:
    cases = registry.all_cases()
    assert len(cases) > 4000
    for case in cases:
        assert case.clause in CLAUSES, case.id
        assert case.body in registry.BODIES, case.id
        assert case.isolation in ("warm", "fresh") and case.world_size >= 1 and case.op, case.id


def test_every_clause_has_a_case_and_every_case_a_clause() -> None:
    cited = {case.clause for case in registry.all_cases()}
    assert not set(CLAUSES) - cited, "clauses without a case"
    assert not cited - set(CLAUSES), "cases cite what is no clause"
    assert all(clause.source.startswith("https://") for clause in CLAUSES.values())


def test_every_body_is_named_by_a_case() -> None:
    assert not set(registry.BODIES) - {case.body for case in registry.all_cases()}


def test_every_profile_names_cases() -> None:
    cases = registry.all_cases()
    for name, patterns in PROFILES.items():
        assert select(cases, Selection(Tier.FULL, profiles=(name,)), PROFILES), (name, patterns)


def test_the_contract_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "contract.md").read_text() == as_markdown()


def test_the_order_comes_from_the_seed_and_no_case_is_lost() -> None:
    cases = select(registry.all_cases(), Selection(Tier.STANDARD), PROFILES)
    orders = [[case.id for portion in portions(cases, seed) for case in portion.cases] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(case.id for case in cases)


def test_expectations_mark_results_and_report_stale_lines(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text("""{"case": [
        {"pattern": "coll/*", "verdict": "wrong_result", "reason": "known", "link": "https://example.org/1"},
        {"pattern": "none/*", "verdict": "hang", "reason": "gone"},
        {"pattern": "coll/*", "verdict": "hang", "reason": "old", "expires": "2020-01-01"}]}""")
    results = [CaseResult(CASE, Verdict.WRONG_RESULT)]
    warnings = expected.apply(results, expected.load(path), datetime.date(2026, 1, 1))
    assert results[0].expected["status"] == "expected_fail"
    assert [text.split(":")[0].split(",")[0] for text in warnings] == ["stale", "expired on 2020-01-01"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "no list named 'case'"),
        ('{"case": ["x"]}', "an entry is no table"),
        ('{"case": [{"pattern": "x", "verdict": "nonsense", "reason": "r"}]}', "is no verdict"),
        ('{"case": [{"pattern": 7, "verdict": "hang", "reason": "r"}]}', "must be texts"),
        (
            '{"case": [{"pattern": "x", "verdict": "hang", "reason": "r", "expires": 2027}]}',
            "expires = 2027 is no date",
        ),
        ('{"case": [{"pattern": "x", "verdict": "hang", "reason": "r", "expires": "soon"}]}', "expires = soon is no"),
    ],
)
def test_expectations_that_cannot_be_used_are_known_before_the_run(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text(text)
    with pytest.raises(expected.BadExpectationsError, match=told):
        expected.load(path)


def test_an_expiry_with_a_time_is_refused(tmp_path: Path) -> None:
    moment = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)
    with pytest.raises(expected.BadExpectationsError, match="is no date"):
        expected._date(tmp_path, moment)
    assert expected._date(tmp_path, moment.date()) == moment.date()
