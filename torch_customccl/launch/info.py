"""Who this process is among those that were started together."""

import dataclasses
import numbers
import os
from collections.abc import Mapping
from typing import Any

from torch_customccl.launch.sources import READERS, Facts, integer

# Launchers of MPI programs set variables for the processes they start themselves, so two of them that disagree, or one
# that disagrees with RANK and WORLD_SIZE, leave no way to know which is meant.
_MPI = ("openmpi", "pmix", "mpich")
_LONGEST_ID = 1000  # bytes: it is part of keys, and at 8 KiB a TCPStore closes the connection
_WORDS = ("launch_id", "master_addr", "source")


@dataclasses.dataclass(frozen=True)
class LaunchInfo:
    """One process of a launch. Made by `detect()`, or by hand. Raises ValueError for numbers that make no sense.

    launch_id: what all processes of this launch have in common and no other launch has, at most 1000 bytes; "" if the
        launcher tells none (Hydra, bare RANK and WORLD_SIZE). A Coordinator under Hydra asks the launcher for one.
    rank, world_size: 0 <= rank < world_size.
    local_rank, local_size: among the processes that the launcher put on this host; None if it does not say. A
        Coordinator finds out for itself.
    node_rank: number of this host in the launch; None if the launcher does not say.
    master_addr, master_port: where the ranks meet if they do not meet through the launcher; None if left open.
    restart_count: how often this launch was started again; 0 at first.
    source: who said so: "explicit", "torchrun", "env", "openmpi", "pmix", "mpich", "slurm" or "single".
    """

    launch_id: str
    rank: int
    local_rank: int | None
    world_size: int
    local_size: int | None
    node_rank: int | None
    master_addr: str | None
    master_port: int | None
    restart_count: int
    source: str

    def __post_init__(self) -> None:
        for field in dataclasses.fields(LaunchInfo):  # those of a class made from it are its own
            self._check_type(field.name, isinstance(None, field.type))  # type: ignore[arg-type]
        self._check_place("rank", self.rank, "world_size", self.world_size)
        if self.local_size is not None and not 1 <= self.local_size <= self.world_size:
            raise ValueError(f"local_size is {self.local_size} in a world of {self.world_size} ({self.source})")
        if self.local_rank is not None:
            self._check_place("local_rank", self.local_rank, "local_size", self.local_size or self.world_size)
        for name in ("node_rank", "restart_count"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} is {value} ({self.source}); it counts from 0")
        if self.master_port is not None and not 1 <= self.master_port <= 65535:
            raise ValueError(f"master_port is {self.master_port} ({self.source}); a port is 1 to 65535")
        try:
            length = len(self.launch_id.encode())
        except UnicodeEncodeError:
            raise ValueError(f"launch_id is {self.launch_id!r} ({self.source}), which is not UTF-8") from None
        if length > _LONGEST_ID:
            raise ValueError(f"launch_id has {length} bytes ({self.source}); it has at most {_LONGEST_ID}")

    def _check_type(self, name: str, may_be_none: bool) -> None:
        value = getattr(self, name)
        wanted: Any = str if name in _WORDS else numbers.Integral
        if not (value is None and may_be_none) and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise ValueError(f"{name} is {value!r} ({self.source}); it is {'a str' if wanted is str else 'an int'}")

    def _check_place(self, name: str, value: int, size_name: str, size: int) -> None:
        if not 0 <= value < size:
            why = f"{name} counts from 0 to {size_name} - 1" if size > 0 else f"{size_name} is 1 or more"
            raise ValueError(f"{name} {value} of {size_name} {size} ({self.source}) makes no sense: {why}")

    @classmethod
    def detect(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        source: str | None = None,
        launch_id: str | None = None,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        local_size: int | None = None,
        node_rank: int | None = None,
        master_addr: str | None = None,
        master_port: int | None = None,
        restart_count: int | None = None,
    ) -> "LaunchInfo":
        """What the launcher wrote into `environment` (default: os.environ), with the given fields in its place.

        source: take this launcher and look at no other.
        rank, world_size: both or neither. If given, no launcher is asked who this process is; one that says the same
            still fills the other fields.
        Without arguments and without a launcher: rank 0 of 1, source "single".
        Raises ValueError when variables contradict each other, are incomplete, or hold
        something else than numbers. Reads nothing but the environment: no file, no socket, no other process.
        """
        variables = os.environ if environment is None else environment
        if (rank is None) != (world_size is None):
            raise ValueError("give rank and world_size, or neither: one of them alone means nothing")
        given = {
            "launch_id": launch_id,
            "local_rank": local_rank,
            "local_size": local_size,
            "node_rank": node_rank,
            "master_addr": master_addr,
            "master_port": master_port,
            "restart_count": restart_count,
        }
        if rank is not None and world_size is not None:
            found = _explicit(variables, source, rank, world_size)
        else:
            found = _chosen(variables, source)
        facts = {**found, **{name: value for name, value in given.items() if value is not None}}
        return cls(**_complete(facts, variables))


def _explicit(variables: Mapping[str, str], source: str | None, rank: int, world_size: int) -> Facts:
    """The launcher's facts if it agrees about rank and size; else those two alone."""
    if source not in (None, "explicit"):
        raise ValueError(f'source "{source}" and an explicit rank exclude each other')
    for reader in READERS.values():
        try:
            facts = reader(variables)
        except (KeyError, ValueError):
            continue
        if facts and (facts["rank"], facts["world_size"]) == (rank, world_size):
            return {**facts, "source": "explicit"}
    return {"rank": rank, "world_size": world_size, "source": "explicit"}


def _chosen(variables: Mapping[str, str], source: str | None) -> Facts:
    if source == "single":
        return {"rank": 0, "world_size": 1, "source": "single"}
    if source == "explicit":
        raise ValueError('source "explicit" needs rank and world_size, as arguments')
    if source is not None:
        if source not in READERS:
            raise ValueError(f'unknown source "{source}"; known: {", ".join([*READERS, "single"])}')
        try:
            facts = READERS[source](variables)
        except KeyError as error:
            raise ValueError(f'source "{source}": {error.args[0]}') from error
        if facts is None:
            raise ValueError(f'source "{source}": its variables are not in the environment')
        return {**facts, "source": source}
    found, incomplete = _all(variables)
    if not found:
        if incomplete:
            raise ValueError("; ".join(incomplete) + '. Set them, or give rank and world_size, or source="single"')
        return {"rank": 0, "world_size": 1, "source": "single"}
    _refuse_contradictions(found)
    name, facts = next(iter(found.items()))
    return {**facts, "source": name}


def _all(variables: Mapping[str, str]) -> tuple[dict[str, Facts], list[str]]:
    """What every launcher says, nearest first, and complaints about those that say half of it."""
    found, incomplete = {}, []
    for name, reader in READERS.items():
        try:
            facts = reader(variables)
        except KeyError as error:
            incomplete.append(str(error.args[0]))
            continue
        if facts:
            found[name] = facts
    return found, incomplete


def _refuse_contradictions(found: dict[str, Facts]) -> None:
    if "torchrun" in found:
        return  # it may run below any of the others
    places = {name: (found[name]["rank"], found[name]["world_size"]) for name in ("env", *_MPI) if name in found}
    if len(set(places.values())) > 1:
        said = ", ".join(f"{name} says rank {rank} of {size}" for name, (rank, size) in places.items())
        raise ValueError(
            f"the environment contradicts itself: {said}. Unset what is left over from another launch, or choose: "
            'LaunchInfo.detect(source="...")'
        )


def _complete(facts: Facts, variables: Mapping[str, str]) -> dict[str, Any]:
    """Every field, with what holds for all launchers filled in."""
    nothing = {field.name: None for field in dataclasses.fields(LaunchInfo)}
    whole = {**nothing, **facts}
    if whole["master_addr"] is None:
        whole["master_addr"] = variables.get("MASTER_ADDR") or facts.get("first_host")
    if whole["master_port"] is None:
        whole["master_port"] = integer(variables, "MASTER_PORT")
    whole["launch_id"] = whole["launch_id"] or ""
    whole["restart_count"] = whole["restart_count"] or 0
    if whole["world_size"] == 1:
        whole.update({name: 0 for name in ("local_rank", "node_rank") if whole[name] is None})
        whole["local_size"] = whole["local_size"] or 1
    elif whole["local_size"] == whole["world_size"] and whole["node_rank"] is None:
        whole["node_rank"] = 0
    whole.pop("first_host", None)
    return whole
