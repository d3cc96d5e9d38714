"""What is not sent, and what is not filled: refused before anything is sent, or with the message alone lost."""

from __future__ import annotations

import pytest
import torch
from nests import Request


def freed(count, begin=0, step=1):
    """A tensor whose storage was given back, as FSDP does with parameters that it gathers."""
    made = torch.ones(count)[begin::step]
    made.untyped_storage().resize_(0)
    return made


@pytest.mark.parametrize(
    ("room", "says"),
    [
        (lambda: freed(3), "without memory"),
        (lambda: torch._efficientzerotensor((3,)), "without memory"),
        (lambda: torch.empty(3, device="meta"), "on meta"),
        (lambda: torch.ones(3).to_sparse(), "layout Sparse"),
        (lambda: torch.ones(1).expand(3), "the same memory"),
        (lambda: torch.ones(4).as_strided((2, 3), (1, 1)), "the same memory"),
    ],
    ids=["freed", "zeros", "meta", "sparse", "expanded", "overlapping"],
)
def test_given_tensors_have_memory_for_each_element(alone, room, says):
    given = room()
    for _ in range(2):
        alone.send_message([torch.ones(given.shape)], 0)
        with pytest.raises(ValueError, match=f"customccl.*{says}"):
            alone.recv_message(0, into=[given])
    alone.send_message("after", 0)
    assert alone.recv_message(0) == "after"


def test_a_tensor_without_memory_is_refused(alone):
    hidden = Request("r", torch.ones(1).numpy(), freed(3))
    for value in (freed(3), freed(6, step=2), freed(9, begin=3), {"x": [freed(100_000)]}, hidden):
        with pytest.raises(ValueError, match=r"customccl.*without memory"):
            alone.send_message(value, 0)
    alone.send_message(freed(0), 0)
    assert alone.recv_message(0).shape == (0,)


def test_a_tensor_with_less_memory_than_its_elements_take_is_refused(alone):
    cut = torch.ones(4)
    cut.untyped_storage().resize_(12)
    with pytest.raises(ValueError, match=r"customccl.*needs a storage of 16 bytes and has one of 12"):
        alone.send_message(cut, 0)
    alone.send_message(torch.ones(4), 0)
    with pytest.raises(ValueError, match=r"customccl.*needs a storage of 16 bytes and has one of 12"):
        alone.recv_message(0, into=cut)


class Changing:
    """Changes what holds it while it is pickled."""

    def __init__(self, change):
        self.change = change

    def __reduce__(self):
        self.change()
        return (str, ())


def test_a_container_that_changes_while_it_is_encoded_is_refused(alone):
    shrinking, growing, emptied = [], [], []
    shrinking += [Changing(shrinking.pop), 1, 2]
    growing += [Changing(lambda: growing.append(0)), 1]
    emptied += [Changing(emptied.clear)]
    more, fewer, none = {}, {}, {}
    more.update(a=Changing(lambda: more.update(c=1)), b=1)
    fewer.update(a=Changing(lambda: fewer.pop("b")), b=1)
    none.update(a=Changing(none.clear), b=[1] * 100)
    for container in (shrinking, growing, emptied, more, fewer, none):
        with pytest.raises(RuntimeError, match=r"customccl: a (list|dict) of \d+ items has \d+ while"):
            alone.send_message(["before", container], 0)
    alone.send_message("after", 0)
    assert alone.recv_message(0) == "after"


def test_a_tensor_that_is_freed_while_a_message_is_made_is_refused(alone):
    first, last = torch.arange(300_000.0), torch.arange(10.0)
    free = Changing(lambda: first.untyped_storage().resize_(0))
    with pytest.raises(RuntimeError, match="customccl: the memory of a tensor was resized"):
        alone.send_message([first, free], 0)
    longer = Changing(lambda: last.resize_(1_000_000))  # to other memory
    with pytest.raises(RuntimeError, match="customccl: the memory of a tensor was resized"):
        alone.send_message([last, longer], 0)
    replaced = torch.arange(1000.0)
    alone.send_message([replaced, Changing(lambda: replaced.set_(torch.zeros(3)))], 0)
    assert alone.recv_message(0)[0].equal(torch.arange(1000.0))


def test_what_cannot_be_sent_is_refused_before_anything_is_sent(alone):
    endless = []
    endless.append(endless)
    for value, error in [(endless, RecursionError), (lambda: 1, Exception), (torch.ones(1, device="meta"), ValueError)]:
        with pytest.raises(error):
            alone.send_message({"x": value}, 0)
    for call in (
        lambda: alone.send_message(1, 1),
        lambda: alone.send_message(1, 0, tag=-1),
        lambda: alone.recv_message(3),
        lambda: alone.probe_message(tag=1 << 32),
    ):
        with pytest.raises(ValueError, match="customccl"):
            call()
    assert alone.probe_message() is None
