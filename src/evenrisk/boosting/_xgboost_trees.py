"""XGBoost's trees, with leaves of our own values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy.special import expit

from evenrisk._validation import install_hint
from evenrisk.boosting._training import Grown

try:
    import xgboost as xgb
except ImportError as error:
    raise ImportError(f"FairXGBClassifier needs xgboost: {install_hint('boosting', 'xgboost')}") from error

Leaves = tuple[np.ndarray, np.ndarray]  # nodes, ascending, and values


class XGBoostTrees:
    """A booster whose trees get their leaves' values from us, when all of them are grown."""

    def __init__(
        self, settings: dict[str, Any], train: Any, sets: list[Any], start: float, *, own_values: bool
    ) -> None:
        self.own_values = own_values
        self.settings = settings | {"base_score": float(expit(start))}
        self.booster = xgb.Booster(self.settings, [train])
        self.train, self.sets = train, sets
        self.written: list[Leaves | None] = []  # of each tree; None where it has no split
        self.nodes = np.empty(0, dtype=np.intp)  # of the last tree's leaves, ascending

    def grow(self, gradient: np.ndarray, curvature: np.ndarray) -> Grown | None:
        """Add a tree; None where no split is worth it."""
        round_ = self.booster.num_boosted_rounds()
        self.booster.update(self.train, round_, fobj=lambda scores, data: (gradient, curvature))
        self.last = self.booster[round_ : round_ + 1]
        node = self._nodes(self.train)
        self.nodes = np.flatnonzero(np.bincount(node))
        if len(self.nodes) < 2:
            self.written.append(None)
            return None
        leaf = np.searchsorted(self.nodes, node)
        return Grown(leaf, self._own_values(leaf) if self.own_values else np.zeros(len(self.nodes)))

    def write(self, values: np.ndarray) -> None:
        """Remember the values of the last tree's leaves."""
        self.written.append((self.nodes, values))

    def leaves(self, place: int) -> np.ndarray:
        """Give the leaf of each row of an evaluation set in the last tree."""
        node = self._nodes(self.sets[place])
        leaf = np.searchsorted(self.nodes, node).clip(0, len(self.nodes) - 1)
        return np.where(self.nodes[leaf] == node, leaf, -1)

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Values as XGBoost keeps them, in single precision."""
        return values.astype(np.float32).astype(np.float64)

    def finish(self, n_trees: int) -> Any:
        """Give the model of the first trees, with our values in their leaves."""
        places = [place for place, leaves in enumerate(self.written) if leaves is not None][:n_trees]
        if not places:  # a tree of one leaf: the score stays where it started
            return edited(self.booster, {0: (np.zeros(1, dtype=np.intp), np.zeros(1))})
        return edited(self.booster, {place: self.written[place] for place in places})

    def _nodes(self, matrix: Any) -> np.ndarray:
        """The node of the last tree that each row ends in."""
        return self.last.predict(matrix, pred_leaf=True).reshape(-1).astype(np.intp)

    def _own_values(self, leaf: np.ndarray) -> np.ndarray:
        """XGBoost's values of the last tree's leaves, learning rate included."""
        margin = self.last.predict(self.train, output_margin=True).astype(np.float64)
        base = float(np.log(self.settings["base_score"] / (1 - self.settings["base_score"])))
        return np.bincount(leaf, weights=margin - base) / np.bincount(leaf)


def edited(booster: Any, kept: dict[int, Leaves | None]) -> Any:
    """Give a copy with these trees only, and these values in their leaves; None leaves them as they are.

    A slice of a booster would forget the names of categories. A leaf that no training row reached gets 0.
    """
    model = json.loads(booster.save_raw("json"))
    forest = model["learner"]["gradient_booster"]["model"]
    for name in ("trees", "tree_info"):
        forest[name] = [forest[name][place] for place in kept]
    forest["iteration_indptr"] = list(range(len(kept) + 1))
    forest["gbtree_model_param"]["num_trees"] = str(len(kept))
    for place, (tree, leaves) in enumerate(zip(forest["trees"], kept.values(), strict=True)):
        tree["id"] = place
        if leaves is not None:
            _write(tree, *leaves)
    # XGBoost reads no \u escapes in names
    return xgb.Booster(model_file=bytearray(json.dumps(model, ensure_ascii=False).encode()))


def _write(tree: dict[str, Any], nodes: np.ndarray, values: np.ndarray) -> None:
    ours = dict(zip(nodes.tolist(), values.tolist(), strict=True))
    for node, child in enumerate(tree["left_children"]):
        if child == -1:
            tree["split_conditions"][node] = tree["base_weights"][node] = ours.get(node, 0.0)
