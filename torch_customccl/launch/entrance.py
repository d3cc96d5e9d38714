"""How the ranks other than 0 come in: they look for rank 0's door, knock until it answers, and connect to its store."""

import os
import secrets
import socket
import time
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl.launch.door import ForeignError, RefusedError, knock
from torch_customccl.launch.info import LaunchInfo
from torch_customccl.launch.places import Place, launch_key, places_of
from torch_customccl.launch.store_client import AbsentError, connect_store

_PAUSE_S = 0.02  # between two rounds of knocking at doors that are not open yet

# One for all attempts of a process, so that rank 0 knows it again whatever has become of its earlier ones.
_nonces: dict[tuple[int, LaunchInfo], str] = {}


def enter(info: LaunchInfo, board: Any, timeout: timedelta, deadline: float) -> tuple[dist.Store, socket.socket]:
    """Rank 0's store, and the line to its door that keeps this rank's place until it is closed.

    Knocks until rank 0 answers. A stranger at the one place is the end; a board may tell another.
    """
    nonce, began = _nonces.setdefault((os.getpid(), info), secrets.token_hex(16)), time.monotonic()
    places = _published(board, deadline) if board is not None else places_of(info)
    met: dict[Place, str] = {}  # what was found at places that are not rank 0's
    latest = ""  # why nobody was found
    for place in _rounds(places, board, met, deadline):
        try:
            port, line = knock(*place, launch_key(info), nonce, info.rank, deadline - time.monotonic())
        except RefusedError:
            raise
        except ForeignError as error:
            met[place] = str(error)
            if len(places) == 1 and board is None:
                raise ForeignError(
                    f"rank {info.rank} of launch {info.launch_id!r} (restart {info.restart_count}) did not find its "
                    f"rank 0: {error}. Is the port another job's, or is the launch id not the same on all ranks?"
                ) from error
        except OSError as error:  # not there yet, the name not known yet, the host not reached yet
            latest = f" ({error})"
        else:
            try:
                return connect_store(place[0], port, timeout, deadline), line
            except AbsentError as error:  # rank 0 has given up since, or has died: it may begin anew
                line.close()
                latest = f" (its door answered, but there is {error})"
            except BaseException:
                line.close()
                raise
    where = f"{places[0][0]}:{places[0][1]}" + (f" and {len(places) - 1} more places" if len(places) > 1 else "")
    strangers = list(met.values())[:3] + ([f"{len(met) - 3} more strangers"] if len(met) > 3 else [])
    raise TimeoutError(
        f"rank {info.rank} waited {time.monotonic() - began:.1f} s in vain for rank 0 of launch {info.launch_id!r} "
        f"(restart {info.restart_count}) at {'; '.join([where, *strangers])}{latest}. Is rank 0 running, on that host, "
        "with the same launch id, world size and restart count?"
    )


def _rounds(places: list[Place], board: Any, strangers: Collection[Place], deadline: float) -> Iterator[Place]:
    """The places over and over, with pauses. Rank 0 was not where a stranger is: it has passed on as well."""
    while time.monotonic() < deadline:
        yield from [place for place in places if place not in strangers] or places
        time.sleep(min(_PAUSE_S, max(0.0, deadline - time.monotonic())))
        if board is not None and time.monotonic() < deadline:  # rank 0 may have given up and begun anew
            places[:] = _published(board, deadline)


def _published(board: Any, deadline: float) -> list[Place]:
    port, _, hosts = board.lookup("customccl-door", max(0.0, deadline - time.monotonic())).partition("@")
    return [(host, int(port)) for host in hosts.split(",")]
