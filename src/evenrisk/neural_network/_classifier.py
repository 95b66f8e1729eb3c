"""The fair multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator import FOLDS, PenalisedClassifier, TrainingData, all_or_nothing, forget
from evenrisk._validation import (
    Comparison,
    MissingSensitiveFeatures,
    check_alignment,
    check_choice,
    check_comparison,
    check_flag,
    check_fraction,
    check_member,
    check_number,
    check_weight,
)
from evenrisk.calibration import CALIBRATIONS
from evenrisk.distances import DISTANCES, Distance
from evenrisk.losses import LOGISTIC
from evenrisk.neural_network._network import (
    ACTIVATIONS,
    Layers,
    NetworkProblem,
    find_device,
    import_torch,
    layer_sizes,
    raw_scores,
    to_sequential,
)
from evenrisk.neural_network._pieces import check_same_layers, piece_groups, piece_labels
from evenrisk.neural_network._training import (
    AdamSettings,
    AdamState,
    MiniBatches,
    NetworkPoint,
    Trainer,
    adam_path,
    lbfgs_path,
    split_off,
    warn_if_not_converged,
)
from evenrisk.objective import Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Parity, make_cells

SOLVERS = ("auto", "adam", "lbfgs")
FULL_BATCH_ROWS = 10_000  # rows: up to here "auto" takes all of them at once
EPOCHS, ITERATIONS = 30, 200  # max_iter=None


class FairMLPClassifier(PenalisedClassifier):
    """Neural network whose scores have the same distribution in every group.

    Minimises mean log loss + alpha/2·Σ‖W‖² + eta·E_f, where E_f adds up how far the groups' score
    distributions are apart. So the parity holds wherever the threshold goes, and the protected attribute
    is needed for training only. Fitting needs torch (``pip install torch``), predicting does not.

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
        settings such as ``GapDistance(window=(0.2, 0.6))``. In mini-batches only the gap on its score scale
        with power 2 has an unbiased form; the others need large batches or a `memory`.
    eta : float, default=1.0
        Weight of the penalty. 0 is a plain network and needs no ``sensitive_features``. With the gap
        distance 1 is mild and 10 strong on the shipped data sets.
    hidden_layer_sizes : int or tuple of int, default=(64,)
        Units of each hidden layer; () is logistic regression.
    activation : {"relu", "tanh", "logistic", "identity"}, default="relu"
        Of the hidden units.
    alpha : float, default=1e-3
        Weight of the ridge term, not applied to the intercepts. It is part of the objective, beside a mean
        over rows: scikit-learn's MLPClassifier has the same alpha times the number of rows.
    calibration : {"sigmoid", "isotonic"} or None, default=None
        One strictly increasing map of the raw scores for all groups, fitted after the network, so that s
        estimates a risk and 0.5 means something again; `max_gap` and `rank_gap` stay as they are. "sigmoid"
        is a line (Platt's scaling), folded into the last layer; "isotonic" follows the data more freely. It
        is fitted to scores of rows held out by five more fits. Weights that are whole multiples of the
        smallest one count rows here; others are scaled to a mean of 1.
    solver : {"auto", "adam", "lbfgs"}, default="auto"
        "lbfgs" takes all rows at once, in float64, and raises eta in steps from the unpenalised network;
        "adam" takes mini-batches, in the dtype of X, and raises eta over the first 30 % of the epochs.
        "auto" is "lbfgs" up to 10,000 rows unless `early_stopping`, a `batch_size` or `memory` is set.
    batch_size : int, "auto" or None, default="auto"
        Rows in a mini-batch; every cell of the parity rule is in every batch. "auto" is a twelfth of the
        rows, within 128 and 2048; None is all rows.
    learning_rate_init : float, default=3e-3
        Of Adam in the first epoch; it falls in a line to a fiftieth of it in the last one.
    max_iter : int or None, default=None
        Epochs of "adam" (None: 30), or iterations of "lbfgs" at each point of the path over eta (None: 200).
        A network that is trained to the end is not always a better one, so that this alone is no reason for
        a warning: see the notes.
    tol : float, default=1e-4
        "lbfgs" stops when no entry of the gradient is larger; "adam" when what it watches has not fallen by
        more than this in `n_iter_no_change` epochs.
    early_stopping : bool, default=False
        Whether to hold out a part of the rows, with its share of every label in every group, and to keep the
        weights with the lowest log loss + eta·E_f on it. Else the training objective is watched, and the last
        weights are kept.
    validation_fraction : float, default=0.1
        The part held out under `early_stopping`.
    n_iter_no_change : int, default=10
        Epochs without progress after which "adam" stops.
    memory : int, default=0
        A cell with fewer rows than this in a mini-batch is filled up with its most recent scores, of the
        same `fit` or the same piece of `partial_fit`. It must be 0 where `comparison` makes unions of groups.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", …; "auto" is "cuda" where torch sees one. Predictions are made on the CPU.
    warm_start : bool, default=False
        Start from the last fit, with the whole penalty, if the layers are as they were.
    random_state : int, RandomState instance or None, default=None
        Draws the first weights, the part held out and the mini-batches; torch's own generators are left
        alone. The same number gives the same bytes on one machine with one number of threads.
    verbose : int, default=0
        1 writes one line per epoch or iteration to standard error.

    Attributes
    ----------
    coefs_ : list of ndarray
        The weights W of each layer, (fan_in, fan_out).
    intercepts_ : list of ndarray
        The intercepts of each layer.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    groups_ : ndarray of shape (k,)
        The groups seen, where any were given; tuples where several columns were crossed.
    comparison_ : Comparison
        `comparison` with the cuts that were chosen and the groups that were left out, to measure other rows
        alike; where groups were given.
    solver_ : {"adam", "lbfgs"}
        The solver that was used.
    calibration_ : Line, Steps or None
        The map from the minimised raw score to the calibrated one, a callable.
    objective_ : float
        The objective of all training rows at the solution, of the scores before calibration; of `fit` only.
    penalty_ : float
        E_f of all training rows, without eta, of the scores before calibration; of `fit` only.
    loss_curve_ : list of float
        The mean objective of the mini-batches in each epoch, or that of all rows at each evaluation by
        "lbfgs".
    best_loss_ : float or None
        The lowest log loss + eta·E_f on the part held out; None without `early_stopping`.
    n_iter_ : int
        Epochs, or iterations over the whole path.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    evenrisk.nn.ParityLoss : The same penalty in a training loop of one's own.

    Notes
    -----
    Networks learn from standardised features. `fit` warns (``ConvergenceWarning``) where the objective is
    above that of a constant answer by more than 0.01, and where `max_iter` ended a training whose objective
    fell by more than 0.01 in its last tenth.

    A row that is repeated counts like one of weight 2 under
    "lbfgs", to the last bit up to 500,000 entries of X; in mini-batches on average only. A row of a cell that
    is too small for all batches comes several times in an epoch.

    Examples
    --------
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> from evenrisk.neural_network import FairMLPClassifier
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> for eta in (0, 10):
    ...     clf = FairMLPClassifier(eta=eta, hidden_layer_sizes=8, max_iter=40, random_state=0)
    ...     s = clf.fit(X, y, sensitive_features=race).predict_proba(X)[:, 1]
    ...     print(max_demographic_parity_difference(y, s, sensitive_features=race) < 0.12)
    False
    True
    """

    __metadata_request__partial_fit: ClassVar = {"sensitive_features": True}
    coefs_: list[np.ndarray]
    intercepts_: list[np.ndarray]
    _adam: AdamState  # of `partial_fit`: what the next piece goes on with

    def __init__(
        self,
        parity: str | Parity = "demographic_parity",
        *,
        comparison: str | Comparison = "crossed",
        distance: str | Distance = "gap",
        eta: float = 1.0,
        hidden_layer_sizes: int | tuple[int, ...] = (64,),
        activation: str = "relu",
        alpha: float = 1e-3,
        calibration: str | None = None,
        solver: str = "auto",
        batch_size: int | str | None = "auto",
        learning_rate_init: float = 3e-3,
        max_iter: int | None = None,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        memory: int = 0,
        device: str = "cpu",
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.parity = parity
        self.comparison = comparison
        self.distance = distance
        self.eta = eta
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.alpha = alpha
        self.calibration = calibration
        self.solver = solver
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.memory = memory
        self.device = device
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
            for point in self._points(problem, data, [float(self.eta)]):
                self._store_fit(problem, point, data)
        return self

    @available_if(lambda self: self.solver != "lbfgs")
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        groups: Any = None,
    ) -> Self:
        """Train one epoch on some of the rows, with the whole penalty, starting from what was learned before.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features
            As in `fit`. A piece may lack a label, a group or a cell; what is missing is not compared.
        classes : array-like of shape (2,), default=None
            Both labels; needed with the first piece if that has one only.
        groups : array-like of shape (k,) or (k, m), default=None
            All groups; needed with the first piece if that lacks any. A group that comes later and was not
            declared is refused.

        Returns
        -------
        self
            The fitted estimator; it has no `objective_` and no `penalty_`.
        """
        with all_or_nothing(self):
            data = self._check_piece(X, y, classes, sample_weight, sensitive_features, groups)
            trainer = self._trainer(data)
            value = trainer.epoch(float(self.eta), float(self.learning_rate_init))
            trainer.check_finite(float(self.eta))
            self._keep_piece(trainer, value, data)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the raw score g of each row, in float64, without torch.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the positive class is predicted.
        """
        check_is_fitted(self)
        return self._calibrated(self._raw_scores(self._validated(X, reset=False)))

    def to_torch(self) -> Any:
        """Return an ``nn.Sequential`` with the same raw scores.

        Returns
        -------
        torch.nn.Sequential
            (n, d) → (n, 1), in the dtype of the training rows; a sigmoid calibration goes along. An isotonic
            one is refused: it is not part of the network.
        """
        check_is_fitted(self)
        if self.calibration_ is not None and self._folded_line is not self.calibration_:
            raise ValueError(
                "`to_torch` must have scores that end in a linear layer, got calibration='isotonic', whose "
                "map bends. Fit with calibration='sigmoid', a line, or None"
            )
        return to_sequential(Layers(self.coefs_, self.intercepts_), self.activation)

    # ---------------------------------------------------------------- checking

    def _check_parameters(self) -> None:
        for name in ("eta", "alpha"):
            check_number(name, getattr(self, name), low=0)
        for name in ("tol", "learning_rate_init"):
            check_number(name, getattr(self, name), low=0, strict=True)
        check_number("memory", self.memory, low=0, whole=True)
        check_fraction("validation_fraction", self.validation_fraction)
        check_number("n_iter_no_change", self.n_iter_no_change, low=1, whole=True)
        if self.max_iter is not None:
            check_number("max_iter", self.max_iter, low=1, whole=True)
        if not (self.batch_size is None or self.batch_size == "auto"):
            check_number("batch_size", self.batch_size, low=1, whole=True)
        check_flag("warm_start", self.warm_start)
        check_flag("early_stopping", self.early_stopping)
        check_choice("calibration", self.calibration, tuple(CALIBRATIONS), or_none=True)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("activation", self.activation, tuple(ACTIVATIONS))
        check_comparison(self.comparison)
        layer_sizes(1, self.hidden_layer_sizes)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)
        if self.solver == "lbfgs" and (settings := self._mini_batch_settings()):
            raise ValueError(
                f"`solver` must be 'adam' or 'auto' with {settings}, got 'lbfgs', which takes all rows"
            )

    def _mini_batch_settings(self) -> str:
        """Return the settings that only mean something in mini-batches, as text."""
        given = {
            "early_stopping": bool(self.early_stopping),
            "batch_size": not (self.batch_size is None or isinstance(self.batch_size, str)),
            "memory": self.memory > 0,
        }
        return ", ".join(f"{name}={getattr(self, name)}" for name, here in given.items() if here)

    def _may_merge_rows(self) -> bool:
        return False  # only L-BFGS may, and how many rows there are decides whether it is that

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> TrainingData:
        """Check the parameters and all rows, and choose the solver, which depends on how many there are."""
        data = super()._check_rows(X, y, sample_weight, sensitive_features)
        self.solver_ = self.solver
        if self.solver == "auto":
            few = np.count_nonzero(data.weight) <= FULL_BATCH_ROWS and not self._mini_batch_settings()
            self.solver_ = "lbfgs" if few else "adam"
        # a merged row is one person to the unbiased form, so mini-batches are made of rows as they came
        data = data.merge_equal_rows() if self.solver_ == "lbfgs" else data
        return data.drop_zero_weights()

    def _copy_checked(self, checked: Self) -> None:
        super()._copy_checked(checked)
        self.solver_ = checked.solver_

    # ---------------------------------------------------------------- all rows: problem, path, attributes

    def _problem(self, data: TrainingData) -> NetworkProblem:
        """Return mean log loss + alpha/2·Σ‖W‖² + eta·E_f, a function of all weights and intercepts."""
        weight = data.weight.astype(np.float64)
        penalty = None
        if data.cells is not None:
            penalty = Penalty(self._distance, data.cells._replace(weight=weight))
        return NetworkProblem(
            ScoreObjective(LOGISTIC, data.y, weight, penalty, float(self.eta)),
            data.X,
            layer_sizes(data.X.shape[1], self.hidden_layer_sizes),
            activation=self.activation,
            alpha=float(self.alpha),
            device=self.device,
        )

    def _start(self, problem: NetworkProblem) -> np.ndarray | None:
        """Return the last fit's θ under warm_start, if it fits and does not score all rows the same."""
        layers = self._fitted_layers() if self.warm_start else None
        if layers is None or layers.sizes != problem.sizes:
            return None
        theta = layers.flat()
        return theta if np.ptp(problem.raw_scores(theta)) > 0 else None

    def _fitted_layers(self) -> Layers | None:
        """Return the network before calibration, where one is fitted."""
        if not hasattr(self, "coefs_"):
            return None
        last, b = self._folded_line.unfold(self.coefs_[-1].astype(np.float64), float(self.intercepts_[-1][0]))
        return Layers([*self.coefs_[:-1], last], [*self.intercepts_[:-1], np.array([b])])

    def _points(
        self, problem: NetworkProblem, data: TrainingData, etas: Sequence[float]
    ) -> Iterator[NetworkPoint]:
        rng = check_random_state(self.random_state)
        drawn, start = Layers.initial(problem.sizes, rng).flat(), self._start(problem)
        theta = drawn if start is None else start
        if self.solver_ == "lbfgs":
            points = lbfgs_path(
                problem,
                theta,
                etas,
                started=start is not None,
                tol=self.tol,
                max_iter=ITERATIONS if self.max_iter is None else int(self.max_iter),
                verbose=self.verbose,
            )
        else:
            seed, held_out = int(rng.randint(2**31 - 1)), None
            if self.early_stopping:
                data, unseen = split_off(data, self.validation_fraction, self._parity, rng)
                held_out = self._problem(unseen)
            points = adam_path(
                problem,
                theta,
                etas,
                started=start is not None,
                settings=self._adam_settings(),
                batches=self._batches(data, seed),
                parity_loss=self._parity_loss(data),
                held_out=held_out,
            )
        for point in points:
            if not np.isfinite(point.solution.theta).all() or not np.isfinite(point.solution.value):
                raise ValueError(
                    "the network must give finite scores, and the fit has diverged. Standardise the "
                    f"features, or lower eta (now {point.eta:g})"
                )
            yield point

    def _adam_settings(self) -> AdamSettings:
        return AdamSettings(
            activation=self.activation,
            alpha=float(self.alpha),
            learning_rate=float(self.learning_rate_init),
            n_epochs=EPOCHS if self.max_iter is None else int(self.max_iter),
            tol=float(self.tol),
            patience=int(self.n_iter_no_change),
            verbose=self.verbose,
        )

    def _batches(self, data: TrainingData, seed: int) -> MiniBatches:
        return MiniBatches(data, self.batch_size, seed, find_device(self.device))

    def _parity_loss(self, data: TrainingData) -> Any:
        """Return the penalty of a batch; None where there are no groups."""
        import_torch()
        from evenrisk.nn import ParityLoss

        if data.groups is None:
            return None
        loss = ParityLoss.of_groups(
            data.groups, distance=self._distance, parity=self._parity, memory=int(self.memory)
        )
        return loss.to(find_device(self.device))

    def _store_fit(self, problem: Any, point: Any, data: TrainingData) -> None:
        super()._store_fit(problem, point, data)
        self.loss_curve_ = list(point.curve)
        self.best_loss_ = point.best
        rate = self.learning_rate_init if self.solver_ == "adam" else None
        warn_if_not_converged(point, data, rate)
        forget(self, "_adam")

    def _unseen_scores(self, problem: NetworkProblem, point: Any, data: TrainingData) -> np.ndarray:
        g = problem.raw_scores(point.solution.theta)
        fold = check_random_state(self.random_state).permutation(len(g)) % FOLDS
        return self._cross_fitted(g, point.eta, data, fold)

    def _raw_scores(self, X: Any) -> np.ndarray:
        return raw_scores(X, Layers(self.coefs_, self.intercepts_), self.activation)

    # ---------------------------------------------------------------- piece by piece

    def _check_piece(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, sensitive_features: Any, groups: Any
    ) -> TrainingData:
        """Check a piece of the rows; what the first one settles holds for all."""
        self._check_parameters()
        if self.calibration is not None or self.early_stopping:
            raise ValueError(
                "`partial_fit` must have calibration=None and early_stopping=False, for it holds no rows "
                f"out, got calibration={self.calibration!r} and early_stopping={self.early_stopping}"
            )
        if not check_comparison(self.comparison).is_plain:
            raise ValueError(
                "`partial_fit` must have comparison='crossed', got "
                f"{self.comparison!r:.60}: one piece does not know all groups and cuts"
            )
        first = not hasattr(self, "coefs_")
        check_alignment(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        X = self._validated(X, reset=first)
        if not first:
            check_same_layers(self.hidden_layer_sizes, self.coefs_)
        target, known = piece_labels(y, classes, None if first else self.classes_, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0], X.dtype)
        coded = cells = None
        if sensitive_features is None and self.eta > 0:
            raise MissingSensitiveFeatures(
                f"`sensitive_features` is required {self._why_groups()}. Pass the group of each row to "
                "partial_fit (it is not needed to predict), or set eta=0 for a plain model"
            )
        if self.eta > 0:  # else there is no comparison
            coded = piece_groups(sensitive_features, groups, getattr(self, "groups_", None), X.shape[0])
            cells = make_cells(self._parity, target, coded.code, len(coded.labels), weight)
        return TrainingData(X, target, weight, known, coded, cells).drop_zero_weights()

    def _trainer(self, data: TrainingData) -> Trainer:
        """Return a trainer of these rows that goes on where the last piece ended."""
        rng = check_random_state(self.random_state)
        layers = self._fitted_layers()
        if layers is None:
            layers = Layers.initial(layer_sizes(self.n_features_in_, self.hidden_layer_sizes), rng)
        # other batches for every piece
        seed = (int(rng.randint(2**31 - 1)) + getattr(self, "n_iter_", 0)) % 2**31
        batches = self._batches(data, seed)
        trainer = Trainer(layers, batches, self._parity_loss(data), self._adam_settings())
        if hasattr(self, "_adam"):
            trainer.resume(self._adam)
        return trainer

    def _keep_piece(self, trainer: Trainer, value: float, data: TrainingData) -> None:
        """Set the fitted attributes after a piece whose mean objective was `value`."""
        self.coefs_, self.intercepts_ = trainer.layers()
        self._adam = trainer.adam_state()
        self.loss_curve_ = [*getattr(self, "loss_curve_", []), value]
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self.solver_, self.best_loss_, self.calibration_ = "adam", None, None
        forget(self, "objective_", "penalty_")
        self.classes_ = data.classes
        if data.groups is not None:
            self.groups_ = data.groups.labels
