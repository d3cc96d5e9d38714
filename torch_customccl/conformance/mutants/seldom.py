"""Mutants that are right wherever one usually looks."""

from __future__ import annotations

from ..model import Verdict
from .mutant import Mutant
from .wrong_seldom import TruncatesAverage, WholeFactor

SELDOM: tuple[Mutant, ...] = (
    Mutant(
        "mutant_truncates_average",
        TruncatesAverage,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f32/avg/contiguous/n31/*",),
        "an average of floats is a whole number",
    ),
    Mutant(
        "mutant_whole_factor",
        WholeFactor,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f32/premul_sum/contiguous/n31/*",),
        "the factor of PREMUL_SUM is an integer",
    ),
)
