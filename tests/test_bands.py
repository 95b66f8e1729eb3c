"""Bands at every threshold, and what all inference has in common."""

import itertools
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import kstest, kstwo, kstwobign

from evenrisk.exceptions import SmallCellWarning
from evenrisk.metrics import inference, resampling, threshold_profile
from evenrisk.metrics.resampling import BinnedScores
from scored_people import CASES, LABELS, People, Recorder, drawn, law, moves, people, small


def half_widths(sups, level, fewest):
    """Half-widths from every pair's largest moves (b, p): the rank rule, balance and floor, written out."""
    scale = sups.mean(axis=0)
    largest = sorted((row / scale).max() for row in sups)
    width = largest[math.ceil((len(sups) + 1) * level) - 1] * scale
    floor = 1 - (1 - level) ** (
        1 / fewest
    )  # all of n rows alike has this chance where the share is 1 − floor
    return np.maximum(width, floor)


@pytest.mark.parametrize(("parity", "sizes", "steps", "weighted"), CASES)
def test_band_equals_brute_force(parity, sizes, steps, weighted):
    a = people(parity, sizes, steps, weighted)
    rng = Recorder(3)
    band = a.profile.band(0.9, n_resamples=60, random_state=rng)
    _, moved = moves(a, rng.resamples(len(a.counts)))
    sups = np.stack([np.abs(moved[:, i] - moved[:, j]).max(axis=1) for i, j in a.pairs], axis=1)
    effective = np.array([w.sum() ** 2 / (w**2).sum() for _, w in a.cells()])
    fewest = np.array([min(effective[i], effective[j]) for i, j in a.pairs])
    np.testing.assert_allclose(band.half_width.ravel(), half_widths(sups, 0.9, fewest), rtol=1e-10)
    assert band.half_width.shape == (len(LABELS[parity]), len(sizes) * (len(sizes) - 1) // 2)


def test_draws_come_in_chunks_and_none_is_lost(monkeypatch):
    a = people(sizes=(61, 90, 74), steps=8, weighted=True)
    monkeypatch.setattr(resampling, "CHUNK", 3 * 3 * len(np.unique(a.score)))
    binned = BinnedScores.of(a.profile._rows)
    rng = Recorder(3)
    parts = list(binned.deviations(20, rng))
    assert len(parts) > 1
    drawn = rng.resamples(3)
    assert drawn[0][0].shape == (20, a.counts[0])
    np.testing.assert_allclose(np.concatenate(parts), moves(a, drawn)[1], atol=1e-12)


class Every(np.random.Generator):
    """Not chance at all: every resample of every cell, each once."""

    def __init__(self, rows):
        super().__init__(np.random.PCG64(0))
        self.rows = iter(rows)

    def integers(self, *args, **kwargs):
        return next(self.rows)


@small
def test_drawn_resamples_follow_the_law_of_all_of_them(monkeypatch):
    """Cells of 3 and 4 rows have 27 × 256 resamples: their law, without chance, against 20,000 draws."""
    monkeypatch.setattr(resampling, "SMALL_CELL", 1)
    monkeypatch.setattr(resampling, "ADDED_ROWS", 0)
    a = People(
        "demographic_parity", np.array([1, 2, 4, 1, 3, 3, 5.0]), np.zeros(7, int), np.array(list("aaabbbb"))
    )
    first, second = (np.array(list(product(range(n), repeat=n))) for n in (3, 4))
    rows = [np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))]
    binned = BinnedScores.of(a.profile._rows)
    exact = inference.sups(binned, len(rows[0]), Every(rows))[:, 0]
    cells = [score for score, _ in a.cells()]
    witness = []
    for one, two in zip(*rows, strict=True):
        difference = [
            Fraction(int((cells[0][one] <= t).sum() - (cells[0] <= t).sum()), 3) * math.sqrt(3 / 2)
            - Fraction(int((cells[1][two] <= t).sum() - (cells[1] <= t).sum()), 4) * math.sqrt(4 / 3)
            for t in (1, 2, 3, 4, 5)
        ]
        witness.append(max(map(abs, difference)))
    np.testing.assert_allclose(exact, witness, atol=1e-14)
    drawn = inference.sups(binned, 20_000, np.random.default_rng(0))[:, 0]
    values, index = np.unique(np.round(np.concatenate([exact, drawn]), 12), return_inverse=True)
    law = np.bincount(index[: len(exact)], minlength=len(values)) / len(exact)
    seen = np.bincount(index[len(exact) :], minlength=len(values)) / len(drawn)
    assert (np.abs(seen - law) <= 4 * np.sqrt(law * (1 - law) / len(drawn))).all()  # 4 standard errors each


@small
def test_bands_hold_where_most_people_share_a_score():
    """Seven groups, 90 % of each at the lowest of three scores: 90 % bands hold in 200 samples at least 170
    times, which is 2.4 standard errors less than they should; resampling a cell's own rows alone, 150 times.
    """
    sizes, share = (12, 31, 35, 40, 60, 300, 1200), np.array([0.9, 0.07, 0.03])
    group, held = np.repeat(np.arange(7), sizes), 0
    first, second = np.array(list(combinations(range(7), 2))).T
    for seed in range(200):
        rng = np.random.default_rng(seed)
        score = rng.choice(3, len(group), p=share)
        profile = threshold_profile(None, score, sensitive_features=group)
        off = profile.rates_at([0, 1])[0] - [0.1, 0.03]
        far = np.abs(off[first] - off[second]).max(axis=1)
        held += (far <= profile.band(0.9, n_resamples=99, random_state=rng).half_width[0] + 1e-12).all()
    assert held >= 170


def sups_of(binned, cell, n_resamples, seed=0):
    """Largest move of one cell in every resample."""
    parts = [
        np.abs(d[:, cell]).max(axis=1) for d in binned.deviations(n_resamples, np.random.default_rng(seed))
    ]
    return np.concatenate(parts)


@small
def test_one_row_moves_as_one_row_drawn_from_everybody():
    """Drawn as the j-th of N distinct scores its step is max((j − 1) / N, 1 − j / N) from theirs."""
    a = people(sizes=(1, 49))
    sups = sups_of(BinnedScores.of(a.profile._rows), list(a.counts).index(1), 40_000)
    j = np.arange(1, 51)
    law = np.maximum((j - 1) / 50, 1 - j / 50)
    values, expected = np.unique(np.round(law, 12), return_counts=True)
    seen = np.array([(np.abs(sups - value) < 1e-9).mean() for value in values])
    assert seen.sum() == pytest.approx(1)
    share = expected / 50
    assert (np.abs(seen - share) <= 4 * np.sqrt(share * (1 - share) / 40_000)).all()  # 4 standard errors


@small
@pytest.mark.parametrize("weighted", [False, True])
def test_one_row_is_drawn_from_the_distinct_scores_alike(weighted):
    """1, 2 or 3, whatever the others score: it is then 2/3, 1/3, 2/3 off at most."""
    score, weight = np.repeat([1, 2, 3], [60, 30, 10]), np.ones(100)
    if weighted:
        score, weight = np.array([1, 1, 2, 3, 3]), np.array([1.0, 5.0, 3.0, 0.5, 0.5])
    group = np.array(["b"] * (len(score) - 1) + ["a"])
    a = People("demographic_parity", score, np.zeros(len(score), int), group, weight)
    sups = sups_of(BinnedScores.of(a.profile._rows), 0, 20_000)
    for size, share in ((2 / 3, 2 / 3), (1 / 3, 1 / 3)):
        seen = (np.abs(sups - size) < 1e-9).mean()
        assert seen == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 20_000)), size


@small
@pytest.mark.parametrize("majority", ["one value", "nearly one value"])
def test_a_small_group_beside_a_majority_of_one_value(majority):
    """20 rows anywhere in [0, 1], 1000 at or near 0: the band holds the true curve, 1 − t, as it should."""
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        many = np.zeros(1000) if majority == "one value" else rng.random(1000) * (rng.random(1000) < 0.1)
        few = rng.random(20)
        group = np.repeat(["many", "few"], [1000, 20])
        profile = threshold_profile(None, np.append(many, few), sensitive_features=group)
        width = profile.band(n_resamples=199, random_state=seed).half_width[0, 0]
        held += kstest(few, "uniform").statistic <= width
    assert held >= 0.95 * 200 - 3 * math.sqrt(200 * 0.95 * 0.05)  # 3 standard errors below its level


@small
def test_a_cell_is_small_by_its_effective_rows():
    """Of 40 rows two have nearly all the weight: they say no more than two rows."""
    a = people(sizes=(40, 200))
    mine = a.group == np.unique(a.group)[a.counts.tolist().index(40)]
    weight = np.where(mine, 1e-6, 1.0)
    weight[np.flatnonzero(mine)[:2]] = 1.0
    heavy = replace(a, weight=weight).profile.band(random_state=0).half_width[0, 0]
    assert heavy > 2 * a.profile.band(random_state=0).half_width[0, 0]


@small
@pytest.mark.parametrize("n", [2, 10, 29])
def test_small_cells_move_like_kolmogorovs_statistic(n):
    """n of 2000 distinct scores: SciPy's law of sup |F_n − F|, which the scores' steps blur by 1/2000."""
    a = people(sizes=(n, 2000 - n))
    sups = np.sort(sups_of(BinnedScores.of(a.profile._rows), list(a.counts).index(n), 4000))
    ranks = np.arange(1, 4001) / 4000
    distance = np.abs(kstwo.cdf(sups, n) - ranks).max()
    assert distance <= 1.95 / np.sqrt(4000) + 0.005  # 1.95: exceeded once in 1000 samples


@small
def test_small_cells_keep_their_weights():
    """With nearly all its weight on one row of ten, the cell moves like one row, by max(u, 1 − u)."""
    a = people(sizes=(10, 190))
    alone = a.counts.tolist().index(10)
    mine = np.flatnonzero(a.group == np.unique(a.group)[alone])
    weight = np.full(200, 1e9)
    weight[mine] = 1.0
    weight[mine[0]] = 1e6
    heavy = sups_of(BinnedScores.of(replace(a, weight=weight).profile._rows), alone, 2000)
    assert heavy.min() >= 0.49
    assert sups_of(BinnedScores.of(a.profile._rows), alone, 2000).min() < 0.3


@small
@pytest.mark.parametrize("weighted", [False, True])
def test_a_group_of_one_row_has_a_band_that_says_nothing_and_widens_no_other(weighted):
    a = people(sizes=(1, 400, 600), weighted=weighted)
    with pytest.warns(
        SmallCellWarning, match=r"^fewer than 30 rows in: group 'b' \(1\)\. Gaps measured there are mo"
    ):
        profile = a.profile
    band = profile.band(random_state=0)
    assert (profile.groups, band.pairs) == (("a", "b", "c"), (("a", "b"), ("a", "c"), ("b", "c")))
    one, large, other = band.half_width[0]
    assert one >= 0.94  # nothing seen in one row: a share of up to 0.95 may be there
    assert other >= 0.94
    alone = people(sizes=(1, 400, 600), weighted=weighted)
    rest = alone.take(alone.group != "b").profile.band(random_state=0).half_width[0, 0]
    assert large == pytest.approx(rest, rel=0.25), "joint with two more pairs, so a little wider"
    assert band.max_gap.high == 1
    assert profile.max_gap >= np.abs(band.gap[0, 1]).max(), "the small group is measured, not dropped"


def test_small_cells_are_named_and_kept_under_every_rule():
    a = people("equalized_odds", sizes=(60, 5, 80))
    match = r"group 'c' among negatives \(5\); group 'c' among positives \(5\)"
    with pytest.warns(SmallCellWarning, match=match):
        profile = a.profile
    assert profile.band(random_state=0).half_width.shape == (2, 3)
    assert not np.isnan(profile.band(random_state=0).half_width).any()
    assert len(profile.discrimination(random_state=0).auc) == 3


@pytest.mark.parametrize("weighted", [False, True])
def test_normal_form_equals_drawn_rows(monkeypatch, weighted):
    """The largest move of cells of 12,000 and 18,000 rows: 4 and 5 % are 4 standard errors of 1000 draws."""
    a = people(sizes=(12_000, 18_000), steps=100, weighted=weighted)
    binned = BinnedScores.of(a.profile._rows)
    drawn = inference.sups(binned, 1000, np.random.default_rng(0))[:, 0]
    monkeypatch.setattr(resampling, "LARGE_CELL", 100)
    rng = Recorder(1)
    normal = inference.sups(binned, 4000, rng)[:, 0]
    assert rng.rows == [], "no row is drawn"
    assert drawn.mean() == pytest.approx(normal.mean(), rel=0.04)
    for q in (0.5, 0.9, 0.95):
        assert np.quantile(drawn, q) == pytest.approx(np.quantile(normal, q), rel=0.05), q


def test_normal_form_of_like_groups_is_kolmogorovs_law(monkeypatch):
    monkeypatch.setattr(resampling, "LARGE_CELL", 100)
    a = people(sizes=(4000, 6000), apart=0)
    sups = inference.sups(BinnedScores.of(a.profile._rows), 3000, np.random.default_rng(0))[:, 0]
    scale = np.sqrt(1 / 4000 + 1 / 6000)
    assert sups.mean() == pytest.approx(kstwobign.mean() * scale, rel=0.03)
    assert np.quantile(sups, 0.95) == pytest.approx(kstwobign.ppf(0.95) * scale, rel=0.04)


def test_coarse_bins_lose_little(monkeypatch):
    """The largest of a bridge over m points is 0.58 / √m under that over all: 2.9 % of its mean at 512."""
    monkeypatch.setattr(resampling, "MOST_BINS", 512)
    monkeypatch.setattr(resampling, "ADDED_ROWS", 0)  # their scores depend on the bins
    a = people(sizes=(4000, 6000), apart=0.05)
    rows = a.profile._rows
    every, coarse = BinnedScores.of(rows, most=10_000), BinnedScores.of(rows, most=2000)
    assert (len(every.thresholds), len(coarse.thresholds)) == (10_000, 512)
    assert np.isin(coarse.thresholds, every.thresholds).all()
    assert coarse.thresholds[-1] == every.thresholds[-1]
    np.testing.assert_array_equal(coarse.mass.sum(axis=1), every.mass.sum(axis=1))
    monkeypatch.setattr(resampling, "CHUNK", 2**24)  # one chunk: the same draws
    sups = [inference.sups(b, 600, np.random.default_rng(7))[:, 0] for b in (every, coarse)]
    assert (sups[1] <= sups[0] + 1e-12).all(), "the largest over a part of the same curve"
    assert sups[1].mean() / sups[0].mean() == pytest.approx(1 - 0.029, abs=0.01)


def test_coarse_bins_end_at_runs_of_ties(monkeypatch):
    monkeypatch.setattr(resampling, "MOST_BINS", 64)
    a = people(sizes=(4000, 6000), steps=300)
    coarse = BinnedScores.of(a.profile._rows, most=100)
    assert 50 <= len(coarse.thresholds) <= 64
    for c, (score, _) in enumerate(a.cells()):
        witness = [(score <= t).sum() for t in coarse.thresholds]
        np.testing.assert_array_equal(np.cumsum(coarse.mass[c]), witness)


@small
def test_many_groups_are_bounded_by_the_sum_of_two_cells(monkeypatch):
    a = people(sizes=(40, 50, 60), steps=10)
    exact = a.profile.band(random_state=0)
    monkeypatch.setattr(inference, "MANY_PAIRS", 1)
    bound = a.profile.band(random_state=0)
    assert (bound.half_width > exact.half_width).all()
    assert (bound.half_width < 1.6 * exact.half_width).all()


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("parity", LABELS)
@pytest.mark.parametrize("sizes", [(40, 55), (31, 60, 44), (33, 35, 50, 47)])
def test_dkw_is_the_formula(parity, sizes, level):
    """ln(4/α) for two groups, ln(2k/α) for k; with two strata ln(8/α) and ln(4k/α)."""
    a = people(parity, sizes)
    inside = {1: 2 * len(sizes), 2: 4 * len(sizes)}[len(LABELS[parity])]
    if parity == "demographic_parity" and len(sizes) == 2:
        assert inside == 4
    if parity == "equalized_odds" and len(sizes) == 2:
        assert inside == 8
    n = a.counts
    witness = [
        math.sqrt(math.log(inside / (1 - level)) / (2 * n[i]))
        + math.sqrt(math.log(inside / (1 - level)) / (2 * n[j]))
        for i, j in a.pairs
    ]
    band = a.profile.band(level, "dkw")
    np.testing.assert_allclose(band.half_width.ravel(), witness, rtol=1e-12)
    assert (band.method, band.level) == ("dkw", level)


def test_dkw_of_the_compas_test_part():
    assert people(sizes=(631, 953)).profile.band(0.95, "dkw").half_width[0, 0] == pytest.approx(
        0.107, abs=5e-4
    )


def test_dkw_refuses_weights_that_differ():
    a = people(sizes=(40, 60))
    for weight in (np.full(100, 2.0), np.where(np.arange(100) < 10, 0.0, 2.0)):
        witness = a.take(weight > 0).profile.band(method="dkw").half_width
        np.testing.assert_array_equal(
            replace(a, weight=weight).profile.band(method="dkw").half_width, witness
        )
    weight = np.append(np.ones(99), 1.5)
    with pytest.raises(
        ValueError, match=r"^method='dkw' must have rows of equal weight, got unequal `sample_weight`"
    ):
        replace(a, weight=weight).profile.band(method="dkw")
    with pytest.raises(ValueError, match="equal weight"):
        replace(a, weight=weight).profile.certify(0.1, method="dkw")
    assert replace(a, weight=weight).profile.certify(0.1).method == "bootstrap"
    assert a.profile.certify(0.1).method == "dkw"


@law
def test_band_holds_the_gap_and_its_maximum_is_read_off(data, parity, n_groups, weighted):
    a = drawn(data, parity, n_groups, weighted)
    profile = a.profile
    for method in ("bootstrap",) if weighted else ("bootstrap", "dkw"):
        band = profile.band(0.9, method, 50, random_state=0)
        gap, width = band.gap, band.half_width[..., None]
        assert (band.lower <= gap).all()
        assert (gap <= band.upper).all()
        np.testing.assert_array_equal(band.lower, np.maximum(gap - width, -1))
        np.testing.assert_array_equal(band.upper, np.minimum(gap + width, 1))
        signed = [[r[i] - r[j] for i, j in combinations(range(n_groups), 2)] for r in profile.rates]
        np.testing.assert_array_equal(gap, signed)
        np.testing.assert_array_equal(band.thresholds, profile.thresholds)
        low = max(0, (np.abs(gap) - width).max())
        high = min(1, (np.abs(gap).max(axis=2) + band.half_width).max())
        assert band.max_gap == pytest.approx((profile.max_gap, low, high), abs=1e-15)
        lows, highs = band.gap_by_stratum
        assert (lows <= profile.gap_by_stratum + 1e-15).all()
        assert (profile.gap_by_stratum <= highs + 1e-15).all()
        worst = band.worst_gap
        np.testing.assert_array_equal(worst, (lows.max(axis=0), highs.max(axis=0)))
        assert (worst[0].max(), worst[1].max()) == band.max_gap[1:]


@law
def test_bands_are_nested_in_level(data, parity, n_groups, weighted):
    profile = drawn(data, parity, n_groups, weighted).profile
    for method in ("bootstrap",) if weighted else ("bootstrap", "dkw"):
        widths = [
            profile.band(level, method, 99, random_state=4).half_width for level in (0.5, 0.8, 0.95, 0.99)
        ]
        for narrow, wide in itertools.pairwise(widths):
            assert (narrow <= wide).all()


@pytest.mark.parametrize("method", ["bootstrap", "dkw"])
def test_bands_widen_with_level(method):
    profile = people("equalized_odds", (40, 55, 90)).profile
    assert (profile.band(0.5, method, 99, 0).half_width < profile.band(0.99, method, 99, 0).half_width).all()


@law
def test_an_increasing_map_changes_no_inference(data, parity, n_groups, weighted):
    """Bit for bit: all of it depends on the order of the scores alone."""
    a = drawn(data, parity, n_groups, weighted)
    b = replace(a, score=np.exp(3 * a.score) - 7)
    for one, two in ((a.profile, b.profile),):
        first, second = (p.band(0.9, n_resamples=40, random_state=5) for p in (one, two))
        np.testing.assert_array_equal(first.half_width, second.half_width)
        np.testing.assert_array_equal(first.lower, second.lower)
        assert first.max_gap == second.max_gap
        assert one.test(30, random_state=5) == two.test(30, random_state=5)
        assert one.certify(0.3) == two.certify(0.3)
        ranks = [p.intervals(level=0.9, n_resamples=40, random_state=5).rank_gap for p in (one, two)]
        assert ranks[0] == ranks[1]


@pytest.mark.parametrize("parity", LABELS)
def test_the_order_of_rows_changes_nothing(parity):
    a = people(parity, (40, 31, 52), steps=10)
    b = a.take(np.random.default_rng(1).permutation(len(a.y)))
    np.testing.assert_array_equal(
        a.profile.band(random_state=0).half_width, b.profile.band(random_state=0).half_width
    )
    one, two = (p.profile.intervals(0.5, random_state=0) for p in (a, b))
    assert one == two


def test_names_of_groups_change_the_order_of_pairs_alone():
    """Draws come cell by cell, so other names are other draws: 1000 of them agree within 6 %."""
    a = people(sizes=(60, 90, 200), steps=10)
    b = replace(a, group=np.array([{"a": "x", "b": "z", "c": "y"}[name] for name in a.group]))
    renamed = {("a", "b"): ("x", "z"), ("a", "c"): ("x", "y"), ("b", "c"): ("y", "z")}
    for method in ("bootstrap", "dkw"):
        one, two = (
            a.profile.band(method=method, random_state=0),
            b.profile.band(method=method, random_state=0),
        )
        assert set(two.pairs) == set(renamed.values())
        width = dict(zip(two.pairs, two.half_width[0], strict=True))
        for pair, w in zip(one.pairs, one.half_width[0], strict=True):
            assert w == pytest.approx(width[renamed[pair]], rel=0.06 if method == "bootstrap" else 1e-12)


def test_the_same_seed_gives_the_same_result():
    profile = people("equalized_odds", (40, 50, 60), steps=20, weighted=True).profile

    def everything(seed):
        band = profile.band(random_state=seed)
        return (
            band.half_width.tolist(),
            profile.test(99, seed),
            profile.intervals(0.5, random_state=seed),
            profile.discrimination(random_state=seed, n_resamples=40, level=0.9),
        )

    first, again, other = everything(1), everything(1), everything(2)
    assert first == again
    assert all(x != y for x, y in zip(first, other, strict=True))
    assert profile.certify(0.3) == profile.certify(0.3), "its default is a seed"
    rng = np.random.default_rng(0)
    assert (
        profile.band(random_state=rng).half_width.tolist()
        != profile.band(random_state=rng).half_width.tolist()
    )


@pytest.mark.parametrize("level", [0, 1, 95, float("nan"), "0.95"])
def test_levels_out_of_range(level):
    profile = people().profile
    for call in (profile.band, lambda level: profile.certify(0.1, level), profile.discrimination):
        with pytest.raises(ValueError, match=r"^`level` must be a number above 0 and below 1, got"):
            call(level=level)
    with pytest.raises(ValueError, match="`level` must be"):
        profile.intervals(level=level)


def test_settings_out_of_range():
    profile = people().profile
    with pytest.raises(ValueError, match=r"^`method` must be one of 'bootstrap', 'dkw', got 'exact'$"):
        profile.band(method="exact")
    with pytest.raises(
        ValueError, match=r"^`method` must be one of 'auto', 'bootstrap', 'dkw', got 'exact'$"
    ):
        profile.certify(0.1, method="exact")
    for call in (profile.band, profile.intervals, profile.discrimination):
        with pytest.raises(
            ValueError, match=r"^`n_resamples` must be a whole number of at least 19, got 18$"
        ):
            call(n_resamples=18)
        call(n_resamples=19)
        with pytest.raises(ValueError, match=r"at least 99, got 50$"):
            call(level=0.99, n_resamples=50)
        with pytest.raises(ValueError, match=r"at least 19, got 50\.5$"):
            call(n_resamples=50.5)
    for n in (0, -1, 2.5):
        with pytest.raises(ValueError, match=r"^`n_permutations` must be a whole number of at least 1, got"):
            profile.test(n)
    for threshold in (float("nan"), float("inf"), "0.5"):
        with pytest.raises(ValueError, match=r"^`threshold` must be a finite number"):
            profile.intervals(threshold)
    assert profile.band(0.9995, "dkw").level == 0.9995, "DKW draws nothing, so it needs no resamples"


def test_upper_quantile_is_a_rank():
    """The 95th of 99 values is exceeded with probability 5 % by the hundredth; all are needed of 19."""
    values = np.random.default_rng(0).permutation(99) + 1.0
    assert inference.upper_quantile(values, 0.95) == 95
    assert inference.upper_quantile(values[values <= 19], 0.95) == 19
    assert inference.upper_quantile(values, 0.9) == 90


@pytest.mark.parametrize("weighted", [False, True])
def test_what_may_have_gone_unseen_depends_on_the_smaller_group(weighted):
    """400 rows say nothing of what 40 others may miss; half the rows of weight 1e-9 are 20 effective ones."""
    group = np.repeat(["a", "b"], [40, 400])
    weight = np.where(np.arange(440) % 2, 1.0, 1e-9) if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallCellWarning)
        profile = threshold_profile(None, np.zeros(440), sensitive_features=group, sample_weight=weight)
    effective = 20 if weighted else 40
    width = profile.band(random_state=0).half_width[0, 0]
    assert width == pytest.approx(1 - 0.05 ** (1 / effective), rel=1e-6)


@pytest.mark.parametrize("tiny", [1e-140, 1e-170, 1e-290])
def test_groups_of_very_different_weight_have_the_same_band(tiny):
    """A group's distribution function is the same whatever its rows weigh, all alike."""
    a = people(sizes=(40, 90), steps=10)
    light = replace(a, weight=np.where(a.group == "b", tiny, 1.0))
    widths = [each.profile.band(n_resamples=50, random_state=0).half_width for each in (a, light)]
    np.testing.assert_allclose(*widths, rtol=1e-9)
    assert light.profile.test(50, random_state=0).p_value == a.profile.test(50, random_state=0).p_value


def test_nothing_warns_but_small_cells():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SmallCellWarning)
        profile = people("equalized_odds", (1, 2, 40), steps=3).profile
        profile.band(random_state=0)
        profile.intervals(0.5, random_state=0)
        profile.test(20, random_state=0)
        profile.certify(0.2)
        profile.discrimination(random_state=0)


@pytest.mark.parametrize("scale", [2.0**-700, 2.0**700])
def test_the_unit_of_the_weights_changes_no_bit(scale):
    """Squares of such weights are 0 or infinite: they are brought to size first, by a power of two."""
    rng = np.random.default_rng(0)
    score, group, weight = rng.random(90), np.repeat(["a", "b"], 45), rng.uniform(1, 2, 90)
    y = (rng.random(90) < score).astype(int)
    profiles = [
        threshold_profile(y, score, sensitive_features=group, sample_weight=w)
        for w in (weight, scale * weight)
    ]
    ours, theirs = (profile.band(0.9, n_resamples=50, random_state=0) for profile in profiles)
    assert np.array_equal(ours.lower, theirs.lower)
    assert np.array_equal(ours.upper, theirs.upper)
    p = [profile.test(n_permutations=50, random_state=0).p_value for profile in profiles]
    assert p[0] == p[1]
    areas = [profile.discrimination().overall for profile in profiles]
    assert areas[0].value == pytest.approx(areas[1].value, rel=1e-12)
    assert areas[0].low == pytest.approx(areas[1].low, rel=1e-12)
