"""How a network is trained: on all rows at once by L-BFGS, or in mini-batches by torch's Adam.

All distances have no gradient where all scores tie, so that no training may begin with the whole penalty.

* `lbfgs_path` minimises the objective of all rows at η = 0, at 0.01, 0.0316, 0.1, … and at the η asked for,
  each point starting where the last one ended. Those not asked for get a few iterations only: enough to stay
  in the basin.
* `adam_path` goes over mini-batches and lets η grow from 0 to its value over the first epochs. The next η
  begins with the trained network and takes fewer epochs.

Every mini-batch holds every cell of the parity rule. Rows of a cell that is too small for all batches come
several times in an epoch, and count less in the loss instead.

Conventions
-----------
Points come in ascending order of η. `started` says that the first θ is a fitted network and not a random one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlog1py, xlogy
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator import TrainingData, intermediate_etas
from evenrisk._validation import listed, warn_user
from evenrisk._xp import is_sparse
from evenrisk.neural_network._network import (
    Layers,
    NetworkProblem,
    from_tensors,
    import_torch,
    to_tensors,
    torch_scores,
)
from evenrisk.parity import Parity, compared_names
from evenrisk.solvers import Solution, lbfgs

INTERMEDIATE_ITER = 20  # iterations of L-BFGS at an η not asked for
NEXT_ETA_SHARE = 1 / 3  # of the epochs: what the next η of a path needs
RAMP_SHARE = 0.3  # of the epochs, in which η grows to its value
LAST_RATE_SHARE = 0.02  # of the learning rate: where it has fallen to in the last epoch
BATCHES_PER_EPOCH = 12  # of "auto", about, and the rows that each may have:
LEAST_ROWS, MOST_ROWS = 128, 2048
CLEAR_DIFFERENCE = 0.01  # of the objective: more than mini-batches and a ridge leave of a good fit
CHECKED_ROWS = 1000  # whose scores are looked at when a piece is done

AdamState = dict[int, dict[str, np.ndarray]]  # of each tensor: steps and running means


@dataclass(frozen=True)
class NetworkPoint:
    """A point of the path: η, its solution, and the iterations or epochs spent since the point before."""

    eta: float
    solution: Solution
    n_iter: int
    curve: list[float]  # the objective, epoch by epoch or evaluation by evaluation
    best: float | None = None  # the lowest value on rows held out
    plain: np.ndarray | None = None  # as in `PathPoint`; a network has no one fit at η = 0


def warn_if_not_converged(point: NetworkPoint, data: TrainingData, learning_rate: float | None) -> None:
    """Warn where a constant would do better, or where max_iter cut a clear fall short.

    A network that is trained to the end is not always a better one, so max_iter alone is no reason.
    `learning_rate` is Adam's.
    """
    share = np.average(data.y, weights=data.weight.astype(np.float64))
    constant = -float(xlogy(share, share) + xlog1py(1 - share, -share))
    curve, last = np.array(point.curve), max(len(point.curve) // 10, 1)
    fall = float(curve[:-last].min() - curve.min()) if len(curve) > last else 0.0
    lower = f", lower eta (now {point.eta:g})" if point.eta > 0 else ""
    if learning_rate is not None:
        lower += f", lower or raise learning_rate_init (now {learning_rate:g})"
    if point.solution.value > constant + CLEAR_DIFFERENCE:
        warn_user(
            f"the network has not converged: its objective is {point.solution.value:.3f}, and that of a "
            f"constant answer {constant:.3f}. Standardise the features, raise max_iter{lower}",
            ConvergenceWarning,
        )
    elif fall > CLEAR_DIFFERENCE and not point.solution.converged:
        warn_user(
            f"the network has not converged: its objective fell by {fall:.3f} in the last tenth of the "
            f"training, when max_iter ended it. Raise max_iter, standardise the features{lower}",
            ConvergenceWarning,
        )


# ---------------------------------------------------------------- L-BFGS


def lbfgs_path(
    problem: NetworkProblem,
    theta: np.ndarray,
    etas: Sequence[float],
    *,
    started: bool,
    tol: float,
    max_iter: int,
    verbose: int,
) -> Iterator[NetworkPoint]:
    """Yield the minimum at each η, by L-BFGS on all rows."""
    asked = set(etas)
    n_iter = 0
    for eta in sorted(asked if started else asked | {0.0} | set(intermediate_etas(max(asked)))):
        if verbose:
            print(f"eta {eta:g}", file=sys.stderr)
        function = RecordedValues(problem.with_eta(eta))
        most = max_iter if eta in asked or eta == 0 else min(INTERMEDIATE_ITER, max_iter)
        solution = lbfgs(function, theta, tol=tol, max_iter=most, verbose=verbose)
        theta, n_iter = solution.theta, n_iter + solution.n_iter
        if eta in asked:
            yield NetworkPoint(eta, solution, n_iter, function.values)
            n_iter = 0


class RecordedValues:
    """A problem that keeps the value of every evaluation."""

    def __init__(self, problem: NetworkProblem) -> None:
        self.problem = problem
        self.values: list[float] = []

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return F(θ) and ∂F/∂θ."""
        value, gradient = self.problem(theta)
        self.values.append(value)
        return value, gradient


# ---------------------------------------------------------------- Adam


@dataclass(frozen=True)
class AdamSettings:
    """The settings of training in mini-batches."""

    activation: str
    alpha: float
    learning_rate: float
    n_epochs: int
    tol: float
    patience: int
    verbose: int


def adam_path(
    problem: NetworkProblem,
    theta: np.ndarray,
    etas: Sequence[float],
    *,
    started: bool,
    settings: AdamSettings,
    batches: MiniBatches,
    parity_loss: Any,
    held_out: NetworkProblem | None,
) -> Iterator[NetworkPoint]:
    """Yield the network trained at each η; `held_out` has the rows that say when to stop."""
    for eta in sorted(set(etas)):
        trainer = Trainer(Layers.from_flat(theta, problem.sizes), batches, parity_loss, settings)
        watched = None if held_out is None else held_out.with_eta(eta)
        layers, curve, best = trainer.train(eta, ramp=not started, held_out=watched)
        theta, n_iter = layers.flat(), len(curve)
        ended = n_iter < settings.n_epochs
        solution = Solution(theta, problem.with_eta(eta).value(theta), np.nan, n_iter, ended)
        yield NetworkPoint(eta, solution, n_iter, curve, best)
        if not started:
            n_epochs = max(round(NEXT_ETA_SHARE * settings.n_epochs), 1)
            settings, started = replace(settings, n_epochs=n_epochs), True


class Trainer:
    """A network on a device, the rows it learns from, and its optimiser."""

    def __init__(
        self, layers: Layers, batches: MiniBatches, parity_loss: Any, settings: AdamSettings
    ) -> None:
        self.batches, self.parity_loss, self.settings = batches, parity_loss, settings
        self.tensors = to_tensors(layers, batches.dtype, batches.device)
        # fused: a step takes less than half of the time, on a CPU as well
        self.adam = import_torch().optim.Adam(self.tensors, lr=settings.learning_rate, fused=True)
        self.final_eta = 0.0  # to which η grows

    def train(
        self, eta: float, *, ramp: bool, held_out: NetworkProblem | None
    ) -> tuple[Layers, list[float], float | None]:
        """Train until the epochs are over, or nothing gets better any more.

        Return the weights, the objective of each epoch, and the lowest value on rows held out. With rows held
        out the weights are those of the lowest value, else the last ones.
        """
        s, self.final_eta = self.settings, eta
        curve: list[float] = []
        n_ramp = int(RAMP_SHARE * s.n_epochs) if ramp and eta > 0 else 0
        best, kept, idle = np.inf, None, 0
        for epoch in range(s.n_epochs):
            slower = 1 - (1 - LAST_RATE_SHARE) * epoch / max(s.n_epochs - 1, 1)
            curve.append(self.epoch(eta * min(1.0, (epoch + 1) / (n_ramp + 1)), s.learning_rate * slower))
            value = curve[-1]
            if held_out is not None:
                value = held_out.scores(held_out.raw_scores(self.layers().flat()))[0]  # without the ridge
            self._print_progress(epoch + 1, curve[-1], None if held_out is None else value)
            if epoch < n_ramp:  # another objective
                continue
            idle = 0 if value < best - s.tol else idle + 1
            if value < best:
                best, kept = value, None if held_out is None else self.layers()
            if idle >= s.patience:
                break
        return (self.layers(), curve, None) if kept is None else (kept, curve, best)

    def epoch(self, eta: float, learning_rate: float) -> float:
        """Train on all rows once; return the mean of the batches' objectives, each before its step."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate
        total, n = 0.0, 0
        for batch in self.batches.epoch(by_cells=eta > 0):  # without a penalty any batch will do
            loss = self._loss(batch, eta)
            self.adam.zero_grad()
            loss.backward()
            self.adam.step()
            total, n = total + loss.detach(), n + 1
        mean = float(total) / n
        if not np.isfinite(mean):
            raise self._diverged(eta)
        return mean

    def check_finite(self, eta: float) -> None:
        """Refuse weights that the last step has made useless, as seen by some rows."""
        g = torch_scores(self.batches.first(CHECKED_ROWS), self.tensors, self.settings.activation)
        if not bool(g.isfinite().all()):
            raise self._diverged(eta)

    def layers(self) -> Layers:
        """Return the weights as they are now."""
        return from_tensors(self.tensors)

    def adam_state(self) -> AdamState:
        """Return what Adam remembers, in NumPy: a fitted model must not need torch to be loaded."""
        state = self.adam.state_dict()["state"]
        return {
            i: {name: x.cpu().numpy().copy() for name, x in entries.items()} for i, entries in state.items()
        }

    def resume(self, state: AdamState) -> None:
        """Continue with what another Adam remembered."""
        tensor = import_torch().tensor
        tensors = {i: {name: tensor(x) for name, x in entries.items()} for i, entries in state.items()}
        self.adam.load_state_dict(self.adam.state_dict() | {"state": tensors})

    def _loss(self, batch: MiniBatch, eta: float) -> Any:
        """Return mean log loss + alpha/2·Σ‖W‖² + η·E_f of a batch."""
        functional = import_torch().nn.functional
        g = torch_scores(batch.X, self.tensors, self.settings.activation)
        log_loss = functional.binary_cross_entropy_with_logits(g, batch.y, weight=batch.loss_weight)
        ridge = sum((W * W).sum() for W in self.tensors[::2]) if self.settings.alpha else 0.0
        loss = log_loss + self.settings.alpha / 2 * ridge
        if eta == 0 or self.parity_loss is None:
            return loss
        try:
            return loss + eta * self.parity_loss(g, batch.group, batch.y, batch.weight)
        except ValueError as error:
            if bool(g.isfinite().all()):
                raise
            raise self._diverged(eta) from error

    def _diverged(self, eta: float) -> ValueError:
        or_eta = f" or eta (now {max(eta, self.final_eta):g})" if eta else ""
        return ValueError(
            "the network must give finite scores, and training has diverged. Lower learning_rate_init (now "
            f"{self.settings.learning_rate:g}){or_eta}, or standardise the features"
        )

    def _print_progress(self, epoch: int, value: float, held_out: float | None) -> None:
        if self.settings.verbose:
            beside = "" if held_out is None else f"  held out {held_out:.6f}"
            print(f"epoch {epoch:4d}  objective {value:.6f}{beside}", file=sys.stderr)


# ---------------------------------------------------------------- rows for Adam


class MiniBatch(NamedTuple):
    """Some rows, as tensors."""

    X: Any
    y: Any
    weight: Any  # 1 on average over all rows; None where all have the same
    loss_weight: Any  # the same in the loss, where rows that come again count less
    group: Any  # None where there are none


class MiniBatches:
    """A training set on a device, in other batches every epoch."""

    def __init__(self, data: TrainingData, batch_size: Any, seed: int, device: Any) -> None:
        torch = import_torch()
        self.device, self.dtype, self.n = device, getattr(torch, str(data.X.dtype)), len(data.y)
        self.size = rows_in_batch(batch_size, self.n)
        self.X = data.X if is_sparse(data.X) else self._tensor(data.X)
        weight = None if np.ptp(data.weight) == 0 else data.weight / data.weight.mean()
        self.y = self._tensor(data.y)
        self.weight = None if weight is None else self._tensor(weight)
        self.loss_weight = self.weight
        self.group = None
        if data.groups is not None and data.groups.share is not None:
            self.group = self._tensor(data.groups.share)
        elif data.groups is not None:
            self.group = torch.tensor(data.groups.code, dtype=torch.int64, device=device)
        self.sampler = _cell_sampler(data, self.size, seed) if self.size < self.n else None
        if self.sampler is not None and self.sampler.loss_weight.min() < 1:
            once = self.sampler.loss_weight if weight is None else self.sampler.loss_weight * weight
            self.loss_weight = self._tensor(once)
        self.rng = np.random.default_rng(seed)

    def epoch(self, *, by_cells: bool) -> Iterator[MiniBatch]:
        """Yield all rows in batches; `by_cells`, every cell is in every batch."""
        if self.size >= self.n:
            yield self._batch(self.first(self.n), slice(None), by_cells)
            return
        parts = self.parts(by_cells=by_cells)
        # one look-up for the epoch instead of one for every batch
        order = import_torch().from_numpy(np.concatenate(parts)).to(self.device)
        X = None if is_sparse(self.X) else self.X[order]
        start = 0
        for part in parts:
            here = slice(start, start + len(part))
            yield self._batch(self._dense(part) if X is None else X[here], order[here], by_cells)
            start += len(part)

    def parts(self, *, by_cells: bool) -> list[np.ndarray]:
        """Return the rows of each batch of the next epoch, by index."""
        if self.sampler is not None and by_cells:
            return self.sampler.batches()
        return np.array_split(self.rng.permutation(self.n), -(-self.n // self.size))

    def first(self, n: int) -> Any:
        return self._dense(slice(n)) if is_sparse(self.X) else self.X[:n]

    def _batch(self, X: Any, rows: Any, by_cells: bool) -> MiniBatch:
        others = (self.weight, self.loss_weight if by_cells else self.weight, self.group)
        return MiniBatch(X, self.y[rows], *(None if each is None else each[rows] for each in others))

    def _dense(self, rows: Any) -> Any:
        return self._tensor(self.X[rows].toarray())

    def _tensor(self, x: np.ndarray) -> Any:
        return import_torch().tensor(x, dtype=self.dtype, device=self.device)


def rows_in_batch(batch_size: Any, n: int) -> int:
    """Return the number of rows asked for: "auto", None = all, or a number; never more than there are."""
    if batch_size is None:
        return n
    if isinstance(batch_size, str):
        batch_size = min(max(n // BATCHES_PER_EPOCH, LEAST_ROWS), MOST_ROWS)
    return min(int(batch_size), n)


def _cell_sampler(data: TrainingData, size: int, seed: int) -> Any:
    """Return a sampler that puts every cell into every batch; None where there is one cell, or no groups."""
    from evenrisk.nn import ParityBatchSampler

    if data.cells is None or data.groups is None or np.ptp(data.cells.code) == 0:
        return None
    if data.groups.attributes is not None:  # unions are large, but the cells they are made of need not be
        kind = 2 * data.groups.code + data.y
        return ParityBatchSampler(kind, batch_size=size, seed=seed, min_rows=0)
    # a piece of `partial_fit` may lack cells or a label: the cells that are there are as good as groups
    return ParityBatchSampler(data.cells.code, batch_size=size, seed=seed)


def split_off(
    data: TrainingData, fraction: float, parity: Parity, rng: np.random.RandomState
) -> tuple[TrainingData, TrainingData]:
    """Split at random into training and validation, both with their share of every label in every group."""
    group = np.zeros(len(data.y), np.intp) if data.groups is None else data.groups.code
    kind = 2 * group + data.y
    taken = np.zeros(len(kind), dtype=bool)
    for each in np.unique(kind):
        rows = rng.permutation(np.flatnonzero(kind == each))
        taken[rows[: round(fraction * len(rows))]] = True
    _check_part("validation", data, taken, fraction, parity)
    _check_part("training", data, ~taken, fraction, parity)
    return data.take(np.flatnonzero(~taken)), data.take(np.flatnonzero(taken))


def _check_part(name: str, data: TrainingData, rows: np.ndarray, fraction: float, parity: Parity) -> None:
    """Refuse a part (a mask) without some label or cell, and say which."""
    if data.is_complete(np.flatnonzero(rows)):
        return
    lost = [f"label {listed(data.classes[[label]])}" for label in (0, 1) if not (data.y[rows] == label).any()]
    if data.cells is not None and data.groups is not None:
        sizes = zip(compared_names(parity, data.groups), data.cells.union_sums(rows * 1.0), strict=True)
        lost += [name for name, size in sizes if size == 0]
    raise ValueError(
        f"`validation_fraction` must leave rows of every label and cell in the {name} part, got "
        f"{fraction:g} of {len(rows)} rows and none of: {'; '.join(lost)}"
    )
