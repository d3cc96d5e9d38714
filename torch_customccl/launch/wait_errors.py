"""What goes wrong where ranks wait for each other in a store, put into sentences."""

import contextlib
from collections.abc import Iterator

import torch.distributed as dist


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
    """The error of a wait on `rank` that ended without the ranks `missing`."""
    who = "rank " + ", ".join(map(str, missing))
    return TimeoutError(
        f"{title} on rank {rank}: {who} did not come within {limit_s:g} s. Look at what "
        f"{'it does' if len(missing) == 1 else 'they do'}; raise the timeout if it is only slow"
    )
