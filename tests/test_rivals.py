"""The rivals of benchmarks/rivals: each reaches its own goal on real data, or comparing says nothing."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from conftest import standardised
from evenrisk.datasets import load_adult, load_compas
from evenrisk.metrics import threshold_profile
from optional import need

for package in ("fairlearn", "torch", "fairret", "cvxpy", "dccp", "lightgbm"):
    need(package)

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def from_benchmarks(name, path):
    """Import a file or package of benchmarks/ without that folder on the path."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rivals = from_benchmarks("rivals", "rivals/__init__.py")
tables = from_benchmarks("_frontier_tables", "_frontier_tables.py")
fairret, mmd, transport, linear, linear_post = (
    sys.modules[f"rivals.{name}"]
    for name in ("fairret_norm", "mmd", "transport", "_torch_linear", "linear_post")
)

UNAWARE = tuple(
    rival for rival in rivals.UNAWARE if rival.name != "FairGBM"
)  # it has an environment of its own
AWARE = rivals.AWARE
STRONG = {  # where the last of its settings is not the one that closes its gap on COMPAS
    ("fairlearn GridSearch", "equalized_odds"): (1.0, 0.5),
    ("LinearPost (LightGBM)", "demographic_parity"): ((8, 50), 0.003),
    ("LinearPost (LightGBM)", "equalized_odds"): ((8, 50), 0.003),
    ("fairret", "demographic_parity"): (2.0, 512),
    ("fairret", "equalized_odds"): (1.0, 512),
    ("MinDiff (MMD) MLP", "demographic_parity"): 31.6228,  # in one leap; along the path all of them do
    ("MinDiff (MMD) MLP", "equalized_odds"): 31.6228,
}


def cases(some, *, settable=False):
    return [
        pytest.param(rival, parity, id=f"{rival.name}-{parity}")
        for rival in some
        for parity, settings in rival.settings.items()
        if (len(settings) > 1 and not rival.name.startswith("plain")) or not settable
    ]


@pytest.fixture(scope="module")
def people():
    """2500 rows of COMPAS: X, y, codes of race."""
    X, y, race = load_compas()
    rows = np.random.default_rng(0).permutation(len(y))[:2500]
    return standardised(X.iloc[rows]), y.to_numpy()[rows], (race.to_numpy()[rows] == "Caucasian").astype(int)


@pytest.fixture(scope="module")
def earners():
    """2500 rows of Adult, 89 collinear columns: X, y, codes of sex."""
    X, y, sex = load_adult(one_hot=True)
    rows = np.random.default_rng(0).permutation(len(y))[:2500]
    return standardised(X.iloc[rows]), y.to_numpy()[rows], (sex.to_numpy()[rows] == "Male").astype(int)


def own_gap(rival, s, y, groups, parity):
    """The gap of the decisions a rival means, by chance or at 0.5; the mean over strata."""
    decision = s if rival.randomised else s > 0.5
    strata = [y == y] if parity == "demographic_parity" else [y == 0, y == 1]
    rates = [[decision[rows & (groups == a)].mean() for a in (0, 1)] for rows in strata]
    return float(np.mean([abs(low - high) for low, high in rates]))


# ---------------------------------------------------------------- laws of all


@pytest.mark.parametrize(("rival", "parity"), cases((*UNAWARE, *AWARE), settable=True))
def test_its_own_gap_falls_from_weak_to_strong(people, rival, parity):
    X, y, groups = people
    settings = rival.settings[parity]
    ends = settings[0], STRONG.get((rival.name, parity), settings[-1])
    assert ends[1] in settings
    weak, strong = (
        own_gap(rival, score(X, groups), y, groups, parity)
        for score in rival.path(X, y, groups, ends, parity=parity, seed=0)
    )
    assert weak > 0.18
    assert strong < 0.08


def test_what_has_one_setting_is_fair_at_once(people):
    X, y, groups = people
    assert [case.id for case in cases(AWARE) if case not in cases(AWARE, settable=True)]
    rival = AWARE[0]
    score = rival.fit(X, y, groups, None, parity="equalized_odds", seed=0)
    assert own_gap(rival, score(X, groups), y, groups, "equalized_odds") < 0.01


@pytest.mark.parametrize(("rival", "parity"), cases((*UNAWARE, *AWARE)))
def test_scores_are_risks_and_a_seed_gives_the_same_ones(people, rival, parity, monkeypatch):
    monkeypatch.setattr(fairret, "STEPS", 100)
    X, y, groups = (part[:400] for part in people)
    setting = rival.settings[parity][-1]
    first, second = (rival.fit(X, y, groups, setting, parity=parity, seed=3)(X, groups) for _ in range(2))
    assert first.shape == y.shape
    assert first.min() >= 0
    assert first.max() <= 1
    assert np.ptp(first) > 0
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(("rival", "parity"), cases((*UNAWARE, *AWARE)))
def test_only_aware_rivals_look_at_groups(people, rival, parity):
    X, y, groups = (part[:800] for part in people)
    score = rival.fit(X, y, groups, rival.settings[parity][:2][-1], parity=parity, seed=0)
    if rival.aware:
        assert not np.array_equal(score(X, groups), score(X, 1 - groups))
    else:
        assert np.array_equal(score(X, groups), score(X, None))


# ---------------------------------------------------------------- the models trained in torch


@pytest.fixture(scope="module")
def plain(earners):
    X, y, groups = earners
    return UNAWARE[0].fit(X, y, groups, None, parity="demographic_parity", seed=0)(X, None)


@pytest.mark.parametrize(("name", "weightless"), [("fairret", (0.0, None)), ("MinDiff (MMD)", 0.0)])
def test_without_weight_torch_finds_scikit_learns_model(earners, plain, name, weightless):
    X, y, groups = earners
    rival = next(rival for rival in UNAWARE if rival.name == name)
    score = rival.fit(X, y, groups, weightless, parity="demographic_parity", seed=0)
    assert score(X, None) == pytest.approx(plain, abs=1e-4)


def test_mmd_is_that_of_all_pairs():
    torch = need("torch")
    rng = np.random.default_rng(0)
    s, groups, y = rng.beta(0.5, 0.7, 60), rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    s[:2] = 0, 1
    kernel = np.exp(-((s[:, None] - s) ** 2) / 0.1**2)
    expected, contrasts = 0.0, []
    for label in (0, 1):
        one, other = (
            np.flatnonzero((y == label) & (groups == 1)),
            np.flatnonzero((y == label) & (groups == 0)),
        )
        within = kernel[np.ix_(one, one)].mean() + kernel[np.ix_(other, other)].mean()
        expected += within - 2 * kernel[np.ix_(one, other)].mean()
        contrasts.append(mmd._contrast(groups, y == label))
    found = mmd.squared_mmd(torch.tensor(s), torch.tensor(np.column_stack(contrasts)))
    assert float(found) == pytest.approx(expected, abs=1e-8)


def figures(rival, setting, X, y, groups, parity):
    """Max gap and AUC on the rows it was trained on."""
    s = rival.fit(X, y, groups, setting, parity=parity, seed=0)(X, None)
    return [
        threshold_profile(y, s, sensitive_features=groups, parity=parity).max_gap,
        roc_auc_score(y, s),
    ]


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_mmd_is_trained_to_the_end(earners, parity, monkeypatch):
    once = figures(mmd.MMD, 1.0, *earners, parity)
    monkeypatch.setitem(linear.OPTIONS, "maxiter", 1000)
    monkeypatch.setitem(linear.OPTIONS, "gtol", 1e-7)
    assert once == pytest.approx(figures(mmd.MMD, 1.0, *earners, parity), abs=0.002)


def test_fairret_makes_its_rates_agree(earners):
    X, y, groups = earners
    s = fairret.FAIRRET.fit(X, y, groups, (0.2, None), parity="demographic_parity", seed=0)(X, None)
    assert abs(s[groups == 1].mean() - s[groups == 0].mean()) < 1e-3 * s.mean()
    assert roc_auc_score(y, s) > 0.85


def test_fairret_in_batches_has_settled(people, monkeypatch):
    once = figures(fairret.FAIRRET, (2.0, 512), *people, "demographic_parity")
    monkeypatch.setattr(fairret, "STEPS", 2 * fairret.STEPS)
    assert once == pytest.approx(
        figures(fairret.FAIRRET, (2.0, 512), *people, "demographic_parity"), abs=0.02
    )


# ---------------------------------------------------------------- by hand


def test_transport_of_a_few_scores():
    ordered = np.array([0.2, 0.4, 0.4, 0.8])
    assert transport.rank(ordered, np.array([0.1, 0.2, 0.3, 0.4, 0.9])) == pytest.approx(
        [0.125, 0.125, 0.3125, 0.5, 0.875]
    )
    assert transport.quantile(ordered, np.array([0.0, 0.125, 0.5, 0.75, 1.0])) == pytest.approx(
        [0.2, 0.2, 0.4, 0.6, 0.8]
    )


@pytest.fixture
def five():
    """Settings of one method in one split; the fourth is beaten by the third."""
    return pd.DataFrame(
        {
            "validation_max_gap": [0.30, 0.20, 0.10, 0.15, 0.05],
            "validation_auc": [0.90, 0.85, 0.80, 0.79, 0.70],
            "max_gap": [0.28, 0.22, 0.12, 0.02, 0.08],
            "auc": [0.89, 0.86, 0.80, 0.81, 0.72],
        }
    )


def test_the_choice_is_made_on_validation_rows(five):
    assert tables.choose(five, 0.16).name == 2
    assert tables.choose(five, 0.06).name == 4
    assert tables.choose(five, 0.01).name == 4


def test_what_is_beaten_leaves_the_path(five):
    assert tables.frontier(five).index.tolist() == [0, 1, 2, 4]
    assert tables.frontier(five.iloc[::-1]).index.tolist() == [0, 1, 2, 4]


def test_quality_at_a_gap_is_interpolated_on_test_rows(five):
    path = tables.frontier(five)
    assert tables.at_gap(path, 0.17, "auc") == pytest.approx(0.83)
    assert tables.at_gap(path, 0.29, "auc") == 0.89
    assert np.isnan(tables.at_gap(path, 0.07, "auc"))


def test_means_say_how_many_splits_they_are_of():
    assert tables.mean_and_error([0.1, 0.3]) == "0.2000 ± 0.1000"
    assert tables.mean_and_error([0.1, np.nan, 0.3]) == "0.2000 ± 0.1000 (2 of 3)"
    assert tables.mean_and_error([0.1, np.nan]) == "0.1000 (1 of 2)"
    assert tables.mean_and_error([np.nan]) == "–"


# ---------------------------------------------------------------- LinearPost


@pytest.mark.parametrize("n_strata", [1, 2])
@pytest.mark.parametrize("bound", [0.05, 0.01])
def test_linear_post_decides_within_its_bound_and_as_well_as_any_decision(n_strata, bound):
    """The value of the duals is the optimum that another solver finds."""
    cp = need("cvxpy")
    rng = np.random.default_rng(0)
    n = 300
    r = rng.beta(1, 1, n)
    u = rng.beta(2, 2, (n, 2 * n_strata)) + r[:, None] * np.tile([0.0, 2.0], n_strata)
    contrasts = linear_post._contrasts(u / u.mean(axis=0))
    duals = linear_post.solve(r, contrasts, bound)
    m = linear_post.margin(r, contrasts, duals)
    p = cp.Variable(n)
    gaps = contrasts.T @ p / n
    best = cp.Problem(cp.Minimize((1 - 2 * r) @ p / n), [p >= 0, p <= 1, cp.abs(gaps) <= bound]).solve()
    assert -(np.maximum(m, 0).mean() + bound * np.abs(duals).sum()) == pytest.approx(best, abs=1e-6)
    decided = m > 1e-9
    assert (np.abs(contrasts.T @ decided / n) <= bound + n_strata * np.abs(contrasts).max() / n).all()
    assert np.abs(duals).max() > 0.03, "the bound binds"
