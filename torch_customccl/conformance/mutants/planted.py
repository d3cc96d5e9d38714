"""The mutants: the reference backend with one thing broken each, and the verdict the kit must give."""

from __future__ import annotations

from ..model import Verdict
from .corners import CORNERS
from .mutant import Mutant
from .seldom import SELDOM
from .subtle import SUBTLE
from .wrong_data import (
    DropsLastChunk,
    GlobalRoot,
    IgnoresOffset,
    IgnoresStride,
    LastBitDiffers,
    LosesNan,
    NarrowCount,
    SwapsRanks,
    WrongDivisor,
    WrongTag,
)
from .wrong_endings import (
    AcceptsMismatch,
    BreaksGroup,
    CompletesEarly,
    FalseCapability,
    GivesNoWork,
    HangsOnEmpty,
    IgnoresTimeout,
    RaisesOnOne,
    RefusesUnclearly,
    SaysLittle,
    Segfaults,
)
from .wrong_places import (
    ChangesBystander,
    ChangesInput,
    LeaksShm,
    WritesPastEnd,
)

PLANTED: tuple[Mutant, ...] = (
    Mutant(
        "mutant_ignores_stride",
        IgnoresStride,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/f32/stride2/*",),
        "writes every tensor as if it were contiguous",
    ),
    Mutant(
        "mutant_ignores_offset",
        IgnoresOffset,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/f32/offset/*",),
        "forgets the storage offset of a view",
    ),
    Mutant(
        "mutant_wrong_avg_divisor",
        WrongDivisor,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws3/f32/avg/*",),
        "divides AVG by the wrong number",
    ),
    Mutant(
        "mutant_drops_last_chunk",
        DropsLastChunk,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f32/sum/contiguous/n4097/*",),
        "forgets what does not fill a chunk",
    ),
    Mutant(
        "mutant_swaps_ranks",
        SwapsRanks,
        Verdict.WRONG_RESULT,
        ("coll/all_gather/ws2/f32/contiguous/n31/*",),
        "two ranks change places",
    ),
    Mutant(
        "mutant_changes_input",
        ChangesInput,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/all_gather_into_tensor/ws2/f32/contiguous/n31/*",),
        "writes into the input",
    ),
    Mutant(
        "mutant_writes_past_end",
        WritesPastEnd,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/all_reduce/ws2/f32/sum/contiguous/n31/*",),
        "writes one byte past the end",
    ),
    Mutant(
        "mutant_completes_early",
        CompletesEarly,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/wait/ws2",),
        "completes before the data is there",
    ),
    Mutant("mutant_wrong_tag", WrongTag, Verdict.WRONG_RESULT, ("p2p/tags_crossed/ws2",), "ignores tags"),
    Mutant(
        "mutant_ignores_timeout",
        IgnoresTimeout,
        Verdict.HANG,
        ("fault/timeout/all_reduce/ws2",),
        "waits for ever",
        slow=True,
    ),
    Mutant(
        "mutant_raises_on_one",
        RaisesOnOne,
        Verdict.ASYMMETRIC,
        ("coll/all_reduce/ws2/i64/sum/contiguous/n31/*",),
        "one rank raises, the others do not",
    ),
    Mutant(
        "mutant_hangs_on_empty",
        HangsOnEmpty,
        Verdict.HANG,
        ("coll/all_gather/ws2/f32/empty/n0/sync/world",),
        "never completes a tensor without elements",
        deadline_s=2.0,
    ),
    Mutant(
        "mutant_segfault",
        Segfaults,
        Verdict.CRASH,
        ("coll/broadcast/ws2/bf16/contiguous/n31/*",),
        "dies of a segmentation fault",
    ),
    Mutant(
        "mutant_gives_no_work",
        GivesNoWork,
        Verdict.CRASH,
        ("integration/python_group/ws2",),
        "gives None where groups written in Python wait for a Work",
    ),
    Mutant("mutant_leaks_shm", LeaksShm, Verdict.LEAK, ("fault/leftovers/normal/ws2",), "leaves shared memory behind"),
    Mutant(
        "mutant_false_capability",
        FalseCapability,
        Verdict.ACCEPTED_INVALID,
        ("honesty/coalescing/ws2",),
        "declares what it cannot do",
    ),
    Mutant(
        "mutant_last_bit_differs",
        LastBitDiffers,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/same_bits/ws3",),
        "ranks differ in the last bit",
    ),
    Mutant(
        "mutant_loses_nan",
        LosesNan,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f32/max/contiguous/n31/sync/world/special",),
        "a maximum is no NaN where the second of two ranks has one",
    ),
    Mutant(
        "mutant_wrong_group_rank",
        GlobalRoot,
        Verdict.WRONG_RESULT,
        ("group/broadcast/half/ws4",),
        "confuses group ranks and global ranks",
    ),
    Mutant(
        "mutant_32_bit_count",
        NarrowCount,
        Verdict.WRONG_RESULT,
        ("large/broadcast/elements/ws2",),
        "counts elements in 32 bits",
        slow=True,
    ),
    Mutant(
        "mutant_accepts_mismatch",
        AcceptsMismatch,
        Verdict.ACCEPTED_INVALID,
        ("misuse/all_reduce/size/ws2",),
        "reduces tensors of different sizes",
    ),
    Mutant(
        "mutant_changes_bystander",
        ChangesBystander,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/reduce/ws2/f32/sum/contiguous/n31/sync/world/first/checked",),
        "reduce changes other ranks' tensors",
    ),
    Mutant(
        "mutant_refuses_unclearly",
        RefusesUnclearly,
        Verdict.ERROR,
        ("coll/all_to_all_single/ws2/f32/contiguous/n31/*",),
        "raises without saying what is missing",
    ),
    Mutant(
        "mutant_breaks_group",
        BreaksGroup,
        Verdict.UNCLEAR_UNSUPPORTED,
        ("coll/all_to_all_single/ws2/f32/contiguous/n31/*",),
        "refuses clearly, but the group is broken afterwards",
    ),
    Mutant(
        "mutant_says_little",
        SaysLittle,
        Verdict.NONSTRICT,
        ("misuse/all_gather/short_list/ws2",),
        "refuses a wrong call without saying what is wrong",
    ),
    *SUBTLE,
    *CORNERS,
    *SELDOM,
)

__all__ = ["PLANTED", "Mutant"]
