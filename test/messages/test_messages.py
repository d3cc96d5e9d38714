"""How messages are sent, awaited, refused and lost: what a reader and a writer see of each other."""

from __future__ import annotations

import random

import pytest
import torch
from harness.rank import error_of, hear_parent, in_a_while, tell_parent
from nests import Request, same, tensor
from shared import group


def test_any_source_tags_and_probe(ranks):
    def body(rank, size):
        with group(rank, size, "any") as made:
            if rank:
                made.send_message(f"from {rank}", 0, tag=7)
                made.send_message(torch.full((20_000,), rank), 0, tag=9)
                made.barrier()
                return None
            big = dict(made.recv_message_from(tag=9) for _ in range(2))
            assert {source: int(got[0]) for source, got in big.items()} == {1: 1, 2: 2}
            assert made.probe_message(tag=8) is None
            while made.probe_message(2, tag=7) is None:
                pass
            assert made.probe_message(2, tag=7)[0] == 2
            got = {made.recv_message(2, tag=7), made.recv_message(tag=7)}
            made.barrier()
            return got

    assert ranks(3).run(body)[0] == {"from 1", "from 2"}


def test_messages_and_tensors_do_not_mix(ranks):
    def body(rank, size):
        with group(rank, size, "mix") as made:
            if rank == 0:
                made.send_message("message", 1, tag=5)
                made.send(torch.ones(2), 1, tag=5)
            else:
                x = torch.zeros(2)
                made.recv(x, 0, tag=5)
                assert x.tolist() == [1.0, 1.0] and made.recv_message(0, tag=5) == "message"

    ranks(2).run(body)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_broadcast_of_values_and_bytes(ranks, size):
    def body(rank, size):
        with group(rank, size, "broadcast") as made:
            for src in range(size):
                value = {"src": src, "x": torch.arange(100_000 * src), "b": b"b" * 10}
                assert same(made.broadcast_message(value if rank == src else None, src), value)
            assert made.broadcast(b"bytes" if rank == 0 else None, 0) == b"bytes"

    ranks(size).run(body)


def test_messages_to_oneself(alone):
    value = {"x": torch.arange(100_000), "y": "text", "r": Request("r", torch.arange(9).numpy(), torch.ones(2))}
    alone.send_message(value, 0)
    alone.send_message("second", 0)
    assert same(alone.recv_message(0), value) and alone.recv_message() == "second"


def test_pickles_can_be_refused(ranks):
    def body(rank, size):
        with group(rank, size, "refuse") as made:
            if rank == 0:
                for extra in (0, 100_000):
                    made.send_message({"plain": [1, torch.ones(extra)]}, 1)
                    made.send_message({"r": Request("r", torch.ones(extra).numpy(), torch.ones(1))}, 1)
                made.send_message("after", 1)
                return None
            raised = []
            for _ in range(2):
                assert made.recv_message(0, weights_only=True)["plain"][0] == 1
                raised.append(error_of(made.recv_message, 0, weights_only=True))
            assert made.recv_message(0) == "after"
            return raised

    for raised in ranks(2).run(body)[1]:
        assert raised.is_a("ValueError") and "a pickled Request, which weights_only=True refuses" in raised.text


def test_given_tensors_must_fit(ranks):
    def body(rank, size):
        with group(rank, size, "fit") as made:
            for count in (3, 100_000):
                if rank == 0:
                    made.send_message({"x": torch.ones(count)}, 1)
                    made.send_message("after", 1)
                else:
                    raised = error_of(made.recv_message, 0, into={"x": torch.ones(count, dtype=torch.int64)})
                    assert raised.is_a("ValueError") and "was given to be filled" in raised.text
                    assert made.recv_message(0) == "after"

    ranks(2).run(body)


def test_endpoints(ranks):
    def body(rank, size):
        with group(rank, size, "endpoints") as made:
            if rank == 0:
                mine = made.open_endpoint("decode-3")
                twin = error_of(made.open_endpoint, "decode-3")
                assert twin.is_a("ValueError") and "open already" in twin.text
                got = [mine.recv_from() for _ in range(2)]
                for source, message in got:
                    made.endpoint(f"prefill-{source}").send({"done": message["id"]})
                made.barrier()
                return sorted((source, message["id"]) for source, message in got)
            mine = made.open_endpoint(f"prefill-{rank}")
            there = made.endpoint("decode-3")
            assert there.owner == 0
            there.send({"id": rank * 10, "cache": tensor(random.Random(rank))})
            assert mine.recv() == {"done": rank * 10}
            assert "belongs to rank 0" in error_of(there.recv).text
            return made.barrier()

    assert ranks(3).run(body)[0] == [(1, 10), (2, 20)]


def test_no_tag_of_a_caller_reaches_an_endpoint(ranks):
    def body(rank, size):
        with group(rank, size, "tags") as made:
            mine = made.open_endpoint(f"of {rank}")
            made.barrier()
            there = made.endpoint(f"of {1 - rank}")
            for tag in {there._tag % 2**32, there._tag % 2**31, 2**32 - 1, 2**31}:
                made.send_message("not for an endpoint", 1 - rank, tag)
            there.send("for the endpoint")
            made.barrier()
            assert mine.recv() == "for the endpoint" and mine.probe() is None

    ranks(2).run(body)


def test_a_reader_learns_that_the_sender_is_gone(ranks):
    def body(rank, size):
        made = group(rank, size, "gone")
        tell_parent("reading")
        if rank == 1:
            return hear_parent()
        return error_of(made.recv_message, 1)

    workers = ranks(2, fresh=True)
    workers.start(body)
    for rank in range(2):
        workers.wait_for(rank, "reading")
    workers.kill(1)
    raised = workers.finish(without=frozenset([1]))[0].value
    assert raised.is_a("DistBackendError") and "rank 1" in raised.text and "died" in raised.text


def test_a_pickle_fills_no_tensors_and_says_so(ranks):
    def body(rank, size):
        with group(rank, size, "pickles") as made:
            state = torch.nn.Linear(2, 2).state_dict()
            if rank == 0:
                made.send_message(state, 1)
                made.send_message({"state": state, "n": 1}, 1)
                made.send_message(state, 1)
                made.send_message(dict(state), 1)
                return
            room = {key: torch.zeros_like(value) for key, value in state.items()}
            assert "pickled collections.OrderedDict where" in error_of(made.recv_message, 0, into=room).text
            assert "where tensors were given" in error_of(made.recv_message, 0, into={"state": [(room,)]}).text
            assert made.recv_message(0, into={"weight": None}).keys() == state.keys()
            got = made.recv_message(0, into=room)
            assert got["weight"] is room["weight"] and room["weight"].abs().sum() > 0

    ranks(2).run(body)


def test_probing_finds_a_message_behind_any_number_of_others(ranks):
    def body(rank, size):
        with group(rank, size, "behind others") as made:
            many, data = 300, bytes(60_000)
            if rank == 1:
                for _ in range(many):
                    made.send_message(data, 0, tag=5)
                made.send_message("seven", 0, tag=7)
                made.barrier()
                return True
            found = in_a_while(lambda: made.probe_message(1, 7))
            assert made.recv_message(1, 7) == "seven"
            assert all(made.recv_message(1, 5) == data for _ in range(many))
            made.barrier()
            return found

    assert ranks(2).run(body) == [True, True]
