"""Bytes that no sender of ours makes: a message of them is refused, and nothing beyond them is touched."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest
import torch
from nests import same, thing

from torch_customccl._loader import load

shim = load()
BOTH = pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in parts"])


def value_of(parcel, in_parts, into=None):
    return shim.value_of_parcel(parcel, in_parts, True, into)


def garbled(parcel: bytes, dice: random.Random) -> bytes:
    """Some bytes changed, inserted, cut out, or the end cut off; mostly near the beginning, where the header is."""
    made = bytearray(parcel)
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        at = dice.randrange(min(len(made), dice.choice([24, 200, 100_000]))) if made else 0
        match dice.randrange(6):
            case 0 | 1:
                made[at : at + 1] = bytes([dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])])
            case 2:
                made[at:at] = dice.randbytes(dice.choice([1, 8]))
            case 3:
                del made[at : at + dice.choice([1, 8, 16])]
            case 4:
                made[at : at + 9] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # the largest number
            case 5:
                del made[at:]
    return bytes(made)


@BOTH
@pytest.mark.parametrize("seed", range(10))
def test_garbled_messages_are_refused_or_read(in_parts, seed):
    dice = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(60):
        value = [thing(dice, objects=False) for _ in range(3)]
        parcel = shim.parcel_of(value)
        room = value_of(parcel, in_parts)
        assert same(room, value)
        for _ in range(25):
            # TypeError: a list has become the key of a dict.
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                value_of(garbled(parcel, dice), in_parts, room if dice.randrange(2) else None)


@BOTH
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda parcel: b"", "no preface"),
        (lambda parcel: parcel[:15], "no preface"),
        (lambda parcel: b"\0" + parcel[1:], "another version"),
        (lambda parcel: parcel[:4] + b"\2" + parcel[5:], "another version"),
        (lambda parcel: parcel[:8] + struct.pack("<Q", 1 << 63) + parcel[16:], "another version"),
        (lambda parcel: parcel[:8] + struct.pack("<Q", 0) + parcel[16:], "header is too short"),
        (lambda parcel: parcel[:-16], "runs are too short"),
        (lambda parcel: parcel + bytes(16), "runs are too long"),
        (lambda parcel: parcel[:16] + b"\x63" + parcel[17:], "an unknown mark"),
        (lambda parcel: parcel[:17] + b"\xff\x7f" + parcel[19:], "a count"),
    ],
)
def test_what_is_wrong_is_said(in_parts, change, says):
    parcel = shim.parcel_of([torch.arange(100), "text", 1.5])
    with pytest.raises(ValueError, match=f"customccl: a message is garbled.*{says}"):
        value_of(change(parcel), in_parts)
