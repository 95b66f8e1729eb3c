"""Repairs of plain models as `rivals.Rival`: a setting is (size of the base model, η or strength).

The base models are fitted once for each size; validation chooses size and η together.
"""

import warnings
from itertools import groupby

import numpy as np
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier

from evenrisk import BlindRepair, GapDistance, exceptions
from evenrisk.postprocessing import BarycenterRepair, RepairedClassifier
from rivals._protocol import PARITIES, TREE_SIZES, Rival, plain_model, plain_trees, risk_of

QUIET = (  # what the strong end of a path ends in, as it should, and what is said of a forest's training rows
    exceptions.CollapseWarning,
    exceptions.ConvergenceWarning,
    exceptions.MajorityRateWarning,
    exceptions.RepairWarning,
    exceptions.ReversedRankingWarning,
)
WORST = GapDistance(power=8)  # near the max gap itself
GAP_ETAS = (0.0, *np.geomspace(0.5, 1000, 25).round(2).tolist())
WORST_ETAS = (0.0, *np.geomspace(0.1, 300, 25).round(2).tolist())
STRENGTHS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DISTILLED_SIZE = (31, 100)
DISTILLED_ETAS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def quietly(fit):
    """Call without the warnings of a collapse."""
    with warnings.catch_warnings():
        for kind in QUIET:
            warnings.simplefilter("ignore", kind)
        return fit()


def forest(size, n, seed):
    """Return a random forest; its leaves are large enough for probabilities."""
    leaf, trees = size
    return RandomForestClassifier(trees, min_samples_leaf=leaf, random_state=seed, n_jobs=1)


def slow_trees(size, n, seed):
    """Return a LightGBM of many trees that learn slowly."""
    return plain_trees(*size, seed, learning_rate=0.05, colsample_bytree=0.3)


BASES = {
    "LR": (lambda size, n, seed: plain_model(n), (None,)),
    "random forest": (forest, ((5, 100),)),
    "LightGBM": (lambda size, n, seed: plain_trees(*size, seed), TREE_SIZES),
    "LightGBM, 300 trees": (slow_trees, ((31, 300),)),
}


def repaired(name, base, distance, etas, *, sizes=None, cv=5) -> Rival:
    """Return the blind repair of a kind of model."""
    make, all_sizes = BASES[base]

    def path(X, y, groups, settings, *, parity, seed):
        scores = []
        for size, some in groupby(settings, key=lambda setting: setting[0]):
            base = make(size, len(y), seed)
            repair = BlindRepair(base, parity, distance=distance, cv=cv, random_state=seed)
            wanted = [eta for _, eta in some]
            fitted = quietly(lambda r=repair, w=wanted: r.fit_path(X, y, w, sensitive_features=groups))
            scores += [risk_of(each) for each in fitted]
        return scores

    settings = tuple((size, eta) for size in (sizes or all_sizes) for eta in etas)
    return Rival(name, path, dict.fromkeys(PARITIES, settings))


def distilled(name, distance, etas) -> Rival:
    """Return one LightGBM that imitates the repaired LightGBM, for each η."""

    def path(X, y, groups, settings, *, parity, seed):
        from lightgbm import LGBMRegressor

        base = plain_trees(*DISTILLED_SIZE, seed)
        repair = BlindRepair(base, parity, distance=distance, warm_start=True, random_state=seed)
        imitator = LGBMRegressor(num_leaves=63, n_estimators=500, colsample_bytree=0.5)
        imitator.set_params(random_state=seed, n_jobs=1, verbosity=-1)
        scores = []
        for _, eta in settings:
            repair.set_params(eta=eta)
            found = quietly(lambda: repair.distill(imitator, X, y, sensitive_features=groups))
            scores.append(lambda X, groups, model=found.model: expit(model.predict(X)))
        return scores

    return Rival(name, path, {"demographic_parity": tuple((DISTILLED_SIZE, eta) for eta in etas)})


def aware(name, base) -> Rival:
    """Return the aware repair of a kind of model, part of the way and all of it."""
    make, sizes = BASES[base]

    def path(X, y, groups, settings, *, parity, seed):
        scores = []
        for size, some in groupby(settings, key=lambda setting: setting[0]):
            model = RepairedClassifier(make(size, len(y), seed), warm_start=True, random_state=seed)
            for _, strength in some:
                model.set_params(repair=BarycenterRepair(strength))
                fitted = quietly(lambda m=model: m.fit(X, y, sensitive_features=groups))
                scores.append(_risk_by_group(fitted._classifier, fitted.repair_))
        return scores

    settings = tuple((size, strength) for size in sizes for strength in STRENGTHS)
    return Rival(name, path, {"demographic_parity": settings}, aware=True)


def _risk_by_group(classifier, repair):
    return lambda X, groups: repair.transform(classifier.probabilities(X)[:, 1], sensitive_features=groups)


PAIR = ("BlindRepair (one LightGBM), worst gap", "the same, distilled")
REPAIRS = (
    repaired("BlindRepair (LR), worst gap", "LR", WORST, WORST_ETAS),
    repaired("BlindRepair (random forest), worst gap", "random forest", WORST, WORST_ETAS),
    repaired("BlindRepair (LightGBM), gap", "LightGBM", "gap", GAP_ETAS),
    repaired("BlindRepair (LightGBM), worst gap", "LightGBM", WORST, WORST_ETAS),
    repaired(PAIR[0], "LightGBM", WORST, DISTILLED_ETAS, sizes=(DISTILLED_SIZE,)),
    distilled(PAIR[1], WORST, DISTILLED_ETAS),
    repaired(
        "BlindRepair (LightGBM, 300 trees), worst gap of ranks, cv=10",
        *("LightGBM, 300 trees", GapDistance(scale="rank", power=8), WORST_ETAS),
        cv=10,
    ),
    aware("RepairedClassifier (LightGBM), barycentre", "LightGBM"),
)
