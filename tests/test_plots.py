"""Displays: what is drawn is what `metrics` measured."""

import ast
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgb
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.svm import LinearSVC

from evenrisk import BlindRepair, BudgetSearchCV, FairLogisticRegression, plots
from evenrisk.metrics import NoiseFloor, quality_at_gap, risk_distribution, threshold_profile
from evenrisk.plots import (
    ParityCurveDisplay,
    PriceOfBlindnessDisplay,
    RepairPlaneDisplay,
    RiskDistributionDisplay,
    TradeoffDisplay,
)
from evenrisk.plots._draw import COLUMNS, envelope
from optional import need
from worlds import world

WORLD = world(n=600)
GROUP = np.array(["green", "red", "blue"])[WORLD.group]
RISK = np.round(1 / (1 + np.exp(-WORLD.g)), 2)
DATA = {"sensitive_features": GROUP, "sample_weight": WORLD.weight}
PARITIES = ["demographic_parity", "equalized_odds"]
BAND = "max gap by chance: mean to 95 % point"


@pytest.fixture(autouse=True)
def _figures_are_closed():
    assert mpl.get_backend().lower() == "agg"
    plt.close("all")  # those of doctests
    yield
    plt.close("all")


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def outlines(display):
    """The heights and edges of each outline, as drawn."""
    return [line.get_data()[:2] for line in display.lines_]


@pytest.mark.parametrize("parity", PARITIES)
def test_curve_shows_the_profile(parity):
    profile = threshold_profile(WORLD.y, RISK, parity=parity, **DATA)
    display = ParityCurveDisplay.from_predictions(WORLD.y, RISK, parity=parity, name="ours", **DATA)
    x, y = display.line_.get_data()
    np.testing.assert_array_equal(x, profile.thresholds)
    np.testing.assert_array_equal(y, profile.gap_by_stratum.max(axis=0))
    assert y.max() == profile.max_gap, "the picture and the number agree"
    assert display.line_.get_drawstyle() == "steps-post", "constant from score to score"
    among, several = (
        ("", "") if parity != "equalized_odds" else (f", {profile.worst_stratum}", ", worst stratum")
    )
    assert legend(display.ax_) == [f"ours (max gap {profile.max_gap:.2f}{among})"]
    assert display.ax_.get_ylabel() == f"{parity.replace('_', ' ')} gap{several}"
    assert display.ax_.get_xlim() == (0, 1)
    assert display.ax_.get_ylim()[0] == 0
    assert display.ax_.get_ylim()[1] > profile.max_gap
    assert display.figure_ is display.ax_.figure


NASTY = ("_other", "$0-$20k", "a\x1b[31m\nb", "\u202exyz")
PRINTED = ("_other", "$0-$20k", "a\\x1b[31m\\nb", "\\u202exyz")


def test_an_empty_name_is_in_the_legend_and_an_empty_label_is_nowhere():
    group = np.where(np.arange(len(RISK)) % 2, "", "a")
    display = RiskDistributionDisplay.from_predictions(None, RISK, sensitive_features=group)
    assert legend(display.ax_) == ["''", "a"]
    both = {"sensitive_features": group, "parity": "equalized_odds"}
    display = RiskDistributionDisplay.from_predictions(WORLD.y, RISK, **both)
    assert legend(display.ax_)[0] == "'', negatives"
    assert "groups '', a:" in repr(threshold_profile(None, RISK, sensitive_features=group))
    table = pd.DataFrame({"method": "m", "gap": [0.1, 0.2], "auc": [0.6, 0.7], "step": ["", "one"]})
    display = TradeoffDisplay.from_frame(table, x="gap", y="auc", labels="step")[0]
    assert [text.get_text() for text in display.ax_.texts] == ["one"]


def printed(ax):
    """The legend as it is drawn: no entry lost, no mathematics."""
    texts = ax.get_legend().get_texts()
    ax.figure.canvas.draw()
    for text in texts:
        assert text._preprocess_math(text.get_text())[1] is False
    return [text._preprocess_math(text.get_text())[0].removeprefix(" ") for text in texts]


def test_names_are_shown_as_they_are():
    """matplotlib leaves entries that begin with _ away, and reads what is between two $ as mathematics."""
    group = np.array(NASTY, dtype=object)[np.arange(len(RISK)) % 4]
    display = RiskDistributionDisplay.from_predictions(None, RISK, sensitive_features=group)
    assert sorted(printed(display.ax_)) == sorted(PRINTED)
    ax = None
    for name in NASTY:
        ax = ParityCurveDisplay.from_predictions(WORLD.y, RISK, name=name, ax=ax, **DATA).ax_
    assert [text.split(" (max gap")[0] for text in printed(ax)] == list(PRINTED)
    scores = dict.fromkeys(NASTY, RISK)
    display = TradeoffDisplay.from_predictions(WORLD.y, scores, **DATA)
    assert printed(display.ax_) == list(PRINTED)
    table = pd.DataFrame({"method": NASTY, "$a$": 0.1, "_b": [0.1, 0.2, 0.3, 0.4], "η": NASTY})
    display = TradeoffDisplay.from_frame(table, x="_b", y="$a$", labels="η")[0]
    assert printed(display.ax_) == list(PRINTED)
    labels = [display.ax_.yaxis.label, *display.ax_.texts]
    assert len(labels) > 1
    assert [text._preprocess_math(text.get_text())[1] for text in labels] == [False] * len(labels)


@pytest.mark.parametrize("parity", PARITIES)
def test_outlines_show_the_distribution(parity):
    shown = risk_distribution(WORLD.y, RISK, parity=parity, n_bins=12, **DATA)
    display = RiskDistributionDisplay.from_predictions(WORLD.y, RISK, parity=parity, n_bins=12, **DATA)
    strata = {"demographic_parity": [""], "equalized_odds": [", negatives", ", positives"]}[parity]
    names = [group + among for among in strata for group in ("blue", "green", "red")]
    assert [line.get_label() for line in display.lines_] == legend(display.ax_) == names
    cells = shown.density.reshape(len(names), 12)
    for (height, edges), density in zip(outlines(display), cells, strict=True):
        np.testing.assert_array_equal(height, density)
        np.testing.assert_array_equal(edges, shown.edges)
    styles = {(to_hex(line.get_edgecolor()), line.get_linestyle()) for line in display.lines_}
    assert len(styles) == len(names), "every cell is told apart"
    assert display.ax_.get_ylim()[1] > shown.density.max()


@pytest.mark.parametrize("cls", [ParityCurveDisplay, RiskDistributionDisplay])
@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), FairLogisticRegression(eta=0.05), LinearSVC()],
    ids=lambda model: type(model).__name__,
)
def test_from_estimator_equals_from_predictions(cls, model):
    if isinstance(model, FairLogisticRegression):
        model.fit(WORLD.X, WORLD.y, sensitive_features=GROUP)
    else:
        model.fit(WORLD.X, WORLD.y)
    has_risks = hasattr(model, "predict_proba")
    assert has_risks == (not isinstance(model, LinearSVC))
    score = model.predict_proba(WORLD.X)[:, 1] if has_risks else model.decision_function(WORLD.X)
    a = cls.from_estimator(model, WORLD.X, WORLD.y, parity="equal_opportunity", **DATA)
    b = cls.from_predictions(WORLD.y, score, parity="equal_opportunity", **DATA)
    if cls is ParityCurveDisplay:
        np.testing.assert_array_equal(a.line_.get_data(), b.line_.get_data())
        assert legend(a.ax_)[0].startswith(f"{type(model).__name__} (max gap 0.")
    else:
        for ours, theirs in zip(outlines(a), outlines(b), strict=True):
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("cls", [ParityCurveDisplay, RiskDistributionDisplay])
def test_from_estimator_names_the_positive_label(cls):
    words = np.array(["no", "yes"])[WORLD.y]
    model = LogisticRegression().fit(WORLD.X, words)
    cls.from_estimator(model, WORLD.X, words, parity="equal_opportunity", **DATA)  # no guess, no warning
    risk = model.predict_proba(WORLD.X)[:, 1]
    cls.from_predictions(words, risk, parity="equal_opportunity", pos_label="yes", **DATA)
    with pytest.warns(UserWarning, match="'yes', the last in alphabetical order, is taken"):
        cls.from_predictions(words, risk, parity="equal_opportunity", **DATA)
    model = LogisticRegression().fit(WORLD.X, WORLD.y)  # of other labels than the words
    with pytest.warns(UserWarning, match="'yes', the last in alphabetical order, is taken"):
        cls.from_estimator(model, WORLD.X, words, parity="equal_opportunity", **DATA)


@pytest.mark.parametrize("metric", ["auc", "accuracy"])
def test_a_trade_off_by_the_positive_label(metric):
    words = np.array(["late", "early"])[WORLD.y]
    drawn = TradeoffDisplay.from_predictions(words, RISK, metric=metric, pos_label="early", **DATA)
    assert drawn.quality == TradeoffDisplay.from_predictions(WORLD.y, RISK, metric=metric, **DATA).quality
    with pytest.warns(UserWarning, match="'late', the last in alphabetical order, is taken"):
        TradeoffDisplay.from_predictions(words, RISK, metric=metric, **DATA)


@pytest.mark.parametrize("threshold", [np.nan, "0.5", [0.4, 0.5], np.timedelta64(1, "D")])
def test_a_trade_off_at_no_threshold(threshold):
    with pytest.raises(ValueError, match=r"^`threshold` must be a finite number, got "):
        TradeoffDisplay.from_predictions(WORLD.y, RISK, metric="accuracy", threshold=threshold, **DATA)


def test_two_curves_on_one_axes_are_told_apart():
    _, ax = plt.subplots()
    fair = threshold_profile(None, np.random.default_rng(0).random(600), sensitive_features=GROUP)
    unfair = threshold_profile(None, RISK, sensitive_features=GROUP)
    first = ParityCurveDisplay(fair, name="fair").plot(ax)
    second = ParityCurveDisplay(unfair, name="no").plot(ax=ax, name="unfair")
    assert first.ax_ is second.ax_ is ax
    assert len(plt.get_fignums()) == 1, "no figure of its own"
    assert to_rgb(first.line_.get_color()) != to_rgb(second.line_.get_color())
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert [text.split(" (")[0] for text in legend(ax)] == ["fair", "unfair"]
    assert ax.get_ylim()[1] > max(fair.gap.max(), unfair.gap.max())
    third = ParityCurveDisplay(fair).plot(ax)
    assert ax.get_ylim()[1] > unfair.gap.max(), "a lower curve does not cut off a higher one"
    assert legend(ax)[-1] == f"max gap {fair.max_gap:.2f}", "no name"
    assert len({line.get_color() for line in (first.line_, second.line_, third.line_)}) == 3


@pytest.mark.parametrize("level", [0.02, 1.2], ids=["below the gap", "above the gap"])
def test_noise_floor_is_a_band_in_sight(level):
    profile = threshold_profile(None, RISK, sensitive_features=GROUP)
    floor = NoiseFloor(mean=level * profile.max_gap, p95=1.5 * level * profile.max_gap, n_permutations=10)
    display = ParityCurveDisplay(profile, name="ours").plot(noise_floor=floor)
    (band,) = [patch for patch in display.ax_.patches if patch.get_label() == BAND]
    extent = band.get_path().transformed(band.get_patch_transform()).get_extents()
    assert (extent.y0, extent.y1) == pytest.approx((floor.mean, floor.p95))
    assert sorted(legend(display.ax_)) == [BAND, f"ours (max gap {profile.max_gap:.2f})"]
    assert display.ax_.get_ylim()[1] >= floor.p95


def test_noise_floor_goes_through_from_predictions():
    floor = NoiseFloor(0.01, 0.02, 10)
    display = ParityCurveDisplay.from_predictions(None, RISK, sensitive_features=GROUP, noise_floor=floor)
    assert BAND in legend(display.ax_)
    plain = ParityCurveDisplay.from_predictions(None, RISK, sensitive_features=GROUP)
    assert BAND not in legend(plain.ax_)


def corners(region):
    """The corners of a filled region, without repetition."""
    (path,) = region.get_paths()
    return {tuple(corner) for corner in path.vertices.tolist()}


@pytest.mark.parametrize("parity", PARITIES)
def test_band_is_the_band(parity):
    profile = threshold_profile(WORLD.y, RISK, parity=parity, **DATA)
    band = profile.band(0.9, n_resamples=50, random_state=0)
    display = ParityCurveDisplay(profile, name="ours").plot(band=band)
    low, high = band.worst_gap
    t = profile.thresholds
    ends = [(t, low), (t, high), (t[1:], low[:-1]), (t[1:], high[:-1])]  # each value holds up to the next
    assert corners(display.band_) == {
        pair for x, y in ends for pair in zip(x.tolist(), y.tolist(), strict=True)
    }
    (face,) = display.band_.get_facecolor()
    assert to_hex(face) == to_hex(display.line_.get_color())
    assert face[3] < 0.3, "several can be seen"
    assert legend(display.ax_)[1] == "90 % band, all thresholds at once"
    assert high.max() > profile.max_gap
    assert display.ax_.get_ylim()[1] > high.max()
    assert ParityCurveDisplay(profile).plot().band_ is None


def test_bands_of_one_level_share_an_entry():
    profile = threshold_profile(None, RISK, sensitive_features=GROUP)
    bands = [profile.band(level, "dkw") for level in (0.95, 0.95, 0.995)]
    _, ax = plt.subplots()
    shown = [ParityCurveDisplay(profile, name="x").plot(ax, band=band) for band in bands]
    names = [text for text in legend(ax) if "band" in text]
    assert names == ["95 % band, all thresholds at once", "99.5 % band, all thresholds at once"]
    assert len({tuple(each.band_.get_facecolor()[0]) for each in shown}) == 3


def test_selection_rate_by_hand():
    # one of two in group a scores 1, everybody else 0: above 0 lie a half of a, none of b, a quarter of all
    score, group = np.tile([1, 0, 0, 0], 30), np.tile(["a", "a", "b", "b"], 30)
    display = ParityCurveDisplay.from_predictions(None, score, sensitive_features=group, x="selection_rate")
    assert np.transpose(display.line_.get_data()).tolist() == [[0, 0], [0.25, 0.5], [1, 0]]
    assert display.line_.get_drawstyle() == "default", "straight lines"
    assert display.ax_.get_xlabel() == "share of people selected"
    assert display.ax_.get_xlim() == (0, 1)


@pytest.mark.parametrize("parity", PARITIES)
def test_selection_rate_shows_the_profile(parity):
    score = 100 * RISK - 20
    profile = threshold_profile(WORLD.y, score, parity=parity, **DATA)
    band = profile.band(n_resamples=50, random_state=0)
    display = ParityCurveDisplay(profile).plot(band=band, x="selection_rate")
    share = np.array([np.average(score > t, weights=WORLD.weight) for t in profile.thresholds[::-1]])
    x, y = display.line_.get_data()
    np.testing.assert_allclose(x, [*share, 1])
    np.testing.assert_array_equal(y, [*profile.worst_gap[::-1], 0])
    low, high = (end[::-1].tolist() for end in band.worst_gap)
    shares = profile.selection_rate[::-1].tolist()
    expected = {*zip(shares, low, strict=True), *zip(shares, high, strict=True), (1.0, 0.0)}
    assert corners(display.band_) == expected
    assert display.ax_.get_xlim() == (0, 1), "whatever the units of the score"


def test_from_predictions_measures_what_is_asked():
    profile = threshold_profile(WORLD.y, RISK, **DATA)
    display = ParityCurveDisplay.from_predictions(
        WORLD.y, RISK, level=0.8, random_state=3, noise_floor=True, x="selection_rate", **DATA
    )
    same = ParityCurveDisplay(profile).plot(band=profile.band(0.8, random_state=3), x="selection_rate")
    assert corners(display.band_) == corners(same.band_)
    floor = profile.noise_floor(random_state=3)
    (patch,) = display.ax_.patches
    extent = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
    assert (extent.y0, extent.y1) == pytest.approx((floor.mean, floor.p95))
    given = ParityCurveDisplay.from_predictions(
        WORLD.y, RISK, band=profile.band(0.8, random_state=3), noise_floor=False, x="selection_rate", **DATA
    )
    assert corners(given.band_) == corners(same.band_)
    assert not given.ax_.patches
    model = LogisticRegression().fit(WORLD.X, WORLD.y)
    fitted = ParityCurveDisplay.from_estimator(
        model, WORLD.X, WORLD.y, level=0.9, random_state=0, x="selection_rate", **DATA
    )
    assert "90 % band, all thresholds at once" in legend(fitted.ax_)


@pytest.mark.parametrize("floor_first", [True, False])
def test_noise_floor_is_hatched_only_beside_bands(floor_first):
    profile = threshold_profile(None, RISK, sensitive_features=GROUP)
    floor, band = NoiseFloor(0.01, 0.02, 10), profile.band(method="dkw")
    plain = ParityCurveDisplay(profile).plot(noise_floor=floor)
    assert [patch.get_hatch() for patch in plain.ax_.patches] == [None]
    _, ax = plt.subplots()
    for given in [{"noise_floor": floor}, {"band": band}][:: 1 if floor_first else -1]:
        ParityCurveDisplay(profile).plot(ax, **given)
    assert [patch.get_hatch() for patch in ax.patches] == ["////"]


def test_bad_input_of_the_curve_is_named():
    profile = threshold_profile(WORLD.y, RISK, sensitive_features=GROUP)
    display, band = ParityCurveDisplay(profile), profile.band(method="dkw")
    with pytest.raises(ValueError, match="`x` must be one of 'threshold', 'selection_rate', got 'rank'"):
        display.plot(x="rank")
    with pytest.raises(ValueError, match=r"`band` must be a Band or None, got 0\.95"):
        display.plot(band=0.95)
    with pytest.raises(ValueError, match="`noise_floor` must be a NoiseFloor or None, got True"):
        display.plot(noise_floor=True)
    other = threshold_profile(WORLD.y, RISK + 0.001, sensitive_features=GROUP)
    rule = threshold_profile(WORLD.y, RISK, sensitive_features=GROUP, parity="equalized_odds")
    fewer = threshold_profile(None, RISK[:300], sensitive_features=GROUP[:300])
    for wrong in (other, rule, fewer):
        with pytest.raises(
            ValueError, match=r"`band` must be of the profile that is drawn, Thresh.*got Band"
        ):
            display.plot(band=wrong.band(method="dkw"))
    with pytest.raises(ValueError, match=r"one of `level` and `band` must be None, got level=0\.9 and Band"):
        ParityCurveDisplay.from_predictions(None, RISK, sensitive_features=GROUP, level=0.9, band=band)
    assert not plt.get_fignums(), "nothing is half drawn"
    shown = display.plot()
    with pytest.raises(ValueError, match="`x` must be 'threshold', as of the curves that are on these axes"):
        display.plot(shown.ax_, x="selection_rate")


def test_thinning_keeps_extremes_and_ends():
    rng = np.random.default_rng(0)
    x = np.sort(rng.beta(0.3, 2, 20_000))
    low, high = rng.random(20_000), 1 + rng.random(20_000)
    kept, lower, upper = envelope(x, low, high)
    assert len(kept) <= 4 * COLUMNS
    at = np.searchsorted(x, kept)
    np.testing.assert_array_equal(x[at], kept)
    np.testing.assert_array_equal(low[at], lower)
    np.testing.assert_array_equal(high[at], upper)
    edges = np.linspace(x[0], x[-1], COLUMNS + 1)[1:-1]
    before, after = np.digitize(x, edges), np.digitize(kept, edges)
    assert set(before) == set(after)
    for column in set(before):
        mine, theirs = after == column, before == column
        assert (lower[mine].min(), upper[mine].max()) == (low[theirs].min(), high[theirs].max())
        assert (kept[mine][0], kept[mine][-1]) == (x[theirs][0], x[theirs][-1])
    few = envelope(x[: 4 * COLUMNS], low[: 4 * COLUMNS], high[: 4 * COLUMNS])
    np.testing.assert_array_equal(few[0], x[: 4 * COLUMNS])


@pytest.mark.parametrize("x", ["threshold", "selection_rate"])
def test_many_thresholds_make_no_giant_figure(x, tmp_path):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 100_000)
    profile = threshold_profile(None, rng.random(100_000) ** (1 + group), sensitive_features=group)
    band = profile.band(method="dkw")
    display = ParityCurveDisplay(profile).plot(band=band, x=x)
    assert len(display.band_.get_paths()[0].vertices) < 20 * COLUMNS
    assert max(y for _, y in corners(display.band_)) == band.max_gap.high
    display.figure_.savefig(tmp_path / "big.svg")
    assert (tmp_path / "big.svg").stat().st_size < 1_000_000


POINTS = {"max_gap": [0.3, 0.2, 0.05], "quality": [0.72, 0.71, 0.66]}


def bars(container):
    """The ends of the error bars, across and upwards: (n, 2, 2) each."""
    return [np.array(lines.get_segments()) for lines in container.lines[2]]


def test_tradeoff_shows_the_arrays():
    gap_error, quality_error = [0.01, 0.02, 0.03], [[0.01, 0.02, 0.04], [0.02, 0.01, 0.03]]
    display = TradeoffDisplay(
        **POINTS, max_gap_error=gap_error, quality_error=np.array(quality_error), name="ours"
    ).plot()
    (drawn,) = display.lines_
    x, y = (np.array(POINTS[key]) for key in ("max_gap", "quality"))
    np.testing.assert_array_equal(drawn.lines[0].get_data(), [x, y])
    across, upwards = bars(drawn)
    np.testing.assert_allclose(across[:, :, 0], np.transpose([x - gap_error, x + gap_error]))
    np.testing.assert_allclose(across[:, :, 1], np.transpose([y, y]))
    np.testing.assert_allclose(upwards[:, :, 1], np.transpose([y - quality_error[0], y + quality_error[1]]))
    ax = display.ax_
    assert (legend(ax), ax.get_ylabel()) == (["ours"], "AUC")
    assert ax.get_xlabel().startswith("← fairer")
    assert ax.get_xlabel().endswith("max gap")
    assert ax.get_xlim()[0] == 0
    assert ax.get_xlim()[1] > 0.31
    assert ax.get_ylim()[0] < 0.62 < 0.74 < ax.get_ylim()[1]
    plain = TradeoffDisplay(**POINTS).plot()
    assert plain.ax_.get_legend() is None
    assert not plain.lines_[0].lines[2]


def test_methods_are_told_apart():
    _, ax = plt.subplots()
    shown = [TradeoffDisplay(**POINTS, name="?").plot(ax, name=f"method {i}") for i in range(6)]
    lines = [display.lines_[0].lines[0] for display in shown]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 6
    assert lines[0].get_linestyle() != lines[1].get_linestyle()
    assert legend(ax) == [f"method {i}" for i in range(6)]
    short = TradeoffDisplay(**POINTS, quality_error=[0.1] * 3).plot(ax, c="k", ls=":", capsize=2)
    short = short.lines_[0].lines[0]
    assert (short.get_color(), short.get_linestyle()) == ("k", ":")
    after = TradeoffDisplay(**POINTS).plot(ax).lines_[0].lines[0]
    assert after.get_marker() not in {line.get_marker() for line in [*lines, short]}, "caps are no methods"


def test_labels_and_legend_cover_nothing():
    rng = np.random.default_rng(0)
    figure, ax = plt.subplots(figsize=(6, 3.75), dpi=100, layout="constrained")
    for i in range(6):
        x = np.sort(rng.random(25)) ** 2 / 4
        display = TradeoffDisplay(x, 0.6 + 0.1 * x + 0.005 * i, name=f"a rather long name of a method, {i}")
        display.labels = [f"η = {eta}" for eta in range(25)]
        display.plot(ax)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert 6 <= len(boxes) < 72, "some are left out"
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    box = ax.get_legend().get_window_extent()
    drawn = np.concatenate([line.get_xydata() for line in ax.lines])
    assert not box.count_contains(ax.transData.transform(drawn))
    assert all(ax.get_window_extent().contains(*corner) for box in boxes for corner in (box.min, box.max))


def test_labels_stand_beside_their_points():
    display = TradeoffDisplay(**POINTS, labels=[0, 0.1, 10.0]).plot()
    where = {text.get_text(): text.xy for text in display.ax_.texts}
    assert where == {"0": (0.3, 0.72), "0.1": (0.2, 0.71), "10": (0.05, 0.66)}
    apart = TradeoffDisplay(**POINTS, labels=["a", "b", "c"], name="ours").plot(line=False)
    assert legend(apart.ax_) == ["ours, a", "ours, b", "ours, c"]
    assert not apart.ax_.texts
    lines = [container.lines[0] for container in apart.lines_]
    assert [tuple(np.ravel(line.get_data())) for line in lines] == list(zip(*POINTS.values(), strict=True))
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 3
    unnamed = TradeoffDisplay(**POINTS).plot(line=False)
    assert [each.lines[0].get_linestyle() for each in unnamed.lines_] == ["None"], "not joined"


def test_tiny_ranges_are_written_out():
    display = TradeoffDisplay([1e-5, 2e-5], [0.712301, 0.712302], name="tiny").plot()
    display.figure_.canvas.draw()
    assert "+" not in display.ax_.yaxis.get_offset_text().get_text()
    low, high = display.ax_.get_ylim()
    assert low < 0.712301 < 0.712302 < high < 0.712304
    one = TradeoffDisplay([0.0], [0.7]).plot()
    assert one.ax_.get_ylim() == pytest.approx((0.65, 0.75))
    assert one.ax_.get_xlim() == (0, 0.02)


SCORES = {"risk": RISK, "noise": np.random.default_rng(1).random(600), "raw": WORLD.g}


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars"])
def test_tradeoff_of_scores(kind):
    scores = {"dict": dict, "pandas": pd.DataFrame}.get(kind) or need("polars").DataFrame
    display = TradeoffDisplay.from_predictions(
        WORLD.y, scores(SCORES), level=0.9, random_state=0, parity="equal_opportunity", **DATA
    )
    for container, (name, score) in zip(display.lines_, SCORES.items(), strict=True):
        profile = threshold_profile(WORLD.y, score, parity="equal_opportunity", **DATA)
        gap, auc = profile.band(0.9, random_state=0).max_gap, profile.discrimination(0.9).overall
        ((x,), (y,)) = container.lines[0].get_data()
        assert x == profile.max_gap
        assert y == pytest.approx(roc_auc_score(WORLD.y, score, sample_weight=WORLD.weight))
        across, upwards = bars(container)
        assert across[0, :, 0] == pytest.approx([gap.low, gap.high])
        assert upwards[0, :, 1] == pytest.approx([auc.low, auc.high])
        assert name in legend(display.ax_)
    assert display.ax_.get_ylabel() == "AUC"
    assert display.ax_.get_xlabel().endswith("max gap over all thresholds, equal opportunity")


def proportion_ci(rate, n, level):
    """Wilson's interval, from its definition: the rates p with (rate − p)² = z² p(1 − p) / n."""
    z2 = norm.ppf(0.5 + level / 2) ** 2
    return sorted(np.roots([1 + z2 / n, -(2 * rate + z2 / n), rate**2]).tolist())


def test_tradeoff_of_one_score_and_of_accuracy():
    display = TradeoffDisplay.from_predictions(
        WORLD.y, RISK, metric="accuracy", threshold=0.4, level=0.9, random_state=0, name="ours", **DATA
    )
    right = accuracy_score(WORLD.y, RISK > 0.4, sample_weight=WORLD.weight)
    assert display.quality == pytest.approx([right])
    assert display.ax_.get_ylabel() == "accuracy at threshold 0.4"
    assert legend(display.ax_) == ["ours"]
    _, upwards = bars(display.lines_[0])
    effective = WORLD.weight.sum() ** 2 / (WORLD.weight**2).sum()
    wilson = proportion_ci(right, effective, 0.9)
    assert upwards[0, :, 1] == pytest.approx(wilson)
    path = {0.0: RISK, 0.5: SCORES["noise"]}
    joined = TradeoffDisplay.from_predictions(WORLD.y, path, name="ours", line=True, **DATA)
    assert (len(joined.lines_), legend(joined.ax_)) == (1, ["ours"])
    assert sorted(text.get_text() for text in joined.ax_.texts) == ["0", "0.5"]
    assert not joined.lines_[0].lines[2], "no level, no bars"


TABLE = pd.DataFrame(
    {
        "method": ["b", "a", "b", "a", "b"],
        "max_gap": [0.3, 0.2, 0.2, 0.1, 0.1],
        "accuracy": [0.7, 0.69, 0.68, 0.67, 0.66],
        "sd": [0.01, 0.02, 0.03, 0.04, 0.05],
        "down": [0.011, 0.012, 0.013, 0.014, 0.015],
        "eta": [0, 0, 1, 1, 2],
    }
)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tradeoff_of_a_table(library):
    if library == "pandas":
        table = TABLE.set_index("eta", drop=False)
    else:
        table = need("polars").from_pandas(TABLE) if library == "polars" else pa.Table.from_pandas(TABLE)
    b, a = TradeoffDisplay.from_frame(table, x_error="sd", y_error=("down", "sd"), labels="eta")
    assert a.ax_ is b.ax_
    assert legend(a.ax_) == ["b", "a"], "in order of appearance"
    for display, name in ((a, "a"), (b, "b")):
        rows = TABLE[TABLE["method"] == name]
        np.testing.assert_array_equal(display.lines_[0].lines[0].get_data(), rows[["max_gap", "accuracy"]].T)
        assert display.max_gap_error == [rows["sd"].tolist()] * 2
        assert display.quality_error == [rows["down"].tolist(), rows["sd"].tolist()]
        assert display.labels == rows["eta"].astype(str).tolist()
    assert (a.ax_.get_xlabel()[-7:], a.ax_.get_ylabel()) == ("max gap", "accuracy")
    assert TradeoffDisplay.from_frame(table)[0].max_gap_error is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"quality": [0.7, 0.6]}, "`quality` must have one entry per point, 3, got 2"),
        ({"max_gap": []}, "`max_gap` must have one entry per point, 1 or more, got 0"),
        ({"max_gap": 0.3}, "`max_gap` must be a list of values, got 0.3"),
        (
            {"max_gap": [0.1, np.nan, 0.2]},
            "`max_gap` must be finite numbers of at least 0, got nan in place 1",
        ),
        (
            {"max_gap": [0.1, 0.2, -0.2]},
            "`max_gap` must be finite numbers of at least 0, got -0.2 in place 2",
        ),
        ({"quality": [0.1, 0.2, "x"]}, "`quality` must be finite numbers, got 'x' in place 2"),
        ({"quality": [None, 0.2, 1]}, "`quality` must be finite numbers, got None in place 0"),
        ({"quality": "abc"}, "`quality` must be a list of values, got 'abc'"),
        ({"quality_error": [0.1, 0.2]}, "`quality_error` must have one entry per point, 3, got 2"),
        ({"quality_error": np.ones((3, 3))}, "`quality_error` must have shape (3,) or (2, 3), got 3 rows"),
        ({"max_gap_error": [0.1, -0.2, 0]}, "`max_gap_error` must be finite numbers of at least 0, got -0.2"),
        ({"labels": ["a"]}, "`labels` must have one entry per point, 3, got 1"),
    ],
)
def test_bad_points_are_named(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TradeoffDisplay(**POINTS | given)


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ([1, 2], {}, "`table` must be a data frame, got list"),
        (
            TABLE,
            {"x": "gap"},
            "`table` must have the columns 'method', 'gap', 'accuracy', got none named 'gap'",
        ),
        (TABLE[:0], {}, "`table` must have 1 row or more, got 0"),
        (TABLE.replace("a", None), {}, "`method` must name the method of each row, got "),
        (TABLE.replace(0.68, np.nan), {}, "`accuracy` must be finite numbers, got nan in place 2"),
        (TABLE, {"y": "method"}, "`method` must be finite numbers, got 'b' in place 0"),
    ],
)
def test_bad_tables_are_named(table, given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TradeoffDisplay.from_frame(table, **given)
    assert not plt.get_fignums()


def test_bad_input_of_the_tradeoff_is_named():
    with pytest.raises(ValueError, match="`metric` must be one of 'auc', 'accuracy', got 'f1'"):
        TradeoffDisplay.from_predictions(WORLD.y, RISK, metric="f1", **DATA)
    with pytest.raises(ValueError, match="`y_scores` must hold 1 score or more, got none"):
        TradeoffDisplay.from_predictions(WORLD.y, {}, **DATA)
    with pytest.raises(ValueError, match="`level` must be a number above 0 and below 1, got 1"):
        TradeoffDisplay.from_predictions(WORLD.y, RISK, level=1, **DATA)
    with pytest.raises(ValueError, match="`y_true` must hold two labels where AUC is asked for, got none"):
        TradeoffDisplay.from_predictions(None, RISK, **DATA)
    with pytest.raises(ValueError, match="`line` must be True or False, got 'dashed'"):
        TradeoffDisplay(**POINTS).plot(line="dashed")
    assert not plt.get_fignums()


def test_keywords_reach_matplotlib():
    curve = ParityCurveDisplay.from_predictions(None, RISK, sensitive_features=GROUP, color="k", linewidth=7)
    assert (curve.line_.get_color(), curve.line_.get_linewidth()) == ("k", 7)
    short = ParityCurveDisplay(curve.profile).plot(c="k", lw=7, ls=":")
    assert (short.line_.get_color(), short.line_.get_linewidth(), short.line_.get_linestyle()) == (
        "k",
        7,
        ":",
    )
    outline = RiskDistributionDisplay.from_predictions(None, RISK, sensitive_features=GROUP, linewidth=7)
    assert {line.get_linewidth() for line in outline.lines_} == {7}
    with pytest.raises(AttributeError, match="no_such_keyword"):
        ParityCurveDisplay(curve.profile).plot(no_such_keyword=1)


def test_axes_of_raw_scores_are_theirs():
    g = 100 * WORLD.g
    curve = ParityCurveDisplay.from_predictions(None, g, sensitive_features=GROUP)
    low, high = curve.ax_.get_xlim()
    assert low <= g.min() < g.max() <= high
    outline = RiskDistributionDisplay.from_predictions(None, g, sensitive_features=GROUP)
    assert outline.ax_.get_xlim() == (g.min(), g.max())


@pytest.mark.parametrize("cls", [ParityCurveDisplay, RiskDistributionDisplay])
def test_figures_can_be_drawn_again(cls, tmp_path):
    display = cls.from_predictions(WORLD.y, RISK, parity="equalized_odds", **DATA)
    display.figure_.savefig(tmp_path / "one.png")
    display.plot().figure_.savefig(tmp_path / "two.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_tradeoff_can_be_drawn_again(tmp_path):
    display = TradeoffDisplay(**POINTS, labels=[0, 1, 2], name="ours", quality_error=[0.01] * 3).plot()
    display.figure_.savefig(tmp_path / "one.png")
    display.plot().figure_.savefig(tmp_path / "two.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


PATHS = pd.DataFrame(
    {
        "method": ["plain", "blind_1", "blind_1", "$aware$"],
        "max_gap": [0.3, 0.2, 0.08, 0.04],
        "auc": [0.8, 0.75, 0.7, 0.79],
        "accuracy": [0.7, 0.66, 0.6, 0.69],
    }
)


@pytest.mark.parametrize("quality", ["auc", "accuracy"])
def test_the_price_of_blindness_shows_paths_and_their_table(quality):
    display = PriceOfBlindnessDisplay.from_frame(PATHS, gaps=[0.1, 0.05], quality=quality)
    pd.testing.assert_frame_equal(display.table_, quality_at_gap(PATHS, [0.1, 0.05], quality=quality))
    drawn = [line for line in display.ax_.lines if line.get_gid() == "tradeoff"]
    for line, (_, path) in zip(drawn, PATHS.groupby("method", sort=False), strict=True):
        assert line.get_xydata().tolist() == path[["max_gap", quality]].to_numpy().tolist()
    upright = [line.get_xdata()[0] for line in display.ax_.lines if line.get_linestyle() == ":"]
    assert upright == [0.1, 0.05]
    assert legend(display.ax_) == ["plain", "blind_1", r"\$aware\$"]
    assert display.ax_.get_ylabel() == {"auc": "AUC", "accuracy": "accuracy"}[quality]
    assert "demographic parity" in display.ax_.get_xlabel()


@pytest.fixture(scope="module")
def repair():
    model = BlindRepair(LogisticRegression(), eta=3, random_state=0)
    return model.fit(WORLD.X, WORLD.y, sensitive_features=GROUP)


@pytest.mark.parametrize("coordinate", [None, "probability of red"])
def test_the_plane_shows_the_surface_and_the_people(repair, coordinate):
    surface = repair.surface(WORLD.X, coordinate=coordinate)
    settings = {"sensitive_features": GROUP, "coordinate": coordinate}
    display = RepairPlaneDisplay.from_estimator(repair, WORLD.X, **settings, levels=[0.4, 0.6])
    assert display.contours_.levels.tolist() == [0.4, 0.6]
    np.testing.assert_array_equal(np.ma.filled(display.contours_.zmax, np.nan), np.nanmax(surface.risk))
    shown = legend(display.ax_)
    for name, points in zip(shown, display.points_, strict=True):
        np.testing.assert_array_equal(points.get_offsets(), surface.people[name == GROUP])
    assert shown == ["blue", "green", "red"]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == surface.names
    assert display.ax_.get_xlim() == (surface.x[0], surface.x[-1])
    assert display.ax_.get_ylim() == (surface.y[0], surface.y[-1])


def test_the_plane_draws_some_of_many_people_and_needs_no_groups(repair):
    people = np.tile(WORLD.X, (6, 1))
    display = RepairPlaneDisplay.from_estimator(repair, people, cmap="viridis")
    (points,) = display.points_
    assert 1000 < len(points.get_offsets()) <= 1500
    assert display.ax_.get_legend() is None
    search = BudgetSearchCV(repair, max_gap=0.5)
    search.best_estimator_ = repair
    found = RepairPlaneDisplay.from_estimator(search, people)
    np.testing.assert_array_equal(found.surface.risk, display.surface.risk)
    with pytest.raises(ValueError, match="`estimator` must be a fitted BlindRepair, got LogisticRegression"):
        RepairPlaneDisplay.from_estimator(LogisticRegression(), people)
    with pytest.raises(ValueError, match="sensitive_features"):
        RepairPlaneDisplay.from_estimator(repair, people, sensitive_features=GROUP)


def test_plots_compute_nothing():
    names = []
    for path in Path(plots.__file__).parent.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert "evenrisk.metrics" in names
    assert {name.split(".")[0] for name in names}.isdisjoint({"numpy", "scipy", "pandas", "sklearn"})
