"""Plain LightGBM, and FairGBM, which bounds the rates at one threshold.

FairGBM (0.9.14) is LightGBM 3 with constraints on false positives and false negatives at 0.5, so a rival
under equalized odds only. It wants scikit-learn below 1.6 and NumPy 1: it runs in an environment of its own,
`.venv-fairgbm` (`make .venv-fairgbm/.done`), and is left out where that is not there.
"""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import lightgbm
import numpy as np

from rivals._protocol import Rival, Score

ROUNDS, LEAVES = (25, 50, 100, 200, 400), (8, 31)
PLAIN_SETTINGS = tuple((leaves, rounds) for leaves in LEAVES for rounds in ROUNDS)
ENVIRONMENT = Path(__file__).parents[2] / ".venv-fairgbm"
RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # of its multipliers: how fast a violation is punished


def plain(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """LightGBM's own log loss."""
    scores = []
    for leaves, rounds in settings:
        model = lightgbm.LGBMClassifier(num_leaves=leaves, n_estimators=rounds, n_jobs=1, verbosity=-1)
        model.set_params(colsample_bytree=0.5, random_state=seed)
        scores.append(_score(model.fit(X, y).booster_))
    return scores


def fairgbm(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Fit all settings in the other environment, and ask there for scores."""
    rates = np.array([rate for rate, _, _ in settings])
    shape = np.array([(leaves, rounds) for _, leaves, rounds in settings])
    with TemporaryDirectory() as folder:
        np.savez(f"{folder}/data.npz", X=X, y=y, groups=groups, rates=rates, shape=shape, seed=seed)
        _run_worker("fit", folder)
        models = [Path(folder, f"{i}.txt").read_text() for i in range(len(settings))]
    known = []  # rows, and all models' scores of them: to ask for one costs as much as to ask for all

    def score(X, place: int) -> np.ndarray:
        if not any(rows is X for rows, _ in known):
            known.append((X, _scores(models, X)))
        return next(scores for rows, scores in known if rows is X)[place]

    return [lambda X, groups, place=place: score(X, place) for place in range(len(models))]


def _scores(models: list[str], X) -> np.ndarray:
    """Return the risk by each model (m, n)."""
    with TemporaryDirectory() as folder:
        for i, model in enumerate(models):
            Path(folder, f"{i}.txt").write_text(model)
        np.save(f"{folder}/X.npy", X)
        _run_worker("predict", folder)
        return np.load(f"{folder}/scores.npy")


def _run_worker(what: str, folder: str) -> None:
    worker = Path(__file__).with_name("_fairgbm_worker.py")
    command = [ENVIRONMENT / "bin" / "python", "-W", "ignore", worker, what, folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _score(booster) -> Score:
    return lambda X, groups: booster.predict(X, num_threads=1)


PLAIN_TREES = Rival(
    "plain LightGBM", plain, dict.fromkeys(("demographic_parity", "equalized_odds"), PLAIN_SETTINGS)
)
FAIRGBM = Rival(
    "FairGBM",
    fairgbm,
    {"equalized_odds": tuple((rate, leaves, 200) for leaves in LEAVES for rate in RATES)}
    if (ENVIRONMENT / ".done").exists()
    else {},
)
