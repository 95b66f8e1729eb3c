"""What fair LightGBM and fair XGBoost share: the fit, evaluation sets, the fitted attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import logit
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

from evenrisk import _kernels
from evenrisk._estimator import FairClassifier, TrainingData, all_or_nothing, diagnose, forget
from evenrisk._validation import (
    ArgumentError,
    Groups,
    MissingSensitiveFeatures,
    check_binary,
    check_comparison,
    check_features,
    check_groups,
    check_member,
    check_number,
    check_weight,
    listed,
)
from evenrisk._xp import is_sparse
from evenrisk.boosting._rounds import Descent, EvaluationScores, StoppingRule, Trees, boost
from evenrisk.distances import DISTANCES, Distance
from evenrisk.losses import LOGISTIC
from evenrisk.objective import Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Parity, check_compared, compared_names, group_cells

# settings that are ours, or that the training loop reads: they are not passed on by their own names
NOT_PASSED_ON = (
    *("parity", "comparison", "distance", "eta", "importance_type", "verbose"),
    *("n_estimators", "early_stopping_rounds", "random_state", "n_jobs"),
)
DIAGNOSED_ROWS = 10_000  # rows whose scores are looked at for a collapse


Results = dict[str, dict[str, list[float]]]  # of the evaluation sets, by name and measure


class LibraryRows(NamedTuple):
    """Rows in the library's terms, to fit or to evaluate."""

    X: Any
    y: np.ndarray
    loss_weight: np.ndarray | None  # of the loss; None = 1 for all
    objective: ScoreObjective | None  # None where there is no penalty


class TrainedModel(NamedTuple):
    """A model of the library, and how its training went."""

    booster: Any
    n_trees: int
    results: Results
    scores: np.ndarray | None = None  # g of the training rows, where they are known already
    curve: np.ndarray | None = None  # the training objective, with a penalty only


class BoostedClassifier(FairClassifier):
    """Boosted trees with `parity`, `distance` and `eta`; everything else is the library's."""

    _plain_setting: ClassVar[str] = "eta=0"
    booster_: Any
    _categories: dict[str, Any]  # of the columns that have any
    _others: dict[str, Any]  # settings that are the library's own

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        eval_set: Any = None,
        eval_sensitive_features: Any = None,
        eval_sample_weight: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features; missing values and a frame's categorical columns are the library's to handle. The
            protected attribute should not be among them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, in the loss and in the penalty. Rows of weight 0 are left out.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The group of each row; several columns are crossed. Required where ``eta > 0``; never needed to
            predict.
        eval_set : (X, y) or list of such pairs, default=None
            Rows on which the objective is measured after every round; see ``evals_result_``. With
            ``early_stopping_rounds`` the last one says when to stop.
        eval_sensitive_features : array-like or list of them, default=None
            The groups of the evaluation sets; required where ``eta > 0``.
        eval_sample_weight : array-like or list of them, default=None
            The weights of the evaluation sets.

        Returns
        -------
        self
            The fitted estimator.
        """
        with all_or_nothing(self):
            data = self._check_rows(X, y, sample_weight, sensitive_features).drop_zero_weights()
            sets = self._check_sets(eval_set, eval_sensitive_features, eval_sample_weight, data)
            rows, others = self._library_rows(data, sets)
            train = self._train_plain if rows.objective is None else self._train_fair
            self._store_fit(train(rows, others, self._stopping_rule()), rows, data)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the raw score of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the positive class is predicted.
        """
        check_is_fitted(self)
        return self._raw_scores(self._features(X, reset=False))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, those that are the library's own among them.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the settings of a distance, as ``distance__scale``.

        Returns
        -------
        dict
            Names and values.
        """
        return super().get_params(deep) | self._others

    def set_params(self, **params: Any) -> Self:
        """Change settings; those that are not ours go to the library as they are.

        Parameters
        ----------
        **params
            Names and values; those of a distance as ``distance__scale``.

        Returns
        -------
        self
            The estimator.
        """
        named = set(self._get_param_names())
        for name in params:
            if "__" in name and not name.startswith("distance__"):
                raise ValueError(
                    f"`{name}` must be a setting of the model or of its distance, got one of another part"
                )
        ours = {name: value for name, value in params.items() if name.partition("__")[0] in named}
        super().set_params(**ours)
        self._others = self._others | {name: value for name, value in params.items() if name not in ours}
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ---------------------------------------------------------------- what each library does its own way

    def _train_plain(
        self, rows: LibraryRows, sets: list[LibraryRows], stopping: StoppingRule
    ) -> TrainedModel:
        """Fit without a penalty, by the library's own training."""
        raise NotImplementedError

    def _trees(self, rows: LibraryRows, sets: list[LibraryRows], start: float) -> tuple[Trees, bool]:
        """Return a model without trees yet, and whether its leaves must keep the library's values."""
        raise NotImplementedError

    def _raw_scores(self, X: Any) -> np.ndarray:
        """Return g of rows that have been checked."""
        raise NotImplementedError

    def _class_factors(self, data: TrainingData) -> tuple[float, float]:
        """Return the factors of the loss of either label, as the library would have them."""
        raise NotImplementedError

    def _ridge(self) -> float:
        """Return λ of the library, added to a leaf's curvature."""
        raise NotImplementedError

    # ---------------------------------------------------------------- checking

    def _check_parameters(self) -> None:
        if "calibration" in self._others:
            raise ValueError(
                "`calibration` must not be given to boosted trees: their model is the library's own and has "
                "no place for the map. Calibrate the fitted model on rows held out, with scikit-learn's "
                'CalibratedClassifierCV(FrozenEstimator(clf), method="sigmoid"), one map for all groups'
            )
        check_number("eta", self.eta, low=0)
        check_comparison(self.comparison)
        check_number("n_estimators", self.n_estimators, low=1, whole=True)
        check_number("learning_rate", self.learning_rate, low=0, strict=True)
        check_number("verbose", self.verbose, low=-np.inf, whole=True)
        if self.early_stopping_rounds is not None:
            check_number("early_stopping_rounds", self.early_stopping_rounds, low=1, whole=True)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)
        if self._distance.traits.two_moments:
            raise ValueError(
                "`distance` must be 'gap' or 'histogram' for boosted trees, or an instance of these, got "
                f"{self.distance!r}: boosting starts where all scores tie, and there it is singular"
            )

    def _why_groups(self) -> str:
        if self.eta == 0:
            return ""
        return (
            f"when eta > 0, got None with eta={self.eta} (eta is the weight of the penalty here; the "
            "learning rate, which the libraries call eta too, is `learning_rate`)"
        )

    def _may_merge_rows(self) -> bool:
        return False  # a leaf's least number of rows counts rows

    def _check_X(self, X: Any) -> Any:
        return self._features(X, reset=True)

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Check X; frames stay frames, because of their categories."""
        check_features(X)
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        if not hasattr(X, "iloc"):
            X = self._validated(X, ensure_all_finite="allow-nan", reset=reset)
            return sparse.csr_matrix(X) if is_sparse(X) else X  # not every library knows SciPy's arrays
        _check_feature_names(self, X, reset=reset)
        _check_n_features(self, X, reset=reset)
        X = self._recoded(X, reset=reset)
        if X.shape[0] == 0:
            raise ValueError("`X` must have at least 1 row, got 0")
        return X

    def _recoded(self, X: Any, *, reset: bool) -> Any:
        """Return X with the categories of the training rows; one that was not there is missing."""
        found = {name: X[name].cat for name in X.columns if hasattr(X[name], "cat")}
        if reset:
            self._categories = {name: column.categories for name, column in found.items()}
        known = {name: self._categories[name] for name in found.keys() & self._categories.keys()}
        others = {
            name: found[name].set_categories(categories)
            for name, categories in known.items()
            if not found[name].categories.equals(categories)
        }
        return X.assign(**others) if others else X

    def _check_sets(
        self, eval_set: Any, features: Any, weights: Any, data: TrainingData
    ) -> list[TrainingData]:
        """Check the evaluation sets, each with its groups and weights."""
        if eval_set is None:
            eval_set, features, weights = [], None, None
        pairs = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
        if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
            raise ValueError("`eval_set` must be (X, y) or a list of such pairs, got something else")
        groups = one_per_set("eval_sensitive_features", features, len(pairs))
        every_weight = one_per_set("eval_sample_weight", weights, len(pairs))
        if self.early_stopping_rounds is not None and not pairs:
            raise ValueError("`eval_set` must be given with early_stopping_rounds, got None")
        return [
            self._check_set(X, y, groups[place], every_weight[place], data, place).drop_zero_weights()
            for place, (X, y) in enumerate(pairs)
        ]

    def _check_set(
        self, X: Any, y: Any, features: Any, weight: Any, data: TrainingData, place: int
    ) -> TrainingData:
        """Check one evaluation set against the training data; without a penalty groups are not looked at."""
        X = self._features(X, reset=False)
        _, classes = check_binary(y, "eval_set", at_least=1)
        unknown = [label for label in classes.tolist() if label not in data.classes.tolist()]
        if unknown:
            raise ValueError(f"`eval_set` must have the labels of y, got {listed(unknown)} too")
        target = (np.asarray(y).reshape(-1) == data.classes[1]).astype(np.int8)
        if len(target) != X.shape[0]:
            raise ArgumentError(
                "eval_set", f"must have one label per row of its X, {X.shape[0]}, got {len(target)}"
            )
        weight = check_weight(weight, X.shape[0], name="eval_sample_weight")
        if self.eta == 0 or data.groups is None:
            return TrainingData(X, target, weight, data.classes, None, None)
        name = "eval_sensitive_features"
        if features is None:
            raise MissingSensitiveFeatures(
                f"`{name}` is required with eval_set when eta > 0, got None for set {place}: the objective "
                "it measures has the penalty in it"
            )
        groups = self._groups_of_set(features, weight, data, name)
        cells = group_cells(self._parity, target, groups, weight)
        check_compared(self._parity, cells, groups, weight > 0, name=name, warn=False)
        return TrainingData(X, target, weight, data.classes, None, cells)

    def _groups_of_set(self, features: Any, weight: np.ndarray, data: TrainingData, name: str) -> Groups:
        """Return the groups of an evaluation set, which must be those of the training data."""
        assert data.groups is not None
        groups = check_groups(
            features, len(weight), name=name, comparison=data.groups.comparison, weight=weight
        )
        if data.groups.comparison.is_plain:
            code_of = {label: code for code, label in enumerate(data.groups.labels.tolist())}
            if unknown := [label for label in groups.labels.tolist() if label not in code_of]:
                raise ValueError(f"`{name}` must have groups that fit's have, got {listed(unknown)} too")
            code = np.array([code_of[label] for label in groups.labels.tolist()], dtype=np.int32)
            return replace(data.groups, code=code[groups.code])
        mine, theirs = (compared_names(self._parity, each) for each in (groups, data.groups))
        if mine != theirs:
            differ = sorted(set(mine) ^ set(theirs)) or mine  # the same ones in another order
            raise ArgumentError(
                name,
                "must have the groups that are compared in fit, in the same order of columns, got other "
                f"ones: {listed(differ)}",
            )
        return groups

    # ---------------------------------------------------------------- training

    def _library_settings(self, threads: str, *others: str) -> dict[str, Any]:
        """Return the settings of the constructor that the library reads, except `others`.

        The libraries know scikit-learn's names for them; `threads` is what they call `n_jobs`.
        """
        left_out = NOT_PASSED_ON + others
        settings = {name: getattr(self, name) for name in self._get_param_names() if name not in left_out}
        if self.random_state is not None:
            settings["seed"] = seed_of(self.random_state)
        if self.n_jobs is not None:
            settings[threads] = self.n_jobs
        return settings

    def _stopping_rule(self) -> StoppingRule:
        patience = None if self.early_stopping_rounds is None else int(self.early_stopping_rounds)
        return StoppingRule(int(self.n_estimators), patience, max(0, int(self.verbose)))

    def _library_rows(
        self, data: TrainingData, sets: list[TrainingData]
    ) -> tuple[LibraryRows, list[LibraryRows]]:
        """Return the training rows and the evaluation sets with their objectives."""
        factors = self._class_factors(data)
        # the libraries leave evaluation sets as they are
        of_sets = factors if self.eta > 0 else (1.0, 1.0)
        return self._with_objective(data, factors), [self._with_objective(each, of_sets) for each in sets]

    def _with_objective(self, data: TrainingData, factors: tuple[float, float]) -> LibraryRows:
        """Return rows with their objective; `factors` weight the loss of either label."""
        low, high = factors
        loss_weight = data.weight if low == high == 1 else data.weight * np.where(data.y == 1, high, low)
        plain = bool((loss_weight == 1).all())
        objective = None
        if self.eta > 0:
            penalty = Penalty(self._distance, data.cells)  # type: ignore[arg-type]
            full = np.ascontiguousarray(loss_weight, dtype=np.float64)
            objective = ScoreObjective(LOGISTIC, data.y, full, penalty, float(self.eta))
        return LibraryRows(data.X, data.y, None if plain else loss_weight, objective)

    def _train_fair(self, rows: LibraryRows, sets: list[LibraryRows], stopping: StoppingRule) -> TrainedModel:
        """Boost down the objective with the penalty."""
        objective = rows.objective
        assert objective is not None
        start = float(logit(objective.weight @ rows.y / objective.total))
        trees, own_values = self._trees(rows, sets, start)
        g = np.full(len(rows.y), start)
        rates = float(self.learning_rate), float(self._ridge())
        evaluations = [
            EvaluationScores(each.objective, np.full(len(each.y), start))
            for each in sets
            if each.objective is not None
        ]
        # threads of BLAS have nothing to do here and would stand in the library's way
        with _kernels.one_blas_thread(), _kernels.at_most(self.n_jobs):
            descent = Descent(objective, g, *rates)
            n_trees = boost(trees, descent, evaluations, stopping, own_values=own_values)
        results = {f"valid_{i}": each.results for i, each in enumerate(evaluations)}
        scores = descent.at.g if n_trees == len(descent.curve) - 1 else None
        return TrainedModel(
            trees.finish(n_trees), n_trees, results, scores, np.array(descent.curve[: n_trees + 1])
        )

    def _store_fit(self, trained: TrainedModel, rows: LibraryRows, data: TrainingData) -> None:
        """Set the fitted attributes, and warn of what is wrong with the fit."""
        forget(self, "best_iteration_", "objective_", "objective_curve_")
        self.booster_, self.n_estimators_ = trained.booster, trained.n_trees
        if self.early_stopping_rounds is not None:
            self.best_iteration_ = trained.n_trees
        self.evals_result_ = trained.results
        if trained.curve is not None and rows.objective is not None:
            self.objective_curve_, self.objective_ = trained.curve, float(trained.curve[-1])
            some = np.arange(len(data.y))
            if len(some) > DIAGNOSED_ROWS:
                some = np.random.default_rng(0).permutation(len(some))[:DIAGNOSED_ROWS]
            known = trained.scores
            g = self._raw_scores(_safe_indexing(data.X, some)) if known is None else known[some]
            counted = rows.objective.weight[some]  # 0.5 is where a mistake costs the same either way
            diagnose(g, g, replace(data, y=data.y[some], weight=counted), self.eta)
        self._store_labels(data)


def one_per_set(name: str, values: Any, n: int) -> list[Any]:
    """Return one entry per evaluation set; that of a single set may come without a list around it."""
    if values is None:
        return [None] * n
    if n == 1 and not (isinstance(values, (list, tuple)) and len(values) == 1):
        return [values]
    if len(values) != n:
        raise ValueError(f"`{name}` must have one entry per evaluation set, {n}, got {len(values)}")
    return list(values)


def seed_of(random_state: Any) -> int:
    """Return a number as it is, as the libraries take it, or a generator's next."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def with_our_names(results: Results, loss: str) -> Results:
    """Return a library's results with its log loss named as ours; without a penalty it is the objective."""
    renamed = {}
    for name, found in results.items():
        others = {measure: values for measure, values in found.items() if measure != loss}
        renamed[name] = (
            {"objective": found[loss], "log_loss": found[loss]} | others if loss in found else found
        )
    return renamed
