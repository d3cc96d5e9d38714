"""What a use of torch.distributed needs: a profile is a list of case patterns that must all pass."""

from __future__ import annotations

from dataclasses import dataclass

from .model import CaseResult, Verdict

_GOOD = frozenset({Verdict.PASS, Verdict.NONSTRICT, Verdict.INFO})
_ABSENT = frozenset({Verdict.NOT_RUN, Verdict.NOT_APPLICABLE})

PROFILES: dict[str, tuple[str, ...]] = {
    "core": (
        "coll/broadcast/ws?/f32/contiguous/*",
        *(f"coll/all_reduce/ws?/f32/{name}/contiguous/*" for name in ("sum", "product", "min", "max", "avg")),
        "coll/all_gather*/ws?/f32/contiguous/*",
        "coll/reduce_scatter*/ws?/f32/sum/contiguous/*",
        "barrier/*",
        "fault/timeout/*",
        "groups/reinit*",
    ),
    "p2p": ("coll/send_recv/ws?/f32/contiguous/*", "coll/batch_isend_irecv/ws?/f32/contiguous/*", "p2p/*"),
    "subgroups": ("coll/all_reduce/ws4/*/half/*", "group/*"),
    "objects": ("objects/*",),
    "ddp": (
        "coll/broadcast/ws2/f32/contiguous/*",
        "coll/all_reduce/ws2/f32/sum/contiguous/*",
        "call/all_reduce/future/*",
        "call/all_reduce/in_flight/*",
        "integration/ddp*",
    ),
    "fsdp2": (
        "coll/all_gather_into_tensor/ws2/f32/contiguous/*",
        "coll/all_gather_into_tensor/ws2/bf16/contiguous/*",
        "coll/reduce_scatter_tensor/ws2/f32/sum/contiguous/*",
        "coll/reduce_scatter_tensor/ws2/f32/avg/contiguous/*",
        "coll/reduce_scatter_tensor/ws2/bf16/avg/contiguous/*",
        "coll/*_alias/*",
        "integration/fsdp2*",
    ),
    "dtensor-tp": (
        "coll/all_gather_into_tensor/ws2/f32/contiguous/*",
        "integration/dtensor*",
        "integration/tensor_parallel*",
        "integration/device_mesh*",
        "functional/*",
    ),
    "pipeline": ("coll/batch_isend_irecv/ws2/f32/contiguous/*", "p2p/order/*", "integration/pipeline*"),
    "moe": (
        "coll/all_to_all_single/ws?/f32/contiguous/*",
        "coll/all_to_all_single/ws?/bf16/contiguous/*",
        "uneven/all_to_all*",
    ),
    "compile": ("functional/*", "integration/compile*"),
    "checkpoint": ("objects/*", "integration/checkpoint*"),
    "elastic": ("groups/reinit*", "fault/after_failure/*", "integration/torchrun*"),
    "fault": ("fault/*", "misuse/*"),
}


@dataclass(frozen=True)
class ProfileResult:
    """How a backend does in one profile."""

    name: str
    required: int
    passed: int
    failed: int
    not_run: int

    @property
    def verdict(self) -> str:
        if self.failed:
            return "no"
        if self.not_run or not self.required:
            return "incomplete"
        return "yes"


def profile_results(results: list[CaseResult]) -> list[ProfileResult]:
    """Count every profile's cases; a case that is unsupported fails the profile that needs it."""
    from fnmatch import fnmatchcase

    rows = []
    for name, patterns in PROFILES.items():
        mine = [result for result in results if any(fnmatchcase(result.case.id, pattern) for pattern in patterns)]
        passed = sum(result.verdict in _GOOD for result in mine)
        absent = sum(result.verdict in _ABSENT for result in mine)
        rows.append(ProfileResult(name, len(mine), passed, len(mine) - passed - absent, absent))
    return rows
