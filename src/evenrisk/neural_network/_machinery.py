"""How a network is fitted under the contract of `PenalisedClassifier`: settings, problem, path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from scipy.special import xlog1py, xlogy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from evenrisk._estimator import PenalisedClassifier, Problem, TrainingData
from evenrisk._validation import check_choice, check_flag, check_fraction, check_member, check_number, tell
from evenrisk.calibration import CALIBRATIONS, IDENTITY, Line
from evenrisk.distances import DISTANCES, Distance
from evenrisk.neural_network._batches import Rows
from evenrisk.neural_network._fitting import Reached, by_adam, by_lbfgs
from evenrisk.neural_network._network import (
    Layers,
    check_activation,
    find_device,
    import_torch,
    layer_sizes,
)
from evenrisk.neural_network._objective import NetworkObjective, score_objective
from evenrisk.neural_network._parts import held_out, merged, some, without_weightless
from evenrisk.neural_network._training import Settings
from evenrisk.parity import PARITIES, Parity

SOLVERS = ("auto", "adam", "lbfgs")
SMALL = 10_000  # rows: up to here "auto" takes all of them at once
EPOCHS, ITERATIONS = 30, 200  # max_iter=None
CLEAR = 0.01  # of the objective: more than mini-batches and a ridge leave of a good fit
FOLDS = 5  # of the fits that calibration needs beside the one


class NetworkClassifier(PenalisedClassifier):
    """What is not public of a network that is fitted with a penalty."""

    coefs_: list[np.ndarray]
    intercepts_: list[np.ndarray]
    _solver: str

    def _check_parameters(self) -> None:
        self._check_numbers()
        check_flag("warm_start", self.warm_start)
        check_flag("early_stopping", self.early_stopping)
        check_choice("calibration", self.calibration, tuple(CALIBRATIONS), or_none=True)
        check_choice("solver", self.solver, SOLVERS)
        check_activation(self.activation)
        layer_sizes(1, self.hidden_layer_sizes)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)
        wishes = self._wishes_of_batches()
        if self.solver == "lbfgs" and wishes:
            raise ValueError(
                f"`solver` must be 'adam' or 'auto' with {wishes}, got 'lbfgs', which takes all rows"
            )

    def _check_numbers(self) -> None:
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

    def _wishes_of_batches(self) -> str:
        """Name the settings that only mean something in mini-batches."""
        given = {
            "early_stopping": bool(self.early_stopping),
            "batch_size": not (self.batch_size is None or isinstance(self.batch_size, str)),
            "memory": self.memory > 0,
        }
        return ", ".join(f"{name}={getattr(self, name)}" for name, here in given.items() if here)

    def _merges(self) -> bool:
        return False  # only L-BFGS may, and how many rows there are decides whether it is that

    def _check_fit(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> TrainingData:
        data = super()._check_fit(X, y, sample_weight, sensitive_features)
        few = np.count_nonzero(data.weight) <= SMALL and not self._wishes_of_batches()
        self._solver = ("lbfgs" if few else "adam") if self.solver == "auto" else self.solver
        # a merged row is one person to the unbiased form, so mini-batches are made of rows as they came
        return (merged if self._solver == "lbfgs" else without_weightless)(data, self._parity)

    def _inherit(self, checked: Self) -> None:
        super()._inherit(checked)
        self._solver = checked._solver

    def _problem(self, data: TrainingData) -> Problem:
        sizes = layer_sizes(data.X.shape[1], self.hidden_layer_sizes)
        scores = score_objective(data, self._distance)
        objective = NetworkObjective(scores, data, sizes, self.activation, float(self.alpha))

        def attributes(theta: np.ndarray, line: Line) -> dict[str, Any]:
            layers = Layers.unflat(theta.astype(data.X.dtype), sizes)
            last, b = line.fold(layers.coefs[-1], float(layers.intercepts[-1][0]))
            coefs = [*(W.copy() for W in layers.coefs[:-1]), last.astype(data.X.dtype)]
            end = np.array([b], dtype=data.X.dtype)
            return {"coefs_": coefs, "intercepts_": [*(c.copy() for c in layers.intercepts[:-1]), end]}

        return Problem(objective, attributes, self._start(objective))  # type: ignore[arg-type]

    def _start(self, objective: NetworkObjective) -> np.ndarray | None:
        """Give the last fit's θ under warm_start, if it fits and is no constant (distances are blind)."""
        layers = self._fitted_layers() if self.warm_start else None
        if layers is None or layers.sizes != objective.sizes:
            return None
        theta = layers.flat()
        return theta if np.ptp(objective.raw_scores(theta)) > 0 else None

    def _fitted_layers(self) -> Layers | None:
        """The network before calibration, where one is fitted."""
        if not hasattr(self, "coefs_"):
            return None
        last, b = self._line.unfold(self.coefs_[-1].astype(np.float64), float(self.intercepts_[-1][0]))
        return Layers([*self.coefs_[:-1], last], [*self.intercepts_[:-1], np.array([b])])

    def _points(self, data: TrainingData, etas: list[float]) -> Iterator[tuple[Any, Problem]]:
        problem = self._problem(data)
        rng = check_random_state(self.random_state)
        objective: Any = problem.objective
        drawn = Layers.initial(objective.sizes, rng).flat()
        theta = drawn if problem.start is None else problem.start
        walk = self._by_lbfgs if self._solver == "lbfgs" else self._by_adam
        for point in walk(objective, theta, etas, data, rng, problem.start is not None):
            if not np.isfinite(point.solution.theta).all() or not np.isfinite(point.solution.value):
                raise ValueError(
                    "the network must give finite scores, and the fit has diverged. Standardise the "
                    f"features, or lower eta (now {point.eta:g})"
                )
            yield point, problem

    def _by_lbfgs(
        self,
        objective: NetworkObjective,
        theta: np.ndarray,
        etas: list[float],
        data: TrainingData,
        rng: np.random.RandomState,
        started: bool,
    ) -> Iterator[Reached]:
        most = ITERATIONS if self.max_iter is None else int(self.max_iter)
        common = {"tol": self.tol, "max_iter": most, "verbose": self.verbose}
        device = find_device(self.device)
        yield from by_lbfgs(objective, theta, etas, started=started, device=device, **common)

    def _by_adam(
        self,
        objective: NetworkObjective,
        theta: np.ndarray,
        etas: list[float],
        data: TrainingData,
        rng: np.random.RandomState,
        started: bool,
    ) -> Iterator[Reached]:
        seed = int(rng.randint(2**31 - 1))
        watch = None
        if self.early_stopping:
            data, unseen = held_out(data, self.validation_fraction, self._parity, rng)
            watch = self._watch(unseen, objective.sizes)
        yield from by_adam(
            objective,
            theta,
            etas,
            started=started,
            settings=self._training_settings(),
            rows=self._rows(data, seed),
            parity_loss=self._parity_loss(data),
            held_out=watch,
        )

    def _watch(self, unseen: TrainingData, sizes: tuple[int, ...]) -> Callable[[Layers, float], float]:
        """Give (weights, η) ↦ log loss + η·E_f of rows that are not trained on."""
        scores = score_objective(unseen, self._distance)
        there = NetworkObjective(scores, unseen, sizes, self.activation, alpha=0.0)
        return lambda layers, eta: there.value(layers.flat(), eta)

    def _training_settings(self) -> Settings:
        return Settings(
            activation=self.activation,
            alpha=float(self.alpha),
            learning_rate=float(self.learning_rate_init),
            n_epochs=EPOCHS if self.max_iter is None else int(self.max_iter),
            tol=float(self.tol),
            patience=int(self.n_iter_no_change),
            verbose=self.verbose,
        )

    def _rows(self, data: TrainingData, seed: int) -> Rows:
        dtype = getattr(import_torch(), str(data.X.dtype))
        return Rows(data, self.batch_size, seed, find_device(self.device), dtype)

    def _parity_loss(self, data: TrainingData) -> Any:
        """The penalty of a batch; None where there are no groups."""
        import_torch()
        from evenrisk.nn import ParityLoss

        if data.groups is None:
            return None
        loss = ParityLoss(self._distance, self._parity, len(data.groups.labels), memory=int(self.memory))
        return loss.to(find_device(self.device))

    def _keep(self, problem: Problem, point: Any, data: TrainingData) -> None:
        super()._keep(problem, point, data)
        self.solver_ = self._solver
        self.loss_curve_ = list(point.curve)
        self.best_loss_ = point.best
        self._say_if_not_converged(point, data)
        self.__dict__.pop("_adam", None)

    def _say_if_not_converged(self, point: Reached, data: TrainingData) -> None:
        """Say so where a constant would do better, or where max_iter cut a clear fall short.

        A network that is trained to the end is not always a better one, so max_iter alone is no reason.
        """
        share = np.average(data.y, weights=data.weight.astype(np.float64))
        constant = -float(xlogy(share, share) + xlog1py(1 - share, -share))
        curve, last = np.array(point.curve), max(len(point.curve) // 10, 1)
        fall = float(curve[:-last].min() - curve.min()) if len(curve) > last else 0.0
        lower = f", lower eta (now {point.eta:g})" if point.eta > 0 else ""
        if self._solver == "adam":
            lower += f", lower or raise learning_rate_init (now {self.learning_rate_init:g})"
        if point.solution.value > constant + CLEAR:
            tell(
                f"the network has not converged: its objective is {point.solution.value:.3f}, and that of a "
                f"constant answer {constant:.3f}. Standardise the features, raise max_iter{lower}",
                ConvergenceWarning,
            )
        elif fall > CLEAR and not point.solution.converged:
            tell(
                f"the network has not converged: its objective fell by {fall:.3f} in the last tenth of the "
                f"training, when max_iter ended it. Raise max_iter, standardise the features{lower}",
                ConvergenceWarning,
            )

    def _unseen_scores(self, problem: Problem, point: Any, data: TrainingData) -> np.ndarray:
        """Scores of every row from one of five networks, fitted without a fifth of the rows."""
        g = np.array(problem.objective.raw_scores(point.solution.theta))
        fold = check_random_state(self.random_state).permutation(len(g)) % FOLDS
        part = clone(self).set_params(calibration=None, eta=point.eta, warm_start=False, verbose=0)
        part._inherit(self)
        part.calibration_ = None
        for k in range(FOLDS):
            others = np.flatnonzero(fold == k)
            rows = some(data, np.flatnonzero(fold != k), self._parity)
            if len(others) and _whole(rows):
                for reached, fitted in part._points(rows, [point.eta]):
                    part.__dict__.update(fitted.attributes(reached.solution.theta, IDENTITY))
                g[others] = part._raw_scores(data.X[others])
        return g

    def _raw_scores(self, X: Any) -> np.ndarray:
        raise NotImplementedError


def _whole(data: TrainingData) -> bool:
    """Whether every label and every cell is there."""
    if len(np.unique(data.y)) < 2:
        return False
    return data.cells is None or len(np.unique(data.cells.code[data.cells.code >= 0])) == data.cells.n_cells
