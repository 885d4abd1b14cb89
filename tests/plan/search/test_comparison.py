"""The rule by which launches decide, on times that are drawn at random."""

from __future__ import annotations

import math
import random
from collections import deque

import pytest

from tawa.plan.search.comparison import CHALLENGER, CHAMPION, Comparison
from tawa.plan.thresholds import LOOKS


def played(gain: float, noise: float, seed: int, kinds: int = 1, ahead: int = 5, heaps: float = 0.0) -> Comparison:
    """A trial of a challenger that is `gain` times as fast. ahead: launches whose times are not known yet.

    heaps: how much longer every second launch takes, at random, of both.
    """
    draw, trial = random.Random(seed), Comparison(seed)
    pending = deque[tuple[int, int, float] | None]()
    for _ in range(1000):
        if trial.won is not None:
            break
        kind = draw.randrange(kinds)
        which = trial.next(kind)
        time_ms = (1 + kind) * (1 + heaps * (draw.random() < 0.5)) * math.exp(draw.gauss(0, noise))
        pending.append((kind, which, time_ms / (gain if which == CHALLENGER else 1)) if which is not None else None)
        known = pending.popleft() if len(pending) > ahead else None
        if known is not None:
            trial.add(*known)
    return trial


def share(gain: float, noise: float, count: int = 100, **more: float) -> float:
    """How often the challenger wins."""
    return sum(played(gain, noise, seed, **more).won == CHALLENGER for seed in range(count)) / count


@pytest.mark.parametrize(("gain", "noise"), [(1.02, 0.003), (1.05, 0.01), (1.1, 0.03), (1.5, 0.1)])
def test_the_faster_one_wins(gain: float, noise: float) -> None:
    assert share(gain, noise) >= 0.98
    assert share(1 / gain, noise) == 0


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("heaps", [0.0, 0.4])
def test_of_two_that_are_equal_the_champion_stays(noise: float, heaps: float) -> None:
    assert share(1.0, noise, heaps=heaps) <= 0.08


def test_kinds_of_launches_may_alternate() -> None:
    assert share(1.05, 0.01, kinds=4) >= 0.98
    assert share(0.95, 0.01, kinds=4) == 0


def test_a_clearly_slower_one_gets_three_launches() -> None:
    for seed in range(50):
        trial = played(0.7, 0.02, seed, ahead=30)
        assert trial.won == CHAMPION and trial.launches[CHALLENGER] == 3


def test_a_challenger_never_runs_more_often_than_the_last_look_needs() -> None:
    trials = [played(1.0, 0.3, seed, ahead=60) for seed in range(30)]
    assert all(trial.won is not None for trial in trials)
    assert max(trial.launches[CHALLENGER] for trial in trials) == LOOKS[-1]


def test_a_launch_without_a_time_is_made_up_for() -> None:
    draw, trial, given = random.Random(1), Comparison(1), [0, 0]
    while trial.won is None:
        which = trial.next("kind")
        assert which is not None
        if draw.random() < 0.5:
            trial.drop("kind", which)
        else:
            given[which] += 1
            trial.add("kind", which, math.exp(draw.gauss(0, 0.3)))
    assert given[CHALLENGER] == LOOKS[-1] and abs(given[CHAMPION] - given[CHALLENGER]) <= 1


def test_nothing_is_decided_without_times() -> None:
    trial = Comparison(1)
    given = [trial.next("kind") for _ in range(100)]
    assert trial.won is None and trial.gain is None
    assert given.count(CHALLENGER) == 3 and given[8:] == [None] * 92


def test_what_memory_decides_needs_more_launches() -> None:
    known, guessed = Comparison(5), Comparison(5, guessed=True)
    for trial in (known, guessed):
        for number in range(6):
            trial.add("kind", CHAMPION, 1.0 + number / 1e4)
            trial.add("kind", CHALLENGER, 0.9 + number / 1e4)
    assert known.won == CHALLENGER and guessed.won is None


def test_the_order_is_that_of_the_seed() -> None:
    orders = [[Comparison(seed).next("kind") for seed in range(20)] for _ in "ab"]
    assert orders[0] == orders[1] and set(orders[0]) == {CHAMPION, CHALLENGER}


def test_a_trial_ends_whatever_the_sizes_are() -> None:
    for seed in range(40):
        draw, trial = random.Random(seed), Comparison(seed)
        for number in range(400):
            kind = number if seed % 2 else ("rare" if number == 7 else "usual")
            which = trial.next(kind)
            if which is not None and trial.won is None:
                trial.add(kind, which, math.exp(draw.gauss(0, 0.1)))
        assert trial.won is not None, seed


def test_a_form_that_takes_more_time_in_all_does_not_win() -> None:
    """Unless no long launch was among the first, one in six."""
    won = 0
    for seed in range(100):
        draw, trial = random.Random(seed), Comparison(seed)
        while trial.won is None:
            long = draw.random() < 0.25
            which = trial.next(long)
            if which is None:
                continue
            time_ms = (4.0 if long else 1.0) * math.exp(draw.gauss(0, 0.003))
            trial.add(long, which, time_ms * ((1.3 if long else 0.95) if which == CHALLENGER else 1.0))
        won += trial.won == CHALLENGER
    assert won <= 25


def test_a_time_of_nothing_is_none() -> None:
    trial, draw = Comparison(3), random.Random(3)
    for number in range(2000):
        which = trial.next("kind")
        if which is not None:
            trial.add("kind", which, 0.0 if number % 5 == 0 else 1 + draw.random() / 100)
    assert trial.won is not None
