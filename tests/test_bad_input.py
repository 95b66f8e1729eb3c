"""Bad input: each is refused by a message that says what is required and what came."""

import pickle
import re
import warnings
from decimal import Decimal
from importlib import import_module

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from evenrisk import BudgetSearchCV, FairLogisticRegression, GapDistance, HistogramDistance, Parity
from evenrisk.exceptions import MisalignedIndexWarning, MissingSensitiveFeatures, SmallCellWarning
from evenrisk.metrics import decisions, risk_distribution, threshold_profile
from evenrisk.plots import ParityCurveDisplay
from evenrisk.report import audit
from optional import need
from worlds import world

WORLD = world(n=600)
N = len(WORLD.y)
GROUP = np.array(["b", "c", "a"])[WORLD.group]
RISK = 1 / (1 + np.exp(-WORLD.g))


def fit(*, X=WORLD.X, y=WORLD.y, sample_weight=None, sensitive_features=GROUP, **params):
    """Fit good data except what is given."""
    model = FairLogisticRegression(**{"eta": 0.05, **params})
    return model.fit(X, y, sample_weight=sample_weight, sensitive_features=sensitive_features)


def profile(*, y=WORLD.y, score=RISK, sensitive_features=GROUP, **kwargs):
    """Measure good data except what is given."""
    return threshold_profile(y, score, sensitive_features=sensitive_features, **kwargs)


def refused(message, kind=ValueError):
    """The whole message, word for word; … stands for anything."""
    return pytest.raises(kind, match="^" + re.escape(message).replace("…", ".*") + "$")


def but(values, row, value):
    """A list with one entry changed."""
    changed = list(values)
    changed[row] = value
    return changed


both = pytest.mark.parametrize("entry_point", [fit, profile])


def test_the_good_data_is_good():
    assert fit().groups_.tolist() == ["a", "b", "c"]
    assert profile().groups == ("a", "b", "c")


# The attribute


def test_missing_attribute():
    message = "`sensitive_features` is required when eta > 0, got None with eta=0.05. …"
    assert issubclass(MissingSensitiveFeatures, ValueError)
    with refused(message, MissingSensitiveFeatures):
        fit(sensitive_features=None)
    assert not hasattr(fit(sensitive_features=None, eta=0), "groups_")
    with refused("`sensitive_features` is required: the group of each row, got None"):
        profile(sensitive_features=None)


@both
def test_one_group(entry_point):
    with refused("`sensitive_features` must have 2 or more groups, got 1 ('Male')"):
        entry_point(sensitive_features=["Male"] * N)


def test_one_group_left_by_the_weights():
    weight = (GROUP == "a").astype(float)
    for entry_point in (fit, profile):
        with refused(
            "`sensitive_features` must have 2 or more groups among rows of positive weight, got 1 ('a')"
        ):
            entry_point(sample_weight=weight)


@both
def test_empty_cell(entry_point):
    y = np.where(GROUP == "c", 0, WORLD.y)
    for parity in ("equalized_odds", "equal_opportunity"):
        with refused(
            "`sensitive_features` must leave rows in every compared cell, got none in: "
            "group 'c' among positives"
        ):
            entry_point(y=y, parity=parity)
    entry_point(y=y, parity="predictive_equality")  # compares negatives, and c has some


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_cell_emptied_by_the_weights():
    weight = np.where((GROUP == "a") & (WORLD.y == 0), 0, WORLD.weight)
    for entry_point in (fit, profile):
        with pytest.raises(ValueError, match=r"got none in: group 'a' among negatives$"):
            entry_point(sample_weight=weight, parity="equalized_odds")


MISSING = {
    "list-None": lambda: but(GROUP, 4, None),
    "list-nan": lambda: but(GROUP, 4, float("nan")),
    "list-NA": lambda: but(GROUP, 4, pd.NA),
    "numpy-object": lambda: np.array(but(GROUP, 4, np.nan), dtype=object),
    "numpy-float": lambda: np.array(but(WORLD.group, 4, np.nan)),
    "pandas": lambda: pd.Series(but(GROUP, 4, None)),
    "pandas-string": lambda: pd.Series(but(GROUP, 4, pd.NA), dtype="string"),
    "pandas-Int64": lambda: pd.Series(but(WORLD.group, 4, pd.NA), dtype="Int64"),
    "pandas-boolean": lambda: pd.Series(but(WORLD.y == 1, 4, pd.NA), dtype="boolean"),
    "pandas-category": lambda: pd.Series(but(GROUP, 4, None), dtype="category"),
    "pandas-frame": lambda: pd.DataFrame({"u": WORLD.y, "sex": but(GROUP, 4, None)}),
    "polars": lambda: need("polars").Series(but(GROUP.tolist(), 4, None)),
    "polars-int": lambda: need("polars").Series(but(WORLD.group.tolist(), 4, None)),
    "polars-frame": lambda: need("polars").DataFrame({"sex": but(GROUP.tolist(), 4, None), "u": WORLD.y}),
    "arrow": lambda: pa.array(but(GROUP.tolist(), 4, None)),
    "arrow-bool": lambda: pa.chunked_array([but((WORLD.y == 1).tolist(), 4, None)]),
    "rows": lambda: but([[g, 1] for g in GROUP], 4, ["a", None]),
    "dict": lambda: {"sex": but(GROUP, 4, float("nan"))},
}


@both
@pytest.mark.parametrize("build", MISSING.values(), ids=MISSING)
def test_missing_values_in_the_attribute(entry_point, build):
    with pytest.raises(
        ValueError, match=r"^`sensitive_features` must not have missing values, got 1.*\(row 4\)\. Drop those"
    ):
        entry_point(sensitive_features=build())


def test_missing_values_name_their_column():
    frame = pd.DataFrame({"age": WORLD.y, "sex": but(GROUP, 7, None)})
    with pytest.raises(ValueError, match=r"got 1 in 'sex' \(row 7\)"):
        profile(sensitive_features=frame)
    with pytest.raises(ValueError, match=r"got 400 \(row 200, 201, 202, …\)"):
        profile(sensitive_features=[*GROUP[:200], *[None] * 400])


CHUNKED = pa.chunked_array([pa.array(but(GROUP.tolist(), 4, None)).dictionary_encode()])
HIDDEN = {
    # pyarrow itself makes a value of a null here
    "arrow-dictionary": lambda: CHUNKED,
    "arrow-table": lambda: pa.table({"sex": CHUNKED}),
    "arrow-dict": lambda: {"sex": CHUNKED},
    "arrow-null-in-dictionary": lambda: pa.chunked_array(
        [pa.DictionaryArray.from_arrays(but([0] * N, 4, 1), ["a", None])]
    ),
    "arrow-scalars": lambda: list(pa.array(but(GROUP.tolist(), 4, None))),
    "pandas-arrow-scalars": lambda: pd.Series(list(pa.array(but(GROUP.tolist(), 4, None))), dtype=object),
    "NaT": lambda: np.array(but(["2020-01-01"] * N, 4, "NaT"), "M8[s]"),
    "NaT-list": lambda: list(np.array(but(["2020-01-01"] * N, 4, "NaT"), "M8[s]")),
    "NaT-pandas": lambda: pd.Series(np.array(but(["2020-01-01"] * N, 4, "NaT"), "M8[s]")).dt.tz_localize(
        "UTC"
    ),
}


@both
@pytest.mark.parametrize("build", HIDDEN.values(), ids=HIDDEN)
def test_missing_values_that_hide(entry_point, build):
    with pytest.raises(ValueError, match=r"must not have missing values, got 1.*\(row 4\)\. Drop those"):
        entry_point(sensitive_features=build())


def test_missing_labels_that_hide():
    labels = pa.chunked_array([pa.array(but(LABELS, 4, None)).dictionary_encode()])
    for entry_point, name in ((fit, "y"), (profile, "y_true")):
        with refused(f"Input {name} contains NaN: `{name}` must not have missing values, got 1"):
            entry_point(y=labels)
    with refused("`y_true` must not have missing values, got 1"):
        profile(y=labels, pos_label="yes")


UNHASHABLE = {
    "list": lambda: pd.Series([["a"], ["b"]] * (N // 2)),
    "dict": lambda: [{"a": 1}, {"b": 2}] * (N // 2),
    "list of any length": lambda: [["a"], ["b", "c"]] * (N // 2),
    "numpy.ndarray": lambda: pa.array([["a"], ["b", "c"]] * (N // 2)),
    "dict in a frame": lambda: pd.DataFrame({"sex": GROUP, "more": [{}] * N}),
}


@both
@pytest.mark.parametrize("kind", UNHASHABLE)
def test_groups_that_are_no_values(entry_point, kind):
    came = f"entries of type {kind.split()[0]}"
    with refused(f"`sensitive_features` must have text, numbers, booleans or dates for entries, got {came}"):
        entry_point(sensitive_features=UNHASHABLE[kind]())


def test_groups_of_several_values():
    polars = need("polars")
    pairs = polars.Series([["a", "b"]] * N, dtype=polars.Array(polars.String, 2))
    with refused("`sensitive_features` must have one value per row, got shape (2,)"):
        profile(sensitive_features=pairs)


class Alike:
    """Two of them are two groups, and look like one."""

    def __repr__(self):
        return "Alike"


@both
def test_groups_that_cannot_be_told_apart(entry_point):
    one, two = Alike(), Alike()
    message = "`sensitive_features` must have groups of different names, got 2 groups that are written Alike"
    with refused(message):
        entry_point(sensitive_features=[one if group == "a" else two for group in GROUP])


@both
def test_too_many_groups(entry_point):
    X, y = np.zeros((1200, 1)), np.arange(1200) % 2
    message = "`sensitive_features` must have at most 200 groups, got 1200 distinct values in 1200 rows…"
    rows = {"X": X} if entry_point is fit else {"score": X[:, 0]}
    with refused(message):
        entry_point(y=y, sensitive_features=np.arange(1200) / 7, **rows)


@both
@pytest.mark.parametrize(
    ("attribute", "shape"),
    [(np.zeros((N, 1, 1)), f"({N}, 1, 1)"), (np.zeros((N, 0)), f"({N}, 0)")],
)
def test_attribute_of_no_shape(entry_point, attribute, shape):
    with refused(f"`sensitive_features` must be one column or several, shape (n,) or (n, m), got {shape}"):
        entry_point(sensitive_features=attribute)


@both
def test_the_name_of_a_column_is_not_the_column(entry_point):
    with refused("`sensitive_features` must be the column itself, one entry per row, got 'race'"):
        entry_point(sensitive_features="race")


@both
def test_groups_in_the_place_of_weights(entry_point):
    with refused("`sample_weight` must be numbers, got text. Groups are passed as `sensitive_features=`"):
        entry_point(sample_weight=GROUP)


@both
def test_the_same_labels_in_another_order_are_noticed(entry_point):
    first, other = pd.Series(WORLD.y), pd.Series(GROUP, index=np.arange(N)[::-1])
    with pytest.warns(
        MisalignedIndexWarning, match=r"`(y|y_true)` and `sensitive_features` have the same index"
    ):
        entry_point(y=first, sensitive_features=other)
    # other labels: by position
    entry_point(y=first, sensitive_features=pd.Series(GROUP, index=np.arange(N) + N))


@pytest.mark.parametrize("name", ["fit_intercept", "warm_start"])
def test_flags(name):
    with refused(f"`{name}` must be True or False, got 'no'"):
        fit(**{name: "no"})


@pytest.mark.parametrize("measure", ["interval", "std"])
def test_the_papers_range_misses_scores_in_other_units(measure):
    deciles = threshold_profile(None, np.ceil(10 * RISK), sensitive_features=GROUP)
    with pytest.warns(
        UserWarning, match=r"no score lies between 0.3 and 0.7: the scores run from \d+ to \d+"
    ):
        assert getattr(deciles, measure)() == 0
    assert getattr(deciles, measure)(3, 7) > 0


# X, y and scores


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_missing_values_in_X(bad, container):
    X = WORLD.X.copy()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"^Input X contains (NaN|infinity)"):
        fit(X=container(X))


LABELS = np.array(["no", "yes"])[WORLD.y].tolist()
MISSING_LABELS = {
    "float": lambda: np.array(but(WORLD.y, 2, np.nan)),
    "list-None": lambda: but(WORLD.y, 2, None),
    "text-None": lambda: but(LABELS, 2, None),
    "text-nan": lambda: but(LABELS, 2, float("nan")),
    "text-nan-only": lambda: [label if label == "yes" else float("nan") for label in LABELS],
    "object-nan": lambda: np.array(but(LABELS, 2, np.nan), dtype=object),
    "pandas-Int64": lambda: pd.Series(but(WORLD.y, 2, pd.NA), dtype="Int64"),
    "pandas-string": lambda: pd.Series(but(LABELS, 2, pd.NA), dtype="string"),
    "pandas-category": lambda: pd.Series(but(LABELS, 2, None), dtype="category"),
    "polars": lambda: need("polars").Series(but(LABELS, 2, None)),
    "arrow": lambda: pa.array(but(LABELS, 2, None)),
}


@both
@pytest.mark.parametrize("build", MISSING_LABELS.values(), ids=MISSING_LABELS)
def test_missing_values_in_y(entry_point, build):
    name = "y" if entry_point is fit else "y_true"
    with refused(f"Input {name} contains NaN: `{name}` must not have missing values, got …"):
        entry_point(y=build())


@both
def test_number_of_classes(entry_point):
    name = "y" if entry_point is fit else "y_true"
    with pytest.raises(ValueError, match=rf"`{name}` must have 2 classes, got 3 \(0, 1, 2\)$"):
        entry_point(y=np.arange(N) % 3)
    with refused(f"`{name}` must have 2 classes, got 1 class ('yes')"):
        entry_point(y=["yes"] * N, parity="equal_opportunity")
    with pytest.raises(ValueError, match=r"^Unknown label type: continuous"):
        entry_point(y=RISK)


def test_one_class_left_by_the_weights():
    with refused("`y` must have 2 classes among rows of positive weight, got 1 class"):
        fit(sample_weight=WORLD.y.astype(float))


@both
def test_lengths(entry_point):
    name = "y" if entry_point is fit else "y_true"
    with refused(f"`{name}` must have one entry per row, {N}, got {N - 1}"):
        entry_point(y=WORLD.y[1:])
    with refused(f"`sensitive_features` must have one entry per row, {N}, got {N + 1}"):
        entry_point(sensitive_features=[*GROUP, "a"])
    with refused(f"`sample_weight` must have shape ({N},), one weight per row, got ({N - 2},)"):
        entry_point(sample_weight=np.ones(N - 2))
    for shape in ((N, 1), ()):
        with refused(f"`sample_weight` must have shape ({N},), one weight per row, got {shape}"):
            entry_point(sample_weight=np.ones(shape))


@both
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(N), f"must have a positive entry, got {N} zeros"),
        (but(np.ones(N), 5, -0.5), f"must not be negative, got -0.5 in row 5 (1 of {N} rows)"),
        (but(np.ones(N), 5, np.nan), f"must be finite, got nan in row 5 (1 of {N} rows)"),
        (but(np.ones(N), 5, np.inf), f"must be finite, got inf in row 5 (1 of {N} rows)"),
    ],
)
def test_weights(entry_point, weight, message):
    with refused(f"`sample_weight` {message}"):
        entry_point(sample_weight=weight)


@pytest.mark.parametrize(
    "measure", [threshold_profile, risk_distribution, ParityCurveDisplay.from_predictions]
)
@pytest.mark.parametrize(
    ("score", "message"),
    [
        (but(RISK, 3, np.nan), f"must be finite, got nan in row 3 (1 of {N} rows)"),
        (but(RISK, 3, np.inf), f"must be finite, got inf in row 3 (1 of {N} rows)"),
        (but(RISK, 3, None), "must be …, got …"),
        (["high"] * N, "must be numbers, got text"),
        (np.array(["0.5"] * N), "must be numbers, got text"),
        (RISK + 1j, "must be numbers, got complex numbers"),
        (np.column_stack([1 - RISK, RISK]), f"must have one score per row, shape (n,), got shape ({N}, 2)"),
        (np.float64(0.5), "must have one score per row, shape (n,), got shape ()"),
        ([], "must have at least 1 row, got 0"),
    ],
)
def test_scores(measure, score, message):
    with pytest.raises(ValueError) as error:
        measure(WORLD.y, score, sensitive_features=GROUP)
    assert re.fullmatch(re.escape(f"`y_score` {message}").replace("…", ".*"), str(error.value))


DAYS = np.arange(N).astype("M8[D]")
TIMES = {
    "dates": DAYS,
    "times": DAYS - DAYS[0],
    "NaT": np.where(np.arange(N) == 4, np.datetime64("NaT"), DAYS),
    "list": list(DAYS - DAYS[0]),  # NumPy makes numbers of them
    "pandas": pd.Series(DAYS).dt.tz_localize("UTC"),
    "Python": DAYS.tolist(),
    "arrow": pa.array(DAYS.tolist()),
}


@pytest.mark.parametrize("values", TIMES.values(), ids=TIMES)
def test_dates_are_no_scores_weights_or_thresholds(values):
    with refused("`y_score` must be numbers, got dates or times"):
        profile(score=values)
    with refused("`t` must be numbers, got dates or times"):
        profile().at(values)
    for entry_point in (fit, profile):
        with refused("`sample_weight` must be numbers, got dates or times. …"):
            entry_point(sample_weight=values)


@both
@pytest.mark.parametrize("build", [np.array, list, pd.Series, lambda days: pa.array(days.tolist())])
def test_dates_are_no_labels(entry_point, build):
    name = "y" if entry_point is fit else "y_true"
    with refused(f"`{name}` must have labels that are numbers, text or booleans, got dates or times"):
        entry_point(y=build(DAYS[WORLD.y]))


@pytest.mark.parametrize("kind", ["M8[D]", "m8[s]"])
def test_dates_are_no_features(kind):
    days = np.arange(2 * N).reshape(N, 2).astype(kind)
    with refused("`X` must be numbers, got dates or times"):
        fit(X=days)
    with refused("`X` must be numbers, got dates or times"):
        fit(X=WORLD.X[:, :2], eta=0).predict(days)
    with refused("`X` must be numbers, got dates or times in 'born'"):
        fit(X=pd.DataFrame({"born": days[:, 0]}))


def test_not_a_time_is_no_label():
    with refused("`y_true` must have labels that are numbers, text or booleans, got dates or times"):
        profile(y=np.array(["2020-01-01", "NaT"], "M8[ns]")[WORLD.y])


LARGE = {
    "int64": lambda n: 2**60 + np.arange(n),
    "negative": lambda n: -(2**60) - np.arange(n),
    "uint64": lambda n: np.uint64(2**63) + np.arange(n, dtype=np.uint64),
    "list": lambda n: [2**70 + i for i in range(n)],
    "list-with-a-float": lambda n: [0.5, *(2**60 + i for i in range(n))][:n],
    "list-of-both-signs": lambda n: [-1, *(2**63 + i for i in range(n))][:n],
    "decimal": lambda n: [Decimal(2**60) + i for i in range(n)],
    "pandas": lambda n: pd.Series(2**60 + np.arange(n), dtype="Int64"),
    "object": lambda n: pd.Series([2**60 + i for i in range(n)], dtype=object),
    "column": lambda n: 2**60 + np.arange(n)[:, None],
    "polars": lambda n: need("polars").Series(2**60 + np.arange(n)),
    "arrow": lambda n: pa.array(2**60 + np.arange(n)),
}


@pytest.mark.parametrize("build", LARGE.values(), ids=LARGE)
def test_whole_numbers_that_float64_cannot_tell_apart(build):
    message = (
        r"^`y_score` must be numbers that differ in float64 too, got (\d+) distinct numbers of 2\*\*53 or "
    )
    with pytest.raises(
        ValueError, match=message + r"more that become \d: subtract a constant from all$"
    ) as error:
        profile(score=build(N))
    assert int(re.search(r"(\d+) distinct", str(error.value))[1]) in (N - 1, N)


def test_the_first_whole_number_that_is_no_float64():
    with refused(
        "`y_score` must be numbers that differ in float64 too, got 2 distinct numbers of 2**53 or …"
    ):
        profile(score=2**53 + np.arange(N) % 2)


def test_whole_numbers_that_float64_can_tell_apart():
    ranks = np.arange(N) % 7
    for score in (2**53 - 7 + ranks, 2**60 + 2**8 * ranks, [2**70 + 2**18 * int(i) for i in ranks]):
        assert len(profile(score=score).thresholds) == 7
        assert profile(score=score).max_gap == profile(score=ranks).max_gap


def test_numbers_beyond_float64():
    with refused("`y_score` must be numbers, got an integer too large for float64"):
        profile(score=but(WORLD.y.tolist(), 3, 10**400))
    with refused("`sample_weight` must be numbers, got an integer too large for float64. …"):
        profile(sample_weight=but(WORLD.y.tolist(), 3, 10**400))
    with refused(f"`eta` must be a finite number of at least 0, got 1{'0' * 59}"):
        fit(eta=10**400)


@pytest.mark.parametrize(
    ("t", "came"),
    [
        (np.nan, "numbers, one or several, got nan"),
        ([0.1, np.nan], "numbers, one or several, got [0.1, nan]"),
        (None, "numbers, one or several, got None"),
        (np.ma.MaskedArray([0.1, 0.2], mask=[False, True]), "numbers, one or several, got …"),
        ("x", "numbers, got text"),
        ("0.5", "numbers, got text"),
        (0.5j, "numbers, got complex numbers"),
        (10**400, "numbers, got an integer too large for float64"),
    ],
)
def test_thresholds(t, came):
    for ask in (profile().at, profile().rates_at):
        with pytest.raises(ValueError, match="^" + re.escape(f"`t` must be {came}").replace("…", "(?s:.*)")):
            ask(t)
    with pytest.raises(ValueError, match=r"^`thresholds` must be numbers"):
        decisions(None, RISK, sensitive_features=GROUP, thresholds=t)


def test_thresholds_of_no_shape():
    for t, shape in (([], "(0,)"), ([[0.1]], "(1, 1)")):
        with refused(f"`thresholds` must be one number or several, shape (r,), got shape {shape}"):
            decisions(None, RISK, sensitive_features=GROUP, thresholds=t)


@pytest.mark.parametrize("measure", ["interval", "std"])
def test_ranges_of_thresholds(measure):
    measured = getattr(profile(), measure)
    for low in (np.nan, np.inf, "0.3", None, np.timedelta64(0, "D")):
        with refused(f"`lo` must be a finite number, got {low!r}"):
            measured(low, 1)
    with refused("`hi` must be a finite number of at least 0.3, got nan"):
        measured(0.3, np.nan)
    with refused("`hi` must be a finite number of at least 0.7, got 0.3"):
        measured(0.7, 0.3)
    assert measured(0.5, 0.5) == 0


def test_a_threshold_that_is_a_time():
    no_time = np.timedelta64(0, "D")
    with refused(f"`threshold` must be a finite number, got {no_time!r}"):
        profile().intervals(no_time)


@pytest.mark.parametrize("label", ["maybe", 1, np.nan])
def test_a_positive_label_that_no_row_has(label):
    message = f"`pos_label` must be a label in `y_true` (…), got {label!r}"
    for parity in ("demographic_parity", "equal_opportunity"):
        with refused(message):
            profile(y=LABELS, pos_label=label, parity=parity)


def test_a_positive_label_that_all_rows_have():
    with refused("`y_true` must have 2 or more labels, got 1 ('yes')"):
        profile(y=["yes"] * N, pos_label="yes", parity="equal_opportunity")
    assert profile(y=["yes"] * N, pos_label="yes").max_gap == profile(y=["no"] * N, pos_label="yes").max_gap
    with refused("`pos_label` needs `y_true`, got 1 and no labels"):
        profile(y=None, pos_label=1)


@pytest.mark.parametrize("build", MISSING_LABELS.values(), ids=MISSING_LABELS)
def test_missing_values_beside_a_positive_label(build):
    with refused("`y_true` must not have missing values, got …"):
        profile(y=build(), pos_label="yes")


def test_labels_that_are_lists_beside_a_positive_label():
    with refused("`y_true` must have one label per row, shape (n,), got shape …"):
        profile(y=[["no", "yes"]] * N, pos_label="yes")
    with refused("`y_true` must have text, numbers, booleans or dates for entries, got entries of type dict"):
        profile(y=[{}] * N, pos_label="yes")
    with refused("`y_true` must have labels that are numbers, text or booleans, got dates or times"):
        profile(y=pd.Series(DAYS[WORLD.y]), pos_label=DAYS[0])


# Settings


@pytest.mark.parametrize("eta", [-1, -1e-9, np.nan, np.inf, "0.5", None, True])
def test_eta(eta):
    with refused(f"`eta` must be a finite number of at least 0, got {eta!r}"):
        fit(eta=eta)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": -1}, "`alpha` must be a finite number of at least 0, got -1"),
        ({"tol": 0}, "`tol` must be a finite number above 0, got 0"),
        ({"max_iter": 0}, "`max_iter` must be a whole number of at least 1, got 0"),
        ({"max_iter": 10.5}, "`max_iter` must be a whole number of at least 1, got 10.5"),
        ({"solver": "sag"}, "`solver` must be one of 'auto', 'lbfgs', …, got 'sag'"),
        ({"distance": "kl"}, "`distance` must be one of 'gap', …'histogram'…, got 'kl'"),
        ({"distance": "kl"}, "`distance` must be one of …'gaussian'… or a Distance instance, got 'kl'"),
    ],
)
def test_settings(params, message):
    with refused(message):
        fit(**params)


@both
def test_unknown_parity(entry_point):
    known = "'demographic_parity', 'equalized_odds', 'equal_opportunity', 'predictive_equality'"
    with refused(f"`parity` must be one of {known} or a Parity instance, got 'DP'"):
        entry_point(parity="DP")


@pytest.mark.parametrize(
    "window", [(-0.1, 0.5), (0.5, 1.1), (0.6, 0.2), (0.3, 0.3), (0, np.nan), (0.5,), 0.5]
)
def test_window(window):
    with refused(f"`window` must be (low, high) with 0 <= low < high <= 1, got {window!r}"):
        GapDistance(window=window)


@pytest.mark.parametrize(
    ("make", "setting", "bad", "message"),
    [
        (GapDistance, "scale", ["log", None], "must be 'score' or 'rank'"),
        (GapDistance, "n_thresholds", [1, 20.5, "a"], "must be a whole number, 2 or more"),
        (HistogramDistance, "n_bins", [1, 0, 20.5, "a"], "must be a whole number, 2 or more"),
        (HistogramDistance, "bandwidth", [0, -0.1, np.nan, np.inf, "a"], "must be a positive number or None"),
        (HistogramDistance, "floor", [0, -1e-6, np.nan, "a"], "must be a positive number"),
    ],
)
def test_distances(make, setting, bad, message):
    for value in bad:
        with pytest.raises(ValueError, match=rf"^`{setting}` {message}.*, got {re.escape(repr(value))}$"):
            make(**{setting: value})


@pytest.mark.parametrize("n_bins", [0, -3, 2.5, "ten"])
def test_bins(n_bins):
    with refused(f"`n_bins` must be a whole number of at least 1, got {n_bins!r}"):
        risk_distribution(None, RISK, sensitive_features=GROUP, n_bins=n_bins)


@pytest.mark.parametrize("times", [0, -3, 2.5, "ten"])
def test_permutations(times):
    with refused(f"`n_permutations` must be a whole number of at least 1, got {times!r}"):
        profile().noise_floor(times)


@pytest.mark.parametrize("call", [FairLogisticRegression, GapDistance, HistogramDistance, fit, profile])
def test_unknown_keyword(call):
    with pytest.raises(TypeError, match="unexpected keyword argument 'lambada'"):
        call(lambada=1)


def test_keywords_only_after_the_data():
    for call in (threshold_profile, risk_distribution):
        with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
            call(WORLD.y, RISK, GROUP)
    with pytest.raises(TypeError, match="positional arguments but 5 were given"):
        FairLogisticRegression().fit(WORLD.X, WORLD.y, None, GROUP)


# What stays as it was


FRAME = pd.DataFrame(WORLD.X, columns=list("pqrs"))
FAILURES = {
    "X": {"X": FRAME[["s", "q"]].assign(s=np.nan)},
    "attribute": {"sensitive_features": None},
    "labels": {"y": np.arange(N) % 3},
    "weights": {"sample_weight": np.zeros(N)},
    "eta": {"eta": -1},
    "alpha": {"alpha": -1},
    "parity": {"parity": "DP"},
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failed_fit_leaves_the_last_one(failure):
    model = FairLogisticRegression(eta=0.05).fit(FRAME, LABELS, sensitive_features=GROUP)
    before, labels = model.predict_proba(FRAME), model.predict(FRAME)
    params = {name: value for name, value in failure.items() if name in model.get_params()}
    model.set_params(**params)
    data = {"X": FRAME[["s", "q"]], "y": WORLD.y, "sensitive_features": WORLD.group}  # all else is new, too
    data |= {name: value for name, value in failure.items() if name not in params}
    with pytest.raises(ValueError):
        model.fit(**data)
    np.testing.assert_array_equal(model.predict_proba(FRAME), before)
    np.testing.assert_array_equal(model.predict(FRAME), labels)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.groups_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("make", [np.array, np.asfortranarray, sparse.csr_array])
def test_fit_leaves_its_inputs(make, dtype):
    X, y, weight, group = make(WORLD.X.astype(dtype)), WORLD.y.copy(), WORLD.weight.copy(), GROUP.copy()
    weight[::9] = 0
    kept = weight.copy()
    FairLogisticRegression(eta=0.05).fit(X, y, weight, sensitive_features=group)
    np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, WORLD.X.astype(dtype))
    for ours, theirs in ((y, WORLD.y), (weight, kept), (group, GROUP)):
        np.testing.assert_array_equal(ours, theirs)


def test_pandas_inputs_stay_as_they_were():
    X, y, group = FRAME.copy(), pd.Series(LABELS), pd.Series(GROUP, dtype="category")
    copies = [part.copy() for part in (X, y, group)]
    fit(X=X, y=y, sensitive_features=group)
    for part, copy in zip((X, y, group), copies, strict=True):
        assert part.equals(copy)


# Small cells


@both
def test_small_cells_are_named(entry_point):
    rows = np.flatnonzero((GROUP != "c") | (np.cumsum(GROUP == "c") <= 11))
    data = {"X": WORLD.X[rows]} if entry_point is fit else {"score": RISK[rows]}
    positives = int(WORLD.y[rows][GROUP[rows] == "c"].sum())
    data |= {"y": WORLD.y[rows], "sensitive_features": GROUP[rows]}
    with pytest.warns(SmallCellWarning) as caught:
        entry_point(**data)
    message = "fewer than 30 rows in: group 'c' (11). Gaps measured there are mostly noise"
    assert [str(warning.message) for warning in caught] == [message]
    assert caught[0].filename == __file__, "it points out of the package"
    if entry_point is fit:
        with pytest.warns(SmallCellWarning) as from_a_path:
            FairLogisticRegression().fit_path(data["X"], data["y"], [0.05], sensitive_features=GROUP[rows])
        assert from_a_path[0].filename == __file__
    with pytest.warns(SmallCellWarning, match=rf"group 'c' among positives \({positives}\)\. Gaps"):
        entry_point(**data, parity="equal_opportunity")
    if entry_point is fit:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            entry_point(**data, eta=0)


def test_cells_are_counted_in_rows_of_positive_weight():
    weight = np.where((GROUP == "c") & (np.cumsum(GROUP == "c") > 12), 0, 100.0)
    for entry_point in (fit, profile):
        with pytest.warns(SmallCellWarning, match=r"rows in: group 'c' \(12\)\."):
            entry_point(sample_weight=weight)


def test_thirty_rows_are_no_small_cell():
    rows = np.flatnonzero((GROUP != "c") | (np.cumsum(GROUP == "c") <= 30))
    assert profile(y=None, score=RISK[rows], sensitive_features=GROUP[rows]).max_gap > 0


@both
def test_masked_groups_are_missing(entry_point):
    masked = np.ma.MaskedArray(np.where(GROUP == "a", 0, 1), mask=np.arange(N) < 2)
    with pytest.raises(ValueError, match=r"must not have missing values, got 2 \(row 0, 1\)"):
        entry_point(sensitive_features=masked)


MASKED = np.ma.MaskedArray(RISK, mask=np.isin(np.arange(N), [0, 2, 3, 4]))
MASKED_X = np.ma.MaskedArray(WORLD.X, mask=MASKED.mask[:, None] & (np.arange(WORLD.X.shape[1]) == 0))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("y_score", lambda: profile(score=MASKED)),
        ("y_score", lambda: profile(score=MASKED[:, None])),
        ("y_score", lambda: audit(None, MASKED, sensitive_features=GROUP)),
        ("y_score", lambda: audit(None, {"a": MASKED}, sensitive_features=GROUP)),
        ("sample_weight", lambda: profile(sample_weight=MASKED)),
        ("sample_weight", lambda: fit(sample_weight=MASKED)),
        ("X", lambda: fit(X=MASKED_X)),
        ("X", lambda: fit().predict(MASKED_X)),
    ],
)
def test_masked_entries(name, call):
    with refused(f"`{name}` must not have masked entries, got 4 (row 0, 2, 3, …)"):
        call()


MODELS = {  # the module, what it needs, settings
    "FairLinearSVC": ("svm", "sklearn", {"eta": 0}),
    "FairKernelSVC": ("svm", "sklearn", {"eta": 0}),
    "ZafarDP": ("baselines", "sklearn", {}),
    "FairLGBMClassifier": ("boosting", "lightgbm", {"eta": 0, "n_estimators": 2}),
    "FairXGBClassifier": ("boosting", "xgboost", {"eta": 0, "n_estimators": 2}),
}


@pytest.mark.parametrize("name", MODELS)
def test_masked_features_and_dates_in_every_model(name):
    module, library, settings = MODELS[name]
    need(library)
    model, rows = getattr(import_module(f"evenrisk.{module}"), name)(**settings), slice(0, 120)
    dates = WORLD.X[rows].astype("M8[s]")
    with refused("`X` must not have masked entries, got 4 (row 0, 2, 3, …)"):
        model.fit(MASKED_X[rows], WORLD.y[rows], sensitive_features=GROUP[rows])
    with refused("`X` must be numbers, got dates or times"):
        model.fit(dates, WORLD.y[rows], sensitive_features=GROUP[rows])
    if name == "ZafarDP":  # needs more to be fitted, and predicts as other linear models do
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cells this small
        model.fit(WORLD.X[rows], WORLD.y[rows], sensitive_features=GROUP[rows])
    with refused("`X` must not have masked entries, got 4 (row 0, 2, 3, …)"):
        model.predict_proba(MASKED_X[rows])
    with refused("`X` must be numbers, got dates or times"):
        model.predict_proba(dates)


def test_masked_features_in_a_search():
    search = BudgetSearchCV(FairLogisticRegression(), max_gap=0.5)
    with refused("`X` must not have masked entries, got 4 (row 0, 2, 3, …)"):  # rows of X, not of a fold
        search.fit(MASKED_X, WORLD.y, sensitive_features=GROUP)


@both
def test_masked_labels_are_missing(entry_point):
    name = "y" if entry_point is fit else "y_true"
    with refused(f"Input {name} contains NaN: `{name}` must not have missing values, got 4"):
        entry_point(y=np.ma.MaskedArray(WORLD.y, mask=MASKED.mask))


def test_masked_entries_in_a_list():
    with refused(f"`y_score` must be finite, got nan in row 0 (4 of {N} rows)"):
        profile(score=list(MASKED))
    with refused("`sensitive_features` must not have missing values, got 4 (row 0, 2, 3, …). …"):
        profile(sensitive_features=list(np.ma.MaskedArray(GROUP, mask=MASKED.mask)))


def test_masked_arrays_without_a_masked_entry():
    whole = {
        name: np.ma.MaskedArray(values) for name, values in (("y", WORLD.y), ("sensitive_features", GROUP))
    }
    weight = 1 + np.arange(N) % 3
    masked = profile(score=np.ma.MaskedArray(RISK), sample_weight=np.ma.MaskedArray(weight), **whole)
    assert masked.max_gap == profile(sample_weight=weight).max_gap
    model = fit(X=np.ma.MaskedArray(WORLD.X), sample_weight=np.ma.MaskedArray(weight), **whole)
    assert np.array_equal(model.coef_, fit(sample_weight=weight).coef_)


@both
def test_a_rule_that_names_a_stratum_it_does_not_have(entry_point):
    rule = Parity("wrong", ("only",), lambda y: y)
    with pytest.raises(ValueError, match="`parity` must map labels to strata"):
        entry_point(parity=rule)


def test_an_interrupt_leaves_the_last_fit(monkeypatch):
    clf = FairLogisticRegression(eta=0).fit(WORLD.X, WORLD.y)
    before = clf.predict(WORLD.X)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenrisk.linear_model.eta_path", interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(WORLD.X[:, :2], WORLD.y)
    assert np.array_equal(clf.predict(WORLD.X), before)


def test_an_error_crosses_processes():
    with pytest.raises(ValueError, match="`lo` must be a finite number") as raised:
        profile().interval(lo="low")
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (type(raised.value), str(raised.value))
