"""The network on COMPAS at a given gap: accuracy and AUC read off each split's path over η.

Twenty splits of 70/30, standardised on the training part. Under demographic parity at a test max gap of .10,
under equalized odds at a gap of .10 at the threshold 0.5. A split whose path never comes down so far is left
out and counted.
"""

import warnings
from itertools import pairwise

import numpy as np

from _machine import describe
from evenrisk import GapDistance
from evenrisk.datasets import load_compas
from evenrisk.neural_network import FairMLPClassifier
from quality import measure, split
from quality import show as mean_and_sd

ETAS = {"gap": np.geomspace(0.5, 200, 20), "histogram": np.geomspace(0.03, 10, 20)}
WORST = GapDistance(scale="rank", power=8)
ATTEMPTS = {
    "gap, as it comes": ("gap", {}),
    "gap, Adam, 60 epochs": ("gap", {"solver": "adam", "max_iter": 60}),
    "histogram, as it comes": ("histogram", {}),
    "histogram, Adam, 60 epochs": ("histogram", {"solver": "adam", "max_iter": 60}),
    "worst gap (rank, power 8), as it comes": (WORST, {}),
}


def at(points, target, column, on):
    """Interpolate along the path where `on` first comes down to the target; NaN if it never does."""
    for before, after in pairwise(points):
        if after[on] <= target < before[on]:
            share = (before[on] - target) / (before[on] - after[on])
            return before[column] + share * (after[column] - before[column])
    return np.nan


def path(train, test, parity, distance, settings):
    """Measure every point of the path."""
    X, y, groups = train
    model = FairMLPClassifier(parity, distance=distance, random_state=0, **settings)
    etas = ETAS.get(distance, ETAS["gap"]) if isinstance(distance, str) else ETAS["gap"] / 4
    fitted = model.fit_path(X, y, (0.0, *etas), sensitive_features=groups)
    return [measure(each, *test, parity) for each in fitted]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # strong ends of the paths collapse, as they should
    print(describe())
    X, y, race = load_compas()
    splits = [split(X.to_numpy(), y.to_numpy(), race.to_numpy(), seed) for seed in range(100, 120)]
    print("\n| parity | attempt | accuracy | AUC |\n|---|---|---|---|")
    for parity, on in (("demographic_parity", "max_gap"), ("equalized_odds", "gap")):
        for name, (distance, settings) in ATTEMPTS.items():
            paths = [path(*each, parity, distance, settings) for each in splits]
            cells = [mean_and_sd([at(p, 0.10, key, on) for p in paths]) for key in ("accuracy", "auc")]
            print(f"| {parity.replace('_', ' ')} | {name} | {' | '.join(cells)} |", flush=True)
