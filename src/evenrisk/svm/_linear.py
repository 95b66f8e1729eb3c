"""The fair linear support vector machine."""

from __future__ import annotations

from typing import Any, Self

from evenrisk._estimator import PenalisedClassifier, TrainingData, all_or_nothing, eta_path
from evenrisk._validation import Comparison, check_choice, check_number
from evenrisk.distances import Distance
from evenrisk.losses import HINGE, SQUARED_HINGE, Loss
from evenrisk.objective import LinearProblem
from evenrisk.parity import Parity

LOSSES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE}


def margin_loss(name: Any) -> Loss:
    """Return the loss of a machine by its name."""
    return LOSSES[check_choice("loss", name, tuple(LOSSES))]


def machine_alpha(alpha: Any, total: float) -> float:
    """Return λ, by default the paper's 1/(10·Σ weights), those of the loss."""
    return 1 / (10 * total) if alpha is None else check_number("alpha", alpha, low=0)


class FairLinearSVC(PenalisedClassifier):
    """Linear support vector machine whose scores have the same distribution in every group.

    Minimises mean hinge loss + alpha/2·‖w‖² + eta·E_f over g = Xw + b, where E_f adds up how far the groups'
    score distributions are apart. The risk is s = sigmoid(g), as in the paper: a monotone map of the margin
    into (0, 1), not a calibrated probability unless `calibration` makes it one.

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
        Weight of the penalty. 0 is the plain machine and needs no ``sensitive_features``. On COMPAS the gap
        distance needs 5 to 20; with the histogram the scores collapse to a constant between 1 and 5.
    alpha : float or None, default=None
        Weight of the ridge term, not applied to the intercept; None is the paper's 1/(10·Σ weights).
        ``SVC(kernel="linear", C=1/(alpha·n))`` is the same machine at ``eta=0``.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels in the loss, as in scikit-learn: a dict from label to weight, or "balanced" for
        weights that make both labels count the same. A label that the dict does not name has weight 1. They
        multiply `sample_weight` in the loss alone. The comparison of groups and `calibration` do not use
        them, so a calibrated 0.5 is a risk of 0.5 whatever these weights are.
    calibration : {"sigmoid", "isotonic"} or None, default=None
        One strictly increasing map of the raw scores for all groups, fitted to the training data after the
        model, so that s estimates a risk; `max_gap` and `rank_gap` do not change. "sigmoid" is a line
        (Platt's scaling), folded into the coefficients; "isotonic" is more flexible and needs thousands of
        rows. Weights that are whole multiples of the smallest one (on average up to ten times it) are read
        as numbers of rows here; other weights are scaled to a mean of 1.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The squared hinge is smooth and faster to fit; it is not the paper's.
    solver : {"auto", "lbfgs", "newton", "momentum"}, default="auto"
        For the squared hinge "newton" takes its steps from the curvature, a matrix of all coefficients, and
        "auto" is "newton" up to 256 of them wherever there is a penalty, and "lbfgs" otherwise. The hinge has
        kinks: all three are the method of multipliers then, with Newton's steps inside. "momentum" is the
        paper's subgradient descent; it always takes `max_iter` steps, which should be in
        the thousands.
    fit_intercept : bool, default=True
        Whether to fit b in g = Xw + b.
    max_iter : int, default=5000
        Largest number of iterations at each point of the path over eta.
    tol : float, default=1e-6
        Stop when no entry of the gradient is larger and, for the hinge, its value is within this share of
        the smooth lower bound's; not below 1.2e-5 where X is float32.
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
        The objective at the solution, with the true hinge, of the scores before calibration.
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
    FairKernelSVC : The same with a kernel.
    evenrisk.FairLogisticRegression : Log loss in place of the hinge.

    Notes
    -----
    Memory is that of X and a few vectors of n. An evaluation takes O(n·d) time, a fit hundreds of
    them. The objective is not convex for ``eta > 0``; see :class:`~evenrisk.FairLogisticRegression`.

    Examples
    --------
    >>> from evenrisk import FairLinearSVC
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> for eta in (0, 20):
    ...     clf = FairLinearSVC(eta=eta).fit(X, y, sensitive_features=race)
    ...     s = clf.predict_proba(X)[:, 1]
    ...     print(round(max_demographic_parity_difference(y, s, sensitive_features=race), 2))
    0.26
    0.12
    """

    def __init__(
        self,
        parity: str | Parity = "demographic_parity",
        *,
        comparison: str | Comparison = "crossed",
        distance: str | Distance = "gap",
        eta: float = 1.0,
        alpha: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        calibration: str | None = None,
        loss: str = "hinge",
        solver: str = "auto",
        fit_intercept: bool = True,
        max_iter: int = 5000,
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
        self.loss = loss
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

    def _problem(self, data: TrainingData) -> LinearProblem:
        """Return mean hinge loss + alpha/2·‖w‖² + eta·E_f, a function of (w, b)."""
        scores = self._score_objective(margin_loss(self.loss), data)
        alpha = machine_alpha(self.alpha, scores.total)
        return LinearProblem(scores, data.X, alpha=alpha, fit_intercept=self.fit_intercept)
