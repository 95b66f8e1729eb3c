"""Intervals of the max gap, the mean gap, the rank gap and the gap at one threshold."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest

from evenrisk.metrics import inference, threshold_profile
from scored_people import CASES, LABELS, Recorder, below, drawn, law, moves, people


@law
def test_intervals_hold_their_value(data, parity, n_groups, weighted):
    profile = drawn(data, parity, n_groups, weighted).profile
    got = profile.intervals(1.5, level=0.9, n_resamples=50, random_state=0)
    values = (profile.max_gap, profile.mean_gap, profile.rank_gap, profile.at(1.5))
    for value, interval in zip(values, (got.max_gap, got.mean_gap, got.rank_gap, got.gap_at), strict=True):
        assert interval.value == value
        assert 0 <= interval.low <= value <= interval.high
    assert max(got.max_gap.high, got.rank_gap.high, got.gap_at.high) <= 1


def test_a_stretch_of_the_score_stretches_the_mean_gap_alone():
    a = people(sizes=(40, 60), steps=8)
    one, two = (p.profile.intervals(0.5, random_state=0) for p in (a, replace(a, score=4 * a.score)))
    np.testing.assert_allclose(two.mean_gap, np.multiply(one.mean_gap, 4), rtol=1e-12)
    assert one.max_gap == two.max_gap


@pytest.mark.parametrize(("parity", "sizes", "steps", "weighted"), CASES)
def test_intervals_of_means_equal_brute_force(parity, sizes, steps, weighted):
    a = people(parity, sizes, steps, weighted)
    rng = Recorder(5)
    got = a.profile.intervals(level=0.9, n_resamples=40, random_state=rng)
    cells = list(a.cells())
    t, moved = moves(a, rng.resamples(len(cells)))
    moved = moved[40:]  # the band drew first
    now = np.stack([below(*cell, t) for cell in cells])
    k, h = len(sizes), len(LABELS[parity])
    mean, rank = [], []
    for move in moved:
        by_mean, by_rank = [], []
        for s in range(h):
            mine = slice(s * k, (s + 1) * k)
            spread = np.ptp(move[mine], axis=0)
            by_mean.append(sum(spread[i] * (t[i + 1] - t[i]) for i in range(len(t) - 1)))
            size = np.array([w.sum() for _, w in cells[mine]])
            before, after = (size @ f / size.sum() for f in (now[mine], now[mine] + move[mine]))
            d_before, d_after = np.diff(before, prepend=0), np.diff(after, prepend=0)
            # F* − E F* is not a resample less F where rows were added, so that mass may fall under 0
            by_rank.append(
                spread @ np.maximum(d_after, 0) + abs(np.ptp(now[mine], axis=0) @ (d_after - d_before))
            )
        mean.append(np.mean(by_mean))
        rank.append(np.mean(by_rank))
    at = math.ceil(41 * 0.9) - 1
    for interval, widths in ((got.mean_gap, mean), (got.rank_gap, rank)):
        assert interval.high - interval.value == pytest.approx(sorted(widths)[at], rel=1e-9)
        assert interval.low == pytest.approx(max(interval.value - sorted(widths)[at], 0), abs=1e-12)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9, -1.0, 3.0])
def test_gap_at_a_threshold_is_newcombes(t):
    """Newcombe (1998), method 10, from SciPy's Wilson intervals; an interval over 0 folds there."""
    a = people(sizes=(40, 55), steps=10)
    got = a.profile.intervals(t, level=0.9, n_resamples=50, random_state=0).gap_at
    (p, l1, u1), (q, l2, u2) = (wilson_of(cell, t, 0.9) for cell, _ in a.cells())
    low = (p - q) - math.hypot(p - l1, u2 - q)
    high = (p - q) + math.hypot(u1 - p, q - l2)
    ends = (0.0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))
    assert got == pytest.approx((abs(p - q), *ends), abs=1e-12)
    assert a.profile.intervals(n_resamples=20, random_state=0).gap_at is None


def wilson_of(cell, t, level):
    hits = int((cell > t).sum())
    ends = binomtest(hits, len(cell)).proportion_ci(level, "wilson")
    return hits / len(cell), min(ends.low, hits / len(cell)), max(ends.high, hits / len(cell))


def test_gap_at_a_threshold_for_three_groups_and_two_labels():
    """Bonferroni over the six pairs; the largest of a stratum's pairs, then the mean of the strata."""
    a = people("equalized_odds", (40, 55, 35), steps=10)
    got = a.profile.intervals(0.6, n_resamples=20, random_state=0).gap_at
    rates = [wilson_of(cell, 0.6, 1 - 0.05 / 6) for cell, _ in a.cells()]
    ends = []
    for i, j in a.pairs:
        (p, l1, u1), (q, l2, u2) = rates[i], rates[j]
        low, high = p - q - math.hypot(p - l1, u2 - q), p - q + math.hypot(u1 - p, q - l2)
        ends.append((0.0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))))
    ends = np.array(ends).reshape(2, 3, 2).max(axis=1).mean(axis=0)
    assert got == pytest.approx((a.profile.at(0.6), *ends), abs=1e-12)


@pytest.mark.parametrize("n", [1, 3, 30, 500])
def test_wilson_equals_scipy(n):
    for hits, level in product({0, 1, n // 3, n}, (0.5, 0.9, 0.95, 0.999)):
        witness = binomtest(hits, n).proportion_ci(level, "wilson")
        got = inference.wilson(np.array([hits / n]), np.array([n]), level)
        np.testing.assert_allclose(np.ravel(got), (witness.low, witness.high), atol=1e-12)


@pytest.mark.parametrize("score", ["constant", "separate"])
def test_what_never_moves_when_resampled_is_not_certain(score):
    """Groups that are all alike in 40 rows each may differ in the 41st: 1 − 0.05^(1/40) of them, 7.2 %."""
    values = np.zeros(80) if score == "constant" else np.repeat([0.0, 1.0], 40)
    profile = threshold_profile(None, values, sensitive_features=np.repeat(["a", "b"], 40))
    floor = 1 - 0.05 ** (1 / 40)
    width = profile.band(random_state=0).half_width[0, 0]
    assert width == pytest.approx(floor) if score == "constant" else floor < width < 1.5 * floor
    got = profile.intervals(0.5, random_state=0)
    for name, interval in (("max", got.max_gap), ("rank", got.rank_gap), ("at", got.gap_at)):
        assert interval.high - interval.low >= min(floor, 1 - floor) / 2, name
    if score == "separate":
        assert got.mean_gap.low < 1 - floor / 2


def test_coverage_of_all_intervals():
    """300 samples of (60, 90) in tenths, true curve known; 0.95 − 0.044 is 3.5 standard errors off.

    The max gap, the means and their kin are read off deviations, so they may cover more often.
    """
    steps, times = 10, 300
    levels = np.arange(1, steps + 1) / steps
    true = np.stack([levels, levels**1.5])  # distribution functions of u and u^(2/3), rounded up to tenths
    gap = np.abs(true[0] - true[1])
    share = np.diff((60 * true[0] + 90 * true[1]) / 150, prepend=0)
    known = {
        "max_gap": gap.max(),
        "mean_gap": gap[:-1].sum() / steps,
        "rank_gap": gap @ share,
        "gap_at": gap[3],
    }
    hits = dict.fromkeys([*known, "band", "dkw"], 0)
    group = np.repeat(["a", "b"], [60, 90])
    for seed in range(times):
        rng = np.random.default_rng(seed)
        score = np.ceil(np.concatenate([rng.random(60), rng.random(90) ** (2 / 3)]) * steps) / steps
        profile = threshold_profile(None, score, sensitive_features=group)
        got = profile.intervals(0.4, n_resamples=199, random_state=seed)
        for name, value in known.items():
            hits[name] += getattr(got, name).low <= value + 1e-12 and value <= getattr(got, name).high + 1e-12
        rates = profile.rates_at(levels)[0]
        error = np.abs((rates[0] - rates[1]) - (true[1] - true[0])).max()
        hits["band"] += error <= profile.band(n_resamples=199, random_state=seed).half_width[0, 0]
        hits["dkw"] += error <= profile.band(method="dkw").half_width[0, 0]
    for name, count in hits.items():
        assert count / times >= 0.95 - 0.044, name
    assert hits["band"] / times <= 0.99
    assert hits["dkw"] >= hits["band"]
