"""The fair multi-layer perceptron."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from evenrisk.distances import Distance
from evenrisk.neural_network._network import Layers, raw_scores, to_sequential
from evenrisk.neural_network._partial import PiecewiseClassifier
from evenrisk.parity import Parity


class FairMLPClassifier(PiecewiseClassifier):
    """Neural network whose scores have the same distribution in every group.

    Minimises mean log loss + alpha/2·Σ‖W‖² + eta·E_f, where E_f adds up how far the groups' score
    distributions are apart. So the parity holds wherever the threshold goes, and the protected attribute
    is needed for training only. Fitting needs torch (``pip install torch``), predicting does not.

    Parameters
    ----------
    parity : str or Parity, default="demographic_parity"
        Who is compared with whom: "demographic_parity", "equalized_odds", "equal_opportunity" (positives
        only), "predictive_equality" (negatives only), or a :class:`~evenrisk.Parity`.
    distance : str or Distance, default="gap"
        "gap", "histogram" (the paper's HA), "gaussian" (the paper's GA), or an instance with its own
        settings such as ``GapDistance(window=(0.2, 0.6))``. In mini-batches only the gap on its score scale
        with power 2 has an unbiased form; the others want large batches or a `memory`.
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
        "lbfgs" takes all rows at once, in float64, and walks eta up from the unpenalised network; "adam"
        takes mini-batches, in the dtype of X, and eases eta in over the first 30 % of the epochs. "auto" is
        "lbfgs" up to 10,000 rows unless `early_stopping`, a `batch_size` or `memory` is asked for.
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
        same `fit` or the same piece of `partial_fit`.
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
    solver_ : {"adam", "lbfgs"}
        What "auto" came to.
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
    Networks learn from standardised features. `fit` gives a ``ConvergenceWarning`` where the objective is
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

    def __init__(
        self,
        parity: str | Parity = "demographic_parity",
        *,
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

    def decision_function(self, X: Any) -> np.ndarray:
        """Give the raw score g of each row, in float64, without torch.

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
        X = self._validated(X, reset=False)
        return self._stepped(self._raw_scores(X))

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
        """Go over some rows once in mini-batches, with the whole penalty, and keep what was learned before.

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
        with self._all_or_nothing():
            self._one_pass(self._check_piece(X, y, classes, sample_weight, sensitive_features, groups))
        return self

    def to_torch(self) -> Any:
        """Give an ``nn.Sequential`` with the same raw scores.

        Returns
        -------
        torch.nn.Sequential
            (n, d) → (n, 1), in the dtype of the training rows; a sigmoid calibration goes along. An isotonic
            one is refused: it is not part of the network.
        """
        check_is_fitted(self)
        if self.calibration_ is not None and self._line is not self.calibration_:
            raise ValueError(
                "`to_torch` must have scores that end in a linear layer, got calibration='isotonic', whose "
                "map bends. Fit with calibration='sigmoid', a line, or None"
            )
        return to_sequential(Layers(self.coefs_, self.intercepts_), self.activation)

    def _raw_scores(self, X: Any) -> np.ndarray:
        return raw_scores(X, Layers(self.coefs_, self.intercepts_), self.activation)
