"""Looking now and then for what others put into a store, in pauses that a signal can end."""

import time
from collections.abc import Iterator

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.0001, 0.01


def pauses(deadline: float) -> Iterator[None]:
    """For `for _ in pauses(deadline): look`: looks at once, then with pauses of a sixteenth of what was waited so far.

    The last look is at `deadline` (time.monotonic()). Store.wait() would not do: it takes no Ctrl-C before its time is
    up, writes warnings then, and keeps the connection of a TCPStore from other threads of the process.
    """
    began = time.monotonic()
    yield
    while (now := time.monotonic()) < deadline:
        pause = min(max((now - began) / 16, _FIRST_PAUSE_S), _LAST_PAUSE_S)
        time.sleep(min(pause, deadline - now))
        yield
