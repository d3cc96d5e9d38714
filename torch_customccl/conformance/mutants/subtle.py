"""Mutants that look right at first: narrow, late, hasty, or wrong only in a corner."""

from __future__ import annotations

from ..model import Verdict
from .mutant import Mutant
from .wrong_data import IgnoresOutputStride
from .wrong_departures import CrashesAtExit, CrashesInDestroy, HangsInDestroy
from .wrong_moments import (
    ChecksLate,
    EmptyFuture,
    IgnoresWaitTimeout,
    NoSubgroupBarrier,
    SendsLater,
    ShortTags,
    UnevenOf4Bytes,
    WrongSender,
)
from .wrong_places import ChangesBeyondBystander
from .wrong_widths import AverageDiffers, ForgetsEndOfThree, MovesNarrow, ReducesNarrow, RoundsCoarsely, Saturates

SUBTLE: tuple[Mutant, ...] = (
    Mutant(
        "mutant_crashes_in_destroy",
        CrashesInDestroy,
        Verdict.CRASH,
        ("coll/broadcast/ws2/f32/contiguous/n31/*",),
        "dies when a used group is destroyed",
    ),
    Mutant(
        "mutant_hangs_in_destroy",
        HangsInDestroy,
        Verdict.HANG,
        ("coll/broadcast/ws2/f32/contiguous/n31/*",),
        "never comes back when a used group is destroyed",
        deadline_s=2.0,
    ),
    Mutant(
        "mutant_crashes_at_exit",
        CrashesAtExit,
        Verdict.CRASH,
        ("coll/broadcast/ws2/f32/contiguous/n31/*",),
        "dies on the way out of the process",
    ),
    Mutant(
        "mutant_moves_i64_narrow",
        MovesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/i64/contiguous/n31/*",),
        "moves 64-bit integers in 32 bits",
    ),
    Mutant(
        "mutant_moves_f64_narrow",
        MovesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/f64/contiguous/n31/*",),
        "moves 64-bit floats in 32 bits",
    ),
    Mutant(
        "mutant_moves_c128_narrow",
        MovesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/c128/contiguous/n31/*",),
        "moves complex numbers in half their width",
    ),
    Mutant(
        "mutant_moves_i8_narrow",
        MovesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/i8/contiguous/n31/*",),
        "has no -128",
    ),
    Mutant(
        "mutant_moves_fp8e4m3_narrow",
        MovesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/fp8e4m3/contiguous/n31/*",),
        "loses the sign of an 8-bit float",
    ),
    Mutant(
        "mutant_reduces_i64_narrow",
        ReducesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/i64/sum/contiguous/n31/*",),
        "SUM of i64 in half its width",
    ),
    Mutant(
        "mutant_reduces_f64_narrow",
        ReducesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f64/avg/contiguous/n31/*",),
        "AVG of f64 in half its width",
    ),
    Mutant(
        "mutant_multiplies_f64_narrow",
        ReducesNarrow,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f64/product/contiguous/n31/*",),
        "PRODUCT of f64 in half its width",
    ),
    Mutant(
        "mutant_saturates",
        Saturates,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws3/i32/sum/contiguous/n31/*",),
        "stops at the largest integer while it adds up",
    ),
    Mutant(
        "mutant_rounds_coarsely",
        RoundsCoarsely,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/float_error/f64/ws3",),
        "adds up 64-bit fractions in 32 bits",
    ),
    Mutant(
        "mutant_forgets_end_of_three",
        ForgetsEndOfThree,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws3/f32/sum/contiguous/n65537/*",),
        "wrong for many elements and three ranks",
    ),
    Mutant(
        "mutant_average_differs",
        AverageDiffers,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/same_bits/avg/ws3",),
        "ranks differ in the last bit of an average",
    ),
    Mutant(
        "mutant_ignores_output_stride",
        IgnoresOutputStride,
        Verdict.WRONG_RESULT,
        ("coll/all_gather/ws2/f32/stride2/n120/sync/world/only_outputs",),
        "forgets the outputs' strides when the input has none",
    ),
    Mutant(
        "mutant_changes_beyond_bystander",
        ChangesBeyondBystander,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/reduce/ws2/f32/sum/contiguous/n31/sync/world/first",),
        "reduce writes past the tensor of another rank than the root",
    ),
    Mutant(
        "mutant_sends_later",
        SendsLater,
        Verdict.WRONG_RESULT,
        ("p2p/buffer_reused/ws2",),
        "send comes back before its tensor is read",
    ),
    Mutant(
        "mutant_broadcasts_later",
        SendsLater,
        Verdict.WRONG_RESULT,
        ("call/broadcast/input_overwritten/ws2",),
        "broadcast is done before its tensor is read",
    ),
    Mutant(
        "mutant_checks_late",
        ChecksLate,
        Verdict.ERROR,
        ("misuse/all_gather/short_list/alone/ws2",),
        "checks an argument once all ranks have come",
        slow=True,
    ),
    Mutant(
        "mutant_ignores_wait_timeout",
        IgnoresWaitTimeout,
        Verdict.ERROR,
        ("call/send_recv/wait_times_out/ws2",),
        "wait(timeout) waits for the group's timeout",
        slow=True,
    ),
    Mutant(
        "mutant_empty_future",
        EmptyFuture,
        Verdict.WRONG_RESULT,
        ("call/all_gather/future/ws2",),
        "a future without its result",
    ),
    Mutant(
        "mutant_no_subgroup_barrier",
        NoSubgroupBarrier,
        Verdict.WRONG_RESULT,
        ("barrier/in_group/ws3",),
        "a barrier that waits for nobody in a subgroup",
    ),
    Mutant(
        "mutant_short_tags",
        ShortTags,
        Verdict.WRONG_RESULT,
        ("p2p/tags_alike/ws2",),
        "sends 16 bits of a tag",
    ),
    Mutant(
        "mutant_wrong_sender",
        WrongSender,
        Verdict.ASYMMETRIC,
        ("p2p/any_source_in_group/ws3",),
        "names the wrong sender in a subgroup",
    ),
    Mutant(
        "mutant_uneven_of_4_bytes",
        UnevenOf4Bytes,
        Verdict.WRONG_RESULT,
        ("uneven/all_to_all_single/i64/ws2",),
        "uneven splits work for 4-byte elements only",
    ),
)
