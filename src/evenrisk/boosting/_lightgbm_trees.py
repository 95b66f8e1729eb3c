"""LightGBM's trees, with leaves of our own values."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrisk._validation import install_hint
from evenrisk.boosting._classifier import Rows
from evenrisk.boosting._nearest import nearest
from evenrisk.boosting._training import Grown

try:
    import lightgbm as lgb
except ImportError as error:
    raise ImportError(f"FairLGBMClassifier needs lightgbm: {install_hint('boosting', 'lightgbm')}") from error

APART = 1e-9  # of the largest: values of leaves that differ by more can be told from sums they were added to


PLAIN = "\n[objective: binary]\n[metric: binary_logloss]\n"


class LightGBMTrees:
    """A booster whose trees get their leaves' values from us.

    LightGBM adds its own values to the scores it keeps. They serve to tell the leaf of each row: its score
    has just moved by the value of it. Where two leaves have one value, the rows are sent down the tree
    instead."""

    def __init__(self, settings: dict[str, Any], datasets: list[Any], rows: list[Rows], start: float) -> None:
        self.settings, self.train = settings, datasets[0]
        self.booster = lgb.Booster(settings | {"objective": "none", "metric": "none"}, self.train)
        for place, each in enumerate(datasets[1:]):
            self.booster.add_valid(each, f"valid_{place}")
        self.features = [each.X for each in rows]  # of the training rows, then of the evaluation sets'
        self.start = start
        self.stump = 0  # 1 where the first tree has no split
        self.scores = self._scores()
        self.leaf: list[np.ndarray] = []  # in the last tree, in the same order

    def grow(self, gradient: np.ndarray, curvature: np.ndarray) -> Grown | None:
        """Add a tree; None where no split is worth it."""
        if not self._has_features():
            return None
        if self.booster.update(fobj=lambda scores, data: (gradient, curvature)):
            if (
                self.booster.num_trees() == 1 and not self.stump
            ):  # LightGBM keeps a first tree without a split
                self.stump = 1
                self.booster.set_leaf_output(0, 0, self.start)
            return None
        tree = self.booster.num_trees() - 1
        values = self._values(tree)
        before, self.scores = self.scores, self._scores()
        if np.diff(np.sort(values)).min(initial=np.inf) > APART * np.abs(values).max():
            moved = (new - old for new, old in zip(self.scores, before, strict=True))
            self.leaf = [nearest(values, step) for step in moved]
        else:
            self.leaf = [self._sent_down(X, tree) for X in self.features]
        return Grown(self.leaf[0], values)

    def _values(self, tree: int) -> np.ndarray:
        """LightGBM's values of a tree's leaves; there is no quicker way to their number than its text."""
        text = self.booster.model_to_string(start_iteration=tree, num_iteration=1)
        return np.array(text.split("\nleaf_value=", 1)[1].split("\n", 1)[0].split(), dtype=np.float64)

    def _sent_down(self, X: Any, tree: int) -> np.ndarray:
        """The leaf of each row, from its features."""
        leaf = self.booster.predict(X, pred_leaf=True, start_iteration=tree, num_iteration=1)
        return np.asarray(leaf).reshape(-1).astype(np.intp)

    def write(self, values: np.ndarray) -> None:
        """Give the leaves of the last tree their values; the first one's carry the starting score too."""
        tree = self.booster.num_trees() - 1
        base = self.start if tree == 0 else 0.0
        for leaf, value in enumerate(values.tolist()):
            self.booster.set_leaf_output(tree, leaf, base + value)

    def leaves(self, place: int) -> np.ndarray:
        """Give the leaf of each row of an evaluation set in the last tree."""
        return self.leaf[1 + place]

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Values as LightGBM keeps them."""
        return values

    def finish(self, n_trees: int) -> Any:
        """Give the model of the first trees, with the sigmoid in it and without the data."""
        if self.booster.num_trees() == 0:  # no column to split, for LightGBM itself neither
            return lgb.train(self.settings | {"objective": "binary"}, self.train, 1)
        text = self.booster.model_to_string(num_iteration=n_trees + self.stump)
        head, end, rest = text.partition("\nfeature_names=")
        # the settings at the end are what `Booster.params` and tools that explain a model go by
        rest = rest.replace("\n[objective: custom]\n[metric: custom]\n", PLAIN)
        return lgb.Booster(model_str=f"{head}\nobjective=binary sigmoid:1{end}{rest}")

    def _has_features(self) -> bool:
        """Whether a column has two values to split: LightGBM takes no gradients where none has."""
        columns = range(self.train.num_feature())
        return self.booster.num_trees() > 0 or any(self.train.feature_num_bin(i) > 1 for i in columns)

    def _scores(self) -> list[np.ndarray]:
        """LightGBM's own scores of the training rows and of every evaluation set."""
        seen: list[np.ndarray] = []

        def see(scores: np.ndarray, data: Any) -> tuple[str, float, bool]:
            seen.append(scores.copy())
            return "seen", 0.0, True

        self.booster.eval_train(see)
        self.booster.eval_valid(see)
        return seen
