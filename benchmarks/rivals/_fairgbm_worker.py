"""FairGBM in its own environment: fits data.npz of a folder, a model for each setting, or scores X.npy."""

import sys

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
    raw = Booster(model_file=f"{folder}/model.txt").predict(np.load(f"{folder}/X.npy"), raw_score=True)
    np.save(f"{folder}/scores.npy", 1 / (1 + np.exp(-raw)))


{"fit": fit, "predict": predict}[sys.argv[1]](sys.argv[2])
