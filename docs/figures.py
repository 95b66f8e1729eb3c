"""The pictures of the docs: the gap at every threshold, the risk distributions, the gap by the cut in age."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from sklearn.model_selection import train_test_split

from evenrisk import FairLogisticRegression, threshold_profile
from evenrisk.datasets import load_compas
from evenrisk.plots import GapByCutDisplay, ParityCurveDisplay, RiskDistributionDisplay

ETA = 10
NAMES = {0: "plain logistic regression", ETA: f"fair, eta = {ETA}"}


def draw(folder: Path) -> None:
    """Write ``parity.svg`` and ``risks.svg``, whose split is the guide's, and ``cuts.svg``."""
    data = load_compas()
    X, y, race = data
    X_train, X_test, y_train, y_test, race_train, race_test = train_test_split(
        X, y, race, test_size=0.3, random_state=0
    )
    models = {
        eta: FairLogisticRegression(eta=eta).fit(X_train, y_train, sensitive_features=race_train)
        for eta in NAMES
    }
    folder.mkdir(parents=True, exist_ok=True)
    # the same bytes every time, and letters as outlines: no font is asked of the reader
    with mpl.rc_context({"svg.hashsalt": "evenrisk", "svg.fonttype": "path"}):
        _save(_parity(models, X_test, y_test, race_test), folder / "parity.svg")
        _save(_risks(models, X_test, y_test, race_test), folder / "risks.svg")
        _save(_cuts(data.frame), folder / "cuts.svg")


def _parity(models: dict, X_test: Any, y_test: Any, race_test: Any) -> Figure:
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    ax = figure.subplots()
    for eta, model in models.items():
        score = model.predict_proba(X_test)[:, 1]
        profile = threshold_profile(y_test, score, sensitive_features=race_test)
        # chance hardly depends on the model: once is enough
        floor = None if eta else profile.noise_floor(random_state=0)
        ParityCurveDisplay(profile, name=NAMES[eta]).plot(ax, noise_floor=floor)
    return figure


def _risks(models: dict, X_test: Any, y_test: Any, race_test: Any) -> Figure:
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    for ax, (eta, model) in zip(figure.subplots(1, 2), models.items(), strict=True):
        RiskDistributionDisplay.from_estimator(model, X_test, y_test, sensitive_features=race_test, ax=ax)
        ax.set_title(NAMES[eta], fontsize="medium")
    return figure


def _cuts(frame: Any) -> Figure:
    profile = threshold_profile(
        None, frame["decile_score"], sensitive_features=frame[["age"]], comparison="ordered"
    )
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    GapByCutDisplay(profile, name="COMPAS's score").plot(figure.subplots(), band=profile.band(random_state=0))
    return figure


def _save(figure: Figure, path: Path) -> None:
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).parent / "generated" / "figures")
