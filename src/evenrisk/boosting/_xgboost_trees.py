"""XGBoost's trees, with leaves of our own values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy.special import expit

from evenrisk.boosting._training import Grown

try:
    import xgboost as xgb
except ImportError as error:
    raise ImportError("FairXGBClassifier needs xgboost: pip install 'evenrisk[boosting]'") from error

NOTHING = (np.empty(0, dtype=np.intp), np.empty(0))  # to be written to a tree


class XGBoostTrees:
    """A booster whose trees get their leaves' values from us, when all of them are grown."""

    def __init__(
        self, settings: dict[str, Any], train: Any, sets: list[Any], start: float, *, own_values: bool
    ) -> None:
        self.own_values = own_values
        self.settings = settings | {"base_score": float(expit(start))}
        self.booster = xgb.Booster(self.settings, [train])
        self.train, self.sets = train, sets
        self.written: list[tuple[np.ndarray, np.ndarray]] = []  # nodes and values of each tree's leaves
        self.nodes = np.empty(0, dtype=np.intp)  # of the last tree's leaves, ascending

    def grow(self, gradient: np.ndarray, curvature: np.ndarray) -> Grown | None:
        """Add a tree; None where no split is worth it."""
        round_ = self.booster.num_boosted_rounds()
        self.booster.update(self.train, round_, fobj=lambda scores, data: (gradient, curvature))
        self.last = self.booster[round_ : round_ + 1]
        node = self._nodes(self.train)
        self.nodes = np.flatnonzero(np.bincount(node))
        if len(self.nodes) < 2:
            return None
        leaf = np.searchsorted(self.nodes, node)
        return Grown(leaf, self._own_values(leaf) if self.own_values else np.zeros(len(self.nodes)))

    def write(self, values: np.ndarray) -> None:
        """Remember the values of the last tree's leaves."""
        self.written.append((self.nodes, values))

    def leaves(self, place: int) -> np.ndarray:
        """Give the leaf of each row of an evaluation set in the last tree."""
        # a leaf that no training row reached has no value of ours; its neighbour's is as good as any
        return np.searchsorted(self.nodes, self._nodes(self.sets[place])).clip(0, len(self.nodes) - 1)

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Values as XGBoost keeps them, in single precision."""
        return values.astype(np.float32).astype(np.float64)

    def finish(self, n_trees: int) -> Any:
        """Give the model of the first trees, with our values in their leaves."""
        # where no split was worth it there is a tree of one leaf, and the score stays where it started
        written = self.written[:n_trees] or [(np.zeros(1, dtype=np.intp), np.zeros(1))]
        return edited(self.booster, written)

    def _nodes(self, matrix: Any) -> np.ndarray:
        """The node of the last tree that each row ends in."""
        return self.last.predict(matrix, pred_leaf=True).reshape(-1).astype(np.intp)

    def _own_values(self, leaf: np.ndarray) -> np.ndarray:
        """XGBoost's values of the last tree's leaves, learning rate included."""
        margin = self.last.predict(self.train, output_margin=True).astype(np.float64)
        base = float(np.log(self.settings["base_score"] / (1 - self.settings["base_score"])))
        return np.bincount(leaf, weights=margin - base) / np.bincount(leaf)


def edited(booster: Any, written: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    """Give a copy with the first trees only, as many as `written`, and these values in their nodes.

    A slice of a booster would forget the names of categories.
    """
    model = json.loads(booster.save_raw("json"))
    forest = model["learner"]["gradient_booster"]["model"]
    n_trees = len(written)
    forest["trees"], forest["tree_info"] = forest["trees"][:n_trees], forest["tree_info"][:n_trees]
    forest["iteration_indptr"] = forest["iteration_indptr"][: n_trees + 1]
    forest["gbtree_model_param"]["num_trees"] = str(n_trees)
    for tree, (nodes, values) in zip(forest["trees"], written, strict=True):
        for node, value in zip(nodes.tolist(), values.tolist(), strict=True):
            tree["split_conditions"][node] = tree["base_weights"][node] = value
    return xgb.Booster(model_file=bytearray(json.dumps(model).encode()))
