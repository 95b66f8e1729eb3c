"""Scores of training rows from machines that have not seen them, for the calibration of a kernel machine.

A kernel machine may learn its rows by heart, and a map fitted to its own scores is then too sure: on COMPAS,
with a narrow kernel, calibration made unseen people's log loss worse than none. Five more fits mend that.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator import TrainingData
from evenrisk.calibration import IDENTITY
from evenrisk.parity import make_cells

if TYPE_CHECKING:
    from evenrisk.svm._kernel import FairKernelSVC

FOLDS = 5


def unseen_scores(machine: FairKernelSVC, g: np.ndarray, eta: float, data: TrainingData) -> np.ndarray:
    """Raw scores (n,) of each row from the machine fitted without a fifth of the rows, its own among them.

    Rows whose fold cannot be left out, because a label or a cell would be empty, keep their scores g.
    """
    out = np.array(g, dtype=np.float64)
    fold = np.arange(len(out)) % FOLDS  # merged rows are in an order of their own: no chance needed
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(test) and _whole(data, train):
            out[test] = _scores(machine, eta, data, train, test)
    return out


def _whole(data: TrainingData, rows: np.ndarray) -> bool:
    """Whether these rows have every label and every cell among those of positive weight."""
    rows = rows[data.weight[rows] > 0]
    if len(np.unique(data.y[rows])) < 2:
        return False
    if data.cells is None:
        return True
    left = np.unique(data.cells.code[rows])
    return np.count_nonzero(left >= 0) == data.cells.n_cells


def _scores(
    machine: FairKernelSVC, eta: float, data: TrainingData, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Fit some rows and score others."""
    part = clone(machine).set_params(calibration=None, eta=eta, warm_start=False, verbose=0)
    part._inherit(machine)
    part.calibration_ = None
    columns = train if machine._precomputed else slice(None)
    X = data.X[train][:, columns]
    part.n_features_in_ = X.shape[1]
    y, weight, groups, cells = data.y[train], data.weight[train], None, None
    if data.groups is not None:
        groups = data.groups.take(train)
        cells = make_cells(machine._parity, y, groups.code, len(groups.labels), weight)
    rows = replace(data, X=X, y=y, weight=weight, groups=groups, cells=cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the machine's own fit says it
        for point, problem in part._points(rows, [eta]):
            part.__dict__.update(problem.attributes(point.solution.theta, IDENTITY))
    others = data.X[test][:, columns]
    part.__dict__.pop("feature_names_in_", None)
    return part.decision_function(others)
