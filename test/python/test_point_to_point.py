"""send and recv: tags match, pairs do not mix, any order of posting works, large messages cross both ways."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded, assert_same_bits
from harness.layouts import LAYOUTS
from harness.oracle import COUNTS, LARGE_COUNT, MOVABLE, bits

EIGHT_MIB = 2 * 1024 * 1024  # elements of float32


def test_send_and_recv_move_every_size_and_only_read_what_is_sent(ranks):
    def body(rank, size):
        for count in (*COUNTS, LARGE_COUNT, EIGHT_MIB):
            if rank == 0:
                mine = Guarded.holding(bits(0, count, torch.float32))
                dist.send(mine.tensor, dst=1)
                mine.check_unchanged(f"{count} elements")
            else:
                output = Guarded((count,), torch.float32)
                assert dist.recv(output.tensor, src=0) == 0
                output.check(bits(0, count, torch.float32), f"{count} elements")

    ranks(2).run(body)


def test_messages_are_matched_by_tag_and_not_by_order(ranks):
    def body(rank, size):
        for count in (3, 20_000, LARGE_COUNT):
            messages = {tag: bits(0, count, torch.float32, salt=tag) for tag in (7, 8, 9)}
            if rank == 0:
                works = [dist.isend(messages[tag], dst=1, tag=tag) for tag in (7, 8, 9)]
                for work in works:
                    work.wait()
            else:
                for tag in (9, 7, 8):
                    output = torch.zeros(count)
                    dist.recv(output, src=0, tag=tag)
                    assert_same_bits(output, messages[tag], f"tag {tag}, {count} elements")

    ranks(2).run(body)


def test_messages_with_one_tag_arrive_in_the_order_they_were_sent(ranks):
    def body(rank, size):
        counts = [(turn * 7919) % 30_000 for turn in range(40)]
        if rank == 0:
            for turn, count in enumerate(counts):
                dist.send(bits(0, count, torch.int16, salt=turn), dst=1)
        else:
            for turn, count in enumerate(counts):
                output = torch.zeros(count, dtype=torch.int16)
                dist.recv(output, src=0)
                assert_same_bits(output, bits(0, count, torch.int16, salt=turn), f"message {turn}")

    ranks(2).run(body)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_isend_and_irecv_may_be_posted_and_waited_in_any_order(ranks, seed):
    """Each rank exchanges 12 messages with each other one, posts all in an order of its own, and waits in another."""

    def body(rank, size):
        mixed = random.Random(1000 * seed + rank)
        posts = [
            (kind, other, tag)
            for kind in ("send", "recv")
            for other in range(size)
            for tag in range(12)
            if other != rank
        ]
        mixed.shuffle(posts)
        works, outputs = [], {}
        for kind, other, tag in posts:
            count = (tag * 4999) % 70_000
            if kind == "send":
                works.append(dist.isend(bits(rank, count, torch.float32, salt=tag), dst=other, tag=tag))
            else:
                outputs[other, tag] = torch.zeros(count)
                works.append(dist.irecv(outputs[other, tag], src=other, tag=tag))
        mixed.shuffle(works)
        for work in works:
            work.wait()
        for (other, tag), output in outputs.items():
            expected = bits(other, output.numel(), torch.float32, salt=tag)
            assert_same_bits(output, expected, f"tag {tag} from rank {other}")

    ranks(3).run(body)


def test_two_ranks_exchange_eight_mebibytes_both_ways_at_once(ranks):
    def body(rank, size):
        for turn in range(3):
            mine, other = bits(rank, EIGHT_MIB, torch.float32, salt=turn), 1 - rank
            output = torch.zeros(EIGHT_MIB)
            works = [dist.isend(mine, dst=other), dist.irecv(output, src=other)]
            for work in works if turn % 2 else reversed(works):
                work.wait()
            assert_same_bits(output, bits(other, EIGHT_MIB, torch.float32, salt=turn), f"turn {turn}")

    ranks(2).run(body)


def test_a_rank_may_send_to_itself(ranks):
    def body(rank, size):
        for count in (0, 5, 20_000, LARGE_COUNT):
            for send_first in (True, False):
                output = torch.zeros(count)
                mine = bits(rank, count, torch.float32)
                if send_first:
                    works = [dist.isend(mine, dst=rank), dist.irecv(output, src=rank)]
                else:
                    works = [dist.irecv(output, src=rank), dist.isend(mine, dst=rank)]
                for work in works:
                    work.wait()
                assert_same_bits(output, mine, f"{count} elements, send first: {send_first}")

    ranks(2).run(body)


def test_recv_from_any_source_names_the_sender(ranks):
    def body(rank, size):
        for count in (4, 150_000):
            if rank == 0:
                seen = []
                for _ in range(2 * (size - 1)):
                    output = torch.zeros(count)
                    source = dist.recv(output)
                    turn = seen.count(source)
                    assert_same_bits(output, bits(source, count, torch.float32, salt=turn), f"{turn} from {source}")
                    seen.append(source)
                assert sorted(seen) == sorted(2 * list(range(1, size))), seen
            else:
                for turn in range(2):
                    dist.send(bits(rank, count, torch.float32, salt=turn), dst=0)
            dist.barrier()

    ranks(4).run(body)


def test_recv_from_any_source_takes_only_the_tag_it_asked_for(ranks):
    def body(rank, size):
        if rank == 0:
            values = {}
            for tag in (2, 1):
                output = torch.zeros(1)
                source = dist.recv(output, tag=tag)
                values[tag] = (source, output.item())
            assert values == {2: (2, 20.0), 1: (1, 10.0)}, values
        else:
            dist.send(torch.tensor([10.0 * rank]), dst=0, tag=rank)

    ranks(3).run(body)


def test_send_and_recv_move_every_dtype_and_layout(ranks):
    def body(rank, size):
        for dtype in MOVABLE:
            for layout in LAYOUTS.values():
                case = f"{dtype}, {layout.name}"
                if rank == 0:
                    mine = layout.holding(bits(0, 120, dtype))
                    dist.send(mine.tensor, dst=1)
                    mine.check_unchanged(case)
                else:
                    output = layout.poisoned(120, dtype)
                    dist.recv(output.tensor, src=0)
                    output.check(bits(0, 120, dtype), case)

    ranks(2).run(body)


def test_batches_of_sends_and_receives_complete_in_any_order_of_the_list(ranks):
    def body(rank, size):
        right, left = (rank + 1) % size, (rank - 1) % size
        for count in (10, 150_000):
            from_left, from_right = torch.zeros(count), torch.zeros(count)
            operations = [
                dist.P2POp(dist.isend, bits(rank, count, torch.float32, salt=1), right, tag=1),
                dist.P2POp(dist.irecv, from_left, left, tag=1),
                dist.P2POp(dist.isend, bits(rank, count, torch.float32, salt=2), left, tag=2),
                dist.P2POp(dist.irecv, from_right, right, tag=2),
            ]
            for work in dist.batch_isend_irecv(operations[rank:] + operations[:rank]):
                work.wait()
            assert_same_bits(from_left, bits(left, count, torch.float32, salt=1), f"from the left, {count}")
            assert_same_bits(from_right, bits(right, count, torch.float32, salt=2), f"from the right, {count}")

    ranks(3).run(body)


def test_another_thread_may_use_the_group_while_a_batch_is_started(ranks):
    """torch's own batch marks a group whose backend coalesces: others' operations would be noted down, not done."""

    def body(rank, size):
        peer, turns = 1 - rank, 300

        def exchange() -> None:
            for turn in range(turns):
                received = torch.zeros(3)
                pair = [
                    dist.P2POp(dist.isend, torch.full((3,), float(turn)), peer),
                    dist.P2POp(dist.irecv, received, peer),
                ]
                for work in dist.batch_isend_irecv(pair):
                    work.wait()
                assert received.eq(turn).all(), f"{turn}: {received}"

        def reduce() -> None:
            for turn in range(turns):
                value = torch.full((3,), float(turn + rank))
                dist.all_reduce(value)
                assert value.eq(2 * turn + 1).all(), f"{turn}: {value}"

        with ThreadPoolExecutor(2) as threads:
            for ended in [threads.submit(exchange), threads.submit(reduce)]:
                ended.result()

    ranks(2, fresh=True).run(body)


def test_point_to_point_and_collectives_may_cross(ranks):
    """Rank 0 starts a collective and then sends; rank 1 first receives and then joins the collective."""

    def body(rank, size):
        for count in (5, 20_000, LARGE_COUNT):
            message, value = bits(0, count, torch.float32), torch.full((count,), float(rank + 1))
            if rank == 0:
                work = dist.all_reduce(value, async_op=True)
                dist.send(message, dst=1)
                work.wait()
            else:
                output = torch.zeros(count)
                dist.recv(output, src=0)
                dist.all_reduce(value)
                assert_same_bits(output, message, f"{count} elements")
            assert_same_bits(value, torch.full((count,), 3.0), f"all_reduce of {count}")

    ranks(2).run(body)


@pytest.mark.parametrize(("size", "seeds"), [(2, 4000), (3, 3000), (4, 3000)])
def test_random_permutations_of_isend_and_irecv_complete(ranks, size, seeds):
    """Every rank posts its sends and recvs of a seed in an order of its own, and waits in another one."""

    def body(rank, size, seeds):
        def value(seed, number):
            return (seed * 31 + number * 7) % 9973

        for seed in range(seeds):
            shared = random.Random(seed)
            messages = [
                (number, shared.randrange(size), shared.randrange(size), shared.choice((0, 1, 5, 2000)))
                for number in range(6)
            ]
            if seed % 100 == 0:
                messages.append((6, 0, size - 1, 150_000))  # above the eager limit
            mine = [
                (message, send) for message in messages for send in (True, False) if message[1 if send else 2] == rank
            ]
            own = random.Random(seed * size + rank)
            own.shuffle(mine)
            posted = []
            for (number, source, target, count), send in mine:
                if send:
                    data = torch.full((count,), value(seed, number))
                    posted.append((dist.isend(data, target, tag=number), None, 0))
                else:
                    data = torch.full((count,), -1)
                    posted.append((dist.irecv(data, source, tag=number), data, value(seed, number)))
            own.shuffle(posted)
            for work, data, wanted in posted:
                work.wait()
                assert data is None or bool((data == wanted).all()), f"seed {seed}: {data} instead of {wanted}"

    ranks(size).run(body, seeds)
