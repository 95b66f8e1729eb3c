"""Fair to a budget: "no gap above 0.05 anywhere" instead of an η.

The search fits at η = 0, then goes up a grid of η until the held-out gap meets the budget, and bisects
between the last two. Where none of them meets it, a finer grid is fitted from scratch and the best taken.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from evenrisk._validation import (
    BudgetWarning,
    MissingSensitiveFeatures,
    check_fraction,
    check_number,
    warn_user,
)
from evenrisk.model_selection._held_out import EtaEstimator, FitInput, HeldOutScorer, SearchRows, make_folds

if TYPE_CHECKING:
    from evenrisk.metrics import ThresholdProfile
    from evenrisk.parity import Comparison, Parity

COLUMNS = ("eta", "max_gap", "bound", "auc", "accuracy")
N_RESAMPLES = 400  # for the bound: its own error is then a twentieth of its width
SMALL_PART = 0.02  # of the rows: a warning says that a group with fewer can be left out
N_PERMUTATIONS = 200  # for the noise floor that a warning names
FEW_PERMUTATIONS = 50  # to know whether a budget is below it, after every search
PER_DECADE = 2  # points of the grid of η per factor of ten
FINE_PER_DECADE = 4  # where a budget is out of reach: what few rows measure is rough
PRECISION = 1.1  # ratio of two neighbouring η, the one too small and the other enough
AS_GOOD = 0.005  # a criterion this close to the best one is as good, at a smaller η
REFINEMENTS = 3  # times that the neighbourhood of the best η is looked at more closely

Criterion = Callable[[float], float]  # what must not exceed the budget, by η


def _if_model_has(method: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), method))


class BudgetSearchCV(ClassifierMixin, BaseEstimator):
    """Find the smallest eta that keeps the gap between groups within a budget at every threshold.

    The gap is measured on held-out scores, pooled over the folds of a cross-validation as places among the
    scores of their fold, since each fold's model has a scale of its own. The search increases eta
    by factors of √10 until the budget is met and bisects from there, each fit beginning where that of a
    smaller eta ended. The model is then fitted to all rows with the eta found.

    Parameters
    ----------
    estimator : estimator
        Any classifier with a parameter `eta` whose `fit` takes `sensitive_features`, or a pipeline with one
        such step. Inside anything else (calibration, a moved threshold, another search) it needs metadata
        routing on: ``sklearn.set_config(enable_metadata_routing=True)``. Its own eta is not used.
    max_gap : float, default=0.05
        The budget, above 0 and at most 1: the largest gap allowed at any threshold, in the worst stratum. 1
        allows everything: eta = 0, and no ``sensitive_features`` needed.
    confidence : float, default=None
        None compares the measured gap with the budget; what is measured there is often a little below the
        true gap, since eta was chosen by it. A number such as 0.9 compares an upper bound with it, the end of
        a bootstrap band that covers the gap at all thresholds with this confidence.
    parity : str or Parity, default=None
        The rule whose gap is meant; None is the estimator's own.
    comparison : str or Comparison, default=None
        Which groups the budget is for, as in :func:`~evenrisk.metrics.threshold_profile`; None is the
        estimator's own. The worst of all comparisons must keep it.
    cv : int, splitter or iterable, default=5
        Number of folds, each with its share of every label in every group; or what scikit-learn takes. No
        row may be held out twice, nor fitted and held out by the same fold.
    eta_range : (float, float), default=(0.01, 1000)
        Where to look for eta, besides 0.
    n_jobs : int, default=None
        How many folds to fit at once; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds and draws the resamples of the bound.
    verbose : int, default=0
        1 writes one line per eta to standard error.

    Attributes
    ----------
    eta_ : float
        The eta found.
    budget_met_ : bool
        Whether the held-out gap (its bound, with `confidence`) at `eta_` is within the budget.
    max_gap_ : float
        The held-out max gap at `eta_`, of the scores' places within their folds; NaN where no groups were
        given.
    worst_ : str
        Where that max gap is and between whom: its threshold, a place from 0 to 1, and who is compared; ""
        where no groups were given.
    comparison_ : Comparison or None
        Whose gaps were measured, with the cuts and the groups left out that all rows have: to measure other
        rows alike. None where no groups were given.
    path_ : pandas.DataFrame
        What was tried, by eta: `max_gap`, `bound` (NaN without `confidence`, or where the measured gap is
        already above the budget), `auc` and `accuracy`, all of the pooled held-out scores. Gap, bound and AUC
        are of a score's place among those of its fold: a rank from 0 to 1, ties in the middle. The accuracy
        is of the raw score's sign.
    best_estimator_ : estimator
        Fitted to all rows with `eta_`.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    evenrisk.model_selection.tradeoff_path : The whole trade-off, to choose by eye.

    Notes
    -----
    Where no eta in the range meets the budget, a :class:`~evenrisk.exceptions.BudgetWarning` says how close
    it came and what chance alone would show on as many rows, `budget_met_` is False, and the model is the one
    with the smallest eta whose gap is within 0.005 of the best. Where the measured gap meets it but these
    rows cannot verify that at the `confidence` asked for, `budget_met_` is False too, the model is the one
    that meets it as measured, and the warning says how many rows would be enough. Without `confidence` a
    budget below what chance alone shows on so many rows is met as measured, with a warning that says so.

    Examples
    --------
    >>> from evenrisk import BudgetSearchCV, FairLogisticRegression
    >>> from evenrisk.datasets import load_compas
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> search = BudgetSearchCV(FairLogisticRegression(), max_gap=0.15, random_state=0)
    >>> search = search.fit(X, y, sensitive_features=race)
    >>> search.budget_met_, search.max_gap_ <= 0.15
    (True, True)
    """

    # with metadata routing on, pipelines and searches pass the groups through without being told
    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    def __init__(
        self,
        estimator: Any,
        max_gap: float = 0.05,
        *,
        confidence: float | None = None,
        parity: str | Parity | None = None,
        comparison: str | Comparison | None = None,
        cv: Any = 5,
        eta_range: tuple[float, float] = (0.01, 1000.0),
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.max_gap = max_gap
        self.confidence = confidence
        self.parity = parity
        self.comparison = comparison
        self.cv = cv
        self.eta_range = eta_range
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> Self:
        """Find eta and fit the model to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features. The protected attribute should not be among them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, in the fits and in the gap.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The group of each row, in one column or several. Required unless the budget is 1; never needed to
            predict.

        Returns
        -------
        self
            The fitted search.
        """
        import pandas as pd

        estimator = EtaEstimator.find(self.estimator)
        self._check_parameters()
        given = FitInput(X, y, sensitive_features, sample_weight)
        if sensitive_features is None:
            if self.max_gap < 1:
                raise MissingSensitiveFeatures(
                    "`sensitive_features` is required for a budget below 1, got None with "
                    f"max_gap={self.max_gap}. Pass the group of each row to fit (it is not needed to predict)"
                )
            eta, met = 0.0, True
            path = {eta: dict.fromkeys(COLUMNS[1:], np.nan)}
            model = estimator.fit_in_turn(given, [eta])
            self.worst_, self.comparison_ = "", None
        else:
            rows, estimator = SearchRows.check(given, estimator, self.parity, self.comparison)
            search = _Search(self, estimator, rows)
            eta, met = search.find_eta()
            path, model = search.path, search.scorer.fitted(eta)
            self.worst_, self.comparison_ = search.profiles[eta].worst, rows.comparison
        self.eta_, self.budget_met_, self.max_gap_ = eta, met, path[eta]["max_gap"]
        self.path_ = pd.DataFrame(
            [{"eta": each} | path[each] for each in sorted(path)], columns=list(COLUMNS)
        )
        self._copy_attributes(model)
        return self

    def _check_parameters(self) -> None:
        check_fraction("max_gap", self.max_gap, one=True)
        if self.confidence is not None:
            check_fraction("confidence", self.confidence)
        try:
            low, high = (check_number("eta_range", eta, low=0, strict=True) for eta in self.eta_range)
        except (TypeError, ValueError):
            low, high = 1.0, 0.0
        check_number("verbose", self.verbose, low=0)
        if not low < high:
            raise ValueError(f"`eta_range` must be (low, high) with 0 < low < high, got {self.eta_range!r}")

    def _copy_attributes(self, model: Any) -> None:
        """Take the fitted model over, with the attributes that scikit-learn asks for."""
        self.best_estimator_ = model
        self.classes_ = model.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
            elif hasattr(self, name):
                delattr(self, name)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row, by the model found.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as they were given to `fit`.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @_if_model_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return 1 − s and s, the risk, for each row, by the model found.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n, 2)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X))

    @_if_model_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the raw score of each row, by the model found.

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
        return np.asarray(self.best_estimator_.decision_function(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


class _Search:
    """One search: what was tried, and what came of it."""

    def __init__(self, settings: BudgetSearchCV, estimator: EtaEstimator, rows: SearchRows) -> None:
        rng = check_random_state(settings.random_state)
        folds = make_folds(rows, settings.cv, rng)
        self.settings = settings
        self.rows = rows
        self.seed = int(rng.randint(2**31 - 1))
        self.scorer = HeldOutScorer(estimator, rows.given, folds, settings.n_jobs)
        self.profiles: dict[float, ThresholdProfile] = {}
        self.path: dict[float, dict[str, float]] = {}

    def find_eta(self) -> tuple[float, bool]:
        """Return the η found and whether it meets the budget; warn if not."""
        budget, (low, high) = self.settings.max_gap, self.settings.eta_range
        eta = smallest_eta(self._criterion, budget, low, high)
        if eta is not None:
            self._warn_if_within_chance(eta)
            return eta, True
        if self.settings.confidence is not None:
            eta = smallest_eta(self._measured, budget, low, high)
        if eta is not None:
            self._warn_unverified(eta)
            return eta, False
        # every fit from scratch now, as in a grid search: a strong penalty on few rows has many minima
        self.scorer.fit_from_scratch()
        self.path.clear()
        eta = best_eta(self._measured, low, high)
        if self._criterion(eta) <= budget:
            self._warn_if_within_chance(eta)
            return eta, True
        self._warn_unmet(eta)
        return eta, False

    def _measured(self, eta: float) -> float:
        """Return the held-out max gap at this η."""
        if eta not in self.path:
            scores = self.scorer.scores(eta)
            self.profiles[eta] = self.rows.profile(scores.rank)
            measured = {"max_gap": self.profiles[eta].max_gap, "bound": np.nan}
            self.path[eta] = measured | self.rows.quality(scores)
            if self.settings.verbose:
                print(f"eta {eta:<12.6g} held-out max gap {measured['max_gap']:.4f}", file=sys.stderr)
        return self.path[eta]["max_gap"]

    def _criterion(self, eta: float) -> float:
        """Return what must meet the budget: the measured gap, or an upper bound with this confidence.

        No bound is drawn where the measured gap is above the budget. Resamples are the same for all η.
        """
        measured, confidence = self._measured(eta), self.settings.confidence
        if confidence is None or measured > self.settings.max_gap:
            return measured
        row = self.path[eta]
        if np.isnan(row["bound"]):
            level = float(confidence)
            band = self.profiles[eta].band(level, "bootstrap", _resamples(level), self.seed)
            row["bound"] = band.max_gap.high
        return row["bound"]

    def _warn_unverified(self, eta: float) -> None:
        """Warn that this many rows cannot tell."""
        budget, level = self.settings.max_gap, float(self.settings.confidence)  # type: ignore[arg-type]
        bounds = {each: row["bound"] for each, row in self.path.items() if np.isfinite(row["bound"])}
        best = min(bounds, key=lambda each: bounds[each])
        certificate = self.profiles[best].certify(budget, level, "bootstrap", _resamples(level), self.seed)
        needed = certificate.rows_needed
        enough = "" if needed is None else f"; about {needed:,} rows in every cell would be enough for that"
        warn_user(
            f"a max gap of {budget:g} cannot be verified with {len(self.rows.code):,} rows. The held-out max "
            f"gap is {self.path[eta]['max_gap']:.3f} at eta={eta:.4g}, but no eta brings its upper bound at "
            f"confidence {level:g} below {bounds[best]:.3f} (eta={best:.4g}){enough}",
            BudgetWarning,
        )

    def _warn_if_within_chance(self, eta: float) -> None:
        """Warn if the budget, as measured, is below what this many rows show of a score without any gap.

        A score that is nearly constant shows less by chance: the plain model's is taken.
        """
        by_chance = self._gap_by_chance(0.0, FEW_PERMUTATIONS) if self.settings.confidence is None else 0.0
        if self.settings.max_gap < by_chance:
            warn_user(
                f"a held-out max gap of {self.path[eta]['max_gap']:.3f} meets the budget of "
                f"{self.settings.max_gap:g} as measured, but {len(self.rows.code):,} rows cannot tell: a "
                f"score that has nothing to do with the groups shows {by_chance:.3f} by chance. Give more "
                "rows, leave small groups out, or give `confidence` for a bound of the true gap",
                BudgetWarning,
            )

    def _warn_unmet(self, eta: float) -> None:
        """Warn that the budget is out of reach, and what chance alone would show."""
        warn_user(
            f"no eta up to {self.settings.eta_range[1]:g} brings the held-out max gap to "
            f"{self.settings.max_gap:g}: it comes down to {self.path[eta]['max_gap']:.3f} (eta={eta:.4g}; "
            f"{self._worst(eta)}). On these {len(self.rows.code):,} rows a score that has nothing to do with "
            f"the groups shows {self._gap_by_chance(eta, N_PERMUTATIONS):.3f} by chance",
            BudgetWarning,
        )

    def _worst(self, eta: float) -> str:
        """Return between whom the gap is; of a small group, that it can be left out."""
        profile = self.profiles[eta]
        names, stratum = profile.worst_groups, profile.parity.strata.index(profile.worst_stratum)
        rows = min(profile.rows_by_group[stratum, profile.groups.index(name)] for name in names)
        small = (
            ", which Comparison(min_share=...) can leave out"
            if rows < SMALL_PART * len(self.rows.code)
            else ""
        )
        return f"{' against '.join(names)}{small}"

    def _gap_by_chance(self, eta: float, n_permutations: int) -> float:
        """Return the mean max gap that chance alone would show."""
        return self.profiles[eta].noise_floor(n_permutations, self.seed).mean


def _resamples(level: float) -> int:
    return max(N_RESAMPLES, int(np.ceil(4 / (1 - level))))


# The search for η knows nothing of models. The criterion is a held-out gap, or a bound for it. As it is
# measured, it mostly falls with η. The grid is 10^(k/2), so that two searches look at the same η.


def eta_grid(low: float, high: float, per_decade: int = PER_DECADE) -> list[float]:
    """Return low, high, and 10^(k/per_decade) for all k between them."""
    first = floor(log10(low) * per_decade + 1e-9) + 1
    last = ceil(log10(high) * per_decade - 1e-9) - 1
    return [low, *(10 ** (k / per_decade) for k in range(first, last + 1)), high]


def smallest_eta(criterion: Criterion, budget: float, low: float, high: float) -> float | None:
    """Return the smallest η with criterion(η) ≤ budget, to a factor of `PRECISION`; None if there is none."""
    if criterion(0.0) <= budget:
        return 0.0
    grid = eta_grid(low, high)
    middle = min(range(len(grid)), key=lambda k: abs(log10(grid[k])))
    upwards, downwards = range(middle, len(grid)), range(middle - 1, -1, -1)
    at = next((k for k in (*upwards, *downwards) if criterion(grid[k]) <= budget), None)
    if at is None:
        return None
    while 0 < at <= middle and criterion(grid[at - 1]) <= budget:
        at -= 1
    enough, too_small = grid[at], grid[at - 1] if at else 0.0
    while too_small > 0 and enough / too_small > PRECISION:
        between = (too_small * enough) ** 0.5
        if criterion(between) <= budget:
            enough = between
        else:
            too_small = between
    return enough


def best_eta(criterion: Criterion, low: float, high: float) -> float:
    """Return the smallest η whose criterion is about as low as it gets, for a budget out of reach."""
    tried = {eta: criterion(eta) for eta in (0.0, *eta_grid(low, high, FINE_PER_DECADE))}
    for _ in range(REFINEMENTS):
        best = min(tried, key=lambda eta: (tried[eta], eta))
        below = max((eta for eta in tried if 0 < eta < best), default=None)
        above = min((eta for eta in tried if eta > best), default=None)
        for neighbour in (below, above):
            if neighbour and best > 0:
                middle = (neighbour * best) ** 0.5
                tried[middle] = criterion(middle)
    least = min(tried.values())
    return min(eta for eta, value in tried.items() if value <= least + AS_GOOD)
