"""Bands, tests, certificates and intervals, each against a witness that shares no code with it.

Brute force: the rows that the library draws are recorded, and the resampled people are then built and
measured one by one in plain NumPy. Where chance decides, the seed is fixed and the tolerance stated.
"""

import itertools
import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ks_2samp, kstest, kstwo, kstwobign
from sklearn.linear_model import PoissonRegressor

from evenrisk.exceptions import SmallCellWarning
from evenrisk.metrics import _permutation, _resampling, inference, threshold_profile
from evenrisk.metrics._resampling import Binned

LABELS = {  # the label of each stratum; None = everybody
    "demographic_parity": (None,),
    "equalized_odds": (0, 1),
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
}
small = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")


@dataclass(frozen=True)
class People:
    """Scored people and the rule they are compared by."""

    parity: str
    score: np.ndarray
    y: np.ndarray
    group: np.ndarray
    weight: np.ndarray | None = None

    @property
    def profile(self):
        return threshold_profile(
            self.y,
            self.score,
            sensitive_features=self.group,
            parity=self.parity,
            sample_weight=self.weight,
        )

    def take(self, rows):
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, score=self.score[rows], y=self.y[rows], group=self.group[rows], weight=weight)

    def cells(self):
        """Scores and weights of every cell, by stratum and then group, in ascending order of score."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        for label in LABELS[self.parity]:
            mine = (self.y == label) if label is not None else (self.y >= 0)
            for name in np.unique(self.group):
                rows = np.flatnonzero(mine & (self.group == name))
                rows = rows[np.argsort(self.score[rows], kind="stable")]
                yield self.score[rows], weight[rows]

    @property
    def counts(self):
        return np.array([len(score) for score, _ in self.cells()])

    @property
    def pairs(self):
        """Pairs of cells, stratum by stratum."""
        k = len(np.unique(self.group))
        return [
            (h * k + a, h * k + b)
            for h in range(len(LABELS[self.parity]))
            for a, b in combinations(range(k), 2)
        ]


def people(parity="demographic_parity", sizes=(40, 55), steps=None, weighted=False, seed=0, apart=0.15):
    """Draw people: `sizes` of each group in each label where the rule looks at it; `steps` makes ties."""
    rng = np.random.default_rng(seed)
    labels = (0, 1) if parity != "demographic_parity" else (0,)
    y, group = (np.concatenate(part) for part in zip(*_blocks(labels, sizes), strict=True))
    if parity == "demographic_parity":
        y = (rng.random(len(y)) < 0.4).astype(int)
    score = rng.random(len(y)) + apart * group + 0.2 * y
    if steps:
        score = np.round(score * steps) / steps
    weight = rng.choice([0.5, 1.0, 3.0], len(y)) if weighted else None
    order = rng.permutation(len(y))
    return People(parity, score, y, np.array(["b", "c", "a", "d"])[group], weight).take(order)


def _blocks(labels, sizes):
    for label, (g, n) in product(labels, enumerate(sizes)):
        yield np.full(n, label), np.full(n, g)


def below(score, weight, t):
    """Weighted share of scores at or below each t, by definition."""
    return np.array([weight[score <= x].sum() for x in t]) / weight.sum()


class Recorder(np.random.Generator):
    """A generator that remembers which numbers it drew, and what it permuted."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.rows, self.uniform, self.dealt = [], [], []

    def integers(self, *args, **kwargs):
        drawn = super().integers(*args, **kwargs)
        self.rows.append(np.array(drawn, dtype=int))
        return drawn

    def random(self, *args, **kwargs):
        self.uniform.append(super().random(*args, **kwargs))
        return self.uniform[-1]

    def permuted(self, *args, **kwargs):
        self.dealt.append(super().permuted(*args, **kwargs))
        return self.dealt[-1]

    def resamples(self, n_cells):
        """Rows, the rows that the added ones take their weight from, and where their scores lie, by cell."""
        tables = [(i, drawn) for i, drawn in enumerate(self.rows) if drawn.ndim == 2]
        parts = [[] for _ in range(n_cells)]
        for turn, ((i, rows), uniform) in enumerate(zip(tables, self.uniform, strict=True)):
            parts[turn % n_cells].append((rows, self.rows[i + 1] if len(uniform) else [], uniform))
        return [[np.concatenate(part) for part in zip(*cell, strict=True)] for cell in parts]


def moves(a, resamples):
    """F* − E F* of every cell in every resample, at every distinct score of people compared (b, c, m).

    A row number of n or more is an added row: its score is one of all distinct scores of the stratum alike,
    its weight some row's. The differences are stretched by √(n / (n − 1)).
    """
    cells, k = list(a.cells()), len(np.unique(a.group))
    t = np.unique(np.concatenate([score for score, _ in cells]))
    out = np.empty((len(resamples[0][0]), len(cells), len(t)))
    for c, ((score, weight), (rows, carried, uniform)) in enumerate(zip(cells, resamples, strict=True)):
        n, effective = len(score), weight.sum() ** 2 / (weight**2).sum()
        stratum = np.unique(np.concatenate([s for s, _ in cells[c // k * k : (c // k + 1) * k]]))
        more = math.ceil(4 * n / effective - 1e-9)
        expected = (n * below(score, weight, t) + more * below(stratum, 0 * stratum + 1, t)) / (n + more)
        scores, weights = score[rows % n], weight[rows % n]
        scores[rows >= n] = stratum[np.ceil(uniform * len(stratum)).astype(int) - 1]
        weights[rows >= n] = weight[np.array(carried, dtype=int)]
        for b in range(len(rows)):
            out[b, c] = below(scores[b], weights[b], t) - expected
        out[:, c] *= math.sqrt(effective / (effective - 1))
    return t, out


def half_widths(sups, level, fewest):
    """Half-widths from every pair's largest moves (b, p): the rank rule, balance and floor, written out."""
    scale = sups.mean(axis=0)
    largest = sorted((row / scale).max() for row in sups)
    width = largest[math.ceil((len(sups) + 1) * level) - 1] * scale
    floor = 1 - (1 - level) ** (
        1 / fewest
    )  # all of n rows alike has this chance where the share is 1 − floor
    return np.maximum(width, floor)


CASES = [
    (parity, sizes, steps, weighted)
    for parity in LABELS
    for sizes, steps, weighted in (
        ((40, 55), None, False),
        ((53, 68), 5, True),
        ((31, 60, 44), 8, False),
        ((51, 62, 56), None, True),
    )
]


# Bands against brute force


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
    monkeypatch.setattr(_resampling, "CHUNK", 3 * 3 * len(np.unique(a.score)))
    binned = Binned.of(a.profile._rows)
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
    monkeypatch.setattr(_resampling, "SMALL_CELL", 1)
    monkeypatch.setattr(_resampling, "ADDED_ROWS", 0)
    a = People(
        "demographic_parity", np.array([1, 2, 4, 1, 3, 3, 5.0]), np.zeros(7, int), np.array(list("aaabbbb"))
    )
    first, second = (np.array(list(product(range(n), repeat=n))) for n in (3, 4))
    rows = [np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))]
    binned = Binned.of(a.profile._rows)
    exact = inference._sups(binned, len(rows[0]), Every(rows))[:, 0]
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
    drawn = inference._sups(binned, 20_000, np.random.default_rng(0))[:, 0]
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


# The other ways to resample a cell


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
    sups = sups_of(Binned.of(a.profile._rows), list(a.counts).index(1), 40_000)
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
    sups = sups_of(Binned.of(a.profile._rows), 0, 20_000)
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
    sups = np.sort(sups_of(Binned.of(a.profile._rows), list(a.counts).index(n), 4000))
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
    heavy = sups_of(Binned.of(replace(a, weight=weight).profile._rows), alone, 2000)
    assert heavy.min() >= 0.49
    assert sups_of(Binned.of(a.profile._rows), alone, 2000).min() < 0.3


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
    binned = Binned.of(a.profile._rows)
    drawn = inference._sups(binned, 1000, np.random.default_rng(0))[:, 0]
    monkeypatch.setattr(_resampling, "LARGE_CELL", 100)
    rng = Recorder(1)
    normal = inference._sups(binned, 4000, rng)[:, 0]
    assert rng.rows == [], "no row is drawn"
    assert drawn.mean() == pytest.approx(normal.mean(), rel=0.04)
    for q in (0.5, 0.9, 0.95):
        assert np.quantile(drawn, q) == pytest.approx(np.quantile(normal, q), rel=0.05), q


def test_normal_form_of_like_groups_is_kolmogorovs_law(monkeypatch):
    monkeypatch.setattr(_resampling, "LARGE_CELL", 100)
    a = people(sizes=(4000, 6000), apart=0)
    sups = inference._sups(Binned.of(a.profile._rows), 3000, np.random.default_rng(0))[:, 0]
    scale = np.sqrt(1 / 4000 + 1 / 6000)
    assert sups.mean() == pytest.approx(kstwobign.mean() * scale, rel=0.03)
    assert np.quantile(sups, 0.95) == pytest.approx(kstwobign.ppf(0.95) * scale, rel=0.04)


def test_coarse_bins_lose_little(monkeypatch):
    """The largest of a bridge over m points is 0.58 / √m under that over all: 2.9 % of its mean at 512."""
    monkeypatch.setattr(_resampling, "MOST_BINS", 512)
    monkeypatch.setattr(_resampling, "ADDED_ROWS", 0)  # their scores depend on the bins
    a = people(sizes=(4000, 6000), apart=0.05)
    rows = a.profile._rows
    every, coarse = Binned.of(rows, most=10_000), Binned.of(rows, most=2000)
    assert (len(every.thresholds), len(coarse.thresholds)) == (10_000, 512)
    assert np.isin(coarse.thresholds, every.thresholds).all()
    assert coarse.thresholds[-1] == every.thresholds[-1]
    np.testing.assert_array_equal(coarse.mass.sum(axis=1), every.mass.sum(axis=1))
    monkeypatch.setattr(_resampling, "CHUNK", 2**24)  # one chunk: the same draws
    sups = [inference._sups(b, 600, np.random.default_rng(7))[:, 0] for b in (every, coarse)]
    assert (sups[1] <= sups[0] + 1e-12).all(), "the largest over a part of the same curve"
    assert sups[1].mean() / sups[0].mean() == pytest.approx(1 - 0.029, abs=0.01)


def test_coarse_bins_end_at_runs_of_ties(monkeypatch):
    monkeypatch.setattr(_resampling, "MOST_BINS", 64)
    a = people(sizes=(4000, 6000), steps=300)
    coarse = Binned.of(a.profile._rows, most=100)
    assert 50 <= len(coarse.thresholds) <= 64
    for c, (score, _) in enumerate(a.cells()):
        witness = [(score <= t).sum() for t in coarse.thresholds]
        np.testing.assert_array_equal(np.cumsum(coarse.mass[c]), witness)


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_the_limit_is_held_against_its_own_bins(monkeypatch, parity):
    """The largest over 64 bins is less than that over all scores, and so is what chance gives there."""
    a = people(parity, sizes=(900, 1400, 700), weighted=True, apart=0.02)
    every = _permutation.permutations(a.profile._rows, 1, 0).measured
    monkeypatch.setattr(_resampling, "MOST_BINS", 64)
    monkeypatch.setattr(_resampling, "ALL_BINS", 100)
    monkeypatch.setattr(_permutation, "LARGE_STRATUM", 100)
    coarse = _permutation.permutations(a.profile._rows, 1, 0).measured
    t = Binned.of(a.profile._rows).thresholds
    assert len(t) <= 64
    # the classes of scores in which weights are compared end at bins, and the mean square is over bins too
    assert coarse == pytest.approx(statistic_of(a, t), rel=1e-4)
    assert coarse < every


@small
def test_many_groups_are_bounded_by_the_sum_of_two_cells(monkeypatch):
    a = people(sizes=(40, 50, 60), steps=10)
    exact = a.profile.band(random_state=0)
    monkeypatch.setattr(inference, "MANY_GROUPS", 2)
    bound = a.profile.band(random_state=0)
    assert (bound.half_width > exact.half_width).all()
    assert (bound.half_width < 1.6 * exact.half_width).all()


# DKW


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


# The shape of a band


def drawn(data, parity, n_groups, weighted):
    """People with ties, every cell of one row at least."""
    row = st.tuples(st.integers(0, n_groups - 1), st.integers(0, 1), st.integers(0, 12), st.integers(1, 4))
    must = [(g, y, 3 * g + y, 1 + y) for g, y in product(range(n_groups), (0, 1))]
    group, y, score, weight = np.array(must + data.draw(st.lists(row, max_size=60))).T
    return People(
        parity, score / 4, y, np.array(["b", "c", "a"])[group], weight.astype(float) if weighted else None
    )


def law(test):
    """Run over every parity, 2 and 3 groups, with and without weights, on people that hypothesis draws."""
    cases = pytest.mark.parametrize(
        ("parity", "n_groups", "weighted"), list(product(LABELS, (2, 3), (False, True)))
    )
    return small(cases(settings(max_examples=8)(given(data=st.data())(test))))


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
def test_intervals_hold_their_value(data, parity, n_groups, weighted):
    profile = drawn(data, parity, n_groups, weighted).profile
    got = profile.intervals(1.5, level=0.9, n_resamples=50, random_state=0)
    values = (profile.max_gap, profile.mean_gap, profile.rank_gap, profile.at(1.5))
    for value, interval in zip(values, (got.max_gap, got.mean_gap, got.rank_gap, got.gap_at), strict=True):
        assert interval.value == value
        assert 0 <= interval.low <= value <= interval.high
    assert max(got.max_gap.high, got.rank_gap.high, got.gap_at.high) <= 1


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


def test_a_stretch_of_the_score_stretches_the_mean_gap_alone():
    a = people(sizes=(40, 60), steps=8)
    one, two = (p.profile.intervals(0.5, random_state=0) for p in (a, replace(a, score=4 * a.score)))
    np.testing.assert_allclose(two.mean_gap, np.multiply(one.mean_gap, 4), rtol=1e-12)
    assert one.max_gap == two.max_gap


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


# The permutation test


def within_binomial(p, alpha, times):
    """Whether P(p ≤ α) ≤ α, up to 3.5 standard errors."""
    return (p <= alpha + 1e-12).mean() <= alpha + 3.5 * math.sqrt(alpha * (1 - alpha) / times)


@small
@pytest.mark.parametrize(
    ("parity", "sizes", "steps", "weighted"),
    [
        ("demographic_parity", (25, 40), None, False),
        ("demographic_parity", (12, 30, 20), 4, True),
        ("equalized_odds", (10, 25), None, True),
        ("equalized_odds", (14, 20, 9), 3, False),
        ("equal_opportunity", (10, 25), 5, True),
    ],
)
def test_p_values_are_uniform_under_the_null(parity, sizes, steps, weighted):
    """500 samples without any difference. Ties between gaps are split by chance, which makes p exactly
    uniform: at most 1.63 / √500 from uniform, exceeded once in 100. The p-value itself may only be larger.
    """
    times, rng = 500, np.random.default_rng(8)
    split, p = [], []
    for seed in range(times):
        a = people(parity, sizes, steps, weighted, seed=seed, apart=0)
        result = a.profile.test(99, random_state=seed)
        p.append(result.p_value)
        _, drawn, measured = _permutation.permutations(a.profile._rows, 99, seed)
        larger = np.count_nonzero(drawn > measured * (1 + 1e-12))
        equal = np.count_nonzero(np.abs(drawn / measured - 1) <= 1e-12)
        assert p[-1] == (1 + larger + equal) / 100
        split.append((larger + rng.random() * (1 + equal)) / 100)
    ordered = np.sort(split)
    distance = np.abs(ordered - (np.arange(times) + 0.5) / times).max() + 0.5 / times
    assert distance <= 1.63 / math.sqrt(times)
    p = np.array(p)
    for alpha in (0.01, 0.05, 0.1, 0.2, 0.5):
        assert within_binomial(p, alpha, times), alpha


def rejections(times, sizes, draw, seed=0):
    """Share of `times` samples of noise whose p-value is at most 5 %; `draw(rng, group)` gives weights."""
    rng, found, group = np.random.default_rng(seed), 0, np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(times):
        score = rng.random(len(group))
        weight = draw(rng, group, score)
        score = np.where(score > 0.95, score, 0.0) if weight.max() == 5 else score
        profile = threshold_profile(None, score, sensitive_features=group, sample_weight=weight)
        found += profile.test(99, random_state=rng).p_value <= 0.05
    return found / times


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("ratio", [1e-6, 2.0, 9.0, 1e9])
def test_weights_of_whole_groups_change_nothing(parity, ratio):
    """A group's distribution function is the same whatever its rows weigh, all alike."""
    a = people(parity, (90, 40, 31), steps=12)
    weight = np.where(a.group == "b", ratio, 1.0)
    plain = a.profile.test(200, random_state=0)
    got = replace(a, weight=weight).profile.test(200, random_state=0)
    assert got.exact
    assert got.p_value == plain.p_value
    for one, two in zip(got.noise_floor_by_stratum, plain.noise_floor_by_stratum, strict=True):
        assert one.mean == pytest.approx(two.mean, rel=1e-9)
        assert one.p95 == pytest.approx(two.p95, rel=1e-9)


@pytest.mark.parametrize(
    ("sizes", "draw"),
    [
        ((450, 50), lambda rng, group, score: np.where(group == 1, 9.0, 1.0)),
        ((450, 50), lambda rng, group, score: np.where(group == 1, np.exp(rng.normal(size=500)), 1.0)),
        ((450, 50), lambda rng, group, score: np.where(group == 0, np.exp(rng.normal(size=500)), 5.0)),
        ((60, 60, 60), lambda rng, group, score: np.exp(3 * score) * (1 + group)),
        ((50, 50), lambda rng, group, score: np.where(score > 0.95, 5.0, 1.0)),
    ],
    ids=["of groups", "vary in the small group", "vary in the large group", "depend on the score", "rare"],
)
def test_weights_make_no_difference_out_of_noise(sizes, draw):
    """300 samples, 5 % plus or minus 3.5 (2.8 standard errors); benchmarks/false_alarms.py has many more.

    The rare heavy ones leave so few arrangements that the test can only be cautious.
    """
    assert (0.0 if len(sizes) == 2 and sizes[0] == 50 else 0.015) <= rejections(300, sizes, draw) <= 0.085


def test_a_difference_is_found():
    assert people(sizes=(60, 90), apart=0.5).profile.test(999, random_state=0).p_value == 0.001
    assert people(sizes=(60, 90), apart=0).profile.test(999, random_state=0).p_value > 0.05


def relative(a):
    """Weights divided by how heavy their group is among rows of about the same score, see below."""
    weight = np.ones(len(a.y)) if a.weight is None else a.weight.copy()
    codes = np.unique(a.group, return_inverse=True)[1]
    for rows in strata(a):
        ends = np.flatnonzero(np.append(np.diff(a.score[rows]) > 0, True))
        weight[rows] /= _permutation._scales(codes[rows], weight[rows], ends)[codes[rows]]
    return weight


def test_scales_of_weights_are_those_of_a_poisson_regression():
    """log E[w] = group + class of score, ten classes of equal size, by scikit-learn's regression."""
    rng = np.random.default_rng(0)
    score = np.sort(rng.random(500))
    group = rng.choice(3, 500, p=[0.5, 0.3, 0.2])
    weight = rng.exponential(size=500) * np.array([1.0, 9.0, 0.2])[group] * np.exp(3 * score)
    last = np.searchsorted(np.arange(500), np.linspace(0, 499, 11)[1:])
    classes = np.searchsorted(last, np.arange(500))
    design = np.column_stack([group == 1, group == 2, *(classes == c for c in range(1, 10))]).astype(float)
    witness = PoissonRegressor(alpha=0, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(
        design, weight
    )
    got = _permutation._scales(group, weight, np.arange(500))
    np.testing.assert_allclose(np.log(got[1:] / got[0]), witness.coef_[:2], atol=1e-6)


def test_scales_of_weights_do_not_depend_on_who_has_the_heavy_scores():
    """Weight 5 where the score is above 0, times 9 in one group: it has all such rows, none, or half."""
    score = np.repeat([0.0, 1.0], [90, 10])
    ends = np.array([89, 99])
    for group in (np.repeat([1, 0], [50, 50]), np.repeat([0, 1], [50, 50]), np.arange(100) % 2):
        weight = np.where(score > 0, 5.0, 1.0) * np.where(group == 1, 9.0, 1.0)
        got = _permutation._scales(group, weight, ends)
        assert got[1] / got[0] == pytest.approx(9, rel=1e-12)
    assert _permutation._scales(group, np.where(group == 1, 9.0, 1.0), ends).tolist() == [1, 9]


def noise(weight, inside):
    """Standard error, up to a factor, of the difference between those inside and the others."""
    return math.sqrt(sum((w**2).sum() / w.sum() ** 2 for w in (weight[inside], weight[~inside])))


def dealt_out(score, weight, group, dealt, t):
    """Max gap and statistic, by definition, of rows whose groups were `dealt` out anew."""
    everybody, moved, z = below(score, weight, t), [], []
    for g in np.unique(group):
        mine = dealt == g
        apart = below(score[mine], weight[mine], t) - below(score[~mine], weight[~mine], t)
        z.append(apart / noise(weight, mine))
        away = below(score[mine], weight[mine], t) - everybody
        # in units of the groups as they came: the noise of a difference, and the share of the others in F
        others = (weight[group != g].sum(), weight[~mine].sum())
        moved.append(away * noise(weight, group == g) / noise(weight, mine) * others[0] / others[1])
    z = np.array(z)
    return min(np.ptp(moved, axis=0).max(), 1.0), np.abs(z).max() + 1e-6 * (z**2).mean(axis=1).sum()


def strata(a):
    """Rows of each stratum, in the order of their scores."""
    for label in LABELS[a.parity]:
        rows = np.flatnonzero(a.y == label) if label is not None else np.arange(len(a.y))
        yield rows[np.argsort(a.score[rows], kind="stable")]


def statistic_of(a, t=None):
    """The test's statistic of the groups as they are, by definition."""
    weight, found = relative(a), []
    for rows in strata(a):
        at = np.unique(a.score[rows]) if t is None else t
        group = a.group[rows]
        found.append(dealt_out(a.score[rows], weight[rows], group, group, at)[1])
    return max(found)


def arrangements(a):
    """Gap and statistic of every way to deal the groups out, within labels where the rule looks at them."""
    weight, per_stratum = relative(a), []
    for rows in strata(a):
        t, group = np.unique(a.score[rows]), a.group[rows]
        gaps = [
            dealt_out(a.score[rows], weight[rows], group, np.array(dealt), t)
            for dealt in itertools.permutations(group.tolist())
        ]
        per_stratum.append(np.array(gaps).T)
    if len(per_stratum) == 1:
        return per_stratum[0]
    return [np.maximum.outer(*both).ravel() for both in zip(*per_stratum, strict=True)]


@small
@pytest.mark.parametrize(
    ("parity", "weighted"),
    [("demographic_parity", False), ("demographic_parity", True), ("equalized_odds", True)],
)
def test_p_value_equals_all_permutations(parity, weighted):
    """Five or six rows a stratum, every arrangement of the groups, against 20,000 drawn ones."""
    group, y = np.array(list("aabbbc")), np.zeros(6, int)
    score, weight = np.array([3, 5, 1, 2, 2, 4.0]), np.array([1, 2, 1, 3, 1, 2.0])
    if parity == "equalized_odds":
        group, y = np.append(group, list("aabbc")), np.append(y, np.ones(5, int))
        score, weight = np.append(score, [1, 2, 2, 5, 3]), np.append(weight, [2, 1, 1, 1, 4])
    a = People(parity, score, y, group, weight if weighted else None)
    law, statistics = arrangements(a)
    exact = (statistics >= statistic_of(a) - 1e-9).mean()
    assert 0.02 < exact < 0.98
    got = a.profile.test(20_000, random_state=0)
    assert got.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000) + 1e-4)
    assert got.noise_floor.mean == pytest.approx(law.mean(), abs=4 * law.std() / math.sqrt(20_000))
    assert got.exact == (not weighted)


@pytest.mark.parametrize(("parity", "sizes", "steps", "weighted"), CASES)
def test_permuted_gaps_equal_brute_force(parity, sizes, steps, weighted):
    a = people(parity, sizes, steps, weighted)
    rng = Recorder(6)
    got, statistics, measured = _permutation.permutations(a.profile._rows, 25, rng)
    assert measured == pytest.approx(statistic_of(a), rel=1e-10)
    weight, largest = relative(a), np.zeros(25)
    codes = np.unique(a.group, return_inverse=True)[1]
    for h, (rows, dealt) in enumerate(zip(strata(a), rng.dealt, strict=True)):
        t = np.unique(a.score[rows])
        for b, group in enumerate(dealt):
            assert sorted(group) == sorted(codes[rows])
            gap, found = dealt_out(a.score[rows], weight[rows], codes[rows], group, t)
            assert got[b, h] == pytest.approx(gap, abs=1e-12)
            largest[b] = max(largest[b], found)
    assert got.shape == (25, len(LABELS[parity]))
    np.testing.assert_allclose(statistics, largest, rtol=1e-10)


@small
def test_a_small_group_hides_no_other():
    """Two large groups differ; a dozen rows beside them, which move far by chance, do not matter."""
    rng = np.random.default_rng(1)
    score = np.concatenate([rng.normal(0, 1, 3000), rng.normal(0.12, 1, 3000), rng.normal(0, 1, 12)])
    group = np.repeat(["a", "b", "c"], [3000, 3000, 12])
    two = threshold_profile(None, score[:6000], sensitive_features=group[:6000]).test(random_state=0)
    three = threshold_profile(None, score, sensitive_features=group).test(random_state=0)
    assert two.p_value < 0.01
    assert three.p_value < 0.02
    assert three.noise_floor.mean > 2 * two.noise_floor.mean


def test_every_score_counts_up_to_the_limit():
    """60,000 distinct scores are more than the bins of a band, and fewer rows than the limit is for."""
    a = people(sizes=(25_000, 35_000))
    rng = Recorder(6)
    got = _permutation.permutations(a.profile._rows, 3, rng).max_gap[:, 0]
    ordered = np.sort(a.score)
    for gap, group in zip(got, np.concatenate(rng.dealt), strict=True):
        witness = ks_2samp(ordered[group == 0], ordered[group == 1], method="asymp").statistic
        assert gap == pytest.approx(witness, abs=1e-12)


def test_noise_floor_equals_scipys_statistic():
    """SciPy's statistic of 2000 permutations of our own, with ties: within 4 standard errors."""
    a = people(sizes=(40, 60), steps=6, apart=0.05)
    first, second = (score for score, _ in a.cells())
    both, rng, law = np.concatenate([first, second]), np.random.default_rng(0), []
    for _ in range(2000):
        rng.shuffle(both)
        law.append(ks_2samp(both[: len(first)], both[len(first) :], method="asymp").statistic)
    law = np.array(law)
    got = a.profile.test(4000, random_state=0)
    assert got.max_gap == pytest.approx(ks_2samp(first, second).statistic)
    error = math.sqrt(1 / 2000 + 1 / 4000)
    assert got.noise_floor.mean == pytest.approx(law.mean(), abs=4 * law.std() * error)
    assert got.noise_floor.p95 == pytest.approx(np.quantile(law, 0.95), abs=0.02)
    # equal gaps are told apart by the mean square, so p lies between counting them all and none of them
    most, least = (law >= got.max_gap - 1e-12).mean(), (law > got.max_gap + 1e-12).mean()
    assert 0.05 < least < most < 0.95
    assert least - 4 * 0.5 * error <= got.p_value <= most + 4 * 0.5 * error


def test_noise_floor_is_that_of_the_weights_as_they_are():
    """Uneven weights in the small group only: samples of noise have this gap on average, to 6 %."""
    rng, measured, said = np.random.default_rng(0), [], []
    group = np.repeat(["a", "b"], [800, 120])
    for _ in range(300):
        weight = np.where(group == "b", np.exp(rng.normal(0, 0.8, 920)), 1.0)
        profile = threshold_profile(None, rng.random(920), sensitive_features=group, sample_weight=weight)
        measured.append(profile.max_gap)
        said.append(profile.noise_floor(20, rng).mean)
    assert np.mean(said) == pytest.approx(np.mean(measured), rel=0.06)


def test_noise_floor_by_stratum():
    a = people("equalized_odds", (40, 31, 60), steps=10, weighted=True)
    both = a.profile.test(2000, random_state=0)
    assert len(both.noise_floor_by_stratum) == 2
    for rule, floor in zip(
        ("predictive_equality", "equal_opportunity"), both.noise_floor_by_stratum, strict=True
    ):
        alone = replace(a, parity=rule).profile.test(2000, random_state=1).noise_floor
        assert floor.mean == pytest.approx(alone.mean, rel=0.03)
    assert both.noise_floor.mean > max(floor.mean for floor in both.noise_floor_by_stratum)


@pytest.mark.parametrize("large", [100, 2000, 20_000], ids=["normal", "mixed", "drawn"])
@pytest.mark.parametrize(
    ("parity", "sizes", "steps", "weighted"),
    [
        ("demographic_parity", (900, 2100, 3000), 40, True),
        ("demographic_parity", (1900, 3000), None, False),
        ("equalized_odds", (1500, 2500), 100, True),
    ],
)
def test_the_limit_of_permutations_equals_permutations(monkeypatch, large, parity, sizes, steps, weighted):
    """Mean within 4 %, 95 % point within 6 %: 4 standard errors of a difference, with 1500 and 3000 draws.

    In the limit, groups above `large` rows move like a bridge, the others like rows drawn from everybody.
    """
    profile = people(parity, sizes, steps, weighted).profile
    exact = profile.test(1500, random_state=0)
    monkeypatch.setattr(_permutation, "LARGE_STRATUM", 1000)
    monkeypatch.setattr(_permutation, "LARGE_CELL", large)
    rng = Recorder(0)
    limit = profile.test(3000, random_state=rng)
    assert (exact.exact, limit.exact) == (not weighted, False)
    assert {rows.shape[1] for rows in rng.rows} == {n for n in sizes if n <= large}
    assert limit.noise_floor.mean == pytest.approx(exact.noise_floor.mean, rel=0.04)
    assert limit.noise_floor.p95 == pytest.approx(exact.noise_floor.p95, rel=0.06)
    for one, two in zip(exact.noise_floor_by_stratum, limit.noise_floor_by_stratum, strict=True):
        assert one.mean == pytest.approx(two.mean, rel=0.04)


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_the_p_value_of_the_limit(monkeypatch, parity):
    """Groups alike: within 4 standard errors of 2000 permutations."""
    profile = people(parity, (900, 1500), 50, True, seed=3, apart=0).profile
    exact = profile.test(2000, random_state=0).p_value
    assert 0.05 < exact < 0.95
    monkeypatch.setattr(_permutation, "LARGE_STRATUM", 1000)
    limit = profile.test(2000, random_state=1)
    assert not limit.exact
    assert limit.p_value == pytest.approx(exact, abs=4 * math.sqrt(2 * exact * (1 - exact) / 2000))


@pytest.mark.parametrize("large", [100, 20_000], ids=["mixed", "drawn"])
def test_the_limit_with_uneven_weights_in_a_small_group(monkeypatch, large):
    """The rows drawn for it are everybody's, of weight 1; the noise is that of its own weights."""
    rng, group = np.random.default_rng(0), np.repeat(["a", "b"], [3000, 90])
    weight = np.where(group == "b", np.exp(rng.normal(0, 0.8, 3090)), 1.0)
    profile = threshold_profile(None, rng.random(3090), sensitive_features=group, sample_weight=weight)
    permuted = profile.test(1500, random_state=0).noise_floor
    monkeypatch.setattr(_permutation, "LARGE_STRATUM", 1000)
    monkeypatch.setattr(_permutation, "LARGE_CELL", large)
    assert profile.test(3000, random_state=0).noise_floor.mean == pytest.approx(permuted.mean, rel=0.05)


def test_a_noise_floor_is_a_gap_whatever_the_weights():
    """One row of 20 has nearly all of its group's weight; rows that weigh next to nothing beside two."""
    rng, group = np.random.default_rng(0), np.repeat(["a", "b"], [1000, 40])
    heavy = np.where(np.arange(1040) == 1010, 200.0, 1.0)
    light = np.where(np.isin(np.arange(1040), [5, 1010]), 1.0, 1e-300)
    for weight in (heavy, light):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallCellWarning)
            profile = threshold_profile(
                None, rng.random(1040), sensitive_features=group, sample_weight=weight
            )
        test = profile.test(99, random_state=0)
        assert 0 < test.noise_floor.mean <= test.noise_floor.p95 <= 1
        assert 0.01 <= test.p_value <= 1


def test_from_which_size_on_the_limit_is_used(monkeypatch):
    profile = people(sizes=(40, 60)).profile
    for large, exact in ((100, True), (99, False)):
        monkeypatch.setattr(_permutation, "LARGE_STRATUM", large)
        rng = Recorder(0)
        assert profile.test(9, rng).exact == exact
        assert bool(rng.dealt) == exact


def test_one_large_stratum_is_enough_for_the_limit(monkeypatch):
    a = people("equalized_odds", (100, 200))
    kept = a.take((a.y == 0) | (np.random.default_rng(0).random(len(a.y)) < 0.5))
    monkeypatch.setattr(_permutation, "LARGE_STRATUM", 250)
    assert not kept.profile.test(9, 0).exact
    assert replace(kept, parity="equal_opportunity").profile.test(9, 0).exact


# Certificates


def shifted(n, gap, copies=1):
    """Two groups of n · copies rows whose measured max gap is `gap`, a multiple of 1/n."""
    score = np.arange(n)
    rows = np.concatenate([score, score + round(gap * n)])
    group = np.repeat(["a", "b"], n)
    return People(
        "demographic_parity", np.tile(rows, copies), np.zeros(2 * n * copies, int), np.tile(group, copies)
    )


def test_rows_needed_are_the_fields_figures():
    """Measured .02, limit .05, 95 %: 2 ln(80) / .03² rows by DKW, about 4,100 by the bootstrap."""
    profile = shifted(1000, 0.02).profile
    assert profile.max_gap == pytest.approx(0.02)
    dkw = profile.certify(0.05)
    assert dkw.verdict == "not decidable"
    assert dkw.rows_needed == math.ceil(2 * math.log(80) / 0.03**2) == 9738
    bootstrap = profile.certify(0.05, method="bootstrap", n_resamples=4000)
    assert bootstrap.verdict == "not decidable"
    assert bootstrap.rows_needed == pytest.approx(4100, rel=0.05)
    above = shifted(1000, 0.08).profile.certify(0.05)
    assert (above.verdict, above.rows_needed) == ("not decidable", 9738)


def test_rows_needed_count_cells():
    """ln(4k/α) under equalized odds with k groups, and the pair that is furthest from decided counts."""
    n = 200
    score = np.tile(np.concatenate([np.arange(n), np.arange(n) + 4, np.arange(n) + 2]), 2)
    y, group = np.repeat([0, 1], 3 * n), np.tile(np.repeat(list("abc"), n), 2)
    got = People("equalized_odds", score, y, group).profile.certify(0.05)
    assert got.max_gap.value == pytest.approx(0.02)
    assert got.rows_needed == math.ceil(2 * math.log(12 / 0.05) / 0.03**2)


def test_one_pair_above_the_limit_is_enough():
    """Gaps of .08, .12 and .20 against .05: the last is decided first, by 2 ln(2 · 3 / α) / .15² rows."""
    n = 100
    score = np.concatenate([np.arange(n), np.arange(n) + 8, np.arange(n) + 20])
    got = People(
        "demographic_parity", score, np.zeros(3 * n, int), np.repeat(list("abc"), n)
    ).profile.certify(0.05)
    assert got.max_gap.value == pytest.approx(0.2)
    assert (got.verdict, got.rows_needed) == ("not decidable", math.ceil(2 * math.log(120) / 0.15**2))


@pytest.mark.parametrize(("gap", "verdict"), [(0.02, "certified"), (0.08, "violated")])
def test_as_many_rows_as_needed_decide_and_fewer_do_not(gap, verdict):
    """DKW to 50 rows: 9,738 are needed; the same 50 rows 195 times are 9,750, 194 times 9,700."""
    for copies, expected in ((195, verdict), (194, "not decidable"), (156, "not decidable")):
        assert shifted(50, gap, copies).profile.certify(0.05).verdict == expected, copies


@pytest.mark.parametrize(("gap", "verdict"), [(0.02, "certified"), (0.08, "violated")])
def test_as_many_rows_as_needed_decide_by_the_bootstrap(gap, verdict):
    """2000 resamples know the half-width to 1.5 %, rows to 3 %: 10 % more decide, 20 % fewer do not."""
    needed = shifted(50, gap, 20).profile.certify(0.05, method="bootstrap", n_resamples=2000).rows_needed
    for factor, expected in ((1.1, verdict), (0.8, "not decidable")):
        profile = shifted(50, gap, round(factor * needed / 50)).profile
        assert profile.certify(0.05, method="bootstrap", random_state=1).verdict == expected, factor


def test_weighted_rows_need_more_of_them():
    """With weights 1 and 3 in turn a row is worth 4² / (2 · 10) = 0.8: Kish's effective number."""
    a = shifted(1000, 0.02)
    profile = replace(a, weight=np.where(np.arange(2000) % 2 == 0, 1.0, 3.0)).profile
    assert profile.max_gap == pytest.approx(0.02)
    heavy = profile.certify(0.05, n_resamples=4000)
    assert heavy.method == "bootstrap"
    assert heavy.rows_needed == pytest.approx(4100 / 0.8, rel=0.05)


@pytest.mark.parametrize("method", ["dkw", "bootstrap"])
def test_verdicts(method):
    a = people(sizes=(3000, 3000), apart=0.3)
    profile = a.profile
    interval = profile.band(method=method, random_state=0).max_gap
    for limit, verdict in (
        (interval.high, "certified"),
        (np.nextafter(interval.high, 0), "not decidable"),
        (interval.low, "not decidable"),
        (np.nextafter(interval.low, 0), "violated"),
        (1, "certified"),
    ):
        got = profile.certify(limit, method=method)
        assert (got.verdict, got.limit, got.method, got.level) == (verdict, limit, method, 0.95)
        assert got.max_gap == interval
        assert (got.rows_needed is not None) == (verdict == "not decidable")


def test_a_gap_at_the_limit_is_never_decided():
    a = People(
        "demographic_parity",
        np.repeat([0, 1, 0, 1], [10, 90, 40, 60]),
        np.zeros(200, int),
        np.repeat(["a", "b"], 100),
    )
    for limit in (0.3, 0.1 + 0.2):  # 0.9 − 0.6 is not 0.3 in its last digit
        got = a.profile.certify(limit)
        assert (got.verdict, got.rows_needed) == ("not decidable", None)


@pytest.mark.parametrize("limit", [0, 1.5, float("nan"), -0.1, "0.1", None, True])
def test_limits_out_of_range(limit):
    with pytest.raises(ValueError, match=r"^`max_gap` must be a number above 0 and at most 1, got"):
        people().profile.certify(limit)


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


# Intervals of the summaries


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


@pytest.mark.parametrize("weighted", [False, True])
def test_what_may_have_gone_unseen_is_told_by_the_smaller_group(weighted):
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
