"""The fair kernel support vector machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator import (
    FOLDS,
    PathPoint,
    PenalisedClassifier,
    TrainingData,
    all_or_nothing,
    distinct_rows,
    eta_path,
    forget,
)
from evenrisk._validation import Comparison, check_choice, check_number
from evenrisk.distances import Distance
from evenrisk.objective import LinearObjective, Problem, ScoreObjective
from evenrisk.parity import Parity
from evenrisk.svm._kernels import KERNELS, Kernel, KernelFeatures, RepeatedRows, gamma_value, kernel_function
from evenrisk.svm._linear import machine_alpha, margin_loss
from evenrisk.svm._memory import available_memory

MATRICES = 4  # of m × m numbers that the exact form needs at once
BLOCK_BYTES = 2**26  # of kernel values at a time when predicting


class KernelProblem(LinearObjective):
    """The machine as a linear model of the kernel's features φ(x), and the coefficients of its support."""

    def __init__(
        self,
        scores: ScoreObjective,
        features: KernelFeatures,
        rows: Any,
        index: np.ndarray,
        *,
        alpha: float,
        fit_intercept: bool,
        gamma: float,
    ) -> None:
        X = RepeatedRows(features(rows), index)
        super().__init__(scores, X, alpha=alpha, fit_intercept=fit_intercept)
        self.kernel_features, self.gamma = features, gamma

    def sample(self) -> None:
        """Return None: the features of all rows have been computed."""

    def attributes(self, theta: np.ndarray, slope: float = 1.0, intercept: float = 0.0) -> dict[str, Any]:
        """Return the dual coefficients, for raw scores slope·g(θ) + intercept."""
        dual = self.kernel_features.dual_coefficients(theta[: self.n_features])
        b = float(theta[-1]) if self.fit_intercept else 0.0
        support = self.kernel_features.support
        return {
            "support_" if np.ndim(support) == 1 else "support_vectors_": support,
            "dual_coef_": (slope * dual)[None, :],
            "intercept_": np.array([slope * b + intercept]),
            "gamma_": self.gamma,
        }


class FairKernelSVC(PenalisedClassifier):
    """Kernel support vector machine whose scores have the same distribution in every group.

    Minimises mean hinge loss + alpha/2·‖f‖² + eta·E_f over g = f(x) + b, f = Σ_j α_j k(x_j, ·), where E_f
    adds up how far the groups' score distributions are apart. The risk is s = sigmoid(g), as in the paper: a
    monotone map of the margin into (0, 1), not a calibrated probability unless `calibration` makes it one.

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
        Weight of the penalty. 0 is the plain machine and needs no ``sensitive_features``. On COMPAS the
        kernel machine needs 10 to 20 for a strong effect.
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        A callable takes two matrices of rows, (n, d) and (r, d), and returns the (n, r) kernel values, as in
        ``SVC``. With "precomputed" X is the kernel matrix: (n, n) to fit, (rows, n) to predict.
    gamma : float, "scale" or "auto", default=0.5
        γ in exp(−γ‖x − z‖²) and (γ·xᵀz + coef0)^degree. 0.5 is the paper's, for standardised features;
        "scale" is 1/(d·variance of X), "auto" 1/d.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=0.0
        Of "poly".
    alpha : float or None, default=None
        λ, the weight of the norm; None is the paper's 1/(10·Σ weights). ``SVC(C=1/(alpha·n))`` is the same
        machine at ``eta=0``.
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
        A kernel machine may memorise its rows, so the map is fitted to held-out scores from five more fits.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The squared hinge is smooth and faster to fit; it is not the paper's.
    n_components : int or None, default=None
        None is exact. A number takes that many rows at random as landmarks (Nyström): memory then grows with
        n·n_components instead of n².
    solver : {"auto", "lbfgs", "newton", "momentum"}, default="auto"
        For the squared hinge "newton" takes its steps from the curvature, a matrix of all coefficients, and
        "auto" is "newton" up to 256 of them wherever there is a penalty, and "lbfgs" otherwise. The hinge has
        kinks: all three are the method of multipliers then, with Newton's steps inside. "momentum" is the
        paper's subgradient descent; on a kernel machine it is far from the minimum after
        20,000 steps.
    fit_intercept : bool, default=True
        Whether to fit b in g = f(x) + b.
    max_iter : int, default=5000
        Largest number of iterations at each point of the path over eta.
    tol : float, default=1e-6
        Stop when no entry of the gradient is larger and, for the hinge, its value is within this share of
        the smooth lower bound's.
    warm_start : bool, default=False
        Start from the last fit instead of following the path from the unpenalised fit up to eta.
    random_state : int, RandomState instance or None, default=None
        Chooses the landmarks where `n_components` is given; the exact form is deterministic.
    verbose : int, default=0
        1 writes one line per iteration to standard error.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (1, r)
        The coefficients α on the support rows; r is the numerical rank of the kernel matrix.
    support_vectors_ : ndarray of shape (r, d)
        The training rows that carry a coefficient; not with a precomputed kernel.
    support_ : ndarray of shape (r,)
        With a precomputed kernel, their places among the training rows.
    intercept_ : ndarray of shape (1,)
        The intercept b. Without `fit_intercept` it is 0, or what a sigmoid calibration adds.
    gamma_ : float
        The γ used.
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
    FairLinearSVC : The same without a kernel.

    Notes
    -----
    Let m be the number of distinct rows of X and r the numerical rank of their kernel matrix (COMPAS: 3,694
    training rows, m ≈ 1,250, r ≈ 450). The exact form takes 32·m² bytes at first and 8·m·r for the rest of
    the fit, O(m²·r) time once and O(m·r) per evaluation, r³ every fiftieth; it raises MemoryError where 32·m²
    bytes are not available. With ``n_components=p`` it takes two to three times 8·n·p bytes, O(n·p²) time
    once and O(n·p) per evaluation. A prediction costs r kernel values.

    Examples
    --------
    >>> from evenrisk import FairKernelSVC
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> clf = FairKernelSVC(distance="histogram", eta=10, n_components=50, tol=1e-4, random_state=0)
    >>> s = clf.fit(X, y, sensitive_features=race).predict_proba(X)[:, 1]
    >>> max_demographic_parity_difference(y, s, sensitive_features=race) < 0.1
    True
    """

    def __init__(
        self,
        parity: str | Parity = "demographic_parity",
        *,
        comparison: str | Comparison = "crossed",
        distance: str | Distance = "gap",
        eta: float = 1.0,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = 0.5,
        degree: int = 3,
        coef0: float = 0.0,
        alpha: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        calibration: str | None = None,
        loss: str = "hinge",
        n_components: int | None = None,
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
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.alpha = alpha
        self.class_weight = class_weight
        self.calibration = calibration
        self.loss = loss
        self.n_components = n_components
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

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the raw score g = Σ_j α_j k(x_j, x) + b of each row, after `calibration_` if isotonic.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features; with a precomputed kernel the values between these rows and the training rows.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the positive class is predicted.
        """
        check_is_fitted(self)
        return self._calibrated(self._raw_scores(self._validated(X, reset=False)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.sparse = not self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _dtypes(self) -> Any:
        return np.float64

    def _may_merge_rows(self) -> bool:
        return not self._precomputed  # the columns of a precomputed kernel are rows too

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, KERNELS)
        if not (isinstance(self.gamma, str) and self.gamma in ("scale", "auto")):
            if isinstance(self.gamma, str):
                raise ValueError(f"`gamma` must be a number above 0, 'scale' or 'auto', got {self.gamma!r}")
            check_number("gamma", self.gamma, low=0, strict=True)
        check_number("degree", self.degree, low=1, whole=True)
        check_number("coef0", self.coef0, low=0)
        if self.n_components is not None:
            check_number("n_components", self.n_components, low=1, whole=True)

    def _problem(self, data: TrainingData) -> KernelProblem:
        """Return mean hinge loss + alpha/2·‖f‖² + eta·E_f, a function of the features' weights."""
        scores = self._score_objective(margin_loss(self.loss), data)
        alpha = machine_alpha(self.alpha, scores.total)
        gamma = gamma_value(self.gamma, data.X, data.weight)
        rows, kernel = self._rows_and_kernel(data.X, gamma)
        first, index = distinct_rows(rows)
        weight = np.bincount(index, weights=data.weight, minlength=len(first))
        landmarks = rows[self._landmarks(first[weight > 0])]
        features = KernelFeatures.from_landmarks(kernel, landmarks, alpha, self.tol)
        return KernelProblem(
            scores,
            features,
            rows[first],
            index,
            alpha=alpha,
            fit_intercept=self.fit_intercept,
            gamma=gamma,
        )

    def _start(self, problem: KernelProblem) -> np.ndarray | None:
        """Return the last fit as θ of this problem if warm_start is set and shapes agree, else None."""
        name = "support_" if self._precomputed else "support_vectors_"
        old = getattr(self, name, None) if self.warm_start else None
        if old is None or old.shape[1:] != problem.kernel_features.support.shape[1:]:
            return None
        if self._precomputed and old.max() >= problem.X.shape[0]:
            return None
        dual, b = self._folded_line.unfold(self.dual_coef_[0], float(self.intercept_[0]))
        w = problem.kernel_features(old).T @ dual
        return np.append(w, b) if self.fit_intercept else w

    def _set_coefficients(self, problem: Problem, theta: np.ndarray) -> None:
        forget(self, "support_", "support_vectors_")
        super()._set_coefficients(problem, theta)

    def _columns_used(self, X: Any, train: np.ndarray) -> Any:
        return X[:, train] if self._precomputed else X

    def _unseen_scores(self, problem: KernelProblem, point: PathPoint, data: TrainingData) -> np.ndarray:
        g = problem.raw_scores(point.solution.theta)
        fold = np.arange(len(g)) % FOLDS  # merged rows are ordered by value: no random draw needed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the fit itself has warned
            return self._cross_fitted(g, point.eta, data, fold)

    def _raw_scores(self, X: Any) -> np.ndarray:
        support = self.support_ if self._precomputed else self.support_vectors_
        alpha, kernel = self.dual_coef_[0], self._kernel(self.gamma_)
        step = max(BLOCK_BYTES // (8 * len(alpha)), 1)
        first, index = distinct_rows(X)  # equal rows must tie; with BLAS alone they could differ by an ulp
        X = X[first]
        parts = [kernel(X[start : start + step], support) @ alpha for start in range(0, X.shape[0], step)]
        return (np.concatenate(parts) + self.intercept_[0])[index]

    def _rows_and_kernel(self, X: Any, gamma: float) -> tuple[Any, Kernel]:
        """Return what a kernel compares, rows of X or (precomputed) their indices, and the kernel."""
        if not self._precomputed:
            return X, self._kernel(gamma)
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"a precomputed kernel must be square, (n, n), to fit, got shape {X.shape}")
        return np.arange(X.shape[0]), lambda i, j: X[np.ix_(i, j)]

    def _kernel(self, gamma: float) -> Kernel:
        """Return k for rows of features; if precomputed, it selects the columns of the support."""
        return kernel_function(self.kernel, gamma, self.degree, self.coef0)

    def _landmarks(self, points: np.ndarray) -> np.ndarray:
        """Choose all points if their kernel matrix fits into memory, or `n_components` of them."""
        m = len(points)
        if self.n_components is not None and self.n_components < m:
            chosen = check_random_state(self.random_state).permutation(m)[: int(self.n_components)]
            return points[np.sort(chosen)]
        need, have = 8 * MATRICES * m * m, available_memory()
        if need > have:
            raise MemoryError(
                f"the exact kernel machine on {m} distinct rows needs {need / 2**30:.3g} GiB, and "
                f"{have / 2**30:.3g} GiB are available. Set n_components (say {min(m, 1000)}) for the "
                "Nyström form, whose memory grows linearly with the rows"
            )
        return points
