"""Audits to look at in a browser, the browser, and rates counted by scikit-learn."""

import os
import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix

from evenrisk.report import audit

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCRIPT = "<script>alert(1)</script>"
GROUPS = (SCRIPT, '"Zoë" 日本', "A long name that goes on and on until it has sixty characters")
LABEL = 'le "label" 標籤'
POSITIVE, NEGATIVE = '"ja" & 是', "<no>"
QUICK = {"n_resamples": 40, "n_permutations": 40}


def chromium():
    """Find the browser; a machine may lack it, unless it says that it must not."""
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    path = next((path for path in found if path), None)
    if path is None:
        if os.environ.get("EVENRISK_BROWSER") == "required":
            pytest.fail("EVENRISK_BROWSER is 'required', and there is no Chromium")
        pytest.skip("there is no Chromium")
    return path


@dataclass(frozen=True, eq=False)
class Audited:
    """Rows, and their audit."""

    y: np.ndarray
    score: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    favourable: str
    report: Any

    def rates(self, name, t):
        """Count one group's decisions at a threshold."""
        rows = self.group == name
        y, above, w = self.y[rows], self.score[rows] > t, self.weight[rows]
        (tn, fp), (fn, tp) = confusion_matrix(y, above, labels=[False, True], sample_weight=w)
        with np.errstate(invalid="ignore", divide="ignore"):
            return {
                "selection_rate": np.average(above, weights=w),
                "tpr": tp / (tp + fn),
                "fpr": fp / (fp + tn),
                "ppv": np.divide(tp, tp + fp),
                "accuracy": (tp + tn) / (tp + tn + fp + fn),
                "count": f"{above.sum()} of {rows.sum()}",
            }


def audited(*, weighted=False, favourable="high", threshold=0.5, n=700):
    """Three unequal groups whose names are hostile, ties, a score of two decimals."""
    rng = np.random.default_rng(3)
    code = rng.choice(3, n, p=[0.2, 0.3, 0.5])
    y = rng.random(n) < 0.3 + 0.15 * code
    score = (1 / (1 + np.exp(-rng.normal(0.9 * y + 0.4 * code - 1, 1)))).round(2)
    group = np.array(GROUPS)[code]
    weight = rng.integers(1, 5, n) + 0.25 if weighted else np.ones(n)
    report = audit(
        pd.Series(np.where(y, POSITIVE, NEGATIVE), name=LABEL),
        pd.Series(score, name="risk & <b>score</b>"),
        sensitive_features=pd.Series(group, name="<i>who</i>"),
        sample_weight=weight if weighted else None,
        positive=POSITIVE,
        favourable=favourable,
        threshold=threshold,
        **QUICK,
    )
    return Audited(y, score, group, weight, favourable, report)


def crowded(n=5_000):
    """Twelve groups with long names, four columns on scales that have nothing in common."""
    rng = np.random.default_rng(4)
    code = rng.integers(0, 12, n)
    y = rng.random(n) < 0.3 + 0.02 * code
    raw = rng.normal(0.1 * code + y, 1)
    columns = {
        "credit points of an agency whose name is long": 850 - 1150 / (1 + np.exp(raw)),
        "tiny": 1e-9 * raw,
        "huge": 1e12 * raw,
        "probability": 1 / (1 + np.exp(-raw)),
    }
    return audit(
        y,
        columns,
        sensitive_features=np.array([f"Group {i} of those with a rather long name" for i in range(12)])[code],
        sample_weight=rng.random(n) + 0.5,
        **QUICK,
    )
