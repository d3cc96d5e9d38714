"""Medians of paired ratios with bootstrap intervals, and the gate that refuses numbers from a noisy machine.

Samples of a peer are lists [round][half][call] in nanoseconds (sampling.py); at the C level turns differ in length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 2000
A_A_TOLERANCE = 0.05  # virtual processors of one run differ by this much from themselves
A_A_TOLERANCE_OVERSUBSCRIBED = 0.10  # ranks wait for each other's time slices
FASTER = A_A_TOLERANCE  # "faster" only if the interval clears 1 by this much
WIDEST = 0.10  # half width of an A/A interval that still says something

Samples = Sequence[Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Interval:
    """A median and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    def inverse(self) -> "Interval":
        return Interval(1 / self.median, 1 / self.high, 1 / self.low)

    @property
    def verdict(self) -> str:
        """Of a ratio other / ours."""
        if self.low > 1 + FASTER:
            return "faster"
        return "slower" if self.high < 1 - FASTER else "same"


@dataclass(frozen=True)
class Summary:
    """Seconds of one peer in one cell."""

    median: float
    p5: float
    p95: float
    p99: float
    least: float
    count: int


def summary(samples: Samples) -> Summary:
    flat = np.concatenate([np.asarray(calls, dtype=float) for both in samples for calls in both]) * 1e-9
    p5, median, p95, p99 = np.percentile(flat, [5, 50, 95, 99])
    return Summary(float(median), float(p5), float(p95), float(p99), float(flat.min()), flat.size)


def turns(samples: Samples) -> Any:
    """The median call of each turn: an array [round][half]."""
    if len({len(calls) for both in samples for calls in both}) == 1:  # all at once
        return np.median(np.asarray(samples, dtype=float), axis=2)
    return np.array([[np.median(calls) for calls in both] for both in samples])


def bootstrap_median(values: Any, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Median, and the interval of the medians of samples drawn from the values with replacement."""
    values = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    low, high = np.percentile(np.median(values[drawn], axis=1), [2.5, 97.5])
    return Interval(float(np.median(values)), float(low), float(high))


def paired_ratio(theirs: Samples, ours: Samples) -> Interval:
    """Time of theirs / time of ours, round by round: above 1, ours is faster."""
    return bootstrap_median(turns(theirs).sum(axis=1) / turns(ours).sum(axis=1))


def ratio_of_ratios(old: tuple[Samples, Samples], new: tuple[Samples, Samples], resamples: int = RESAMPLES) -> Interval:
    """Each pair is (a peer, ours) in one run. How much faster ours became, the peer's time cancelling the machine's."""
    medians, draw = [], np.random.default_rng(0)
    for theirs, ours in (old, new):
        ratios = turns(theirs).sum(axis=1) / turns(ours).sum(axis=1)
        drawn = np.median(ratios[draw.integers(0, len(ratios), (resamples, len(ratios)))], axis=1)
        medians.append((float(np.median(ratios)), drawn))
    low, high = np.percentile(medians[1][1] / medians[0][1], [2.5, 97.5])
    return Interval(medians[1][0] / medians[0][0], float(low), float(high))


def paired_difference(ours: Samples, theirs: Samples) -> Interval:
    """Seconds that ours takes longer than theirs, round by round."""
    return bootstrap_median((turns(ours).mean(axis=1) - turns(theirs).mean(axis=1)) * 1e-9)


def a_a(samples: Samples) -> Interval:
    """A peer against itself: the first half of each round over the second."""
    halves = turns(samples)
    return bootstrap_median(halves[:, 0] / halves[:, 1])


def noise(samples: Samples) -> float:
    """The factor, at least 1, by which a peer differs from itself."""
    test = a_a(samples)
    return max(test.high, 1 / test.low, 1.0)


def quiet(samples: Samples, oversubscribed: bool = False, jitters: bool = False) -> bool:
    """Whether the A/A test lets numbers of this peer through.

    It does if the median is within the tolerance of 1, or if 1 lies in the interval and that is narrow enough to mean
    something. A peer that jitters by itself need not be narrow: that shows in the interval of its ratio.
    """
    tolerance = A_A_TOLERANCE_OVERSUBSCRIBED if oversubscribed else A_A_TOLERANCE
    test = a_a(samples)
    if abs(test.median - 1) <= tolerance:
        return True
    narrow = jitters or (test.high - test.low) / 2 <= max(WIDEST, tolerance)
    return test.low <= 1 <= test.high and narrow
