"""Ratios, their intervals, and the gate that refuses numbers."""

import random

import pytest

from benchmarks import intervals
from benchmarks.intervals import Interval
from benchmarks.report import verdicts


def samples(level: float, rounds: int = 30, noise: float = 0.0, drift: float = 1.0, seed: int = 1) -> list:
    """[round][half][call]; in the second half of each round everything takes `drift` times as long."""
    chance = random.Random(seed)
    return [
        [[level * factor * (1 + noise * chance.random()) for _ in range(4)] for factor in (1.0, drift)]
        for _ in range(rounds)
    ]


def test_the_ratio_of_steady_samples_is_exact() -> None:
    ratio = intervals.paired_ratio(samples(300.0), samples(100.0))
    assert (ratio.median, ratio.low, ratio.high) == pytest.approx((3.0, 3.0, 3.0))
    assert ratio.verdict == "faster"


def test_what_slows_a_whole_round_cancels() -> None:
    slow = [[[call * (1 + number) for call in half] for half in both] for number, both in enumerate(samples(100.0))]
    theirs = [[[2 * call for call in half] for half in both] for both in slow]
    ratio = intervals.paired_ratio(theirs, slow)
    assert (ratio.low, ratio.high) == pytest.approx((2.0, 2.0))


def test_the_interval_holds_the_median_and_grows_with_noise() -> None:
    calm = intervals.paired_ratio(samples(100, noise=0.01, seed=2), samples(100, noise=0.01))
    wild = intervals.paired_ratio(samples(100, noise=1.0, seed=2), samples(100, noise=1.0))
    for ratio in (calm, wild):
        assert ratio.low <= ratio.median <= ratio.high
    assert wild.high - wild.low > 5 * (calm.high - calm.low)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(1.5, 1.4, 1.6), "faster"),
        (Interval(1.5, 1.01, 2.0), "same"),
        (Interval(0.5, 0.4, 0.6), "slower"),
        (Interval(0.98, 0.9, 0.99), "same"),
    ],
)
def test_a_verdict_needs_an_interval_clear_of_one(interval: Interval, verdict: str) -> None:
    assert interval.verdict == verdict


def test_the_gate_lets_a_steady_peer_through() -> None:
    assert intervals.quiet(samples(100.0))
    assert intervals.quiet(samples(100.0, noise=0.02))


def test_the_gate_refuses_what_differs_from_itself() -> None:
    assert not intervals.quiet(samples(100.0, drift=1.3))
    assert not intervals.quiet(samples(100.0, rounds=5, noise=5.0, seed=3))


def test_oversubscribed_ranks_are_allowed_more() -> None:
    drifting = samples(100.0, drift=1.07)
    assert not intervals.quiet(drifting)
    assert intervals.quiet(drifting, oversubscribed=True)


def test_the_difference_is_in_seconds() -> None:
    assert intervals.paired_difference(samples(1500.0), samples(1000.0)).median == pytest.approx(500e-9)


def test_old_against_new_cancels_the_speed_of_the_machine() -> None:
    old = samples(400.0), samples(200.0)  # (a peer, ours)
    new = samples(4000.0), samples(1000.0)  # a machine ten times slower; ours twice as good
    assert intervals.ratio_of_ratios(old, new).median == pytest.approx(2.0)


def test_turns_may_differ_in_length() -> None:
    uneven = [[[1.0, 2.0, 9.0], [2.0]], [[2.0, 2.0], [1.0, 2.0, 3.0, 4.0]]]
    assert intervals.summary(uneven).count == 10
    assert intervals.turns(uneven).tolist() == [[2.0, 2.0], [2.0, 2.5]]


def test_what_jitters_by_itself_passes_the_gate_when_1_lies_in_its_interval_but_not_when_it_drifts() -> None:
    jittering = samples(100.0, rounds=5, noise=5.0, seed=3)
    assert intervals.quiet(jittering, jitters=True) and not intervals.quiet(jittering)
    assert not intervals.quiet(samples(100.0, drift=1.3), jitters=True)
    assert intervals.noise(samples(100.0, drift=1.3)) == pytest.approx(1.3, rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "error", "met", "said"),
    [
        (4.0, 6.0, 0.0, True, "5x"),
        (4.0, 6.0, 2.0, True, "5x (noisy)"),
        (4.0, 6.0, 3.5, None, "machine too noisy"),
        (0.1, 0.2, 0.3, False, "5x (noisy)"),
    ],
)
def test_a_target_is_judged_in_noise_only_if_noise_cannot_change_the_answer(
    low: float, high: float, error: float, met: bool | None, said: str
) -> None:
    measured = intervals.Interval((low + high) / 2, low, high)
    verdict = verdicts.judged("5x", measured, error, lambda ratio: ratio >= 1)
    assert (verdict.met, verdict.measured) == (met, said)
