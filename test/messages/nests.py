"""Random nests of everything that a message may hold, made from a seed on both sides."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
from typing import Any

import numpy as np
import torch

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.uint16,
    torch.int16,
    torch.uint32,
    torch.int32,
    torch.uint64,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


@dataclasses.dataclass
class Request:
    """An object that only pickle knows."""

    name: str
    ids: np.ndarray
    hidden: torch.Tensor
    more: Any = None

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Request)
        return (
            self.name == other.name
            and same(self.ids, other.ids)
            and same(self.hidden, other.hidden)
            and same(self.more, other.more)
        )


Point = collections.namedtuple("Point", "x y")


def tensor(dice: random.Random, most: int = 3000) -> torch.Tensor:
    dtype = dice.choice(DTYPES)
    dims = dice.randrange(4)
    sizes = [dice.choice([0, 1, 2, 3, 7, dice.randrange(1, 1 + int(most ** (1 / max(dims, 1))))]) for _ in range(dims)]
    made = torch.randint(0, 2 if dtype is torch.bool else 100, sizes).to(dtype)
    match dice.randrange(4):
        case 0 if dims > 1:
            return made.transpose(0, 1)
        case 1 if dims and sizes[0] > 1:
            return made[::2]
        case 2 if dims and sizes[0] == 1:
            return made.expand(3, *sizes[1:])
    return made


def scalar(dice: random.Random) -> Any:
    makers = [
        lambda: None,
        lambda: dice.choice([True, False]),
        lambda: dice.randrange(-(2**63), 2**63),
        lambda: dice.choice([0, -1, 2**63 - 1, -(2**63), 2**64, -(2**200), 10**50]),
        lambda: dice.choice([0.0, -0.0, math.pi, math.inf, -math.inf, math.nan, 5e-324]),
        lambda: complex(dice.random(), -0.0),
        lambda: "".join(dice.choice("aé√\U0001f600\0\ud800") for _ in range(dice.randrange(20))),
        lambda: dice.randbytes(dice.choice([0, 1, 100, 4095, 4096, 5000])),
        lambda: bytearray(dice.randbytes(dice.randrange(100))),
    ]
    return dice.choice(makers)()


def thing(dice: random.Random, depth: int = 0, objects: bool = True) -> Any:
    kind = dice.randrange(12 if depth < 4 else 7)
    if kind < 4:
        return scalar(dice)
    if kind < 7:
        return tensor(dice)
    few = range(dice.randrange(6))
    match kind:
        case 7:
            return [thing(dice, depth + 1, objects) for _ in few]
        case 8:
            return tuple(thing(dice, depth + 1, objects) for _ in few)
        case 9:
            return {scalar_key(dice): thing(dice, depth + 1, objects) for _ in few}
        case 10:
            return dice.choice([set, frozenset])(scalar_key(dice) for _ in few)
    if not objects:
        return {}
    return dice.choice(
        [
            lambda: Request("r", np.arange(dice.randrange(2000)), tensor(dice), thing(dice, depth + 1)),
            lambda: Point(1, tensor(dice)),
            lambda: collections.OrderedDict(a=1, b=np.float32(2)),
            lambda: torch.float16,
            lambda: np.arange(6, dtype=np.int16).reshape(2, 3).T,
        ]
    )()


def scalar_key(dice: random.Random) -> Any:
    return dice.choice([dice.randrange(1000), f"key {dice.randrange(1000)}", (1, dice.randrange(9)), b"k", None, 2.5])


def memory(values: torch.Tensor) -> torch.Tensor:
    return torch.empty(values.numel(), dtype=values.dtype).copy_(values.reshape(-1)).view(torch.uint8)


def same(left: Any, right: Any) -> bool:
    """Equal in type, structure and every bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and memory(left).equal(memory(right))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left.hex() == right.hex()
    return bool(left == right)
