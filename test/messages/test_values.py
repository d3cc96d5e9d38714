"""One message is one Python value, whatever it holds and however large it is."""

from __future__ import annotations

import random

import pytest
import torch
from harness.settings import LONG, rounds
from nests import Request, same, thing
from shared import group

from torch_customccl.messages import objects


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_nests_arrive_as_they_were(ranks, seed):
    def body(rank, size, seed):
        with group(rank, size, "nests") as made:
            dice = random.Random(seed)
            for turn in range(rounds(100, 2500)):
                torch.manual_seed(seed * 1000 + turn)
                value = {"turn": turn, "things": [thing(dice) for _ in range(dice.randrange(8))]}
                if rank == 0:
                    made.send_message(value, 1, tag=turn % 3)
                else:
                    source, got = made.recv_message_from(0 if turn % 2 else None, tag=turn % 3)
                    assert source == 0
                    assert same(got, value), f"seed {seed}, turn {turn}: {got!r} is not {value!r}"

    ranks(2).run(body, seed)


@pytest.mark.parametrize("into", [False, True], ids=["new tensors", "given tensors"])
@pytest.mark.parametrize("shape", ["one", "many", "strided", "pickled"])
def test_every_size(ranks, shape, into):
    """Around the limits of what travels at once, and far beyond."""

    def body(rank, size, shape, into):
        def value(count, fill):
            numbers = torch.arange(count, dtype=torch.int32) if fill else torch.zeros(count, dtype=torch.int32)
            if shape == "one":
                return {"x": numbers}
            if shape == "many":
                return [{"part": part} for part in numbers.tensor_split(7)]
            if shape == "strided":
                return (numbers.view(-1, 1).expand(-1, 2).clone().t(), "end")
            return {"x": numbers, "request": Request("r", numbers.numpy(), numbers)}

        with group(rank, size, "sizes") as made:
            for count in (0, 1, 1000, 8191, 16383, 16384, 40_000, 300_001, 4_000_000):
                if rank == 0:
                    made.send_message(value(count, True), 1)
                else:
                    given = value(count, False) if into else None
                    got = made.recv_message(0, into=given)
                    assert same(got, value(count, True))
                    if into:
                        assert same(given, got) or shape == "pickled"

    ranks(2).run(body, shape, into)


def test_values_that_lie_in_memory_in_another_way_than_they_read(alone):
    z = torch.complex(torch.arange(6.0), torch.ones(6)).view(2, 3)
    lazy = [
        z.conj(),
        z.conj().imag,
        z.conj().t(),
        z.imag[:, ::2],
        torch._efficientzerotensor((2, 3)),
        z.requires_grad_(),
    ]
    alone.send_message(lazy, 0)
    for sent, got in zip(lazy, alone.recv_message(0), strict=True):
        assert torch.equal(got, sent) and not got.requires_grad


@pytest.mark.parametrize("count", [3, 100_000], ids=["at once", "in parts"])
def test_given_tensors_that_lie_in_memory_in_another_way_than_they_read(ranks, count):
    def body(rank, size, count):
        z = torch.complex(torch.arange(float(count)), torch.ones(count))
        sent = [z, z.imag, z.real, z.real]
        with group(rank, size, "lazy") as made:
            if rank == 0:
                return made.send_message(sent, 1)
            room = [
                torch.zeros(count, dtype=torch.complex64).conj(),
                torch.zeros(count, dtype=torch.complex64).conj().imag,
                torch._neg_view(torch.zeros(count)),
                torch.zeros(count, 2).t()[1],
            ]
            given = [torch.view_as_real(room[0].conj()), room[1], room[2], room[3]]
            got = made.recv_message(0, into=room)
            assert all(one is other for one, other in zip(got, room, strict=True))
            assert all(torch.equal(one, other) for one, other in zip(got, sent, strict=True))
            assert torch.equal(given[0], torch.view_as_real(z.conj().resolve_conj()))  # the memory itself
            return None

    ranks(2).run(body, count)


def test_a_tensor_in_two_places_of_an_object_arrives_as_one(alone):
    x = torch.arange(10)
    alone.send_message(Request("r", x.numpy(), x, more=[x, x[2:]]), 0)
    got = alone.recv_message(0)
    assert got.more[0] is got.hidden and got.hidden.equal(x) and got.more[1].equal(x[2:])
    assert len(objects.dump([x, x])[2]) == 1  # and once


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors(alone, layout):
    parts = [torch.arange(2.0), torch.arange(3.0)]
    sent = torch.nested.nested_tensor(parts, layout=layout)
    for value in (sent, Request("r", parts[0].numpy(), sent)):
        alone.send_message([value], 0)
        got = alone.recv_message(0)[0]
        got = got.hidden if value is not sent else got
        assert all(one.equal(other) for one, other in zip(got.unbind(), parts, strict=True))


def test_long_bytes_as_keys_of_a_large_message(ranks):
    """They are hashed before the tensors arrive."""

    def body(rank, size):
        long = b"k" * 5000
        value = {long: torch.ones(100_000), "set": {(1, long)}, "frozen": frozenset([long * 10]), "beside": long}
        with group(rank, size, "keys") as made:
            if rank == 0:
                return made.send_message(value, 1)
            got = made.recv_message(0)
            assert got[long].sum() == 100_000 and (1, long) in got["set"] and long * 10 in got["frozen"]
            return got["beside"] == long

    assert ranks(2).run(body) == [None, True]


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="4 GiB of memory: make test-long")
@pytest.mark.parametrize("into", [False, True], ids=["new tensors", "given tensors"])
def test_from_nothing_to_a_gibibyte(ranks, into):
    def body(rank, size, into):
        with group(rank, size, "gibibyte") as made:
            for count in (0, *(1 << power for power in range(0, 29, 2))):
                x = torch.arange(count, dtype=torch.int32)
                if rank == 0:
                    made.send_message([x, count], 1)
                else:
                    room = torch.zeros(count, dtype=torch.int32)
                    got = made.recv_message(0, into=[room, None] if into else None)
                    assert got[0].equal(x) and got[1] == count and (got[0] is room) == into

    ranks(2).run(body, into)


@pytest.mark.long
def test_many_small_messages(ranks):
    def body(rank, size, count):
        with group(rank, size, "many") as made:
            for number in range(count):
                if rank == 0:
                    made.send_message({"n": number}, 1)
                else:
                    assert made.recv_message(0) == {"n": number}

    ranks(2).run(body, rounds(30_000, 1_000_000))
