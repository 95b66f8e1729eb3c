"""Fair XGBoost: the estimator, and XGBoost's trees with leaves of our own values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator import TrainingData
from evenrisk._validation import Comparison, check_choice, install_hint
from evenrisk.boosting._classifier import (
    BoostedClassifier,
    LibraryRows,
    Results,
    TrainedModel,
    with_our_names,
)
from evenrisk.boosting._rounds import NewTree, StoppingRule, Trees
from evenrisk.distances import Distance
from evenrisk.parity import Parity

try:
    import xgboost as xgb
except ImportError as error:
    raise ImportError(f"FairXGBClassifier needs xgboost: {install_hint('boosting', 'xgboost')}") from error

Leaves = tuple[np.ndarray, np.ndarray]  # nodes, ascending, and values

# what the fit itself reads must come by the one name it knows; XGBoost's `eta` is its learning rate
OTHER_NAMES = {
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "num_boost_round": "n_estimators",
    "seed": "random_state",
    "nthread": "n_jobs",
}
# settings that shape the leaves' values: with one of them the library's own values are kept
LEAF_SHAPING = ("reg_alpha", "max_delta_step", "monotone_constraints")
REFUSED_WITH_PENALTY = {"base_score", "eval_metric", "disable_default_eval_metric"}
IMPORTANCES = ("gain", "weight", "cover", "total_gain", "total_cover")


class FairXGBClassifier(BoostedClassifier):
    """XGBoost whose scores have the same distribution in every group.

    Minimises mean log loss + eta·E_f by gradient boosting, where E_f adds up how far the groups' score
    distributions are apart. XGBoost grows the trees; the values of a tree's leaves are solved for together,
    since rows that move together change the distributions together. The training objective never rises.

    Parameters
    ----------
    parity : str or Parity, default="demographic_parity"
        Among which people groups are compared: "demographic_parity", "equalized_odds", "equal_opportunity"
        (positives only), "predictive_equality" (negatives only), or a :class:`~evenrisk.Parity`.
    comparison : str or Comparison, default="crossed"
        Which groups are compared: "crossed" makes one attribute of several columns and compares every group
        with every other. "each", "each and crossed", "rest", "ordered", "probabilities", or a
        :class:`~evenrisk.Comparison`, which says more.
    distance : str or Distance, default="gap"
        "gap", "histogram", or an instance with its own settings such as ``GapDistance(scale="rank")``. The
        Gaussian distance is singular where all scores tie, which is where boosting starts, and is refused.
    eta : float, default=1.0
        Weight of the penalty, and not XGBoost's `eta`, which is called ``learning_rate`` here. 0 is plain
        XGBoost and needs no ``sensitive_features``.
    n_estimators, learning_rate, max_depth, max_leaves, grow_policy, min_child_weight, gamma, subsample, \
colsample_bytree, reg_alpha, reg_lambda, scale_pos_weight, tree_method, missing, enable_categorical
        As in ``xgboost.XGBClassifier``, with its defaults; None leaves one to XGBoost. ``scale_pos_weight``
        weights the loss and not the comparison of groups. ``reg_alpha``, and among the others
        ``monotone_constraints`` and ``max_delta_step``, shape the values of leaves: with one of them
        XGBoost's own values are kept up to a common factor for each tree, and a large eta needs more trees.
    early_stopping_rounds : int, default=None
        Stop when the objective of the last `eval_set` has not fallen for so many rounds, and keep the trees
        up to its lowest value.
    random_state : int, RandomState instance or None, default=None
        Seed of XGBoost's own choices (row and column sampling).
    n_jobs : int, default=None
        Threads; None is all cores.
    importance_type : {"gain", "weight", "cover", "total_gain", "total_cover"}, default="gain"
        What ``feature_importances_`` is the share of.
    verbose : int, default=0
        Write a line to standard error every so many rounds.
    **others
        Any other parameter of XGBoost (``max_bin``, ``interaction_constraints``, ``device``, …), passed on.

    Attributes
    ----------
    booster_ : xgboost.Booster
        The model as XGBoost's own: ``booster_.save_model("model.json")`` writes it, and whatever loads it
        gives the same probabilities without evenrisk.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    groups_ : ndarray of shape (k,)
        The groups seen, where any were given.
    comparison_ : Comparison
        `comparison` with the cuts that were chosen and the groups that were left out, to measure other rows
        alike; where groups were given.
    feature_importances_ : ndarray of shape (d,)
        The share of each column in the gain, or what `importance_type` says.
    n_estimators_ : int
        Trees kept; fewer than asked for where no step lowers the objective any more, or after early stopping.
    best_iteration_ : int
        The same, after early stopping only.
    evals_result_ : dict
        "objective", "log_loss" and "penalty" of each evaluation set after each round.
    objective_ : float
        The training objective; only with a penalty.
    objective_curve_ : ndarray of shape (trees + 1,)
        The same before the first and after every tree.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    FairLGBMClassifier : The same with LightGBM.
    ParityObjective : The bare objective, for ``xgboost.train``.

    Examples
    --------
    >>> from evenrisk.boosting import FairXGBClassifier
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> X, y, race = load_compas()
    >>> for eta in (0, 20):
    ...     clf = FairXGBClassifier(eta=eta, max_depth=3, n_estimators=50, learning_rate=0.1, n_jobs=1)
    ...     s = clf.fit(X, y, sensitive_features=race).predict_proba(X)[:, 1]
    ...     print(round(max_demographic_parity_difference(y, s, sensitive_features=race), 2))
    0.26
    0.04
    """

    def __init__(
        self,
        parity: str | Parity = "demographic_parity",
        *,
        comparison: str | Comparison = "crossed",
        distance: str | Distance = "gap",
        eta: float = 1.0,
        n_estimators: int = 100,
        learning_rate: float = 0.3,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        grow_policy: str | None = None,
        min_child_weight: float | None = None,
        gamma: float | None = None,
        subsample: float | None = None,
        colsample_bytree: float | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float = 1.0,
        scale_pos_weight: float | None = None,
        tree_method: str | None = None,
        missing: float = np.nan,
        enable_categorical: bool = True,
        early_stopping_rounds: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        importance_type: str = "gain",
        verbose: int = 0,
        **others: Any,
    ) -> None:
        self.parity = parity
        self.comparison = comparison
        self.distance = distance
        self.eta = eta
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.grow_policy = grow_policy
        self.min_child_weight = min_child_weight
        self.gamma = gamma
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.scale_pos_weight = scale_pos_weight
        self.tree_method = tree_method
        self.missing = missing
        self.enable_categorical = enable_categorical
        self.early_stopping_rounds = early_stopping_rounds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.importance_type = importance_type
        self.verbose = verbose
        self._others = others

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column in the gain, or what `importance_type` says (d,)."""
        check_is_fitted(self)
        found = self.booster_.get_score(importance_type=self.importance_type)
        names = self.booster_.feature_names or [f"f{i}" for i in range(self.n_features_in_)]
        share = np.array([found.get(name, 0.0) for name in names])
        return share / share.sum() if share.sum() > 0 else share

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("importance_type", self.importance_type, IMPORTANCES)
        for name in OTHER_NAMES.keys() & self._others.keys():
            raise ValueError(f"`{OTHER_NAMES[name]}` must be given by that name, got `{name}`")
        if "objective" in self._others:
            raise ValueError("`objective` must not be given: it is log loss + eta·E_f")
        booster = self._others.get("booster", "gbtree")
        if booster == "gblinear":
            raise ValueError(
                "`booster` must be 'gbtree', or 'dart' with eta=0, got 'gblinear', which has no trees. "
                "Take xgboost.XGBClassifier for it, or FairLogisticRegression for a fair linear model"
            )
        if self.eta > 0 and booster != "gbtree":
            raise ValueError(
                f"`booster` must be 'gbtree' when eta > 0, got {booster!r}, which rescales trees whose "
                "leaves are solved for already"
            )
        for name in REFUSED_WITH_PENALTY & self._others.keys() if self.eta > 0 else ():
            raise ValueError(f"`{name}` must not be given when eta > 0, where it would have no effect")
        if self.eta > 0 and self._others.get("num_parallel_tree", 1) != 1:
            came = self._others["num_parallel_tree"]
            raise ValueError(f"`num_parallel_tree` must be 1 when eta > 0, got {came!r}")

    def _parameters(self) -> dict[str, Any]:
        """Return XGBoost's parameters; those that are None are left to it."""
        others = {name: value for name, value in self._others.items() if name != "feature_types"}
        named = self._library_settings("nthread", "missing", "enable_categorical")
        settings = {"objective": "binary:logistic"} | named | others
        return {name: value for name, value in settings.items() if value is not None}

    def _class_factors(self, data: TrainingData) -> tuple[float, float]:
        if self.eta == 0 or self.scale_pos_weight is None:
            return 1.0, 1.0  # XGBoost does it itself where there is no penalty
        return 1.0, float(self.scale_pos_weight)

    def _ridge(self) -> float:
        return 1.0 if self.reg_lambda is None else float(self.reg_lambda)

    def _matrix(self, X: Any, y: Any = None, weight: Any = None) -> Any:
        threads = {} if self.n_jobs is None else {"nthread": self.n_jobs}
        return xgb.DMatrix(
            X,
            label=y,
            weight=weight,
            missing=self.missing,
            enable_categorical=self.enable_categorical,
            feature_types=self._others.get("feature_types"),
            **threads,
        )

    def _train_plain(
        self, rows: LibraryRows, sets: list[LibraryRows], stopping: StoppingRule
    ) -> TrainedModel:
        results: Results = {}
        booster = xgb.train(
            self._parameters(),
            self._matrix(rows.X, rows.y, rows.loss_weight),
            num_boost_round=stopping.rounds,
            evals=[
                (self._matrix(each.X, each.y, each.loss_weight), f"valid_{i}") for i, each in enumerate(sets)
            ],
            early_stopping_rounds=stopping.patience,
            evals_result=results,
            verbose_eval=stopping.verbose or False,
        )
        n_trees = booster.best_iteration + 1 if stopping.patience else booster.num_boosted_rounds()
        if stopping.patience:
            plain = self._others.get("booster", "gbtree") == "gbtree"
            single = plain and self._others.get("num_parallel_tree", 1) == 1
            booster = copy_with_trees(booster, dict.fromkeys(range(n_trees))) if single else booster[:n_trees]
        return TrainedModel(booster, n_trees, with_our_names(results, "logloss"))

    def _trees(self, rows: LibraryRows, sets: list[LibraryRows], start: float) -> tuple[Trees, bool]:
        settings = self._parameters()
        own_values = any(np.any(settings.get(name, 0)) for name in LEAF_SHAPING)
        train, *others = (self._matrix(each.X, each.y, each.loss_weight) for each in (rows, *sets))
        return XGBoostTrees(settings, train, others, start, own_values=own_values), own_values

    def _raw_scores(self, X: Any) -> np.ndarray:
        margin = self.booster_.predict(self._matrix(X), output_margin=True)
        return np.asarray(margin, dtype=np.float64)


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

    def grow(self, gradient: np.ndarray, curvature: np.ndarray) -> NewTree | None:
        round_ = self.booster.num_boosted_rounds()
        self.booster.update(self.train, round_, fobj=lambda scores, data: (gradient, curvature))
        self.last = self.booster[round_ : round_ + 1]
        node = self._nodes(self.train)
        self.nodes = np.flatnonzero(np.bincount(node))
        if len(self.nodes) < 2:
            self.written.append(None)
            return None
        leaf = np.searchsorted(self.nodes, node)
        return NewTree(leaf, self._own_values(leaf) if self.own_values else np.zeros(len(self.nodes)))

    def write(self, values: np.ndarray) -> None:
        """Remember the values of the last tree's leaves."""
        self.written.append((self.nodes, values))

    def leaves(self, place: int) -> np.ndarray:
        node = self._nodes(self.sets[place])
        leaf = np.searchsorted(self.nodes, node).clip(0, len(self.nodes) - 1)
        return np.where(self.nodes[leaf] == node, leaf, -1)

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Return values as XGBoost keeps them, in single precision."""
        return values.astype(np.float32).astype(np.float64)

    def finish(self, n_trees: int) -> Any:
        """Return the model of the first trees, with our values in their leaves."""
        places = [place for place, leaves in enumerate(self.written) if leaves is not None][:n_trees]
        if not places:  # a tree of one leaf: the score stays where it started
            return copy_with_trees(self.booster, {0: (np.zeros(1, dtype=np.intp), np.zeros(1))})
        return copy_with_trees(self.booster, {place: self.written[place] for place in places})

    def _nodes(self, matrix: Any) -> np.ndarray:
        """Return the node of the last tree that each row ends in."""
        return self.last.predict(matrix, pred_leaf=True).reshape(-1).astype(np.intp)

    def _own_values(self, leaf: np.ndarray) -> np.ndarray:
        """Return XGBoost's values of the last tree's leaves, learning rate included."""
        margin = self.last.predict(self.train, output_margin=True).astype(np.float64)
        base = float(np.log(self.settings["base_score"] / (1 - self.settings["base_score"])))
        return np.bincount(leaf, weights=margin - base) / np.bincount(leaf)


def copy_with_trees(booster: Any, kept: dict[int, Leaves | None]) -> Any:
    """Return a copy with these trees only, and these values in their leaves; None leaves them as they are.

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
