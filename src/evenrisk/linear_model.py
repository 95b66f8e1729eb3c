"""Fair logistic regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator import PenalisedClassifier, TrainingData, all_or_nothing, eta_path
from evenrisk._validation import Comparison, check_number
from evenrisk.calibration import Steps
from evenrisk.distances import Distance
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearProblem
from evenrisk.parity import Parity


class FairLogisticRegression(PenalisedClassifier):
    """Logistic regression whose scores have the same distribution in every group.

    Minimises mean log loss + alpha/2·‖w‖² + eta·E_f, where E_f adds up how far the groups' score
    distributions are apart. So the parity holds at every threshold. The protected attribute is needed for
    training only.

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
        "gap", "histogram" (the paper's HA), "gaussian" (the paper's GA), or an instance with its own
        settings such as ``GapDistance(window=(0.2, 0.6))``.
    eta : float, default=1.0
        Weight of the penalty. 0 is plain logistic regression and needs no ``sensitive_features``. It has no
        natural unit: with the gap distance 1 is mild and 10 strong on the shipped data sets, with the other
        two 0.1 is mild and 0.4 strong. Look at `threshold_profile` of held-out scores to choose it.
    alpha : float, default=0.0
        Weight of the ridge term, not applied to the intercept; ``C = 1/(alpha·n)`` in scikit-learn, n the
        total weight of the loss.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels in the loss, as in scikit-learn: a dict from label to weight, or "balanced" for
        weights that make both labels count the same. A label that the dict does not name has weight 1. They
        multiply `sample_weight` in the loss alone. The comparison of groups and `calibration` do not use
        them, so a calibrated 0.5 is a risk of 0.5 whatever these weights are.
    calibration : {"sigmoid", "isotonic"} or None, default=None
        One strictly increasing map of the raw scores for all groups, fitted to the training data after the
        model, so that s estimates a risk; `max_gap` and `rank_gap` do not change, in float64 to the last bit.
        "sigmoid" is a line (Platt's scaling), folded into the coefficients; "isotonic" is more flexible and
        needs thousands of rows. Weights that are whole multiples of the smallest one (on average up to ten
        times it) are read as numbers of rows here; other weights are scaled to a mean of 1.
    solver : {"auto", "lbfgs", "newton", "momentum"}, default="auto"
        "newton" takes its steps from the curvature of loss and penalty, a (d + 1)² matrix, and needs fewer of
        them; "auto" is "newton" up to 256 features and 50 pairs of cells wherever there is a penalty, and
        "lbfgs" otherwise. The path up to eta always uses "auto".
        "momentum" is the paper's gradient descent; it needs standardised features and a `max_iter` in the
        thousands.
    fit_intercept : bool, default=True
        Whether to fit b in g = Xw + b.
    max_iter : int, default=1000
        Largest number of iterations at each point of the path over eta.
    tol : float, default=1e-6
        Stop when no entry of the objective's gradient is larger; not below 1.2e-5 where X is float32.
    warm_start : bool, default=False
        Start from the last fit instead of following the path from the unpenalised fit up to eta.
    random_state : int, RandomState instance or None, default=None
        Not used: the solvers are deterministic. It exists so that all estimators accept it.
    verbose : int, default=0
        1 writes one line per iteration to standard error.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
        The weights w.
    intercept_ : ndarray of shape (1,)
        The intercept b. Without `fit_intercept` it is 0, or what a sigmoid calibration adds.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    groups_ : ndarray of shape (k,)
        The groups seen, where any were given; tuples where several columns were crossed.
    comparison_ : Comparison
        `comparison` with the cuts that were chosen and the groups that were left out, to measure other rows
        alike; where groups were given.
    calibration_ : Line, Steps or None
        The map from the minimised raw score to the calibrated one, a callable.
    objective_ : float
        The objective at the solution, of the scores before calibration.
    penalty_ : float
        E_f at the solution, without eta, of the scores before calibration.
    n_iter_ : int
        Iterations over the whole path.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    evenrisk.metrics.threshold_profile : The gap at every threshold, of any score.

    Notes
    -----
    The objective is not convex for ``eta > 0``. The fit starts with the unpenalised model and increases eta
    step by step, each point starting from the solution of the one before. It returns the minimum that this
    path leads to.

    With an intercept, a column that does not vary has the coefficient 0, because the intercept has the same
    effect. A column whose range is under 4e-11 of its largest value (2e-5 in float32) counts as constant,
    because scores would keep no digits of it. Collinear columns share their coefficient.

    Examples
    --------
    >>> from evenrisk import FairLogisticRegression
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> for eta in (0, 10):
    ...     clf = FairLogisticRegression(eta=eta).fit(X, y, sensitive_features=race)
    ...     s = clf.predict_proba(X)[:, 1]
    ...     print(round(max_demographic_parity_difference(y, s, sensitive_features=race), 2))
    0.27
    0.09
    """

    def __init__(
        self,
        parity: str | Parity = "demographic_parity",
        *,
        comparison: str | Comparison = "crossed",
        distance: str | Distance = "gap",
        eta: float = 1.0,
        alpha: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        calibration: str | None = None,
        solver: str = "auto",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.parity = parity
        self.comparison = comparison
        self.distance = distance
        self.eta = eta
        self.alpha = alpha
        self.class_weight = class_weight
        self.calibration = calibration
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features. The protected attribute should not be among them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, in the loss and in the penalty. A row of weight 2 counts like two rows.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The group of each row, in one column or several; `comparison` says who is compared. Aligned with X
            by position. Required wherever there is a penalty (``eta > 0``); never needed to predict.

        Returns
        -------
        self
            The fitted estimator.
        """
        with all_or_nothing(self):
            data = self._check_rows(X, y, sample_weight, sensitive_features)
            problem = self._problem(data)
            for point in eta_path(problem, [float(self.eta)], self._settings(), self._start(problem)):
                self._store_fit(problem, point, data)
        return self

    def to_sklearn(self) -> Any:
        """Return a plain scikit-learn LogisticRegression with the same probabilities.

        Returns
        -------
        sklearn.linear_model.LogisticRegression
            Fitted, independent of evenrisk: for tools that support only scikit-learn's own classes. A sigmoid
            calibration is included; an isotonic one is not linear and raises an error.
        """
        from sklearn.linear_model import LogisticRegression

        check_is_fitted(self)
        if isinstance(self.calibration_, Steps):
            raise ValueError(
                "`to_sklearn` must have scores that are linear in X, got calibration='isotonic', whose map "
                "bends. Fit with calibration='sigmoid', a line, or None"
            )
        model = LogisticRegression(class_weight=self.class_weight, fit_intercept=self.fit_intercept)
        model.coef_, model.intercept_ = self.coef_.copy(), self.intercept_.copy()
        model.classes_, model.n_features_in_ = self.classes_.copy(), self.n_features_in_
        model.n_iter_ = np.array([self.n_iter_])
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_.copy()
        return model

    def _problem(self, data: TrainingData) -> LinearProblem:
        """Return mean log loss + alpha/2·‖w‖² + eta·E_f, a function of (w, b)."""
        scores = self._score_objective(LOGISTIC, data)
        alpha = check_number("alpha", self.alpha, low=0)
        return LinearProblem(scores, data.X, alpha=alpha, fit_intercept=self.fit_intercept)
