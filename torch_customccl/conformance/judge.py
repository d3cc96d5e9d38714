"""From what the ranks reported to one verdict."""

from __future__ import annotations

from .model import Case, RankOutcome, Verdict, worst
from .ops import OPS
from .refusal import is_refusal
from .tables import DTYPES

PROMPT_MS = 2500.0
_DTYPE_WORDS = (*(row.words[0] for row in DTYPES.values()), "dtype", "datatype", "data type", "scalar type")
_REDUCE_OP_WORDS = ("reduceop", "redoptype", "reduce op", "reduction")
_LAYOUT_WORDS = ("contiguous", "stride", "strided", "dense", "memory format", "overlap")
_SIZE_WORDS = ("size", "shape", "length", "empty", "dim", "dimension", "scalar")
_SIZE_LAYOUTS = ("zero_dim", "empty", "empty_dim")


def feature_words(case: Case) -> tuple[str, ...]:
    """What a refusal of this case may name: the operation, the dtype, the reduce op, the layout."""
    words = [case.op, *str(case.dims.get("words", "")).split()]
    if case.op in OPS:
        words += OPS[case.op].words
    if case.dims.get("dtype") in DTYPES:
        words += DTYPES[case.dims["dtype"]].words
    if case.dims.get("reduce_op"):
        words.append(case.dims["reduce_op"])
    if case.dims.get("layout", "contiguous") != "contiguous":
        words += _LAYOUT_WORDS
    return tuple(word for word in words if word)


def trait_words(case: Case) -> tuple[str, ...]:
    """The narrower list, for "must be" and "invalid": what sets this case apart from the plainest call."""
    dims = case.dims
    layout, kind = dims.get("layout", "contiguous"), str(dims.get("kind", ""))
    words: list[str] = []
    if dims.get("dtype") in DTYPES:
        words += [*_DTYPE_WORDS, *DTYPES[dims["dtype"]].words]
    if dims.get("reduce_op"):
        words += [dims["reduce_op"], *_REDUCE_OP_WORDS]
    if layout in _SIZE_LAYOUTS or "uneven" in kind:
        words += _SIZE_WORDS
    elif layout not in ("contiguous", "offset") or "sparse" in kind:
        words += [*_LAYOUT_WORDS, "noncontiguous", "layout", "sparse"]
    if dims.get("elsewhere"):
        words += [dims["elsewhere"], "device"]
    return tuple(words)


def _refuses(case: Case, message: str) -> bool:
    return is_refusal(message, feature_words(case), strict=True) or is_refusal(message, trait_words(case))


def judge(case: Case, outcomes: list[RankOutcome], usable: bool | None) -> tuple[Verdict, str]:
    """The verdict and, where no rank's message says it, the reason. ``usable``: the group worked afterwards."""
    counted = [
        outcome for outcome in outcomes if not (outcome.rank in case.may_die and outcome.outcome in ("died", "stuck"))
    ]
    kinds = {outcome.outcome for outcome in counted}
    if "harness" in kinds:
        return Verdict.HARNESS_ERROR, _first(counted, "harness")
    if "died" in kinds:
        told = [o for o in counted if o.outcome == "died"] + [o for o in counted if o.outcome in ("check", "raised")]
        return Verdict.CRASH, "; ".join(f"rank {o.rank}: {o.message[:200]}" for o in told)
    if "stuck" in kinds:
        return _judge_stuck(counted)
    checks = [Verdict(outcome.verdict) for outcome in counted if outcome.outcome == "check"]
    if checks:
        return _judge_checks(counted, checks)
    if kinds <= {"ok"}:
        recorded = any(outcome.info.get("verdict") == "info" for outcome in counted)
        return (Verdict.INFO if recorded else Verdict.PASS), ""
    return _judge_raised(case, counted, usable)


def _first(outcomes: list[RankOutcome], kind: str) -> str:
    return next(outcome.message for outcome in outcomes if outcome.outcome == kind)


def _ranks(outcomes: list[RankOutcome], kind: str) -> str:
    return ", ".join(str(outcome.rank) for outcome in outcomes if outcome.outcome == kind)


def _judge_stuck(outcomes: list[RankOutcome]) -> tuple[Verdict, str]:
    stuck = _ranks(outcomes, "stuck")
    raised = [outcome for outcome in outcomes if outcome.outcome == "raised"]
    if raised:
        return Verdict.ASYMMETRIC, (
            f"rank {_ranks(outcomes, 'raised')} raised ({raised[0].message[:300]}); "
            f"rank {stuck} waited until the hard limit"
        )
    return Verdict.HANG, f"rank {stuck}: {_first(outcomes, 'stuck')}"


def _judge_checks(outcomes: list[RankOutcome], checks: list[Verdict]) -> tuple[Verdict, str]:
    verdict = worst(checks)
    told = [outcome for outcome in outcomes if outcome.outcome == "check" and outcome.verdict == verdict.value]
    if verdict is Verdict.ACCEPTED_INVALID:
        accepted = [str(outcome.rank) for outcome in told]
        refusing = [str(o.rank) for o in outcomes if o.info.get("refused_with") and o not in told]
        if refusing:
            return Verdict.ASYMMETRIC, (
                f"rank {', '.join(refusing)} refused, rank {', '.join(accepted)} accepted: {told[0].message}"
            )
    return verdict, told[0].message


def _judge_raised(case: Case, outcomes: list[RankOutcome], usable: bool | None) -> tuple[Verdict, str]:
    raised = [outcome for outcome in outcomes if outcome.outcome == "raised"]
    message = raised[0].message
    refused = all(_refuses(case, outcome.message) for outcome in raised)
    prompt = all(outcome.duration_ms < PROMPT_MS or is_refusal(outcome.message, strict=True) for outcome in raised)
    if len(raised) < len(outcomes) and not (refused and prompt and _each_group_agrees(outcomes)):
        return Verdict.ASYMMETRIC, f"rank {_ranks(outcomes, 'raised')} raised, the others did not: {message}"
    if not refused:
        return Verdict.ERROR, message
    if not prompt:
        return Verdict.ERROR, f"refused only after {raised[0].duration_ms / 1e3:.1f} s: {message}"
    if usable is False:
        return Verdict.UNCLEAR_UNSUPPORTED, f"refused, but the group is broken afterwards: {message}"
    return Verdict.UNSUPPORTED, message


def _each_group_agrees(outcomes: list[RankOutcome]) -> bool:
    """Bystanders aside, the ranks of each group all raised or all did not."""
    seen: dict[str, set[str]] = {}
    for outcome in outcomes:
        if not outcome.info.get("bystander"):
            seen.setdefault(str(outcome.info.get("groups")), set()).add(outcome.outcome)
    return all(len(kinds) == 1 for kinds in seen.values())
