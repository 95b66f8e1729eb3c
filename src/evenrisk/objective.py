"""The paper's objective: mean loss + λ/2‖w‖² + η·E_f, first in the scores, then in the parameters.

Conventions
-----------
g (n,) raw scores; θ = (w, b) the parameters of a linear model, b only with an intercept; g = Xw + b.
Everything is differentiated with respect to scores, and pulled back to the parameters once. Rows are worked
through in blocks that stay in cache, in two rounds, because the penalty's derivative needs the sums of all
rows: round 1 adds the loss and the sums, round 2 adds the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evenrisk._types import Array, Cells, Sums
from evenrisk._xp import as_array, blocks, cast, is_sparse, namespace, to_numpy
from evenrisk.distances import Distance, cell_weights, penalty

FULL_METRIC = 256  # features up to which the solver starts from the whole curvature matrix
SINGULAR = 1e-6  # relative ridge that keeps it invertible


class Penalty:
    """E_f(g) = Σ_pairs pair_weight · d(cell a, cell b), and its gradient in g, block by block."""

    def __init__(self, distance: Distance, cells: Cells) -> None:
        self.distance, self.cells = distance, cells
        self.cell_weights = cell_weights(cells)

    def value(self, g: Array) -> float:
        """E_f(g)."""
        return float(self._derivative(g)[1])

    def add_gradient(self, g: Array, eta: float, gradient: Array) -> float:
        """Add η·∂E_f/∂g to `gradient` in place, and give η·E_f."""
        shift, value, D = self._derivative(g)
        for block in blocks(g):
            gradient[block] += self.distance.pull(g[block] - shift, self.cells.rows(block), eta * D)
        return eta * float(value)

    def residual_rows(self, g: Array, rows: Callable[[slice], Array]) -> np.ndarray:
        """∂r/∂θ for g = Xθ, all pairs' residuals below one another, so that E_f = ‖r‖².

        `rows` gives the rows of X in a block.
        """
        shift = self.distance.shift(g, self.cells)
        psi: Array = 0
        slopes: Array = 0
        for block in blocks(g):
            cells = self.cells.rows(block)
            psi = psi + self.distance.psi_sums(g[block] - shift, cells)
            slopes = slopes + self.distance.rows(g[block] - shift, cells, rows(block))
        w = self.cell_weights[0][:, None]
        means, slopes = psi / w, slopes / w[..., None]
        pairs = zip(to_numpy(self.cells.pairs), to_numpy(self.cells.pair_weight), strict=True)
        return np.concatenate(
            [
                share**0.5 * to_numpy(self.distance.residual_rows(means[i], means[j], slopes[i], slopes[j]))
                for (i, j), share in pairs
            ]
        )

    def _derivative(self, g: Array) -> tuple[Array | float, Array, Array]:
        """Give the shift of the scores, E_f, and its derivative in the sums."""
        shift = self.distance.shift(g, self.cells)
        psi = sum(self.distance.psi_sums(g[block] - shift, self.cells.rows(block)) for block in blocks(g))
        return shift, *penalty(self.distance, Sums(psi, *self.cell_weights), self.cells)


class ScoreObjective:
    """F(g) = Σ wᵢ ℓ(yᵢ, gᵢ)/Σw + η·E_f(g), and its gradient in g.

    `loss` is any object with ``rows(block)``, ``value_gradient(y, g)`` and ``curvature(y, g)``.
    """

    def __init__(
        self, loss: Any, y: Array, weight: Array, penalty: Penalty | None = None, eta: float = 0.0
    ) -> None:
        self.loss, self.y, self.weight = loss, y, weight
        self.penalty, self.eta = penalty, eta
        self.total = float(weight.sum())

    def with_eta(self, eta: float) -> ScoreObjective:
        """Give the same objective with another η; nothing is copied."""
        return ScoreObjective(self.loss, self.y, self.weight, self.penalty, eta)

    def with_loss(self, loss: Any) -> ScoreObjective:
        """Give the same objective with another loss; nothing is copied."""
        return ScoreObjective(loss, self.y, self.weight, self.penalty, self.eta)

    def __call__(self, g: Array) -> tuple[float, Array]:
        """Give F(g) and ∂F/∂g (n,)."""
        xp = namespace(g)
        gradient = xp.empty_like(g)
        loss = 0.0
        for block in blocks(g):
            value, slope = self.loss.rows(block).value_gradient(self.y[block], g[block])
            weight = self.weight[block]
            loss += float(xp.sum(weight * value, dtype=xp.float64))
            gradient[block] = slope * (weight / self.total)
        value = loss / self.total
        if self.penalty is not None and self.eta > 0:
            value += self.penalty.add_gradient(g, self.eta, gradient)
        return value, gradient


class LinearObjective:
    """F(θ) = F(Xw + b) + λ/2‖w‖², value and gradient for a solver on the host.

    X is dense or sparse and stays where it is; θ and the gradient are float64 NumPy.
    """

    def __init__(self, scores: ScoreObjective, X: Array, *, alpha: float, fit_intercept: bool) -> None:
        self.scores, self.X, self.alpha, self.fit_intercept = scores, X, alpha, fit_intercept
        self.n_features = X.shape[1]

    def with_eta(self, eta: float) -> LinearObjective:
        """Give the same objective with another η; nothing is copied."""
        return self._with(self.scores.with_eta(eta))

    def with_loss(self, loss: Any) -> LinearObjective:
        """Give the same objective with another loss; nothing is copied."""
        return self._with(self.scores.with_loss(loss))

    def _with(self, scores: ScoreObjective) -> LinearObjective:
        return LinearObjective(scores, self.X, alpha=self.alpha, fit_intercept=self.fit_intercept)

    def metric(self) -> np.ndarray:
        """Give a first guess of the inverse curvature: (E xxᵀ + λ)⁻¹ over θ, or its diagonal (m,).

        With the whole matrix the solver sees standardised, uncorrelated features whatever units they
        came in; it costs a few evaluations while d is small.
        """
        share = self.scores.weight / self.scores.total
        ridge = np.full(self.n_features + self.fit_intercept, self.alpha)
        ridge[self.n_features :] = 0.0
        if self.n_features > FULL_METRIC:
            return 1 / _positive(self.mean_square() + ridge)
        return self._inverse_moments(share)

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Σ share·ℓ''·xxᵀ + λ + 2η·(∂r/∂θ)ᵀ(∂r/∂θ) (m, m): Gauss–Newton, the intercept's 1 last in x."""
        scores, g = self.scores, to_numpy(self.raw_scores(theta))
        H = np.zeros((len(theta), len(theta)))
        for block in blocks(g):
            bend = scores.loss.rows(block).curvature(scores.y[block], g[block])
            bend = bend * scores.weight[block] / scores.total
            bent = np.flatnonzero(bend)  # of a hinge few rows
            root = self._rows(block.start + bent) * np.sqrt(bend[bent])[:, None]
            H += root.T @ root
        diagonal = np.arange(self.n_features)
        H[diagonal, diagonal] += self.alpha
        if scores.penalty is not None and scores.eta > 0:
            J = scores.penalty.residual_rows(g, self._rows)
            H += 2 * scores.eta * (J.T @ J)
        return H

    def mean_square(self) -> np.ndarray:
        """E x² of each column, the intercept's 1 last (m,)."""
        square = np.ones(self.n_features + self.fit_intercept)
        square[: self.n_features] = self._mean_square(self.scores.weight / self.scores.total)
        return square

    def _rows(self, block: Any) -> np.ndarray:
        """Rows of X, dense float64, with the intercept's column."""
        X = self.X[block]
        X = cast(X.toarray() if is_sparse(X) else X, np.float64)
        return np.column_stack([X, np.ones(X.shape[0])]) if self.fit_intercept else X

    def _inverse_moments(self, share: Array) -> np.ndarray:
        """(E xxᵀ + λ)⁻¹, the intercept's 1 being the last entry of x.

        Taken about the mean μ, in float64 and on unit scales: a column such as a year or an income leaves
        no digits for its spread in E x². With A the inverse of the centred part the blocks are A, −Aμ and
        1 + μᵀAμ.
        """
        mean, second = self._moments(share)
        diagonal = _positive(np.diag(second) + self.alpha)
        # collinear columns (one-hot sets) leave directions without curvature of their own
        second[np.diag_indices_from(second)] += self.alpha + SINGULAR * diagonal
        root = np.sqrt(diagonal)
        A = np.linalg.inv(second / np.outer(root, root)) / np.outer(root, root)
        if not self.fit_intercept:
            return A
        corner = np.atleast_2d(1 + mean @ A @ mean)
        return np.block([[A, -(A @ mean)[:, None]], [-(A @ mean)[None, :], corner]])

    def _moments(self, share: Array) -> tuple[np.ndarray, np.ndarray]:
        """Give the mean μ (0 without an intercept) and E (x − μ)(x − μ)ᵀ. X stays as sparse as it is."""
        if is_sparse(self.X):
            X = self.X.astype(np.float64)
            mean = X.T @ share * float(self.fit_intercept)
            return mean, (X.multiply(share[:, None]).T @ X).toarray() - np.outer(mean, mean)
        xp = namespace(share)
        centre = (self.X.T @ share) * float(self.fit_intercept)
        second = np.zeros((self.n_features, self.n_features))
        for block in blocks(share):
            X = cast(self.X[block] - centre, xp.float64)
            second += to_numpy((X * cast(share[block], xp.float64)[:, None]).T @ X)
        return np.asarray(to_numpy(centre), dtype=np.float64), second

    def _mean_square(self, share: Array) -> np.ndarray:
        """E x² of each column (d,)."""
        if is_sparse(self.X):
            return np.asarray(self.X.multiply(self.X).T @ share, dtype=np.float64)
        return to_numpy(sum((self.X[block] ** 2).T @ share[block] for block in blocks(share)))

    def raw_scores(self, theta: np.ndarray) -> Array:
        """g = Xw + b, in the dtype of X."""
        g = self.X @ as_array(theta[: self.n_features], self.scores.weight)
        return g + float(theta[-1]) if self.fit_intercept else g

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Give F(θ) and ∂F/∂θ."""
        value, slope = self.scores(self.raw_scores(theta))
        w = theta[: self.n_features]
        gradient = np.zeros(theta.shape)
        gradient[: self.n_features] = to_numpy(self.X.T @ slope) + self.alpha * w
        if self.fit_intercept:
            gradient[-1] = float(slope.sum())
        return value + 0.5 * self.alpha * float(w @ w), gradient


def _positive(square: np.ndarray) -> np.ndarray:
    """Put 1 where a column is all zeros."""
    return np.where(square > 0, square, 1.0)
