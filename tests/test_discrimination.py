"""AUC and ABROCA by group against scikit-learn and brute force; decisions against confusion matrices."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm
from sklearn.metrics import accuracy_score, confusion_matrix, roc_auc_score, roc_curve

from evenrisk.metrics import decisions, resampling, threshold_profile
from evenrisk.metrics.groups import _delong, _on_grid, area_between, roc

small = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
SCORE, LABEL, WEIGHT = st.integers(0, 9), st.integers(0, 1), st.integers(1, 4)


@st.composite
def groups(draw, weighted, n_groups=2):
    """Scores with ties, labels, groups and weights; every group has both labels."""
    must = [(g, y, draw(SCORE), draw(WEIGHT)) for g, y in product(range(n_groups), (0, 1))]
    row = st.tuples(st.integers(0, n_groups - 1), LABEL, SCORE, WEIGHT)
    group, y, score, weight = np.array(must + draw(st.lists(row, max_size=30))).T
    return y, score / 8, np.array(["b", "c", "a"])[group], weight / 3 if weighted else None


def sample(n=400, steps=20, weighted=False, seed=0, n_groups=2):
    """A larger one: better told apart in one group than in the other."""
    rng = np.random.default_rng(seed)
    group, y = rng.integers(0, n_groups, n), (rng.random(n) < 0.4).astype(int)
    score = rng.standard_normal(n) + y * (0.5 + group)
    if steps:
        score = np.round(score * steps / 6)
    return y, score, np.array(["b", "c", "a"])[group], rng.choice([0.5, 1.0, 4.0], n) if weighted else None


def profile(y, score, group, weight, parity="demographic_parity"):
    return threshold_profile(y, score, sensitive_features=group, sample_weight=weight, parity=parity)


def taken(mask, *arrays):
    return [None if array is None else array[mask] for array in arrays]


# AUC


@small
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=40)
@given(data=st.data())
def test_auc_equals_scikit_learn(data, weighted):
    y, score, group, weight = data.draw(groups(weighted, 3))
    got = profile(y, score, group, weight).discrimination(level=0.5, n_resamples=2, random_state=0)
    assert got.overall.value == pytest.approx(roc_auc_score(y, score, sample_weight=weight), abs=1e-12)
    assert list(got.auc) == ["a", "b", "c"]
    for name, interval in got.auc.items():
        mine = taken(group == name, y, score, weight)
        assert interval.value == pytest.approx(roc_auc_score(*mine[:2], sample_weight=mine[2]), abs=1e-12)
    for interval in (got.overall, *got.auc.values()):
        assert 0 <= interval.low <= interval.value <= interval.high <= 1 + 1e-12
        assert interval.low < interval.high


def delong_by_hand(y, score):
    """DeLong's variance from all pairs of a positive and a negative, by two loops."""
    positives, negatives = score[y == 1], score[y == 0]
    wins = np.array([[(p > n) + (p == n) / 2 for n in negatives] for p in positives])
    by_positive, by_negative = wins.mean(axis=1), wins.mean(axis=0)
    return by_positive.var(ddof=1) / len(positives) + by_negative.var(ddof=1) / len(negatives)


@pytest.mark.parametrize("steps", [None, 6, 20])
def test_delong_equals_two_loops(steps):
    y, score, group, _ = sample(150, steps)
    rows = profile(y, score, group, None)._rows
    assert _delong(rows) == pytest.approx(delong_by_hand(y, score), rel=1e-10)
    copies = profile(y, score, group, np.full(150, 7.0))._rows
    assert _delong(copies) == pytest.approx(delong_by_hand(y, score), rel=1e-10), "weight 7 is not 7 rows"


@pytest.mark.parametrize("weighted", [False, True])
def test_delong_equals_the_bootstrap(weighted):
    """Resampling positives and negatives 3000 times gives a variance within 10 %: 4 standard errors."""
    y, score, group, weight = sample(300, 12, weighted)
    ours = _delong(profile(y, score, group, weight)._rows)
    rng = np.random.default_rng(1)
    weight = np.ones(300) if weight is None else weight
    positives, negatives = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    difference = score[positives][:, None] - score[negatives]
    wins = (difference > 0) + (difference == 0) / 2
    sides = []
    for rows in (positives, negatives):
        times = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), 3000)  # how often each is drawn
        sides.append(times * weight[rows] / (times @ weight[rows])[:, None])
    areas = np.einsum("bp,pn,bn->b", sides[0], wins, sides[1], optimize=True)
    assert ours == pytest.approx(np.var(areas), rel=0.1)


def wilson_by_hand(rate, n, level):
    """Roots of (rate − θ)² = z² θ(1 − θ) / n."""
    z2 = norm.ppf((1 + level) / 2) ** 2
    return np.sort(np.roots([1 + z2 / n, -2 * rate - z2 / n, rate**2]).real)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_auc_interval_is_wilsons_with_delongs_variance(level):
    y, score, group, _ = sample(400)
    got = profile(y, score, group, None).discrimination(level, 50, 0)
    for interval, mask in ((got.overall, y >= 0), (got.auc["b"], group == "b"), (got.auc["c"], group == "c")):
        value = roc_auc_score(y[mask], score[mask])
        n = value * (1 - value) / delong_by_hand(y[mask], score[mask])
        np.testing.assert_allclose(interval[1:], wilson_by_hand(value, n, level), atol=1e-10)


@small
def test_small_cells_take_the_largest_variance():
    """With 12 positives and 40 negatives no AUC is less certain than a rate among 12."""
    rng = np.random.default_rng(0)
    y = np.tile(np.repeat([0, 1], [40, 12]), 2)
    score, group = np.round(rng.standard_normal(104) + y, 1), np.repeat(["a", "b"], 52)
    got = profile(y, score, group, None).discrimination(random_state=0)
    for name in "ab":
        value = roc_auc_score(y[group == name], score[group == name])
        np.testing.assert_allclose(got.auc[name][1:], wilson_by_hand(value, 12, 0.95), atol=1e-10)


@small
@pytest.mark.parametrize("n", [29, 30])
def test_from_thirty_rows_of_each_label_the_variance_is_measured(n):
    rng = np.random.default_rng(0)
    y = np.tile(np.repeat([0, 1], [40, n]), 2)
    score, group = np.round(rng.standard_normal(len(y)) + y, 1), np.repeat(["a", "b"], 40 + n)
    got = profile(y, score, group, None).discrimination(random_state=0)
    mine = group == "a"
    value = roc_auc_score(y[mine], score[mine])
    measured = value * (1 - value) / delong_by_hand(y[mine], score[mine])
    assert measured > n + 1
    rows = n if n < 30 else measured
    np.testing.assert_allclose(got.auc["a"][1:], wilson_by_hand(value, rows, 0.95), atol=1e-10)


@pytest.mark.parametrize("n", [2, 100])
@small
def test_a_perfect_score_is_not_certain(n):
    """AUC 1 of n positives and n negatives: the interval of n hits in n, down to n / (n + z²)."""
    y, group = np.tile([0, 1], 2 * n), np.repeat(["a", "b"], 2 * n)
    got = profile(y, y + 0.0, group, None).discrimination(random_state=0)
    for interval in got.auc.values():
        assert interval == pytest.approx((1, n / (n + norm.ppf(0.975) ** 2), 1), abs=1e-12)
    assert got.abroca["a", "b"] == (0, 0, pytest.approx(1 - 0.05 ** (1 / n)))
    reverse = profile(y, -y, group, None).discrimination(random_state=0)
    assert reverse.auc["a"] == pytest.approx((0, 0, 1 - n / (n + norm.ppf(0.975) ** 2)), abs=1e-12)


def test_turning_the_score_turns_the_interval():
    y, score, group, weight = sample(400, weighted=True)
    up, down = (profile(y, sign * score, group, weight).discrimination(random_state=0) for sign in (1, -1))
    for one, two in ((up.overall, down.overall), (up.auc["b"], down.auc["b"])):
        assert (one.value, one.low, one.high) == pytest.approx((1 - two.value, 1 - two.high, 1 - two.low))


@small
def test_a_group_with_one_label_is_named_and_has_no_auc():
    y, score, group, _ = sample(300, n_groups=3)
    y = np.where(group == "c", 0, y)
    got = profile(y, score, group, None).discrimination(random_state=0)
    assert got.auc["c"] is None
    assert set(got.abroca) == {("a", "b")}
    assert got.overall.value == pytest.approx(roc_auc_score(y, score))
    rest = group != "c"
    alone = profile(*taken(rest, y, score, group), None).discrimination(random_state=0)
    assert (alone.auc["a"], alone.abroca) == (got.auc["a"], got.abroca)


def test_labels_are_required():
    _, score, group, _ = sample(200)
    for labels, came in ((None, "none"), (np.ones(200, int), "one label only")):
        with pytest.raises(
            ValueError, match=rf"^`y_true` must hold two labels where AUC is asked for, got {came}$"
        ):
            profile(labels, score, group, None).discrimination()


def test_the_rule_of_the_profile_does_not_matter():
    y, score, group, weight = sample(400, weighted=True)
    rules = ("demographic_parity", "equalized_odds", "equal_opportunity")
    results = [profile(y, score, group, weight, rule).discrimination(random_state=0) for rule in rules]
    assert results[0] == results[1] == results[2]


# ABROCA


def area_by_grid(one, two, n=200_000):
    """∫ |ROC − ROC| by scikit-learn's curves on a fine grid; one (y, score, weight) per group."""
    x = (np.arange(n) + 0.5) / n
    curves = []
    for y, score, weight in (one, two):
        fpr, tpr, _ = roc_curve(y, score, sample_weight=weight, drop_intermediate=False)
        curves.append(np.interp(x, fpr, tpr))
    return np.abs(curves[0] - curves[1]).mean()


@small
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=60)
@given(data=st.data())
def test_area_between_equals_an_integral(data, weighted):
    """Ties, jumps and crossings as they come; a jump costs the grid 1/200,000 at most."""
    y, score, group, weight = data.draw(groups(weighted))
    parts = [taken(group == name, y, score, weight) for name in "bc"]
    got = profile(y, score, group, weight).discrimination(level=0.5, n_resamples=2, random_state=0)
    assert got.abroca["b", "c"].value == pytest.approx(area_by_grid(*parts), abs=1e-4)
    assert got.abroca["b", "c"].low <= got.abroca["b", "c"].value <= got.abroca["b", "c"].high


@pytest.mark.parametrize(("steps", "weighted"), [(None, False), (8, True)])
def test_area_between_of_larger_groups(steps, weighted):
    y, score, group, weight = sample(2000, steps, weighted)
    score = np.where((group == "b") & (y == 1), score * 3, score)  # a spread that makes the curves cross
    parts = [taken(group == name, y, score, weight) for name in "bc"]
    curves = [
        np.interp(np.linspace(0.01, 0.99, 99), *roc_curve(*part[:2], sample_weight=part[2])[:2])
        for part in parts
    ]
    assert (curves[0] > curves[1] + 0.01).any(), "they cross"
    assert (curves[0] < curves[1] - 0.01).any(), "they cross"
    got = profile(y, score, group, weight).discrimination(0.9, 20, 0)
    assert got.abroca["b", "c"].value == pytest.approx(area_by_grid(*parts), abs=1e-5)


@small
def test_areas_by_hand():
    """Four rows: told apart perfectly in a (ROC = 1), not at all in b (ROC = x): ½."""
    four = profile(np.array([0, 1, 0, 1]), [1, 2, 1, 1], ["a", "a", "b", "b"], None)
    assert four.discrimination(0.5, 2, 0).abroca["a", "b"].value == pytest.approx(0.5)
    # c: its only positive between two negatives, 0 up to ½ and then 1; against x that is ⅛ + ⅛
    five = profile(np.array([0, 1, 0, 0, 1]), [1, 2, 3, 1, 1], ["c", "c", "c", "b", "b"], None)
    assert five.discrimination(0.5, 2, 0).abroca["b", "c"].value == pytest.approx(0.25)
    # against 1 − x turned about ½, a slope of 2 that crosses within a piece: |2x − 1 − (x − ¼)| …
    steep = (np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.75, 1.0]))
    kinked = (np.array([0.0, 1.0]), np.array([0.25, 1.0]))
    # steep − kinked is −¼ at 0, +⅛ at ½, 0 at 1: zero at ⅓; ½·⅓·¼ + ½·⅙·⅛ + ½·½·⅛
    assert area_between(steep, kinked) == pytest.approx(1 / 24 + 1 / 96 + 1 / 32)
    assert area_between(kinked, steep) == area_between(steep, kinked)
    assert area_between(steep, steep) == 0


def test_roc_equals_scikit_learn():
    y, score, group, weight = sample(300, 12, weighted=True)
    rows = profile(y, score, group, weight)._rows
    fpr, tpr, _ = roc_curve(y, score, sample_weight=weight, drop_intermediate=False)
    np.testing.assert_allclose(roc(rows), (fpr, tpr), atol=1e-12)


def test_a_curve_that_turns_back_is_read_as_its_running_maximum():
    """A small cell moved as everybody moves may leave the order: fpr 0, 0.7, 0.5, 1 reads 0, 0.7, 0.7, 1."""
    got = _on_grid(np.array([[[0.5, 0.3, 1]]]), np.array([[[0.2, 0.6, 1]]]), np.array([0.6, 0.9]))
    np.testing.assert_allclose(got[0, 0], [0.4 * 6 / 7, 0.8 + 0.2 * 2 / 3])


class Recorder(np.random.Generator):
    """A generator that remembers which rows it drew."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.rows = []

    def integers(self, *args, **kwargs):
        drawn = super().integers(*args, **kwargs)
        self.rows.append(np.asarray(drawn, dtype=int))
        return drawn


@pytest.mark.parametrize(("steps", "weighted", "n_groups"), [(None, False, 2), (10, True, 2), (15, True, 3)])
def test_interval_of_abroca_equals_brute_force(monkeypatch, steps, weighted, n_groups):
    """As wide as the 90 % point of ∫ |(ROC* − ROC)_a − (ROC* − ROC)_b|, resampled groups built one by one.

    The library compares at 512 false-positive rates, the witness at 20,000: within 0.003.
    """
    monkeypatch.setattr(resampling, "ADDED_ROWS", 0)  # how rows are added is a matter of the bands' tests
    y, score, group, weight = sample(400 * n_groups // 2, steps, weighted, n_groups=n_groups)
    rng = Recorder(2)
    got = profile(y, score, group, weight).discrimination(0.9, 40, rng)
    names, x = np.unique(group), (np.arange(20_000) + 0.5) / 20_000
    cells = {}
    for drawn, (label, name) in zip(rng.rows, product((0, 1), names), strict=True):
        rows = np.flatnonzero((y == label) & (group == name))
        cells[name, label] = rows[np.argsort(score[rows], kind="stable")], drawn

    def curve(rows):
        part = taken(rows, y, score, weight)
        return np.interp(x, *roc_curve(*part[:2], sample_weight=part[2], drop_intermediate=False)[:2])

    moved = {}
    for name in names:
        (negatives, n), (positives, p) = cells[name, 0], cells[name, 1]
        still = curve(group == name)
        moved[name] = [curve(np.append(negatives[n[b]], positives[p[b]])) - still for b in range(40)]
    for (a, b), interval in got.abroca.items():
        areas = sorted(np.abs(one - two).mean() for one, two in zip(moved[a], moved[b], strict=True))
        width = areas[math.ceil(41 * 0.9) - 1]
        assert interval.high - interval.value == pytest.approx(width, abs=0.003)
        assert interval.low == pytest.approx(max(interval.value - width, 0), abs=0.003)
    assert len(got.abroca) == n_groups * (n_groups - 1) // 2


# Decisions


def matrix(y, score, weight, t):
    table = confusion_matrix(y, score > t, labels=[0, 1], sample_weight=weight)
    return table.ravel()  # tn, fp, fn, tp


def ratio(a, b):
    return a / b if b > 0 else math.nan


@small
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=12)
@given(data=st.data())
def test_decisions_equal_confusion_matrices(data, weighted):
    y, score, group, weight = data.draw(groups(weighted, 3))
    thresholds = [0.5, -1.0, 0.0, 0.3, 9 / 8, 5.0]  # on the scores, between them and outside, in no order
    got = decisions(y, score, sensitive_features=group, thresholds=thresholds, sample_weight=weight)
    assert got.groups == ("a", "b", "c")
    np.testing.assert_array_equal(got.thresholds, thresholds)
    for (i, name), (j, t) in product(enumerate(got.groups), enumerate(thresholds)):
        part = taken(group == name, y, score)
        tn, fp, fn, tp = matrix(*part, None, t)
        assert (got.rows[i], got.positives[i]) == (tn + fp + fn + tp, fn + tp)
        assert (got.selected[i, j], got.true_positives[i, j]) == (fp + tp, tp)
        tn, fp, fn, tp = matrix(*part, taken(group == name, weight)[0], t)
        witness = {
            "selection_rate": ratio(fp + tp, tn + fp + fn + tp),
            "tpr": ratio(tp, fn + tp),
            "fpr": ratio(fp, tn + fp),
            "ppv": ratio(tp, fp + tp) if got.selected[i, j] else math.nan,
            "accuracy": ratio(tn + tp, tn + fp + fn + tp),
        }
        for rate, value in witness.items():
            assert getattr(got, rate)[i, j] == pytest.approx(value, abs=1e-12, nan_ok=True), rate
        assert got.weight[i] == pytest.approx(tn + fp + fn + tp)
        assert got.selected_weight[i, j] == pytest.approx(fp + tp, abs=1e-12)


@small
def test_rates_that_nobody_has_are_not_numbers():
    y, group = np.array([0, 0, 1, 1]), np.array(list("aabb"))
    weight = np.array([0.1, 0.2, 0.3, 0.7])
    at = decisions(y, [1, 2, 1, 2], sensitive_features=group, thresholds=[1, 2], sample_weight=weight)
    np.testing.assert_array_equal(np.isnan(at.tpr), [[True, True], [False, False]])
    np.testing.assert_array_equal(np.isnan(at.fpr), [[False, False], [True, True]])
    np.testing.assert_array_equal(np.isnan(at.ppv), [[False, True], [False, True]])
    np.testing.assert_allclose(at.accuracy, [[1 / 3, 1], [0.7, 0]], atol=1e-15)


def test_overall_accuracy_is_everybodys():
    y, score, group, weight = sample(300, 12, weighted=True)
    plain = decisions(y, score, sensitive_features=group, thresholds=[0, 2])
    for t, got in zip((0, 2), plain.overall_accuracy(0.9), strict=True):
        right = int(((score > t) == y).sum())
        ends = binomtest(right, 300).proportion_ci(0.9, "wilson")
        assert got == pytest.approx((right / 300, ends.low, ends.high), abs=1e-12)
    heavy = decisions(y, score, sensitive_features=group, thresholds=2, sample_weight=weight)
    witness = accuracy_score(y, score > 2, sample_weight=weight)
    (got,) = heavy.overall_accuracy()
    assert got.value == pytest.approx(witness, abs=1e-12)
    n = weight.sum() ** 2 / (weight**2).sum()
    np.testing.assert_allclose(got[1:], wilson_by_hand(witness, n, 0.95), atol=1e-10)
    with pytest.raises(ValueError, match="`level` must be"):
        heavy.overall_accuracy(1)


@small
def test_decisions_without_labels():
    at = decisions(None, [1, 2, 3, 4], sensitive_features=list("abab"), thresholds=2)
    assert at.selected.tolist() == [[1], [1]]
    assert (at.positives, at.true_positives) == (None, None)
    for rate in ("tpr", "fpr", "ppv", "accuracy"):
        with pytest.raises(ValueError, match=r"^`y_true` is required for rates by label, got None$"):
            getattr(at, rate)


@pytest.mark.parametrize("thresholds", [[], [[0.5]], float("nan"), [0.1, float("nan")], "0.5", None])
def test_thresholds_out_of_range(thresholds):
    y, score, group, _ = sample(200)
    with pytest.raises(ValueError, match="`thresholds` must be"):
        decisions(y, score, sensitive_features=group, thresholds=thresholds)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "parity", ["demographic_parity", "equalized_odds", "equal_opportunity", "predictive_equality"]
)
def test_selection_rate_counts_everybody(parity, weighted):
    """All rows, whatever the rule compares; people move capacity, not thresholds."""
    y, score, group, weight = sample(400, 12, weighted)
    got = profile(y, score, group, weight, parity)
    witness = [np.average(score > t, weights=weight) for t in got.thresholds]
    np.testing.assert_allclose(got.selection_rate, witness, atol=1e-12)
    assert (np.diff(got.selection_rate) <= 0).all()
    if parity == "equal_opportunity":
        mine = y == 1
        among = [np.average(score[mine] > t, weights=taken(mine, weight)[0]) for t in got.thresholds]
        assert np.abs(np.subtract(among, witness)).max() > 0.05
