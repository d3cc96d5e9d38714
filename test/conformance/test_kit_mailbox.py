"""The post office under the kit's own backends: groups that come and go do not take each other's mail."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from queue import SimpleQueue

import pytest
import torch.distributed as dist

from torch_customccl.conformance.mutants.mailbox import Mailbox

LIVES = 3000
PATIENCE_S = 20.0


@pytest.fixture
def threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_take_turns_often")
def test_a_closed_mailbox_takes_nothing_from_the_next() -> None:
    """Both ranks live here, so descriptors are taken again at once, while readers of the life before still leave."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=PATIENCE_S))
    mail: dict[int, SimpleQueue[tuple[int, bytes | Exception]]] = {0: SimpleQueue(), 1: SimpleQueue()}

    def lives(rank: int) -> None:
        for life in range(LIVES):
            came: SimpleQueue[bytes | Exception] = SimpleQueue()
            try:
                mailbox = Mailbox(dist.PrefixStore(str(life), store), rank, 2, timedelta(seconds=PATIENCE_S))
                mailbox.expect(1 - rank, "key", lambda _source, raw, came=came: came.put(raw), came.put)
                mailbox.send(1 - rank, "key", b"from rank %d" % rank)
                mail[rank].put((life, came.get(timeout=PATIENCE_S)))
                mailbox.close(ConnectionError("destroyed"))
            except Exception as error:
                mail[rank].put((life, error))
                return

    for rank in mail:
        threading.Thread(target=lives, args=(rank,), daemon=True).start()
    for life in range(LIVES):
        for rank in mail:
            assert mail[rank].get(timeout=PATIENCE_S) == (life, b"from rank %d" % (1 - rank))
