"""What the arguments of a group may be."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist
from shared import LIMIT, group

from torch_customccl import create_group, join_group


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"rank": 2}, ValueError, "rank 2 of 2 ranks makes no sense"),
        ({"rank": -1}, ValueError, "rank -1 of 2"),
        ({"size": 0}, ValueError, "of 0 ranks"),
        ({"rank": "0"}, TypeError, "rank of group 'bad' must be an int"),
        ({"rank": True}, TypeError, "rank of group 'bad' must be an int, not True"),
        ({"size": 2.0}, TypeError, "size of group 'bad' must be an int, not 2.0"),
        ({"name": ""}, ValueError, "needs a name"),
        ({"timeout": timedelta(0)}, ValueError, "must be positive, not 0 s"),
        ({"timeout": -LIMIT}, ValueError, "must be positive"),
        ({"timeout": 5}, TypeError, "timeout of group 'bad' must be a datetime.timedelta, not 5"),
        ({"ranks": [1]}, ValueError, "does not name 2 ranks"),
        ({"ranks": [1, 1]}, ValueError, "does not name 2 ranks"),
        ({"ranks": [5, "x"]}, ValueError, "does not name 2 ranks"),
        ({"ranks": [5, -1]}, ValueError, "does not name 2 ranks"),
        ({"ranks": [True, 2]}, ValueError, "does not name 2 ranks"),
        ({"ranks": [5, 1 << 31]}, ValueError, "an int from 0 to"),
        ({"store_or_uri": None}, TypeError, "a store or a URI is needed, not NoneType"),
        ({"store_or_uri": "udp://here:1"}, ValueError, "neither file:///PATH nor tcp://HOST:PORT"),
        ({"store_or_uri": "tcp://here"}, ValueError, "neither file:///PATH"),
        ({"store_or_uri": "tcp://here:1?owner=me"}, ValueError, "owner=RANK"),
        ({"store_or_uri": "tcp://here:1?owner="}, ValueError, "owner=RANK"),
        ({"store_or_uri": "tcp://here:1?owned"}, ValueError, "owner=RANK"),
        ({"store_or_uri": "file:///tmp/jobs#1"}, ValueError, "no '[?]' or '#' may be in the path"),
        ({"store_or_uri": "file:///tmp/jobs?1"}, ValueError, "no '[?]' or '#' may be in the path"),
        ({"store_or_uri": "file:///tmp/\udc80"}, ValueError, "the URI of a store is .*, which UTF-8 cannot say"),
        ({"name": "n" * 1001}, ValueError, "name of a group has at most 1000 bytes, not 1001"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, error, text):
    given = {"store_or_uri": dist.HashStore(), "rank": 0, "size": 2, "name": "bad", "timeout": LIMIT, **arguments}
    with pytest.raises(error, match=text):
        create_group(**given)
    if isinstance(given["store_or_uri"], dist.Store):
        assert given["store_or_uri"].num_keys() == 0  # and the next call meets those who did it right at once


@pytest.mark.parametrize("limit", [timedelta.max, timedelta(days=300 * 365), timedelta(microseconds=1)])
def test_limits_of_any_size(limit):
    with create_group(dist.HashStore(), 0, 1, "limits", timeout=limit) as made:
        assert timedelta(milliseconds=1) <= made.timeout < timedelta(days=40000)
        made.prepare(["0"], timeout=limit)
        made.commit()
        made.send_message("there", 0, timeout=limit)
        assert made.recv_message(0, timeout=limit) == "there"
        made.open_endpoint("mine")
        assert made.endpoint("mine", timeout=limit).owner == 0


def test_there_is_no_such_group():
    with pytest.raises(dist.DistStoreError, match=r"there is no group 'nobody' in this store.*create_group\(\)"):
        join_group(dist.HashStore(), ["0"], "0", "nobody", timeout=LIMIT / 100)


def test_subgroups_that_make_no_sense_are_refused():
    with create_group(dist.HashStore(), 0, 1, "one", timeout=LIMIT) as made:
        for bad in ([], [0, 0], [1]):
            with pytest.raises(ValueError, match="customccl"):
                made.subgroup(bad)


def test_numbers_of_ranks_may_be_an_array():
    with create_group(dist.HashStore(), 0, 1, "array", timeout=LIMIT, ranks=np.array([7])) as made:
        assert made.ranks == [7]


def test_a_default_device_of_torch_is_not_that_of_a_group(ranks):
    def body(rank, size):
        with group(rank, size, "device") as made, torch.device("meta"):
            half = made.split(rank % 2)
            assert half.size() == 1
            half.close()
            return made.allgather(bytes([rank]))

    assert ranks(2).run(body) == [[b"\0", b"\1"]] * 2
