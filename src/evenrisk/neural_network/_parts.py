"""Parts of a training set: merged, without rows of weight 0, or some held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenrisk._estimator import TrainingData
from evenrisk._estimator._data import COLLAPSE_ENTRIES, collapse
from evenrisk._types import Cells
from evenrisk._validation import Groups, listed
from evenrisk.parity import Parity, make_cells


def merged(data: TrainingData, parity: Parity) -> TrainingData:
    """Equal rows as one that carries their weight, where looking for them is quick."""
    if data.X.shape[0] * data.X.shape[1] > COLLAPSE_ENTRIES:
        return without_weightless(data, parity)
    X, y, weight, groups = collapse(data.X, data.y, data.weight, data.groups)
    return replace(data, X=X, y=y, weight=weight, groups=groups, cells=cells_of(y, weight, groups, parity))


def without_weightless(data: TrainingData, parity: Parity) -> TrainingData:
    """Drop the rows of weight 0."""
    return data if data.weight.all() else some(data, np.flatnonzero(data.weight), parity)


def some(data: TrainingData, rows: np.ndarray, parity: Parity) -> TrainingData:
    """Keep some rows, and all groups."""
    y, weight = data.y[rows], data.weight[rows]
    groups = None if data.groups is None else data.groups.take(rows)
    return replace(
        data, X=data.X[rows], y=y, weight=weight, groups=groups, cells=cells_of(y, weight, groups, parity)
    )


def cells_of(y: np.ndarray, weight: np.ndarray, groups: Groups | None, parity: Parity) -> Cells | None:
    """The cells of these rows, where they have groups."""
    if groups is None:
        return None
    return make_cells(parity, y, groups.code, len(groups.labels), weight)


def held_out(
    data: TrainingData, fraction: float, parity: Parity, rng: np.random.RandomState
) -> tuple[TrainingData, TrainingData]:
    """Split by chance into (training, validation), both with their share of every label in every group."""
    group = np.zeros(len(data.y), np.intp) if data.groups is None else data.groups.code
    kind = 2 * group + data.y
    taken = np.zeros(len(kind), dtype=bool)
    for each in np.unique(kind):
        rows = rng.permutation(np.flatnonzero(kind == each))
        taken[rows[: round(fraction * len(rows))]] = True
    _check_part("validation", data, taken, fraction, parity)
    _check_part("training", data, ~taken, fraction, parity)
    return some(data, np.flatnonzero(~taken), parity), some(data, np.flatnonzero(taken), parity)


def _check_part(name: str, data: TrainingData, rows: np.ndarray, fraction: float, parity: Parity) -> None:
    """Refuse a part without some label or cell."""
    lost = [f"label {listed(data.classes[[label]])}" for label in (0, 1) if not (data.y[rows] == label).any()]
    if data.cells is not None and data.groups is not None:
        cell_names = parity.cell_names([repr(each) for each in data.groups.names])
        counts = np.bincount(data.cells.code[rows] + 1, minlength=len(cell_names) + 1)[1:]
        lost += [cell for cell, count in zip(cell_names, counts, strict=True) if count == 0]
    if lost:
        raise ValueError(
            f"`validation_fraction` must leave rows of every label and cell in the {name} part, got "
            f"{fraction:g} of {len(rows)} rows and none of: {'; '.join(lost)}"
        )
