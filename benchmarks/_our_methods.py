"""Our own methods as `rivals.Rival`: each along its path over η.

Linear models, the kernel machine and networks have a warm path over η. Boosted trees are grown once for each
η and number of leaves and measured after several numbers of rounds; validation chooses.
"""

import warnings
from itertools import groupby

import numpy as np
import xgboost

from evenrisk import FairKernelSVC, FairLogisticRegression, GapDistance, exceptions
from evenrisk.boosting import FairLGBMClassifier, FairXGBClassifier
from evenrisk.neural_network import FairMLPClassifier
from rivals._protocol import ALPHA, PARITIES, Rival, risk_of

COLLAPSE = (  # what the strong end of a path ends in, as it should
    exceptions.CollapseWarning,
    exceptions.ConvergenceWarning,
    exceptions.MajorityRateWarning,
    exceptions.ReversedRankingWarning,
)
WORST = GapDistance(scale="rank", power=8)  # near the max gap itself


def quietly(fit):
    """Call without the warnings of a collapse."""
    with warnings.catch_warnings():
        for kind in COLLAPSE:
            warnings.simplefilter("ignore", kind)
        return fit()


def along(name, model, etas, most_rows=np.inf) -> Rival:
    """Return a method with a warm path over η."""

    def path(X, y, groups, settings, *, parity, seed):
        chosen = model.set_params(parity=parity)
        fitted = quietly(lambda: chosen.fit_path(X, y, settings, sensitive_features=groups))
        return [risk_of(each) for each in fitted]

    return Rival(name, path, dict.fromkeys(PARITIES, (0.0, *etas)), most_rows=most_rows)


def logistic(distance):
    return FairLogisticRegression(distance=distance, alpha=ALPHA, tol=1e-5)


LINEAR = (
    along("evenrisk LR, gap", logistic("gap"), np.geomspace(0.3, 300, 25)),
    along("evenrisk LR, worst gap", logistic(WORST), np.geomspace(0.1, 100, 25)),
    along("evenrisk LR, histogram", logistic("histogram"), np.geomspace(0.02, 5, 20)),
    along("evenrisk LR, gaussian", logistic("gaussian"), np.geomspace(0.02, 20, 20)),
    along("evenrisk KSVM, histogram", FairKernelSVC(distance="histogram"), np.geomspace(0.1, 30, 16), 3000),
)

ROUNDS = (25, 50, 100, 200, 400)
LEAVES = (8, 31)
BOOSTED_ETAS = (0.0, *np.geomspace(0.5, 100, 12).round(2).tolist())


def after(model, rounds):
    """Return the score after some of a booster's rounds."""
    if isinstance(model, FairLGBMClassifier):
        return lambda X, groups: model.booster_.predict(X, num_iteration=rounds, num_threads=1)
    end = min(rounds, model.n_estimators_)
    return lambda X, groups: model.booster_.predict(xgboost.DMatrix(X, nthread=1), iteration_range=(0, end))


def boosted(name, kind, all_leaves=LEAVES, etas=BOOSTED_ETAS, **size) -> Rival:
    """Return a booster; a setting is (η, leaves, rounds)."""

    def path(X, y, groups, settings, *, parity, seed):
        scores = []
        for (eta, leaves), some in groupby(settings, key=lambda setting: setting[:2]):
            rounds = [setting[2] for setting in some]
            model = kind(parity, eta=eta, n_estimators=max(rounds), learning_rate=0.1, n_jobs=1)
            model.set_params(colsample_bytree=0.5, random_state=seed)
            model.set_params(**{key: value(leaves) for key, value in size.items()})
            quietly(lambda model=model: model.fit(X, y, sensitive_features=groups))
            scores += [after(model, each) for each in rounds]
        return scores

    settings = tuple((eta, leaves, each) for leaves in all_leaves for eta in etas for each in ROUNDS)
    return Rival(name, path, dict.fromkeys(PARITIES, settings))


LIGHTGBM = boosted("evenrisk LightGBM, gap", FairLGBMClassifier, num_leaves=lambda leaves: leaves)
BOOSTED = (
    LIGHTGBM,
    boosted(
        "evenrisk XGBoost, gap",
        FairXGBClassifier,
        all_leaves=LEAVES[1:],
        etas=BOOSTED_ETAS[::2],
        max_leaves=lambda leaves: leaves,
        grow_policy=lambda leaves: "lossguide",
        max_depth=lambda leaves: 0,
    ),
)


def network(distance):
    return FairMLPClassifier(distance=distance, solver="adam", max_iter=60, random_state=0)


NETWORKS = (
    along("evenrisk MLP, gap", network("gap"), np.geomspace(0.5, 200, 20)),
    along("evenrisk MLP, worst gap", network(WORST), np.geomspace(0.1, 100, 20)),
    along("evenrisk MLP, histogram", network("histogram"), np.geomspace(0.03, 10, 20)),
)

OURS = (*LINEAR, *NETWORKS, *BOOSTED)
