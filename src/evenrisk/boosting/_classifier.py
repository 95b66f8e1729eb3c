"""What fair LightGBM and fair XGBoost share: fit's door, evaluation sets, the fitted attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import logit
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted
from threadpoolctl import threadpool_limits

from evenrisk._estimator import FairClassifier, TrainingData, diagnose
from evenrisk._validation import check_features, check_member, check_number
from evenrisk._xp import is_sparse
from evenrisk.boosting._rounds import Descent
from evenrisk.boosting._sets import check_set, listed_sets
from evenrisk.boosting._training import Evaluation, Stopping, Trees, boost
from evenrisk.distances import DISTANCES, Distance
from evenrisk.losses import LOGISTIC
from evenrisk.objective import Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Parity

DIAGNOSED = 10_000  # rows whose scores are looked at for a collapse


class Rows(NamedTuple):
    """Rows in the library's terms, to fit or to evaluate."""

    X: Any
    y: np.ndarray
    loss_weight: np.ndarray | None  # of the loss; None = 1 for all
    objective: ScoreObjective | None  # None where there is no penalty


class Fitted(NamedTuple):
    """What a library gives back."""

    booster: Any
    n_trees: int
    results: dict[str, dict[str, list[float]]]  # of the evaluation sets
    scores: np.ndarray | None = None  # g of the training rows, where they are known already


def seed_of(random_state: Any) -> int:
    """A number as it is, as the libraries take it; a generator's next."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def named(found: dict[str, list[float]], loss: str) -> dict[str, list[float]]:
    """Call a library's log loss as ours is called; without a penalty it is the objective."""
    if loss not in found:
        return found
    return {"objective": found[loss], "log_loss": found[loss]} | {k: v for k, v in found.items() if k != loss}


class BoostedClassifier(FairClassifier):
    """Boosted trees with `parity`, `distance` and `eta`; everything else is the library's."""

    _no_constraint: ClassVar[str] = "eta=0"
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
        with self._all_or_nothing():
            data = self._present(self._check_fit(X, y, sample_weight, sensitive_features))
            sets = self._check_sets(eval_set, eval_sensitive_features, eval_sample_weight, data)
            self._train(data, sets)
        self._remember(data)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Give the raw score of each row.

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
        """Give the settings, those that are the library's own among them.

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
        """Change settings; what is not ours is handed to the library as it is.

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

    # ---------------------------------------------------------------- the library's part

    def _grown(self, rows: Rows, sets: list[Rows], stopping: Stopping, start: float) -> tuple[Trees, bool]:
        """Give a model without trees yet, and whether its leaves must keep the library's values."""
        raise NotImplementedError

    def _plain(self, rows: Rows, sets: list[Rows], stopping: Stopping) -> Fitted:
        """Fit without a penalty: the library's own training, as it is."""
        raise NotImplementedError

    def _finished(self, trees: Any, n_trees: int) -> Any:
        """Give the library's model of the first trees."""
        raise NotImplementedError

    def _raw_scores(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _class_factors(self, data: TrainingData) -> tuple[float, float]:
        """Factors of the loss of either label, as the library would have them."""
        raise NotImplementedError

    # ---------------------------------------------------------------- the door

    def _check_parameters(self) -> None:
        if "calibration" in self._others:
            raise ValueError(
                "`calibration` must not be given to boosted trees: their model is the library's own and has "
                "no place for the map. Calibrate the fitted model on rows held out, with scikit-learn's "
                'CalibratedClassifierCV(FrozenEstimator(clf), method="sigmoid"), one map for all groups'
            )
        check_number("eta", self.eta, low=0)
        check_number("n_estimators", self.n_estimators, low=1, whole=True)
        check_number("learning_rate", self.learning_rate, low=0, strict=True)
        check_number("verbose", self.verbose, low=-np.inf, whole=True)
        if self.early_stopping_rounds is not None:
            check_number("early_stopping_rounds", self.early_stopping_rounds, low=1, whole=True)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)
        if self._distance.of_two_moments:
            raise ValueError(
                "`distance` must be 'gap' or 'histogram' for boosted trees, or an instance of these, got "
                f"{self.distance!r}: boosting starts where all scores tie, and there it is singular"
            )

    def _constraint(self) -> str:
        if self.eta == 0:
            return ""
        return (
            f"when eta > 0, got None with eta={self.eta} (eta is the weight of the penalty here; the "
            "learning rate, which the libraries call eta too, is `learning_rate`)"
        )

    def _merges(self) -> bool:
        return False  # a leaf's least number of rows counts rows

    def _check_X(self, X: Any) -> Any:
        return self._features(X, reset=True)

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Check X: frames pass as they are, for their categories' sake."""
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
        """Code categories as those of the training rows are; one that was not there is missing."""
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
        sets = listed_sets(eval_set, features, weights)
        if self.early_stopping_rounds is not None and not sets:
            raise ValueError("`eval_set` must be given with early_stopping_rounds, got None")
        parity = self._parity if self.eta > 0 else None
        return [
            self._present(check_set(each, data, parity, lambda X: self._features(X, reset=False), place))
            for place, each in enumerate(sets)
        ]

    def _present(self, data: TrainingData) -> TrainingData:
        """Leave out rows of weight 0: libraries count them."""
        if data.weight.all():
            return data
        kept = np.flatnonzero(data.weight)
        X, y, weight = _safe_indexing(data.X, kept), data.y[kept], data.weight[kept]
        groups = None if data.groups is None else data.groups.take(kept)
        cells = data.cells
        if cells is not None:
            cells = cells._replace(code=cells.code[kept], weight=weight)
        return replace(data, X=X, y=y, weight=weight, groups=groups, cells=cells)

    # ---------------------------------------------------------------- the fit

    def _train(self, data: TrainingData, sets: list[TrainingData]) -> None:
        factors = self._class_factors(data)
        rows = self._rows(data, factors)
        # the libraries leave evaluation sets as they are
        others = [self._rows(each, factors if self.eta > 0 else (1.0, 1.0)) for each in sets]
        patience = None if self.early_stopping_rounds is None else int(self.early_stopping_rounds)
        stopping = Stopping(int(self.n_estimators), patience, max(0, int(self.verbose)))
        if rows.objective is None:
            fitted = self._plain(rows, others, stopping)
        else:
            fitted = self._fair(rows, others, stopping)
        self.booster_, self.n_estimators_ = fitted.booster, fitted.n_trees
        for name in ("best_iteration_", *(("objective_", "objective_curve_") if self.eta == 0 else ())):
            self.__dict__.pop(name, None)
        if patience is not None:
            self.best_iteration_ = fitted.n_trees
        self.evals_result_ = fitted.results
        if rows.objective is not None:
            some = np.arange(len(data.y))
            if len(some) > DIAGNOSED:
                some = np.random.default_rng(0).permutation(len(some))[:DIAGNOSED]
            known = fitted.scores
            g = self._raw_scores(_safe_indexing(data.X, some)) if known is None else known[some]
            counted = rows.objective.weight[some]  # 0.5 is where a mistake costs the same either way
            diagnose(g, g, replace(data, y=data.y[some], weight=counted), self.eta)

    def _rows(self, data: TrainingData, factors: tuple[float, float]) -> Rows:
        """Give rows their objective."""
        low, high = factors
        loss_weight = data.weight if low == high == 1 else data.weight * np.where(data.y == 1, high, low)
        plain = bool((loss_weight == 1).all())
        objective = None
        if self.eta > 0:
            penalty = Penalty(self._distance, data.cells)  # type: ignore[arg-type]
            full = np.ascontiguousarray(loss_weight, dtype=np.float64)
            objective = ScoreObjective(LOGISTIC, data.y, full, penalty, float(self.eta))
        return Rows(data.X, data.y, None if plain else loss_weight, objective)

    def _fair(self, rows: Rows, sets: list[Rows], stopping: Stopping) -> Fitted:
        """Boost down the objective."""
        objective = rows.objective
        assert objective is not None
        start = float(logit(objective.weight @ rows.y / objective.total))
        trees, own_values = self._grown(rows, sets, stopping, start)
        g = np.full(len(rows.y), start)
        descent = Descent(objective, g, float(self.learning_rate), float(self._ridge()))
        evaluations = [Evaluation(each.objective, np.full(len(each.y), start)) for each in sets]  # type: ignore[arg-type]
        # threads of BLAS have nothing to do here and would stand in the library's way
        with threadpool_limits(1, user_api="blas"):
            n_trees = boost(trees, descent, evaluations, stopping, own_values=own_values)
        self.objective_curve_ = np.array(descent.curve[: n_trees + 1])
        self.objective_ = float(self.objective_curve_[-1])
        results = {f"valid_{i}": each.results for i, each in enumerate(evaluations)}
        scores = descent.g if n_trees == len(descent.curve) - 1 else None
        return Fitted(self._finished(trees, n_trees), n_trees, results, scores)

    def _ridge(self) -> float:
        """λ of the library, added to a leaf's curvature."""
        raise NotImplementedError
