"""Fair LightGBM: the estimator, and LightGBM's trees with leaves of our own values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from evenrisk import _kernels
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
    import lightgbm as lgb
except ImportError as error:
    raise ImportError(f"FairLGBMClassifier needs lightgbm: {install_hint('boosting', 'lightgbm')}") from error

# settings that shape the leaves' values: with one of them the library's own values are kept
LEAF_SHAPING = ("lambda_l1", "max_delta_step", "monotone_constraints", "path_smooth")
OTHER_MEANING = ("eta", "verbose")  # names of ours that LightGBM has for something else
# what would have no effect, or another one, with a penalty: the value that changes nothing, and why
REFUSED_WITH_PENALTY = {
    "metric": ("", "the objective is what is measured"),
    "pos_bagging_fraction": (1, "LightGBM draws by label for its own objectives only"),
    "neg_bagging_fraction": (1, "LightGBM draws by label for its own objectives only"),
    "boost_from_average": (True, "boosting starts at the prevalence"),
    "linear_tree": (False, "a leaf has one value"),
    "pred_early_stop": (False, "groups are compared by the scores of all trees"),
}
# what LightGBM reads when it predicts
READ_BY_PREDICT = ("pred_early_stop", "pred_early_stop_freq", "pred_early_stop_margin")
DISTINCT = 1e-9  # of the largest: leaves whose values differ by more are recognised by them
BUCKETS = 4096  # of the table that finds the leaf of a value
LOG_LOSS_SETTINGS = "\n[objective: binary]\n[metric: binary_logloss]\n"


class FairLGBMClassifier(BoostedClassifier):
    """LightGBM whose scores have the same distribution in every group.

    Minimises mean log loss + eta·E_f by gradient boosting, where E_f adds up how far the groups' score
    distributions are apart. LightGBM grows the trees; the values of a tree's leaves are solved for together,
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
        Weight of the penalty, and not the learning rate, which LightGBM calls eta too: that is
        `learning_rate`. 0 is plain LightGBM and needs no ``sensitive_features``. With the gap distance 1 is
        mild, 10 strong and 50 nearly closes the gap on Adult.
    boosting_type : {"gbdt", "dart", "rf", "goss"}, default="gbdt"
        All but "gbdt" are for ``eta=0`` only, where they are LightGBM's own: "dart" and "rf" rescale or
        average trees that are there already. With a penalty, ``data_sample_strategy="goss"`` is GOSS.
    num_leaves, max_depth, learning_rate, n_estimators, subsample_for_bin, class_weight, min_split_gain, \
min_child_weight, min_child_samples, subsample, subsample_freq, colsample_bytree, reg_alpha, reg_lambda
        As in ``lightgbm.LGBMClassifier``, with its defaults. ``class_weight`` weights the loss and not the
        comparison of groups. ``reg_alpha``, and among the others ``monotone_constraints``, ``max_delta_step``
        and ``path_smooth``, shape the values of leaves: with one of them LightGBM's own values are kept up to
        a common factor for each tree, and a large eta needs more trees.
    early_stopping_rounds : int, default=None
        Stop when the objective of the last `eval_set` has not fallen for so many rounds, and keep the trees
        up to its lowest value.
    random_state : int, RandomState instance or None, default=None
        Seed of LightGBM's own choices (bagging, feature sampling).
    n_jobs : int, default=None
        Threads; None is all cores. Sums are added up in another order on another number of threads.
    importance_type : {"split", "gain"}, default="split"
        What ``feature_importances_`` counts.
    verbose : int, default=0
        Write a line to standard error every so many rounds.
    **others
        Any other parameter of LightGBM (``max_bin``, ``cat_smooth``, ``monotone_constraints``, …), passed on.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        The model as LightGBM's own: ``booster_.save_model("model.txt")`` writes it, and whatever loads it
        gives the same probabilities without evenrisk.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    groups_ : ndarray of shape (k,)
        The groups seen, where any were given.
    comparison_ : Comparison
        `comparison` with the cuts that were chosen and the groups that were left out, to measure other rows
        alike; where groups were given.
    feature_importances_ : ndarray of shape (d,)
        How often each column was split, or the gain of it.
    n_estimators_ : int
        Trees kept; fewer than asked for where no split or no step lowers the objective any more, or after
        early stopping.
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
    FairXGBClassifier : The same with XGBoost.
    ParityObjective : The bare objective, for ``lightgbm.train``.

    Examples
    --------
    >>> from evenrisk.boosting import FairLGBMClassifier
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> X, y, race = load_compas()
    >>> for eta in (0, 20):
    ...     clf = FairLGBMClassifier(eta=eta, num_leaves=8, n_estimators=50, n_jobs=1)
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
        boosting_type: str = "gbdt",
        num_leaves: int = 31,
        max_depth: int = -1,
        learning_rate: float = 0.1,
        n_estimators: int = 100,
        subsample_for_bin: int = 200_000,
        class_weight: Any = None,
        min_split_gain: float = 0.0,
        min_child_weight: float = 1e-3,
        min_child_samples: int = 20,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        reg_alpha: float = 0.0,
        reg_lambda: float = 0.0,
        early_stopping_rounds: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        importance_type: str = "split",
        verbose: int = 0,
        **others: Any,
    ) -> None:
        self.parity = parity
        self.comparison = comparison
        self.distance = distance
        self.eta = eta
        self.boosting_type = boosting_type
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.subsample_for_bin = subsample_for_bin
        self.class_weight = class_weight
        self.min_split_gain = min_split_gain
        self.min_child_weight = min_child_weight
        self.min_child_samples = min_child_samples
        self.subsample = subsample
        self.subsample_freq = subsample_freq
        self.colsample_bytree = colsample_bytree
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.early_stopping_rounds = early_stopping_rounds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.importance_type = importance_type
        self.verbose = verbose
        self._others = others

    @property
    def feature_importances_(self) -> np.ndarray:
        """How often each column was split, or the gain of it (d,)."""
        check_is_fitted(self)
        return self.booster_.feature_importance(importance_type=self.importance_type)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("importance_type", self.importance_type, ("split", "gain"))
        given = self._canonical()
        if "objective" in given:
            raise ValueError("`objective` must not be given: it is log loss + eta·E_f")
        if given.get("sigmoid", 1) != 1:
            raise ValueError(f"`sigmoid` must be 1, got {given['sigmoid']!r}: the risk is sigmoid(g)")
        if given.get("is_unbalance") and given.get("scale_pos_weight", 1) != 1:
            raise ValueError("`is_unbalance` must not be given together with scale_pos_weight")
        if self.eta > 0 and self.boosting_type != "gbdt":
            raise ValueError(
                f"`boosting_type` must be 'gbdt' when eta > 0, got {self.boosting_type!r}: 'dart' and 'rf' "
                "rescale or average trees whose leaves are solved for already, and 'goss' is given as "
                "data_sample_strategy='goss'"
            )
        for name, (harmless, reason) in REFUSED_WITH_PENALTY.items() if self.eta > 0 else ():
            if given.get(name) not in (None, harmless):
                raise ValueError(f"`{name}` must not be given when eta > 0, got {given[name]!r}: {reason}")
        self._predicting = {name: given[name] for name in READ_BY_PREDICT if name in given}

    def _canonical(self) -> dict[str, Any]:
        """Return the other parameters by LightGBM's main names; refuse one that it does not know."""
        aliases = lgb.basic._ConfigAliases._get_all_param_aliases()
        main = {alias: name for name, all_names in aliases.items() for alias in (name, *all_names)}
        named = [name for name in self._get_param_names() if name in main and name not in OTHER_MEANING]
        ours = {main[name]: name for name in named}
        found = {}
        for name, value in self._others.items():
            if name not in main:
                raise TypeError(f"parameters must be evenrisk's or LightGBM's, got {name!r}")
            if main[name] in ours:
                raise ValueError(f"`{ours[main[name]]}` must be given by that name, got `{name}`")
            found[main[name]] = value
        return found

    def _parameters(self) -> dict[str, Any]:
        named = self._library_settings("num_threads", "class_weight")
        settings = {"verbosity": -1} | named | self._canonical()
        settings["lambda_l1"] = settings.pop("reg_alpha")
        return settings

    def _class_factors(self, data: TrainingData) -> tuple[float, float]:
        low, high = 1.0, 1.0
        if self.class_weight is not None:
            low, high = compute_class_weight(self.class_weight, classes=data.classes, y=data.classes[data.y])
        given = self._canonical()
        if self.eta == 0:
            return float(low), float(high)  # LightGBM does the rest
        high *= float(given.get("scale_pos_weight", 1.0))
        if given.get("is_unbalance"):  # rows are counted, and the rarer label is raised, as LightGBM does it
            n_high = np.count_nonzero(data.y)
            n_low = len(data.y) - n_high
            low, high = low * max(n_high / n_low, 1.0), high * max(n_low / n_high, 1.0)
        return float(low), float(high)

    def _ridge(self) -> float:
        return float(self.reg_lambda)

    def _datasets(self, rows: LibraryRows, sets: list[LibraryRows], settings: dict[str, Any]) -> list[Any]:
        """Return the training rows as a Dataset, then the evaluation sets."""
        categorical = settings.pop("categorical_feature", "auto")
        train = lgb.Dataset(
            rows.X, rows.y, weight=rows.loss_weight, categorical_feature=categorical, params=settings
        )
        others = (train.create_valid(each.X, each.y, each.loss_weight, params=settings) for each in sets)
        return [train, *others]

    def _train_plain(
        self, rows: LibraryRows, sets: list[LibraryRows], stopping: StoppingRule
    ) -> TrainedModel:
        settings = self._parameters()
        train, *others = self._datasets(rows, sets, settings)
        results: Results = {}
        callbacks = [lgb.record_evaluation(results)] if others else []
        if stopping.verbose:
            callbacks.append(lgb.log_evaluation(stopping.verbose))
        if stopping.patience:
            callbacks.append(for_last_set(lgb.early_stopping(stopping.patience, verbose=False), len(others)))
        booster = lgb.train(
            settings | {"objective": "binary"},
            train,
            num_boost_round=stopping.rounds,
            valid_sets=others,
            callbacks=callbacks,
        )
        n_trees = (booster.best_iteration if stopping.patience else 0) or booster.num_trees()
        kept = lgb.Booster(model_str=booster.model_to_string(num_iteration=n_trees))
        return TrainedModel(kept, n_trees, with_our_names(results, "binary_logloss"))

    def _trees(self, rows: LibraryRows, sets: list[LibraryRows], start: float) -> tuple[Trees, bool]:
        settings = self._parameters()
        own_values = any(np.any(settings.get(name, 0)) for name in LEAF_SHAPING)
        datasets = self._datasets(rows, sets, settings)
        return LightGBMTrees(settings, datasets, [rows, *sets], start), own_values

    def _raw_scores(self, X: Any) -> np.ndarray:
        threads = {} if self.n_jobs is None else {"num_threads": self.n_jobs}
        g = np.asarray(self.booster_.predict(X, raw_score=True, **threads, **self._predicting))
        # the score of a random forest is the mean over trees; LightGBM's raw scores are sums
        averages = "\naverage_output\n" in self.booster_.model_to_string(num_iteration=1)
        return g / self.booster_.current_iteration() if averages else g


def for_last_set(callback: Any, n_sets: int) -> Any:
    """Return a callback that sees the last evaluation set only; LightGBM's own stops when any says so."""

    def call(env: Any) -> None:
        seen = [found for found in env.evaluation_result_list if found[0] == f"valid_{n_sets - 1}"]
        if hasattr(env, "_replace"):  # a tuple in earlier versions
            callback(env._replace(evaluation_result_list=seen))
        else:
            callback(replace(env, evaluation_result_list=seen))

    call.order, call.before_iteration = callback.order, False  # type: ignore[attr-defined]
    return call


class LightGBMTrees:
    """A booster whose trees get their leaves' values from us.

    LightGBM adds its own values to the scores it keeps. They show the leaf of each row: its score has just
    moved by the value of that leaf. Where two leaves have one value, the rows are sent down the tree
    instead.
    """

    def __init__(
        self, settings: dict[str, Any], datasets: list[Any], rows: list[LibraryRows], start: float
    ) -> None:
        self.settings, self.train = settings, datasets[0]
        self.booster = lgb.Booster(settings | {"objective": "none", "metric": "none"}, self.train)
        for place, each in enumerate(datasets[1:]):
            self.booster.add_valid(each, f"valid_{place}")
        self.features = [each.X for each in rows]  # of the training rows, then of the evaluation sets'
        self.start = start
        self.stump = 0  # 1 where the first tree has no split
        self.before = [scores.copy() for scores in self._scores()]
        self.leaf: list[np.ndarray] = []  # in the last tree, in the same order

    def grow(self, gradient: np.ndarray, curvature: np.ndarray) -> NewTree | None:
        if not self._has_features():
            return None
        if self.booster.update(fobj=lambda scores, data: (gradient, curvature)):
            if self.booster.num_trees() == 1 and not self.stump:
                self.stump = 1  # LightGBM keeps a first tree without a split
                self.booster.set_leaf_output(0, 0, self.start)
            return None
        tree = self.booster.num_trees() - 1
        values = self._values(tree)
        if np.diff(np.sort(values)).min(initial=np.inf) > DISTINCT * np.abs(values).max():
            moves = zip(self._scores(), self.before, strict=True)
            self.leaf = [leaves_of_moves(values, scores, before) for scores, before in moves]
        else:
            self.before = [scores.copy() for scores in self._scores()]
            self.leaf = [self._predicted_leaves(X, tree) for X in self.features]
        return NewTree(self.leaf[0], values)

    def _values(self, tree: int) -> np.ndarray:
        """Return LightGBM's values of a tree's leaves; its text is the quickest way even to their number."""
        text = self.booster.model_to_string(start_iteration=tree, num_iteration=1)
        return np.array(text.split("\nleaf_value=", 1)[1].split("\n", 1)[0].split(), dtype=np.float64)

    def _predicted_leaves(self, X: Any, tree: int) -> np.ndarray:
        """Return the leaf of each row, from its features."""
        leaf = self.booster.predict(X, pred_leaf=True, start_iteration=tree, num_iteration=1)
        return np.asarray(leaf).reshape(-1).astype(np.intp)

    def write(self, values: np.ndarray) -> None:
        """Set the values of the last tree's leaves; those of the first tree carry the starting score too."""
        tree = self.booster.num_trees() - 1
        base = self.start if tree == 0 else 0.0
        for leaf, value in enumerate(values.tolist()):
            self.booster.set_leaf_output(tree, leaf, base + value)

    def leaves(self, place: int) -> np.ndarray:
        return self.leaf[1 + place]

    def rounded(self, values: np.ndarray) -> np.ndarray:
        return values

    def finish(self, n_trees: int) -> Any:
        """Return the model of the first trees, with the sigmoid in it and without the data."""
        if self.booster.num_trees() == 0:  # no column to split, for LightGBM itself neither
            return lgb.train(self.settings | {"objective": "binary"}, self.train, 1)
        text = self.booster.model_to_string(num_iteration=n_trees + self.stump)
        head, end, rest = text.partition("\nfeature_names=")
        # the settings at the end are what `Booster.params` and tools that explain a model go by
        rest = rest.replace("\n[objective: custom]\n[metric: custom]\n", LOG_LOSS_SETTINGS)
        return lgb.Booster(model_str=f"{head}\nobjective=binary sigmoid:1{end}{rest}")

    def _has_features(self) -> bool:
        """Whether a column has two values to split: LightGBM takes no gradients where none has."""
        columns = range(self.train.num_feature())
        return self.booster.num_trees() > 0 or any(self.train.feature_num_bin(i) > 1 for i in columns)

    def _scores(self) -> list[np.ndarray]:
        """Return LightGBM's own scores of the training rows and of every evaluation set.

        They are views of its memory, and change with the next tree.
        """
        seen: list[np.ndarray] = []

        def see(scores: np.ndarray, data: Any) -> tuple[str, float, bool]:
            seen.append(scores)
            return "seen", 0.0, True

        self.booster.eval_train(see)
        self.booster.eval_valid(see)
        return seen


def leaves_of_moves(values: np.ndarray, scores: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the leaf of each row: that whose value is nearest to how its score has moved.

    The scores are written to `before`. A table over equal buckets answers wherever one value is nearest to
    all of a bucket; bisection, ten times slower, answers the rest.
    """
    order = np.argsort(values)
    values = values[order]
    between = 0.5 * (values[1:] + values[:-1])
    width = (values[-1] - values[0]) / (BUCKETS - 2) if len(values) > 1 else 0.0
    if not width > 0:
        before[:] = scores
        return np.zeros(len(scores), dtype=np.intp)
    edges = values[0] + width * (np.arange(BUCKETS + 1) - 1.0)
    place = np.searchsorted(between, edges)
    table = np.where(place[1:] == place[:-1], order[place[1:]], -1)
    if (loops := _kernels.loops(scores, before)) is not None:
        leaf = np.empty(len(scores), dtype=np.intp)
        settings = (scores, before, order, between, table, edges[0], width, leaf)
        _kernels.run(
            lambda rows: loops.find_leaves(rows.start, rows.stop, *settings),
            _kernels.parts(len(scores), _kernels.SCORES_PART),
        )
        return leaf
    x = scores - before
    before[:] = scores
    found = np.take(table, ((x - edges[0]) / width).astype(np.intp), mode="clip")
    unsure = np.flatnonzero(found < 0)
    found[unsure] = order[np.searchsorted(between, x[unsure])]
    return found
