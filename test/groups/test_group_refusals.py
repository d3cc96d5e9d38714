"""What the operations of a Group refuse on the rank that asks for it, before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of
from shared import LIMIT, group

from torch_customccl import create_group, join_group, serve_store
from torch_customccl._loader import load

REFUSED = {
    "read-only": (lambda: b"abc", TypeError, "a bytes that cannot be written is no output"),
    "str": (lambda: "text", TypeError, "expected a tensor, a numpy array or a bytes-like object, got str"),
    "text array": (lambda: np.zeros(3, dtype="U2"), TypeError, "no counterpart among torch's dtypes"),
    "negative stride": (lambda: np.zeros(3)[::-1], ValueError, "stride of -8 bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_memory_that_cannot_be_used_is_refused(ranks, name):
    def body(rank, size, name):
        with group(rank, size, "bad memory") as made:
            raised = error_of(made.all_reduce, REFUSED[name][0]())
            made.barrier()  # nothing was sent
            return raised

    for raised in ranks(2).run(body, name):
        assert raised.is_a(REFUSED[name][1].__name__) and REFUSED[name][2] in raised.text


def test_ranks_outside_the_group_are_refused(ranks):
    def body(rank, size):
        with group(rank, size, "outside") as made:
            x = torch.ones(1)
            return [
                error_of(call).text
                for call in (
                    lambda: made.send(x, 2),
                    lambda: made.recv(x, -1),
                    lambda: made.broadcast(x, src=5),
                    lambda: made.reduce(x, dst=-3),
                )
            ]

    for texts in ranks(2).run(body):
        assert texts[0] == "customccl: dst=2 is no rank of group outside, which has 2"
        assert all("is no rank of group outside" in text for text in texts)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda made: made.broadcast(torch.ones(1), src="0"), "src must be an int, not '0'"),
        (lambda made: made.all_reduce(torch.ones(1), "sum"), "op must be a torch.distributed.ReduceOp, .*, not 'sum'"),
        (lambda made: made.all_reduce(torch.ones(1), None, async_op=True), "ReduceOp.SUM or ReduceOp.MAX, not None"),
        (lambda made: made.reduce(torch.ones(1), op=0), "op must be a torch.distributed.ReduceOp, .*, not 0"),
        (lambda made: made.reduce_scatter(torch.ones(1), [torch.ones(1)], max), "not <built-in function max>"),
        (lambda made: made.reduce_scatter_tensor(torch.ones(1), torch.ones(1), "avg"), ", not 'avg'"),
        (lambda made: made.all_gather(None, torch.ones(1)), "outputs must be a list, not None"),
        (lambda made: made.gather(torch.ones(1), 1.5), "outputs must be a list, not 1.5"),
        (lambda made: made.scatter(torch.ones(1), 1.5), "inputs must be a list, not 1.5"),
        (lambda made: made.reduce_scatter(torch.ones(1), None), "inputs must be a list, not None"),
        (lambda made: made.all_to_all([torch.ones(1)], None), "inputs must be a list, not None"),
        (lambda made: made.all_to_all_single(torch.ones(1), torch.zeros(1), 1), "output_splits must be a list, not 1"),
        (
            lambda made: made.all_to_all_single(torch.ones(1), torch.zeros(1), None, ["1"]),
            "each of input_splits .* '1'",
        ),
        (lambda made: made.recv_message(0, weights_only="yes"), "weights_only must be a bool, not 'yes'"),
        (lambda made: made.send(torch.ones(1), 0, tag="a"), "tag of .* must be an int, not 'a'"),
        (lambda made: made.recv(torch.ones(1), 0, tag=None), "tag of .* must be an int, not None"),
        (lambda made: made.recv(torch.ones(1), tag=1.5), "tag of .* must be an int, not 1.5"),
        (lambda made: made.barrier(async_op="a"), "async_op must be a bool, not 'a'"),
        (lambda made: made.broadcast([1, 2]), "expected a tensor, a numpy array or a bytes-like object, got list"),
        (lambda made: made.reduce([1.0]), "expected a tensor, .*, got list"),
        (lambda made: made.send([1.0], 0), "expected a tensor, .*, got list"),
        (lambda made: made.recv([1.0], 0), "expected a tensor, .*, got list"),
        (lambda made: made.split("red"), "color must be an int, not 'red'"),
        (lambda made: made.split(0, key="last"), "key must be an int, not 'last'"),
        (lambda made: made.subgroup(0), "ranks must be a list, not 0"),
        (lambda made: made.prepare(None), "members of group 'types' must be a list, not None"),
        (lambda made: made.prepare("10"), "members of group 'types' must be a list of names, not '10'"),
        (lambda made: made.open_endpoint(5), "the name of an endpoint must be a str, not 5"),
        (lambda made: made.endpoint(None), "the name of an endpoint must be a str, not None"),
        (lambda made: made.send_message("", 0.0), "dst must be an int, not 0.0"),
        (lambda made: made.send_message("", 0, tag=1.5), "the tag of a message must be an int, not 1.5"),
        (lambda made: made.recv_message(0, timeout=5), "timeout of an operation must be a datetime.timedelta, not 5"),
        (lambda made: made.all_reduce(torch.ones(1), timeout=5), "must be a datetime.timedelta, not 5"),
        (lambda made: made.set_timeout(5), "timeout of group 'types' must be a datetime.timedelta, not 5"),
    ],
)
def test_arguments_of_other_types_are_refused(call, text):
    with create_group(dist.HashStore(), 0, 1, "types", timeout=LIMIT) as made, pytest.raises(TypeError, match=text):
        call(made)


def test_an_all_to_all_of_nothing_is_refused():
    with (
        create_group(dist.HashStore(), 0, 1, "nothing", timeout=LIMIT) as made,
        pytest.raises(ValueError, match="all_to_all needs tensors for each of 1 ranks: got none"),
    ):
        made.all_to_all([], [])


@pytest.mark.parametrize("make", [lambda: load().GroupKeys(None, 0), lambda: load().StandaloneGroup(None, None)])
def test_the_shim_takes_no_none_for_a_store(make):
    with pytest.raises(TypeError, match="incompatible"):
        make()


@pytest.mark.parametrize("tag", [-1, 1 << 31])
@pytest.mark.parametrize("call", ["send", "recv", "isend", "irecv"])
def test_tags_that_no_message_can_have_are_refused(call, tag):
    with create_group(dist.HashStore(), 0, 1, "tags", timeout=LIMIT) as made:
        with pytest.raises(ValueError, match=rf"the tag of send\(\) and recv\(\) is between 0 and .*, not {tag}"):
            getattr(made, call)(torch.ones(1), 0, tag=tag)
        received = torch.zeros(1)
        sent = made.isend(torch.ones(1), 0, tag=(1 << 31) - 1)
        assert made.recv(received, 0, tag=(1 << 31) - 1) == 0
        sent.wait()
        assert received.item() == 1


def test_names_that_a_store_cannot_keep_are_refused_and_the_store_goes_on():
    """A TCPStore closes the connection of who gives it a key of more than 8 KiB."""
    store = serve_store(timeout=LIMIT)
    with create_group(store, 0, 1, "names", timeout=LIMIT) as made:
        for call in (
            lambda: made.open_endpoint("\N{EURO SIGN}" * 334),
            lambda: made.endpoint("e" * 1001),
            lambda: made.subgroup([0], "s" * 1001),
            lambda: made.prepare(["0", "m" * 1001]),
            lambda: create_group(store, 0, 1, "g" * 100_000, timeout=LIMIT),
        ):
            with pytest.raises(ValueError, match="has at most 1000 bytes, not 1"):
                call()
        for call in (
            lambda: made.open_endpoint("\udc80"),
            lambda: made.endpoint("\udc80"),
            lambda: made.subgroup([0], "\udc80"),
            lambda: made.prepare(["0", "\udc80"]),
            lambda: create_group(store, 0, 1, "\udc80", timeout=LIMIT),
        ):
            with pytest.raises(ValueError, match=r"the name of an? \w+ is '.udc80', which UTF-8 cannot say"):
                call()
        assert made.open_endpoint("e" * 1000).name == "e" * 1000


def test_members_of_long_names_are_not_too_many_for_a_store():
    store = serve_store(timeout=LIMIT)
    with create_group(store, 0, 1, "many", timeout=LIMIT) as made:
        made.prepare(["0", *(f"decode-worker-7f9c8b6d5-node{number:04d}" for number in range(255))]).drop()
        made.prepare(["0"]).wait()
        made.commit()


def test_numbers_that_ranks_cannot_exchange_are_refused():
    with create_group(dist.HashStore(), 0, 1, "numbers", timeout=LIMIT) as made:
        for color in (1 << 63, 1 << 70):
            with pytest.raises(ValueError, match=f"customccl: color is {color}, more than 64 bits hold"):
                made.split(color)
        with pytest.raises(ValueError, match=f"customccl: key is {(-1 << 63) - 1}, more"):
            made.split(0, key=(-1 << 63) - 1)
        with pytest.raises(ValueError, match=f"each of input_splits is {1 << 64}, more"):
            made.all_to_all_single(torch.ones(1), torch.zeros(1), None, [1 << 64])
        with made.split(-1 << 63, key=(1 << 63) - 1) as part:
            part.barrier()


def test_what_names_no_ranks_and_no_group_is_refused_in_one_sentence():
    with pytest.raises(TypeError, match="customccl: ranks of group 'named' must be a list, not 5"):
        create_group(dist.HashStore(), 0, 1, "named", timeout=LIMIT, ranks=5)
    with create_group(dist.HashStore(), 0, 1, "named", timeout=LIMIT, ranks=iter([7])) as made:
        assert made.ranks == [7]
    with pytest.raises(ValueError, match="customccl: a group needs a name, not 5"):
        join_group(dist.HashStore(), ["0", "1"], "1", 5, timeout=LIMIT)


def test_what_is_for_all_is_refused_by_a_closed_group_of_one():
    made = create_group(dist.HashStore(), 0, 1, "one", timeout=LIMIT)
    assert made.broadcast_message("there") == "there"
    made.close()
    for call in (lambda: made.broadcast_message("there"), lambda: made.broadcast(b"there")):
        with pytest.raises(dist.DistBackendError, match="destroyed on this rank"):
            call()
