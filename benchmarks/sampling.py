"""The order in which peers take turns, and where each sample goes.

A round takes every peer twice: in a random order, then in the reverse of it (ABBA for two). Whatever drifts during a
round hits both sides of a ratio alike, and over many rounds every peer has had every neighbour. The two halves of a
round, compared for one peer, are the A/A test. A turn is a burst of calls: of a peer whose calls are short an untimed
one first, so that it does not pay for the caches that its predecessor used; four where ranks share processors, because
it takes the scheduler that long to forget who had run how much.
"""

import random
from dataclasses import dataclass

SHORT_CALL = 1e-3  # seconds; longer calls go one by one
PATIENCE = 4  # a busy machine does not make a run endless
FEWEST_ROUNDS = 3
PROGRAM_TURN = 2e-3  # seconds of timed calls
MOST_CALLS = 100


@dataclass(frozen=True)
class Burst:
    warm: int
    timed: int

    @property
    def calls(self) -> int:
        return self.warm + self.timed


@dataclass(frozen=True)
class Limits:
    """How long a cell may take: `seconds`, or four times that until `least` rounds are done; always three rounds."""

    seconds: float
    least: int
    most: int


def round_order(peers: int, number: int, seed: int = 0) -> list[int]:
    """Indices of the peers in round `number`: a random permutation and its mirror image. The same on all ranks."""
    first = list(range(peers))
    random.Random(seed * 1_000_003 + number).shuffle(first)
    return [*first, *reversed(first)]


def burst_for(seconds: float, longest: float, crowded: bool) -> Burst:
    """The burst of a peer whose calls take this long, beside one whose calls take longest."""
    warm = 4 if crowded else 1
    return Burst(warm if seconds < SHORT_CALL else 0, 4 if longest < SHORT_CALL else 1)


def program_burst(seconds: float, crowded: bool) -> Burst:
    """The burst of a program of the C level: to wake it takes so long that its turn has to last for a while, and longer
    where ranks share processors and are woken one after the other."""
    timed = max(1, min(MOST_CALLS, int((10 if crowded else 1) * PROGRAM_TURN / max(seconds, 1e-9))))
    return Burst(max(timed // 4, 4 if crowded else 1) if seconds < SHORT_CALL else 0, timed)


def enough(rounds: int, seconds: float, limits: Limits) -> bool:
    """Whether a cell ends after so many rounds in so much time."""
    if rounds >= limits.most:
        return True
    least = limits.least if seconds < PATIENCE * limits.seconds else min(FEWEST_ROUNDS, limits.least)
    return rounds >= least and seconds >= limits.seconds
