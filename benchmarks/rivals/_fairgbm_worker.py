"""FairGBM in its own environment: fits data.npz of a folder, a model each setting, or scores X.npy by all."""

import sys
from pathlib import Path

import numpy as np
from fairgbm import Booster, FairGBMClassifier


def fit(folder):
    data = np.load(f"{folder}/data.npz")
    for i, (rate, (leaves, rounds)) in enumerate(zip(data["rates"], data["shape"], strict=True)):
        model = FairGBMClassifier(
            constraint_type="FPR,FNR",
            multiplier_learning_rate=float(rate),
            num_leaves=int(leaves),
            n_estimators=int(rounds),
            colsample_bytree=0.5,
            random_state=int(data["seed"]),
            n_jobs=1,
        )
        model.fit(data["X"], data["y"], constraint_group=data["groups"])
        model.booster_.save_model(f"{folder}/{i}.txt")


def predict(folder):
    X = np.load(f"{folder}/X.npy")
    n_models = len(list(Path(folder).glob("*.txt")))
    models = [Booster(model_file=f"{folder}/{i}.txt") for i in range(n_models)]
    raw = np.array([model.predict(X, raw_score=True) for model in models])
    np.save(f"{folder}/scores.npy", 1 / (1 + np.exp(-raw)))


{"fit": fit, "predict": predict}[sys.argv[1]](sys.argv[2])
