"""Mutants that are right wherever one usually looks."""

from __future__ import annotations

from ..model import Verdict
from .mutant import Mutant
from .wrong_seldom import (
    AbortsCollectivesOnly,
    BarrierLooksDone,
    CutsBytes,
    DestroyWaitsForAll,
    FutureNeverFails,
    HastyBarrierOfThree,
    KeepsAMebibyte,
    KeepsGathered,
    PatientWhenCoalesced,
    SplitsBackwards,
    TruncatesAverage,
    WholeFactor,
    WritesAgain,
)

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
    Mutant(
        "mutant_future_never_fails",
        FutureNeverFails,
        Verdict.ERROR,
        ("fault/future/all_reduce/ws2",),
        "the future of an operation that fails never completes",
        slow=True,
    ),
    Mutant(
        "mutant_patient_when_coalesced",
        PatientWhenCoalesced,
        Verdict.HANG,
        ("fault/timeout_coalesced/all_reduce/ws2",),
        "coalesced operations have no time limit",
        slow=True,
    ),
    Mutant(
        "mutant_aborts_collectives_only",
        AbortsCollectivesOnly,
        Verdict.ERROR,
        ("fault/abort/recv/ws2",),
        "abort() ends no receive",
        slow=True,
    ),
    Mutant(
        "mutant_keeps_gathered",
        KeepsGathered,
        Verdict.LEAK,
        ("fault/leftovers/memory/all_gather/ws2",),
        "all_gather keeps its outputs for ever",
    ),
    Mutant(
        "mutant_keeps_a_mebibyte",
        KeepsAMebibyte,
        Verdict.LEAK,
        ("fault/leftovers/memory/ws2",),
        "each operation leaves 1 MiB in use",
    ),
    Mutant(
        "mutant_barrier_looks_done",
        BarrierLooksDone,
        Verdict.WRONG_RESULT,
        ("barrier/polled/ws2",),
        "is_completed() of a barrier is true before all have come",
    ),
    Mutant(
        "mutant_hasty_barrier_of_three",
        HastyBarrierOfThree,
        Verdict.WRONG_RESULT,
        ("barrier/async/ws3",),
        "an asynchronous barrier of three ranks waits for nobody",
    ),
    Mutant(
        "mutant_cuts_bytes",
        CutsBytes,
        Verdict.ASYMMETRIC,
        ("objects/broadcast_object_list/large/ws2",),
        "a broadcast of bytes ends after 1 MiB",
    ),
    Mutant(
        "mutant_splits_backwards",
        SplitsBackwards,
        Verdict.WRONG_RESULT,
        ("honesty/splitting/ws2",),
        "a group split off numbers its ranks backwards",
    ),
    Mutant(
        "mutant_destroy_waits_for_all",
        DestroyWaitsForAll,
        Verdict.HANG,
        ("fault/destroy/pending_collective/ws2",),
        "destroy waits for a collective that another rank never calls",
        slow=True,
    ),
    Mutant(
        "mutant_writes_again",
        WritesAgain,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/result_overwritten/ws2",),
        "a result is written once more when the next operation begins",
    ),
)
