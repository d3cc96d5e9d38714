"""What a launch says about where its ranks meet: the key that it alone has, the host of rank 0, and ports."""

import os
from typing import Any

from torch_customccl.launch.info import LaunchInfo
from torch_customccl.launch.ports import drawn_ports, own_addresses, resolve

Place = tuple[str, int]


def launch_key(info: LaunchInfo) -> str:
    """What only processes of this launch, and of this start of it, have in common."""
    return f"{info.launch_id}/{info.restart_count}/{info.world_size}"


def one_machine(info: LaunchInfo) -> bool:
    return info.local_size == info.world_size


def check_place(info: LaunchInfo) -> None:
    if info.master_port is None and not info.launch_id:
        raise ValueError(
            f'nothing tells where the ranks meet (source "{info.source}"): give master_addr and master_port, or a '
            "launch_id from which a port can be drawn, the same on all ranks and other than that of other launches"
        )
    if info.master_addr is None and info.local_size is not None and not one_machine(info):
        raise ValueError(
            f"{info.local_size} of {info.world_size} ranks are on this machine: give master_addr, the host of rank 0"
        )


def check_known(host: str, info: LaunchInfo) -> None:
    """ConnectionError, saying who gave that name, if this machine does not know it."""
    try:
        resolve(host)
    except OSError as error:
        by = "MASTER_ADDR" if host == os.environ.get("MASTER_ADDR") else f'master_addr, source "{info.source}"'
        raise ConnectionError(f"{error} (given by {by}): the ranks cannot meet there") from error


def own_host(info: LaunchInfo, board: Any) -> str | None:
    """What rank 0 listens at: on one machine, or if a loopback address was asked for, nobody outside can connect.

    A name is no such wish: many machines know themselves by one that is 127.0.1.1 to them alone.
    """
    given = info.master_addr
    if one_machine(info) or (board is None and (given is None or given == "localhost")):
        return given
    if given is not None and (given[0].isdigit() or ":" in given):
        return given
    return own_addresses()[0]


def places_of(info: LaunchInfo) -> list[Place]:
    host = info.master_addr or "127.0.0.1"
    return [(host, port) for port in ports_of(info)]


def ports_of(info: LaunchInfo) -> list[int]:
    return [info.master_port] if info.master_port is not None else drawn_ports(launch_key(info))
