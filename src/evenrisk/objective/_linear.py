"""The objective of a linear model, a function of its parameters.

Conventions
-----------
θ = (w, b) the parameters, b only with an intercept; g = Xw + b; m = len(θ). The intercept's 1 is the last
entry of x.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from evenrisk._types import Array
from evenrisk._xp import as_array, blocks, cast, is_sparse, to_numpy
from evenrisk.objective._moments import CellMoments, second_moments
from evenrisk.objective._scores import ScoreObjective

FULL_METRIC = 256  # features up to which the solver starts from the whole curvature matrix
SINGULAR = 1e-6  # relative ridge on its inverse
COLLINEAR = 1e-11  # share of the unit scale below which a direction has no variance but rounding
FEW = 0.5  # share of the rows that bend, below which they are picked out


class LinearObjective:
    """F(θ) = F(Xw + b) + λ/2‖w‖², value and gradient for a solver on the host.

    X is dense or sparse and stays where it is; θ and the gradient are float64 NumPy.
    """

    def __init__(
        self,
        scores: ScoreObjective,
        X: Array,
        *,
        alpha: float,
        fit_intercept: bool,
        moments: CellMoments | None = None,
    ) -> None:
        self.scores, self.X, self.alpha, self.fit_intercept = scores, X, alpha, fit_intercept
        self.n_features = X.shape[1]
        self.moments = CellMoments.where_they_pay(scores.penalty, X) if moments is None else moments

    def with_eta(self, eta: float) -> LinearObjective:
        """Give the same objective with another η; nothing is copied."""
        return self._with(self.scores.with_eta(eta))

    def with_loss(self, loss: Any) -> LinearObjective:
        """Give the same objective with another loss; nothing is copied."""
        return self._with(self.scores.with_loss(loss))

    def _with(self, scores: ScoreObjective) -> LinearObjective:
        return LinearObjective(
            scores, self.X, alpha=self.alpha, fit_intercept=self.fit_intercept, moments=self.moments
        )

    def metric(self) -> np.ndarray:
        """Give a first guess of the inverse curvature: (E xxᵀ + λ)⁻¹ over θ, or its diagonal (m,).

        With the whole matrix the solver sees standardised, uncorrelated features whatever units they
        came in; it costs a few evaluations while d is small. It is 0 along directions in which no row differs
        from another (duplicated columns, one-hot sets), so that a solver stays where it began there.
        """
        ridge = np.full(self.n_features + self.fit_intercept, self.alpha)
        ridge[self.n_features :] = 0.0
        if self.n_features > FULL_METRIC:
            return 1 / _positive(self.mean_square() + ridge)
        return self._inverse_moments()

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Σ share·ℓ''·xxᵀ + λ + 2η·(∂r/∂θ)ᵀ(∂r/∂θ) (m, m): Gauss–Newton."""
        bend, gram = self.curvature_parts(theta)
        return bend + 2 * self.scores.eta * gram

    def curvature_parts(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give Σ share·ℓ''·xxᵀ + λ and (∂r/∂θ)ᵀ(∂r/∂θ), the latter 0 where η = 0."""
        scores, g, d = self.scores, to_numpy(self.raw_scores(theta)), self.n_features
        H = np.zeros((len(theta), len(theta)))
        for block in blocks(g):
            bend = scores.loss.rows(block).curvature(scores.y[block], g[block])
            self._add_products(H, block, bend * (scores.weight[block] / scores.total))
        diagonal = np.arange(d)
        H[diagonal, diagonal] += self.alpha
        gram = np.zeros(H.shape)
        if scores.penalty is not None and scores.eta > 0:
            if self.moments is not None:
                gram[:d, :d] = self.moments.gram(theta[:d])
            else:
                gram += scores.penalty.curvature(g, self.rows_of)
        return H, gram

    def _add_products(self, H: np.ndarray, block: slice, bend: np.ndarray) -> None:
        """H += Σ bend·xxᵀ over the rows of a block."""
        rows: Any = block
        bent = np.flatnonzero(bend)  # of a hinge few rows
        if len(bent) < FEW * len(bend):
            rows, bend = block.start + bent, bend[bent]
        root = np.sqrt(bend)
        X = self._features(rows) * root[:, None]
        d = self.n_features
        H[:d, :d] += X.T @ X
        if self.fit_intercept:
            H[:d, d] += X.T @ root
            H[d, :d] = H[:d, d]
            H[d, d] += root @ root

    def mean_square(self) -> np.ndarray:
        """E x² of each column, the intercept's 1 last (m,)."""
        square = np.ones(self.n_features + self.fit_intercept)
        square[: self.n_features] = self._mean_square(self.scores.weight / self.scores.total)
        return square

    def _features(self, block: Any) -> np.ndarray:
        """Rows of X, dense float64; a view where they already are."""
        X = self.X[block]
        return cast(X.toarray() if is_sparse(X) else X, np.float64)

    def rows_of(self, block: Any) -> np.ndarray:
        """Rows of X with the intercept's column."""
        X = self._features(block)
        return np.column_stack([X, np.ones(X.shape[0])]) if self.fit_intercept else X

    @cached_property
    def row_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """μ and E (x − μ)(x − μ)ᵀ; μ = 0 where there is no intercept to take it up."""
        share = self.scores.weight / self.scores.total
        return second_moments(self.X, share, centred=self.fit_intercept)

    def _inverse_moments(self) -> np.ndarray:
        """(E xxᵀ + λ)⁻¹, the intercept's 1 being the last entry of x.

        Taken about the mean μ, in float64 and on unit scales: a column such as a year or an income leaves
        no digits for its spread in E x². With A the inverse of the centred part the blocks are A, −Aμ and
        1 + μᵀAμ.
        """
        mean, second = self.row_moments
        second = second + self.alpha * np.eye(len(second))
        root = np.sqrt(_positive(second.diagonal()))
        values, vectors = np.linalg.eigh(second / np.outer(root, root))
        varies = values > COLLINEAR
        vectors = (vectors / root[:, None])[:, varies]
        A = vectors / (values[varies] + SINGULAR) @ vectors.T
        if not self.fit_intercept:
            return A
        corner = np.atleast_2d(1 + mean @ A @ mean)
        return np.block([[A, -(A @ mean)[:, None]], [-(A @ mean)[None, :], corner]])

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
        w, eta, moments = theta[: self.n_features], self.scores.eta, self.moments
        scores = self.scores if moments is None else self.scores.with_eta(0.0)
        value, slope = scores(self.raw_scores(theta))
        gradient = np.zeros(theta.shape)
        gradient[: self.n_features] = to_numpy(self.X.T @ slope) + self.alpha * w
        if self.fit_intercept:
            gradient[-1] = float(slope.sum())
        if moments is not None and eta > 0:
            distance, in_w = moments(w)
            value += eta * distance
            gradient[: self.n_features] += eta * in_w
        return value + 0.5 * self.alpha * float(w @ w), gradient


def _positive(square: np.ndarray) -> np.ndarray:
    """Put 1 where a column is all zeros."""
    return np.where(square > 0, square, 1.0)
