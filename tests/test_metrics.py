"""The gap at every threshold: laws over all parities × {2, 3 groups} × {weights or not}, and their witnesses.

Hypothesis draws whole-number weights, 0 among them, so that repeating a row is a witness for weighting it,
and scores in sixteenths, so that there are ties.
"""

import inspect
import pickle
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, kstwobign, wasserstein_distance
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold, cross_validate

from evenrisk import FairLogisticRegression, metrics
from evenrisk.datasets import load_compas
from evenrisk.metrics import NoiseFloor, risk_distribution, threshold_profile
from optional import need
from worlds import world

LABELS = {  # the label of each stratum; None = everybody
    "demographic_parity": (None,),
    "equalized_odds": (0, 1),
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
}
SUMMARIES = ("max_gap", "mean_gap", "rank_gap", "worst_threshold", "worst_stratum")
PAPER = np.linspace(0.3, 0.7, 41)
small = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")


@dataclass(frozen=True)
class Audit:
    """Scores of people, and the rule they are compared by."""

    parity: str
    score: np.ndarray
    y: np.ndarray
    group: np.ndarray
    weight: np.ndarray | None

    @property
    def profile(self):
        names = {"sensitive_features": self.group, "parity": self.parity, "sample_weight": self.weight}
        return threshold_profile(self.y, self.score, **names)

    def take(self, rows):
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, score=self.score[rows], y=self.y[rows], group=self.group[rows], weight=weight)

    def repeated(self):
        """Every row as often as it weighs."""
        times = 1 if self.weight is None else self.weight.astype(int)
        return replace(self.take(np.repeat(np.arange(len(self.y)), times)), weight=None)

    def strata(self):
        """For each stratum, each group's scores, with repetition for weight."""
        rows = self.repeated()
        for label in LABELS[self.parity]:
            mine = (rows.y == label) if label is not None else (rows.y >= 0)
            yield [rows.score[mine & (rows.group == name)] for name in np.unique(self.group)]

    def gap(self, t):
        """The gap at t in each stratum, in exact arithmetic."""
        for cells in self.strata():
            rates = [Fraction(int((cell > t).sum()), len(cell)) for cell in cells]
            yield max(rates) - min(rates)


@st.composite
def audits(draw, parity, n_groups, weighted):
    """Every group and label has a row at least."""
    score, weight = st.integers(0, 16), st.integers(1, 4)
    must = [(g, y, draw(score), draw(weight)) for g, y in product(range(n_groups), (0, 1))]
    row = st.tuples(st.integers(0, n_groups - 1), st.integers(0, 1), score, st.integers(0, 4))
    group, y, score, weight = np.array(must + draw(st.lists(row, max_size=25))).T
    return Audit(parity, score / 16, y, np.array(["b", "c", "a"])[group], weight if weighted else None)


def law(test):
    """Run over every parity, 2 and 3 groups, with and without weights, on audits that hypothesis draws."""
    cases = pytest.mark.parametrize(
        ("parity", "n_groups", "weighted"), list(product(LABELS, (2, 3), (False, True)))
    )
    return small(cases(settings(max_examples=25)(given(data=st.data())(test))))


@law
def test_max_gap_is_the_worst_ks_statistic(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    pairs = [pair for cells in a.strata() for pair in combinations(cells, 2)]
    witness = max(ks_2samp(*pair, method="exact").statistic for pair in pairs)
    assert a.profile.max_gap == pytest.approx(witness, abs=1e-14)


@law
def test_mean_gap_is_the_integral_and_the_wasserstein_distance(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    integral = sum(np.mean(list(a.gap(j / 16))) for j in range(16)) / 16  # exact: scores are sixteenths
    assert a.profile.mean_gap == pytest.approx(float(integral), abs=1e-14)
    if n_groups == 2:
        witness = np.mean([wasserstein_distance(*cells) for cells in a.strata()])
        assert a.profile.mean_gap == pytest.approx(witness, abs=1e-14)


@law
def test_rank_gap_is_the_mean_over_people_of_the_gap_at_their_score(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    means = []
    for i, cells in enumerate(a.strata()):
        people = np.concatenate(cells)
        means.append(np.mean([float(list(a.gap(t))[i]) for t in people]))
    assert a.profile.rank_gap == pytest.approx(np.mean(means), abs=1e-14)


@law
def test_curve_at_every_threshold(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    profile = a.profile
    t = np.arange(-1, 36) / 32  # on the scores, between them, and outside
    by_stratum = np.array([[float(gap) for gap in a.gap(x)] for x in t]).T
    np.testing.assert_allclose(profile.at(t), by_stratum.mean(axis=0), atol=1e-15)
    assert [profile.at(x) for x in t] == profile.at(t).tolist()
    assert profile.at(-1 / 32) == profile.at(35 / 32) == 0
    on = np.isin(t, profile.thresholds)
    np.testing.assert_allclose(profile.gap_by_stratum, by_stratum[:, on], atol=1e-15)
    np.testing.assert_array_equal(profile.gap, profile.at(profile.thresholds))
    paper = [float(np.mean(list(a.gap(x)))) for x in PAPER]
    assert profile.interval() == pytest.approx(max(paper) - min(paper), abs=1e-14)
    assert profile.std() == pytest.approx(np.std(paper, ddof=0), abs=1e-14)


@law
def test_worst_threshold_is_the_smallest_maximiser_in_the_worst_stratum(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    thresholds = np.unique(np.concatenate([cell for cells in a.strata() for cell in cells]))
    by_stratum = list(zip(*(a.gap(t) for t in thresholds), strict=True))
    worst = max(map(max, by_stratum))
    allowed = {float(thresholds[gaps.index(worst)]) for gaps in by_stratum if max(gaps) == worst}
    assert a.profile.worst_threshold in allowed


@law
def test_weights_equal_repetition(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    ours, witness = a.profile, a.repeated().profile
    for name in SUMMARIES:
        assert getattr(ours, name) == getattr(witness, name), name
    for name in ("thresholds", "rates", "gap", "gap_by_stratum"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(witness, name))


def test_a_group_without_weight_is_absent():
    a = audit()
    nobody = replace(a, weight=np.where(a.group == "y", 0, a.weight))
    assert nobody.profile.groups == ("x", "z")
    assert nobody.profile.max_gap == a.take(a.group != "y").profile.max_gap


def test_rounding_does_not_break_ties_between_thresholds():
    """The gap is 0.9 − 0.8 at 1 and 0.8 − 0.7 at 2, which is larger in floating point only."""
    score = np.repeat([1, 2, 3, 1, 2, 3], [40, 40, 320, 80, 40, 280])
    assert threshold_profile(None, score, sensitive_features=np.repeat([0, 1], 400)).worst_threshold == 1


@law
def test_an_increasing_map_changes_nothing(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    before = a.profile
    value, rank = np.unique(a.score, return_inverse=True)
    numbers = st.floats(-1e6, 1e6, width=32).map(lambda x: x + 0.0)
    drawn = data.draw(st.lists(numbers, min_size=len(value), max_size=len(value), unique=True))
    for image in (np.exp(value), 3 * value + 2, (value - 0.5) ** 3, np.sort(drawn)):
        after = replace(a, score=image[rank]).profile
        assert after.max_gap == before.max_gap
        assert after.rank_gap == before.rank_gap
        assert after.worst_threshold == image[value == before.worst_threshold]


@law
def test_names_and_order_change_nothing(data, parity, n_groups, weighted):
    a = data.draw(audits(parity, n_groups, weighted))
    order = data.draw(st.permutations(range(len(a.y))))
    other = {"a": 9, "b": 7, "c": 8}  # another order among the groups, too
    b = replace(a, group=np.array([other[name] for name in a.group])).take(list(order))
    for name in SUMMARIES:
        assert getattr(a.profile, name) == getattr(b.profile, name), name
    np.testing.assert_array_equal(a.profile.gap_by_stratum, b.profile.gap_by_stratum)


@small
@settings(max_examples=25)
@given(data=st.data())
def test_equalized_odds_is_the_mean_of_its_strata_and_the_worst_of_them(data):
    a = data.draw(audits("equalized_odds", 3, True))
    both = a.profile
    parts = [replace(a, parity=name).profile for name in ("predictive_equality", "equal_opportunity")]
    np.testing.assert_allclose(both.at(PAPER), np.mean([part.at(PAPER) for part in parts], axis=0))
    np.testing.assert_array_equal(both.gap, both.gap_by_stratum.mean(axis=0))
    assert both.max_gap == max(part.max_gap for part in parts)
    for name in ("mean_gap", "rank_gap"):
        assert getattr(both, name) == pytest.approx(np.mean([getattr(p, name) for p in parts]), abs=1e-14)


def audit(parity="demographic_parity", n_groups=3, weighted=True, n=240):
    """One larger audit: risks with ties, unequal groups."""
    w = world(parity, n_groups, weighted, n)
    score = np.round(1 / (1 + np.exp(-w.g)), 2)
    return Audit(parity, score, w.y, np.array(["x", "z", "y"])[w.group], w.weight if weighted else None)


FAIRLEARN = {
    "demographic_parity": ("selection_rate",),
    "equalized_odds": ("false_positive_rate", "true_positive_rate"),
    "equal_opportunity": ("true_positive_rate",),
    "predictive_equality": ("false_positive_rate",),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parity", LABELS)
def test_rates_equal_fairlearn(parity, weighted):
    fairlearn = need("fairlearn.metrics")
    a = audit(parity, weighted=weighted, n=600)
    for t in np.quantile(a.score, (0.05, 0.3, 0.5, 0.9), method="nearest"):  # somebody scores just t
        for i, name in enumerate(FAIRLEARN[parity]):
            frame = fairlearn.MetricFrame(
                metrics=getattr(fairlearn, name),
                y_true=a.y,
                y_pred=(a.score > t).astype(int),
                sensitive_features=a.group,
                sample_params={"sample_weight": a.weight} if weighted else None,
            )
            np.testing.assert_allclose(a.profile.rates_at(t)[i], frame.by_group.sort_index(), rtol=1e-13)
            if len(FAIRLEARN[parity]) == 1:
                assert a.profile.at(t) == pytest.approx(frame.difference(), abs=1e-14)


@small
def test_four_rows_by_hand():
    """Selected above 1: all of b and 2/3 of a's weight; above 2: 1/4 of b and none of a."""
    profile = threshold_profile(
        None, [1, 2, 2, 5], sensitive_features=["a", "a", "b", "b"], sample_weight=[1, 2, 3, 1]
    )
    np.testing.assert_allclose(profile.rates, [[[2 / 3, 0, 0], [1, 1 / 4, 0]]])
    np.testing.assert_allclose(profile.gap, [1 / 3, 1 / 4, 0])
    assert (profile.max_gap, profile.worst_threshold) == (pytest.approx(1 / 3), 1)
    assert profile.mean_gap == pytest.approx(1 / 3 * 1 + 1 / 4 * 3)
    assert profile.rank_gap == pytest.approx((1 / 3 * 1 + 1 / 4 * 5 + 0 * 1) / 7)
    assert profile.at(2) == 0.25, "strictly above: those who score 2 are not selected at 2"
    assert profile.at(np.nextafter(2, 1)) == pytest.approx(1 / 3)
    assert profile.interval(1, 2) == pytest.approx(1 / 3 - 1 / 4)
    assert repr(profile) == (
        "ThresholdProfile(demographic_parity, groups a, b: "
        "max gap 0.333 at 1, rank gap 0.226, mean gap 1.083)"
    )


def test_a_constant_gap_has_no_interval_and_no_std():
    score = np.repeat([0.1, 0.9, 0.1, 0.9], [40, 60, 70, 30])
    profile = threshold_profile(None, score, sensitive_features=np.repeat(["a", "b"], 100))
    assert profile.max_gap == pytest.approx(0.3)
    assert profile.interval() == 0
    assert profile.std() == pytest.approx(0, abs=1e-16)


def test_labels_are_needed_only_where_the_rule_looks_at_them():
    a = audit()
    assert replace(a, y=None).profile.max_gap == a.profile.max_gap
    for parity in LABELS.keys() - {"demographic_parity"}:
        with pytest.raises(ValueError, match=f"^`y_true` is required under {parity}, got None$"):
            _ = replace(a, parity=parity, y=None).profile


def test_labels_of_any_kind_and_the_second_is_positive():
    a = audit("equal_opportunity", n=600)
    for labels in (np.array([1, 2]), np.array([-1, 1]), np.array([False, True])):
        assert replace(a, y=labels[a.y]).profile.max_gap == a.profile.max_gap
    with pytest.warns(UserWarning, match="'yes', the last in alphabetical order, is taken as the positive"):
        assert replace(a, y=np.array(["no", "yes"])[a.y]).profile.max_gap == a.profile.max_gap
    assert replace(a, y=1 - a.y).profile.max_gap != a.profile.max_gap


# The positive label

BAD = np.array(["good", "bad"])  # a high score means bad, the first in the alphabet


def kinds_of(labels):
    """The same labels in every form they may come in."""
    yield from (labels, labels.tolist(), labels.astype(object), labels[:, None], np.ma.MaskedArray(labels))
    yield from (pd.Series(labels), pd.Series(labels, dtype="category"), pd.DataFrame({"y": labels}))
    yield from (pa.array(labels.tolist()), pa.chunked_array([pa.array(labels.tolist()).dictionary_encode()]))


@pytest.mark.parametrize("parity", LABELS)
def test_the_positive_label_can_be_named(parity):
    a = audit(parity, n=600)
    data = {"sensitive_features": a.group, "sample_weight": a.weight}
    for labels in kinds_of(BAD[a.y]):
        named = threshold_profile(labels, a.score, parity=parity, pos_label="bad", **data)
        np.testing.assert_array_equal(named.rates, a.profile.rates)
        assert named.discrimination(0.5, 2, 0).overall == a.profile.discrimination(0.5, 2, 0).overall
    turned = threshold_profile(1 - a.y, a.score, parity=parity, pos_label=0, **data)
    np.testing.assert_array_equal(turned.rates, a.profile.rates)
    three = np.where(a.y == 1, "bad", np.array(["good", "fair"])[np.arange(600) % 2])
    rest = threshold_profile(three, a.score, parity=parity, pos_label="bad", **data)
    np.testing.assert_array_equal(rest.rates, a.profile.rates)


def test_decisions_and_distributions_by_the_positive_label():
    a = audit("equalized_odds", n=600)
    data = {"sensitive_features": a.group, "sample_weight": a.weight}
    ours = metrics.decisions(BAD[a.y], a.score, thresholds=0.5, pos_label="bad", **data)
    np.testing.assert_array_equal(ours.tpr, metrics.decisions(a.y, a.score, thresholds=0.5, **data).tpr)
    shown = risk_distribution(BAD[a.y], a.score, parity=a.parity, pos_label="bad", **data)
    np.testing.assert_array_equal(
        shown.density, risk_distribution(a.y, a.score, parity=a.parity, **data).density
    )


def test_a_guess_among_words_is_warned_of_where_it_counts():
    a = audit("equalized_odds", n=600)
    data = {"sensitive_features": a.group}
    told = r"^`y_true` has the labels 'bad', 'good': 'good', the last in alphabetical .*`pos_label`"
    for measure in (
        lambda y: threshold_profile(y, a.score, parity=a.parity, **data),
        lambda y: threshold_profile(y, a.score, **data).discrimination(0.5, 2),
        lambda y: metrics.decisions(y, a.score, thresholds=0.5, **data),
        lambda y: risk_distribution(y, a.score, parity=a.parity, **data),
        lambda y: metrics.max_equal_opportunity_difference(y, a.score, **data),
    ):
        for labels in (BAD[a.y], BAD[a.y].tolist(), pd.Series(BAD[a.y])):
            with pytest.warns(UserWarning, match=told) as caught:
                measure(labels)
            assert [warning.filename for warning in caught] == [__file__]
        measure(a.y)  # warnings are errors here
        measure(a.y == 1)
    threshold_profile(BAD[a.y], a.score, **data)
    risk_distribution(BAD[a.y], a.score, **data)


# Cut-offs in the precision of the scores

TENTHS = [0.1, 0.2, 0.3, 0.7]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_cut_off_is_read_in_the_precision_of_the_scores(kind):
    score, group = np.array(TENTHS * 40, kind), np.repeat(["a", "b"], [70, 90])
    weight = 1.0 + np.arange(160) % 3
    data = {"sensitive_features": group, "sample_weight": weight}
    asked = [*TENTHS, 0.15, 0.0, -1e300, 1e300, np.inf, -np.inf]
    profile = threshold_profile(None, score, **data)
    decided = metrics.decisions(None, score, thresholds=asked, **data)
    np.testing.assert_array_equal(decided.thresholds, asked)
    with np.errstate(over="ignore"):
        read = [float(kind(t)) for t in asked]
    for j, t in enumerate(asked):
        above = [
            float(weight[(group == g) & (score > kind(read[j]))].sum() / weight[group == g].sum())
            for g in "ab"
        ]
        np.testing.assert_allclose(profile.rates_at(t)[0], above, atol=1e-15)
        np.testing.assert_allclose(decided.selection_rate[:, j], above, atol=1e-15)
        assert profile.at(t) == pytest.approx(abs(above[0] - above[1]), abs=1e-15)
        assert profile.at(t) == profile.at(read[j]) == profile.at([0.5, t])[1]
    rates = [(score > t).mean() for t in TENTHS]  # NumPy's own reading
    np.testing.assert_array_equal(rates, [0.75, 0.5, 0.25, 0.0])
    assert profile.at(profile.worst_threshold) == profile.max_gap
    assert profile.thresholds.dtype == max(np.dtype(kind), np.dtype(np.float32))  # room for differences
    wide = threshold_profile(None, score.astype(float), **data)
    assert profile.mean_gap == pytest.approx(wide.mean_gap, rel=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        list,
        pd.Series,
        lambda score: pd.Series(score, dtype="Float32"),
        lambda score: np.ma.MaskedArray(score)[:, None],
        pa.array,
        lambda score: need("polars").Series(score),
    ],
)
def test_float32_scores_of_any_container(build):
    score = build(np.array(TENTHS * 40, np.float32))
    profile = threshold_profile(None, score, sensitive_features=["a", "b"] * 80)
    assert profile.rates_at(0.2).tolist() == [[0.5, 0.5]]
    assert str(profile.thresholds) == "[0.1 0.2 0.3 0.7]"


def test_ranges_and_intervals_in_the_precision_of_the_scores():
    score, group = np.array(TENTHS * 40, np.float32), ["a", "b", "b", "a"] * 40
    single, double = (
        threshold_profile(None, score.astype(kind).round(1), sensitive_features=group)
        for kind in (np.float32, np.float64)
    )
    assert double.at(0.2) == 0.0
    assert double.at(0.1) == 0.5
    for low, high in ((0.2, 0.3), (0.1, 0.2)):
        assert single.interval(low, high) == double.interval(low, high)
        assert single.std(low, high) == double.std(low, high)
    for t in TENTHS:
        ours, theirs = (each.intervals(t, 0.5, 10, 0).gap_at for each in (single, double))
        assert ours == theirs


@pytest.mark.parametrize("parity", LABELS)
def test_inputs_stay_as_they_were(parity):
    a = audit(parity, n=600)
    arrays = (a.score, a.y, a.group, a.weight)
    copies = [array.copy() for array in arrays]
    a.profile.noise_floor(3, random_state=0)
    risk_distribution(a.y, a.score, sensitive_features=a.group, parity=parity, sample_weight=a.weight)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_to_frame():
    one, two = audit(n=600).profile, audit("equalized_odds", n=600).profile
    assert one.to_frame().columns.tolist() == ["threshold", "gap", "rate of x", "rate of y", "rate of z"]
    frame = two.to_frame()
    columns = [
        [f"gap among {among}", *(f"rate of {name} among {among}" for name in "xyz")]
        for among in ("negatives", "positives")
    ]
    assert frame.columns.tolist() == ["threshold", "gap", *columns[0], *columns[1]]
    np.testing.assert_array_equal(frame["threshold"], two.thresholds)
    np.testing.assert_array_equal(frame["gap"], two.gap)
    np.testing.assert_array_equal(frame["gap among positives"], two.gap_by_stratum[1])
    np.testing.assert_array_equal(frame["rate of y among positives"], two.rates[1, 1])


def test_groups_of_any_name_stay_apart():
    groups = ["gap", "threshold", 1, "1"] * 40
    profile = threshold_profile(None, np.arange(160.0), sensitive_features=groups)
    assert profile.groups == ("1", "'1'", "'gap'", "'threshold'")
    assert profile.to_frame().shape == (160, 6)


def test_one_class_is_enough_where_labels_do_not_count():
    a = audit(n=600)
    alone = threshold_profile(np.ones(600), a.score, sensitive_features=a.group, sample_weight=a.weight)
    assert alone.max_gap == a.profile.max_gap


# A column of the attribute in every form it may come in

SEX, AGE = ["m", "f", "m", "m", "f", "m", "f"] * 10, [1, 1, 2, 1, 1, 2, 1] * 10  # no old women
ONE_COLUMN = {
    "list": lambda: SEX,
    "tuple": lambda: tuple(SEX),
    "numpy-str": lambda: np.array(SEX),
    "numpy-object": lambda: np.array(SEX, dtype=object),
    "numpy-column": lambda: np.array(SEX)[:, None],
    "pandas": lambda: pd.Series(SEX, index=range(70, 0, -1)),  # by position, not by index
    "pandas-string": lambda: pd.Series(SEX, dtype="string"),
    "pandas-category": lambda: pd.Series(SEX, dtype=pd.CategoricalDtype(["m", "x", "f"])),
    "pandas-frame": lambda: pd.DataFrame({"sex": SEX}),
    "polars": lambda: need("polars").Series("sex", SEX),
    "polars-category": lambda: need("polars").Series(SEX, dtype=need("polars").Categorical),
    "polars-frame": lambda: need("polars").DataFrame({"sex": SEX}),
    "arrow": lambda: pa.array(SEX),
    "arrow-dictionary": lambda: pa.array(SEX).dictionary_encode(),
    "arrow-chunked": lambda: pa.chunked_array([SEX[:30], SEX[30:]]),
    "arrow-table": lambda: pa.table({"sex": SEX}),
    "dict": lambda: {"sex": SEX},
}
TWO_COLUMNS = {
    "rows": lambda: list(zip(SEX, AGE, strict=True)),
    "numpy-object": lambda: np.array(list(zip(SEX, AGE, strict=True)), dtype=object),
    "pandas": lambda: pd.DataFrame({"sex": SEX, "age": AGE}),
    "pandas-unnamed": lambda: pd.DataFrame(list(zip(SEX, AGE, strict=True))),
    "polars": lambda: need("polars").DataFrame({"sex": SEX, "age": AGE}),
    "arrow": lambda: pa.table({"sex": SEX, "age": AGE}),
    "dict": lambda: {"sex": np.array(SEX), "age": AGE},
}
SCORE = np.random.default_rng(5).random(70)


@small
@pytest.mark.parametrize("build", ONE_COLUMN.values(), ids=ONE_COLUMN)
def test_one_column_of_any_kind(build):
    women = np.array(SEX) == "f"
    profile = threshold_profile(None, SCORE, sensitive_features=build())
    assert profile.groups == ("f", "m")
    assert profile.max_gap == pytest.approx(ks_2samp(SCORE[women], SCORE[~women]).statistic)
    assert profile.rates_at(0.5)[0, 0] == pytest.approx((SCORE[women] > 0.5).mean())


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([3, 10, 3, -1], ("-1", "3", "10")),  # in order of the numbers, not of their names
        ([True, False, True, True], ("False", "True")),
        ([0.5, 1.0, 2.5, 1.0], ("0.5", "1.0", "2.5")),
        (["b", 1, 2, "a"], ("1", "2", "a", "b")),  # mixed kinds have an order, too
        (["b", 10, 2, 1], ("1", "2", "10", "b")),
        (["10", "2", "1", "2"], ("1", "2", "10")),  # as a file gives numbers
        (["10", "-2.5", "1e1", "0"], ("-2.5", "0", "10", "1e1")),
        (["10", "2", "x", "1 a"], ("1 a", "2", "10", "x")),
        (["18-25", "9-17", "100+", "9-9"], ("9-9", "9-17", "18-25", "100+")),
        (["b", "B", "a10", "a9"], ("B", "a9", "a10", "b")),  # letters as Python sorts them
    ],
)
def test_groups_of_any_kind(values, groups):
    column = values * 35
    for attribute in (
        column,
        np.array(column, dtype=object),
        np.array(column) if "b" not in values else column,
    ):
        assert threshold_profile(None, np.arange(140.0), sensitive_features=attribute).groups == groups


DAYS = np.array(["2021-05-06", "2020-01-01"], "M8[D]")
DATES = {
    "days": lambda: DAYS,
    "nanoseconds": lambda: DAYS.astype("M8[ns]"),
    "list": lambda: list(DAYS.astype("M8[ns]")),
    "Python": lambda: DAYS.tolist(),
    "pandas": lambda: pd.Series(DAYS.astype("M8[ns]")),
    "Timestamps": lambda: pd.Series(DAYS.astype("M8[ns]")).tolist(),
    "arrow": lambda: pa.array(DAYS),
    "arrow-times": lambda: pa.chunked_array([DAYS.astype("M8[us]")]),
    "polars": lambda: need("polars").Series(DAYS.astype("M8[ns]")),
    "frame": lambda: pd.DataFrame({"since": DAYS.astype("M8[s]")}),
}


@small
@pytest.mark.parametrize("build", DATES.values(), ids=DATES)
def test_dates_are_named_as_dates(build):
    assert threshold_profile(None, [0.1, 0.2], sensitive_features=build()).groups == (
        "2020-01-01",
        "2021-05-06",
    )


@small
def test_times_and_zones_are_named():
    score, noon = [0.1, 0.2], DAYS.astype("M8[ns]") + np.timedelta64(12, "h")
    assert threshold_profile(None, score, sensitive_features=noon).groups[0] == "2020-01-01T12:00:00"
    berlin = pd.Series(DAYS.astype("M8[ns]")).dt.tz_localize("Europe/Berlin")
    names = ("2020-01-01T00:00:00+01:00", "2021-05-06T00:00:00+02:00")
    for column in (
        berlin,
        berlin.tolist(),
        pa.array(berlin),
        need("polars").Series(berlin),
        {"t": pa.array(berlin)},
    ):
        assert threshold_profile(None, score, sensitive_features=column).groups == names
    since = threshold_profile(None, score, sensitive_features=DAYS - DAYS[1])
    assert since.groups == ("0 days 00:00:00", "491 days 00:00:00")
    crossed = {"since": DAYS.astype("M8[ns]"), "sex": ["m", "f"]}
    assert threshold_profile(None, score, sensitive_features=crossed).groups == (
        "2020-01-01 × f",
        "2021-05-06 × m",
    )


@small
def test_very_many_columns_are_crossed():
    group = np.arange(160) % 3
    columns = np.repeat(group[:, None], 70, axis=1)  # 3⁷⁰ combinations
    columns[:, 5] = np.arange(160) % 2
    score = np.random.default_rng(0).random(160)
    profile = threshold_profile(None, score, sensitive_features=columns)
    two = threshold_profile(None, score, sensitive_features=columns[:, 4:6])
    np.testing.assert_array_equal(profile.rates, two.rates)
    assert two.groups[:3] == ("0 × 0", "0 × 1", "1 × 0")
    assert profile.groups[1].split(" × ") == ["0"] * 5 + ["1"] + ["0"] * 64


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([True, "True"], ("True", "'True'")),
        ([("a × b", "c"), ("a", "b × c")], ("('a', 'b × c')", "('a × b', 'c')")),
        (pd.Series([("a", "b"), "a × b"]), ("'a × b'", "('a', 'b')")),
        ([pd.Timestamp("2020-01-01"), "2020-01-01"], ("Timestamp('2020-01-01 00:00:00')", "'2020-01-01'")),
    ],
)
@small
def test_groups_that_are_written_alike_stay_apart(values, groups):
    assert threshold_profile(None, [0.1, 0.2], sensitive_features=values).groups == groups


@small
@pytest.mark.parametrize("build", TWO_COLUMNS.values(), ids=TWO_COLUMNS)
def test_crossed_columns_give_the_groups_that_occur(build):
    profile = threshold_profile(None, SCORE, sensitive_features=build())
    assert profile.groups == ("f × 1", "m × 1", "m × 2")
    cells = [SCORE[(np.array(SEX) == s) & (np.array(AGE) == a)] for s, a in (("f", 1), ("m", 1), ("m", 2))]
    witness = max(ks_2samp(*pair).statistic for pair in combinations(cells, 2))
    assert profile.max_gap == pytest.approx(witness)


# Scorers

SCORERS = [f"{statistic}_{parity}_difference" for statistic in ("max", "mean", "rank") for parity in LABELS]


def test_there_are_twelve_scorers():
    assert {name for name in metrics.__all__ if name.endswith("_difference")} == set(SCORERS)
    for name in SCORERS:
        scorer = getattr(metrics, name)
        assert pickle.loads(pickle.dumps(scorer)) is getattr(metrics.scorers, name) is scorer


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_equal_the_profile(name):
    statistic, parity = name.removesuffix("_difference").split("_", 1)
    a = audit(parity, n=600)
    scorer = getattr(metrics, name)
    ours = scorer(a.y, a.score, sensitive_features=a.group, sample_weight=a.weight)
    assert type(ours) is float
    assert ours == getattr(a.profile, f"{statistic}_gap")
    assert ours != scorer(a.y, a.score, sensitive_features=a.group)
    assert scorer.__name__ == name
    assert parity.replace("_", " ") in inspect.getdoc(scorer).splitlines()[0]


def test_a_scorer_of_a_named_label():
    w = world(n_groups=2, n=900)
    labels, group = BAD[w.y], np.array(["b", "a"])[w.group]
    model = FairLogisticRegression(eta=0).fit(w.X, labels)
    risk = model.predict_proba(w.X)[:, list(model.classes_).index("bad")]
    scorer = make_scorer(
        metrics.max_equal_opportunity_difference, response_method="predict_proba", pos_label="bad"
    )
    witness = threshold_profile(w.y, risk, parity="equal_opportunity", sensitive_features=group)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = scorer.set_score_request(sensitive_features=True)
        assert scorer(model, w.X, labels, sensitive_features=group) == witness.max_gap


def test_scorers_inside_cross_validate():
    w = world(n_groups=2, n=900)
    group, folds = np.array(["b", "a"])[w.group], KFold(3)
    given_to = {"sensitive_features": group, "sample_weight": w.weight}
    names = ("max_demographic_parity_difference", "rank_equalized_odds_difference")
    model = FairLogisticRegression(eta=0.05)
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = {
            name: make_scorer(
                getattr(metrics, name), response_method="predict_proba", greater_is_better=False
            ).set_score_request(sensitive_features=True, sample_weight=True)
            for name in names
        }
        model.set_fit_request(sample_weight=True)
        result = cross_validate(model, w.X, w.y, cv=folds, scoring=scoring, params=given_to)
    for i, (train, test) in enumerate(folds.split(w.X)):
        fitted = FairLogisticRegression(eta=0.05).fit(
            w.X[train], w.y[train], w.weight[train], sensitive_features=group[train]
        )
        s = fitted.predict_proba(w.X[test])[:, 1]
        for name in names:
            value = getattr(metrics, name)(
                w.y[test], s, sensitive_features=group[test], sample_weight=w.weight[test]
            )
            assert result[f"test_{name}"][i] == -value


# Noise floor


def test_noise_floor_needs_nothing_but_its_seed():
    profile = audit(n=300).profile
    assert profile.noise_floor(40, random_state=1) == profile.noise_floor(40, random_state=np.int64(1))
    assert profile.noise_floor(40, random_state=1) != profile.noise_floor(40, random_state=2)
    for kind in (np.random.default_rng, np.random.RandomState):
        assert profile.noise_floor(40, kind(1)) == profile.noise_floor(40, kind(1))
        assert profile.noise_floor(40, kind(1)) != profile.noise_floor(40, kind(2))
        same = kind(1)
        assert profile.noise_floor(40, same) != profile.noise_floor(40, same), "it goes on from where it was"
    np.random.seed(0)  # noqa: NPY002
    a = profile.noise_floor(40)
    np.random.seed(0)  # noqa: NPY002
    assert a != profile.noise_floor(40), "None is fresh chance, not NumPy's global state"
    assert profile.noise_floor().n_permutations == 1000


def test_noise_floor_summarises():
    assert NoiseFloor.of(np.arange(101.0) ** 2) == NoiseFloor(3350.0, 95.0**2, 101)


def permuted_gaps(a, *, within_label=True, weight_moves=True, times=800):
    """Brute force: deal the groups out anew, with their weights or without, and measure, by matrices."""
    rng = np.random.default_rng(11)
    above = a.score[:, None] > np.unique(a.score)
    gaps = []
    for _ in range(times):
        order = np.lexsort((rng.random(len(a.y)), a.y)) if within_label else rng.permutation(len(a.y))
        home = np.argsort(a.y, kind="stable") if within_label else np.arange(len(a.y))
        group, weight = np.empty_like(a.group), np.empty_like(a.weight)
        group[home], weight[home] = a.group[order], a.weight[order if weight_moves else home]
        rates = [
            [weight[cell] @ above[cell] / weight[cell].sum() for cell in cells]
            for cells in ([(a.y == label) & (group == g) for g in np.unique(a.group)] for label in (0, 1))
        ]
        gaps.append(np.ptp(rates, axis=1).max())
    return np.array(gaps)


@small
def test_noise_floor_equals_brute_force():
    """Within labels; weights that have nothing to do with the score are as good as moved with the groups.

    The wrong ways are far away: mixing labels, and mixing one group's uneven weights with the others'.
    """
    rng = np.random.default_rng(2)
    sizes = [60, 6, 6, 44, 10, 10]
    group, y = np.repeat(list("aabbcc"), sizes), np.repeat([0, 1] * 3, sizes)
    weight = np.where(group == "a", rng.choice([1.0, 8.0], len(y)), 1.0)
    a = Audit("equalized_odds", np.round(rng.random(len(y)) + 0.5 * y, 1), y, group, weight)
    right = permuted_gaps(a)
    floor = a.profile.noise_floor(800, random_state=0)
    tolerance = 4 * right.std() * np.sqrt(2 / 800)  # 4 standard errors of a difference of two means
    assert floor.mean == pytest.approx(right.mean(), abs=tolerance)
    assert floor.p95 == pytest.approx(np.quantile(right, 0.95), abs=0.03)
    for wrong in ({"within_label": False}, {"weight_moves": False}):
        assert abs(permuted_gaps(a, **wrong).mean() - right.mean()) > 2 * tolerance, wrong


def test_noise_floor_of_a_fair_score_on_compas():
    race = load_compas().sensitive_features.sample(1583, random_state=0)
    profile = threshold_profile(None, np.random.default_rng(0).random(1583), sensitive_features=race)
    floor = profile.noise_floor(1000, random_state=0)
    assert floor.mean == pytest.approx(0.045, abs=0.01)
    assert floor.p95 == pytest.approx(0.070, abs=0.01)
    counts = race.value_counts().to_numpy()
    scale = np.sqrt(counts.sum() / counts.prod())  # Kolmogorov's limit, 1000 draws
    assert floor.mean == pytest.approx(kstwobign.mean() * scale, abs=0.002)
    assert floor.p95 == pytest.approx(kstwobign.ppf(0.95) * scale, abs=0.004)


# Risk distributions


@pytest.mark.parametrize("parity", LABELS)
def test_densities_equal_a_count(parity):
    a = audit(parity, n=600)
    shown = risk_distribution(
        a.y, a.score, sensitive_features=a.group, parity=parity, sample_weight=a.weight, n_bins=8
    )
    np.testing.assert_array_equal(shown.edges, np.arange(9) / 8)
    assert (shown.groups, shown.parity.name) == (("x", "y", "z"), parity)
    for i, cells in enumerate(a.strata()):  # integer weights, by repetition
        for j, cell in enumerate(cells):
            share = [np.mean(np.minimum(cell * 8 // 1, 7) == b) for b in range(8)]
            np.testing.assert_allclose(shown.density[i, j], np.multiply(share, 8), rtol=1e-12)
    np.testing.assert_allclose((shown.density * np.diff(shown.edges)).sum(axis=-1), 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("score", "low", "high"),
    [
        ([-5, -3, -2, -1], -5, -1),
        ([300, 450, 480, 850], 300, 850),
        ([0.4, 0.5], 0, 1),
        ([0.0, 0.5], 0, 1),
        ([0.5, 1.0], 0, 1),  # both ends belong to it
        ([0.5, 1.25], 0.5, 1.25),
        ([-0.25, 0.5], -0.25, 0.5),
    ],
)
def test_bins_cover_the_unit_interval_or_the_range(score, low, high):
    score = np.tile(np.array(score), 60)
    shown = risk_distribution(
        None, score, sensitive_features=np.repeat(["a", "b"], len(score) // 2), n_bins=5
    )
    np.testing.assert_allclose(shown.edges, np.linspace(low, high, 6), rtol=1e-12)
    np.testing.assert_allclose((shown.density * np.diff(shown.edges)).sum(axis=-1), 1, rtol=1e-12)
