"""Displays: what is drawn is what `metrics` measured."""

import ast
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgb
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from evenrisk import FairLogisticRegression, plots
from evenrisk.metrics import NoiseFloor, risk_distribution, threshold_profile
from evenrisk.plots import ParityCurveDisplay, RiskDistributionDisplay
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


def test_plots_compute_nothing():
    names = []
    for path in Path(plots.__file__).parent.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert "evenrisk.metrics" in names
    assert {name.split(".")[0] for name in names}.isdisjoint({"numpy", "scipy", "pandas", "sklearn"})
