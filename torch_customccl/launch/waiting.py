"""Waiting on a store: in pauses that a signal can end, and with the store's own errors put into a sentence."""

import contextlib
import time
from collections.abc import Iterator

import torch.distributed as dist

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.0001, 0.01


def pauses(deadline: float) -> Iterator[None]:
    """For `for _ in pauses(deadline): look`: looks at once, then with pauses of a sixteenth of what was waited so far.

    The last look is at `deadline` (time.monotonic()). Store.wait() would not do: it takes no Ctrl-C before its time is
    up, and writes warnings then.
    """
    began = time.monotonic()
    yield
    while (now := time.monotonic()) < deadline:
        pause = min(max((now - began) / 16, _FIRST_PAUSE_S), _LAST_PAUSE_S)
        time.sleep(min(pause, deadline - now))
        yield


@contextlib.contextmanager
def store_errors(title: str, rank: int) -> Iterator[None]:
    """Turns what a store raises that is gone into a ConnectionError."""
    try:
        yield
    except (dist.DistNetworkError, dist.DistStoreError) as error:
        said = str(error).partition("\n")[0]
        raise ConnectionError(
            f"{title} failed on rank {rank}: the store cannot be reached ({said}). "
            "It lives in rank 0, or in torchrun's agent: has that ended, or given up?"
        ) from error


def no_show(title: str, rank: int, missing: list[int], limit_s: float) -> TimeoutError:
    who = "rank " + ", ".join(map(str, missing))
    return TimeoutError(
        f"{title} on rank {rank}: {who} did not come within {limit_s:g} s. Look at what "
        f"{'it does' if len(missing) == 1 else 'they do'}; raise the timeout if it is only slow"
    )
