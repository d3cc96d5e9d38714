"""Mutants of a corner that only one kind of call comes to."""

from __future__ import annotations

from ..model import Verdict
from .mutant import Mutant
from .wrong_corners import (
    CoalescedBitsDiffer,
    FlushesDenormals,
    ForgetsEndOfBf16,
    GathersFirstOnly,
    KeepsTensors,
    LeaksDescriptors,
    ManyBitsDiffer,
    NamesNobody,
    ReducesBf16InF16,
    ScatterNeverEnds,
    ScratchesBystander,
)

CORNERS: tuple[Mutant, ...] = (
    Mutant(
        "mutant_forgets_end_of_bf16",
        ForgetsEndOfBf16,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/bf16/contiguous/n65537/*",),
        "forgets the last of many bf16 elements",
    ),
    Mutant(
        "mutant_many_bits_differ",
        ManyBitsDiffer,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/same_bits/ws3",),
        "ranks differ in the last bit of large tensors",
    ),
    Mutant(
        "mutant_coalesced_bits_differ",
        CoalescedBitsDiffer,
        Verdict.WRONG_RESULT,
        ("coalesced/same_bits/ws3",),
        "ranks differ in the last bit of coalesced sums",
    ),
    Mutant(
        "mutant_reduces_bf16_in_f16",
        ReducesBf16InF16,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/float_error/bf16/ws3",),
        "adds up bf16 in f16",
    ),
    Mutant(
        "mutant_flushes_denormals",
        FlushesDenormals,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f32/sum/contiguous/n31/sync/world/special",),
        "takes denormals for zero",
    ),
    Mutant(
        "mutant_scratches_bystander",
        ScratchesBystander,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/reduce/ws2/f32/sum/contiguous/n65537/sync/world/first/checked",),
        "reduce changes other ranks' tensors when they are large",
    ),
    Mutant(
        "mutant_gathers_first_only",
        GathersFirstOnly,
        Verdict.WRONG_RESULT,
        ("coalesced/gathered/ws2",),
        "gathers the first of several coalesced tensors",
    ),
    Mutant(
        "mutant_scatter_never_ends",
        ScatterNeverEnds,
        Verdict.HANG,
        ("fault/timeout/scatter/ws2",),
        "scatter waits for ever",
        slow=True,
    ),
    Mutant(
        "mutant_leaks_descriptors",
        LeaksDescriptors,
        Verdict.LEAK,
        ("fault/leftovers/normal/ws2",),
        "broadcast leaves a descriptor open",
    ),
    Mutant(
        "mutant_keeps_tensors",
        KeepsTensors,
        Verdict.LEAK,
        ("fault/leftovers/memory/ws2",),
        "broadcast keeps its tensor for ever",
    ),
    Mutant(
        "mutant_names_nobody",
        NamesNobody,
        Verdict.NONSTRICT,
        ("barrier/monitored_names/ws2",),
        "monitored_barrier does not name who is missing",
    ),
)
