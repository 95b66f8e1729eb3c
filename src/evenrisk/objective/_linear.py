"""The objective of a linear model as a function of its parameters θ, and how θ becomes coefficients of X.

This module has three parts, from the features to the objective:

1. `Columns`: the form in which the columns of X are fitted. Three kinds of columns need care.
   A constant column has the same effect as the intercept, so the objective is flat in one direction, and a
   solver that divides by the column's variance, which is only rounding, fails. Such a column is left out,
   and its coefficient is 0. That is the minimum for any ridge, because the intercept is not penalised.
   A column whose range is small compared with its values (a year, an amount of memory) leaves few digits for
   its variation. It is measured from its smallest value, which changes the scores by a constant only.
   Both are exact: a fit is the same, bit for bit, as without these columns or with another origin.
   What remains is the rounding of large values (in float32 an amount of 1e9 is off by up to 32). Where such a
   column is a linear combination of the others except for its rounding, a fit would use the rounding as a
   feature, with coefficients of thousands that cancel. Such a column is replaced by that combination.
2. Moments of the features, over all rows and cell by cell. They are taken about the mean and in float64: the
   E x² of a column such as a year or an income has no digits left for its variance.
3. `LinearObjective`: F(θ), its gradient and its curvature, and `LinearProblem`, which adds the columns.

Conventions
-----------
X (n, d) dense or CSR; w (d,) and b the parameters of X; v those of the columns as fitted:
g = Xw + b = (X − origin)[:, kept]·v + (b + origin·w). θ = (v, b), b only with an intercept; m = len(θ). The
intercept's 1 is the last entry of x. share (n,) the rows' weights, adding up to 1; μ (d,) the mean of all
rows, or 0 where the model has no intercept to absorb it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from evenrisk._xp import (
    Array,
    as_array,
    as_index,
    blocks,
    cast,
    concat,
    is_sparse,
    namespace,
    row_numbers,
    to_numpy,
)
from evenrisk.objective._sample import sample_rows
from evenrisk.objective._scores import EVERY_ROW, Penalty, RowLoss, ScoreObjective

FAR = 0.01  # times a column's largest value: a smaller range is measured from its smallest value
# Scores lose eps·max/range of their digits where b cancels w·x. At eps^⅔ that is about 2e-5 of a raw score in
# float64 and 2e-2 in float32, and what is left of a column's range is its own rounding.
CONSTANT = 2 / 3
NOISY = 1e-4  # times a column's range: a `resolution` below this does no harm
WIDTH = 4  # standard deviations in a range
COLLINEAR = 1e-11  # times a unit variance: less than this is rounding
ENTRIES = 4_000_000  # of the cells' covariance matrices: 32 MB, a thousand features in four cells
FULL_MATRICES = 256  # features up to which whole (d, d) matrices are formed before the first step
SINGULAR = 1e-6  # relative ridge on the inverse of the moments
SAMPLE_ROWS, SAMPLE_ROWS_PER_FEATURE = 20_000, 200  # in a sample
LEAST_SAVING = 5  # times as many rows as a sample has, for one to be taken
FINE = 1e-12  # relative rounding error of float64, not of float32
FEW = 0.5  # share of rows with curvature, below which only these rows are used


@dataclass(frozen=True)
class Columns:
    """Where each column is measured from, and whether it is kept."""

    origin: np.ndarray  # (d,) float64, 0 for most
    kept: np.ndarray  # (d,) bool
    resolution: np.ndarray  # (d,) float64: a range as small as this is lost in the column's rounding
    noisy: np.ndarray  # (d,) bool: whether `resolution` is large compared with the column's range

    @classmethod
    def from_rows(cls, X: Any, weight: np.ndarray, fit_intercept: bool) -> Columns:
        """Inspect the rows of positive weight; without an intercept every column stays as it is."""
        d = X.shape[1]
        if not fit_intercept:
            return cls(np.zeros(d), np.ones(d, dtype=bool), np.zeros(d), np.zeros(d, dtype=bool))
        lost = float(np.finfo(X.dtype).eps) ** CONSTANT
        far = max(FAR, lost / NOISY)
        low, high = _sparse_range(X, weight) if is_sparse(X) else _range(X, weight, far)
        return cls(
            origin=np.where(_within(low, high, far), low, 0.0),
            kept=~_within(low, high, lost),
            resolution=lost * np.maximum(np.abs(low), np.abs(high)).astype(np.float64),
            noisy=_within(low, high, lost / NOISY),
        )

    def transform(self, X: Any, weight: np.ndarray) -> Any:
        """Return (X − origin)[:, kept], noisy columns replaced if others determine them; or X itself."""
        if not self.kept.all():
            X = X[:, np.flatnonzero(self.kept)]
            X = X if is_sparse(X) else np.ascontiguousarray(X)  # BLAS adds up in the order of memory
        origin = self.origin[self.kept].astype(X.dtype)
        noisy = np.flatnonzero(self.noisy[self.kept])
        if not (origin.any() or len(noisy)):
            return X
        if is_sparse(X):
            X = X.copy()
            X.sum_duplicates()
            X.data -= origin[X.indices]  # a column far from 0 has an entry in every row
        else:
            X = X - origin
        if len(noisy) > 0 and X.shape[1] <= FULL_MATRICES:
            _without_rounding(X, weight, noisy, self.resolution[self.kept])
        return X

    def to_coefficients(self, v: np.ndarray, b: float, dtype: Any) -> tuple[np.ndarray, float]:
        """Return the coefficients w of X, in the dtype they will have, and their intercept."""
        w = np.zeros(len(self.kept), dtype=dtype)
        w[self.kept] = v
        return w, b - float(self.origin @ w)

    def from_coefficients(self, w: np.ndarray, b: float) -> tuple[np.ndarray, float]:
        """Undo `to_coefficients`."""
        return w[self.kept], b + float(self.origin @ w)


def _without_rounding(X: Any, weight: np.ndarray, noisy: np.ndarray, resolution: np.ndarray) -> None:
    """Replace, in X, noisy columns that are linear combinations of other columns except for rounding.

    Noisy columns are taken from the finest to the coarsest. Each is compared with all columns that are not
    noisy and with the noisy ones before it.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a column of 1e200
        mean, second = second_moments(X, weight / weight.sum(), centred=True)
    if not np.isfinite(second).all():
        return
    root = np.sqrt(_positive(second.diagonal()))
    second /= np.outer(root, root)
    coarse = resolution / (WIDTH * root)
    others = np.setdiff1d(np.arange(X.shape[1]), noisy)
    for j in noisy[np.argsort(coarse[noisy], kind="stable")]:
        share = np.linalg.pinv(second[np.ix_(others, others)], COLLINEAR, hermitian=True) @ second[others, j]
        left = second[j, j] - second[j, others] @ share
        if left <= max(coarse[j] ** 2, COLLINEAR):
            slope = share * root[j] / root[others]
            _replace(X, j, (X[:, others] @ slope) + (mean[j] - mean[others] @ slope))
        others = np.append(others, j)


def _replace(X: Any, j: int, values: np.ndarray) -> None:
    """X[:, j] = values; in a sparse X the column has an entry in every row."""
    if is_sparse(X):
        X.data[X.indices == j] = values  # one entry a row, in the order of the rows
    else:
        X[:, j] = values


def _within(low: np.ndarray, high: np.ndarray, share: float) -> np.ndarray:
    """Whether a column's range is at most this share of its largest absolute value (d,)."""
    with np.errstate(over="ignore"):  # from −1e308 to 1e308
        return high - low <= share * np.maximum(np.abs(low), np.abs(high))


def _range(X: np.ndarray, weight: np.ndarray, far: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest value of each column, from as many rows as are needed.

    It stops as soon as no column can be `far`. More rows never lower the ratio of range to largest value: a
    larger value also widens the range.
    """
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for block in blocks(weight):
        rows = X[block] if weight[block].all() else X[block][weight[block] > 0]
        if len(rows):
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
            if not _within(low, high, far).any():
                break
    return low, high


def _sparse_range(X: Any, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest value of each column; 0 and 1 for those with entries in some rows."""
    d = X.shape[1]
    rows = X if weight.all() else X[np.flatnonzero(weight)]
    entries = np.bincount(rows.indices, minlength=d)
    low, high = np.zeros(d), np.where(entries > 0, 1.0, 0.0)
    full = np.flatnonzero(entries >= rows.shape[0])
    if len(full):
        some = rows[:, full].tocsc()
        low[full], high[full] = (each(axis=0).toarray().ravel() for each in (some.min, some.max))
    return low, high


def second_moments(X: Array, share: Array, *, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return μ and E (x − μ)(x − μ)ᵀ; μ = 0 unless `centred`. X stays as sparse as it is."""
    d = X.shape[1]
    if is_sparse(X):
        X = X.tocsr().astype(np.float64)  # a copy
        X.sum_duplicates()
        mean = X.T @ share * float(centred)
        # a column with an entry in every row can be centred without becoming less sparse
        full = np.bincount(X.indices, minlength=d) == X.shape[0]
        X.data -= np.where(full, mean, 0.0)[X.indices]
        rest = X.T @ share * float(centred)
        return mean, (X.multiply(share[:, None]).T @ X).toarray() - np.outer(rest, rest)
    xp = namespace(share)
    centre = (X.T @ share) * float(centred)
    second = np.zeros((d, d))
    for block in blocks(share):
        rows = cast(X[block] - centre, xp.float64)
        second += to_numpy((rows * cast(share[block], xp.float64)[:, None]).T @ rows)
    return np.asarray(to_numpy(centre), dtype=np.float64), second


class CellMoments:
    """E_f as a function of w for a distance that uses (g, g²) only; the cost does not depend on the rows.

    With m_c, S_c the mean and covariance of the features in cell c, the scores g = Xw + b have the mean
    m_cᵀw + b and the variance wᵀS_c w there; b shifts all cells equally and drops out.
    """

    def __init__(self, penalty: Penalty, X: Array) -> None:
        self.penalty, self.X = penalty, X

    @classmethod
    def if_cheaper(cls, penalty: Penalty | None, X: Any) -> CellMoments | None:
        """Return the moments if they are all the distance needs and the matrices are small, else None."""
        if penalty is None or not penalty.distance.traits.two_moments:
            return None
        on_host = isinstance(X, np.ndarray) or is_sparse(X)
        small = penalty.cells.n_cells * X.shape[1] ** 2 <= ENTRIES
        return cls(penalty, X) if on_host and small else None

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """E_f and its gradient in w."""
        means, slopes = self._psi(w)
        value, D = self.penalty.of_means(means)
        return value, np.einsum("cp,cpd->d", D, slopes)

    def gram(self, w: np.ndarray) -> np.ndarray:
        """JᵀJ (d, d), J = ∂r/∂w."""
        return self.penalty.gram(*self._psi(w))

    def _psi(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells' means of (g, g²) (c, 2), about the mean score, and the derivatives (c, 2, d)."""
        centre, covariance = self._moments
        first, along = centre @ w, covariance @ w
        means = np.stack([first, along @ w + first**2], axis=1)
        return means, np.stack([centre, 2 * (along + first[:, None] * centre)], axis=1)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """m_c − μ (c, d), μ their weighted mean, and S_c (c, d, d): one pass over the rows, cell by cell."""
        totals = np.asarray(to_numpy(self.penalty.cell_weights[0]), dtype=np.float64)
        origin = _dense(self.X[:1])  # a column that does not vary is exactly 0 from there
        moments = [self._of_cell(cell, total, origin) for cell, total in enumerate(totals)]
        centre = np.stack([mean for mean, _ in moments])
        return centre - (totals / totals.sum()) @ centre, np.stack([covariance for _, covariance in moments])

    def _of_cell(self, cell: int, total: float, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean, from the origin, and covariance of the rows of one cell, a dense block of them at a time."""
        d = self.X.shape[1]
        mean = np.zeros(d)
        for rows, share in self._blocks_of_cell(cell, total):
            mean += share @ (_dense(self.X[rows]) - origin)
        covariance = np.zeros((d, d))
        for rows, share in self._blocks_of_cell(cell, total):
            root = (_dense(self.X[rows]) - origin - mean) * np.sqrt(share)[:, None]
            covariance += root.T @ root
        return mean, covariance

    def _blocks_of_cell(self, cell: int, total: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the cell's rows in each block, and their shares of its weight."""
        for one in self.penalty.cells.memberships():
            for block in blocks(one.code):
                rows = block.start + np.flatnonzero(one.code[block] == cell)
                # of a soft group that nobody is in, every share is 0
                yield rows, one.weight[rows].astype(np.float64) / (total or 1.0)


def _dense(rows: Any) -> np.ndarray:
    """Rows of X as a float64 array."""
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


class Problem(Protocol):
    """What a path over η minimises, and how a minimum θ becomes the attributes of a model.

    `LinearProblem` is the problem of linear models; `evenrisk.svm` and `evenrisk.neural_network` have others.
    """

    scores: ScoreObjective

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return F(θ) and ∂F/∂θ."""

    def with_eta(self, eta: float) -> Self:
        """Return the same problem with another η."""

    def raw_scores(self, theta: np.ndarray) -> Array:
        """Return g (n,)."""

    def attributes(self, theta: np.ndarray, slope: float, intercept: float) -> dict[str, Any]:
        """Return the fitted attributes of a model whose raw scores are slope·g(θ) + intercept."""


class LinearObjective:
    """F(θ) = F(Xw + b) + λ/2‖w‖², value, gradient and curvature for a solver on the host.

    X is dense or sparse and stays where it is, in the library of `scores`; θ, the gradient and the curvature
    are float64 NumPy.
    """

    def __init__(self, scores: ScoreObjective, X: Array, *, alpha: float, fit_intercept: bool) -> None:
        self.scores, self.X, self.alpha, self.fit_intercept = scores, X, alpha, fit_intercept
        self.n_features = X.shape[1]
        self.moments = CellMoments.if_cheaper(scores.penalty, X)
        self.products = scores.products(X)

    @property
    def n_parameters(self) -> int:
        """Length of θ."""
        return int(self.n_features + self.fit_intercept)

    @property
    def eps(self) -> float:
        """Relative rounding error of the scores."""
        return float(namespace(self.scores.weight).finfo(self.X.dtype).eps)

    def with_eta(self, eta: float) -> Self:
        """Return the same objective with another η; nothing is copied."""
        return self._with(self.scores.with_eta(eta))

    def with_loss(self, loss: RowLoss) -> Self:
        """Return the same objective with another loss; nothing is copied."""
        return self._with(self.scores.with_loss(loss))

    def sample(self) -> LinearObjective | None:
        """Return the objective of a sample of the rows; None where it would save little."""
        n_rows = max(SAMPLE_ROWS, SAMPLE_ROWS_PER_FEATURE * self.n_features)
        if self.X.shape[0] < LEAST_SAVING * n_rows:
            return None
        y, cells = self.scores.y, None if self.scores.penalty is None else self.scores.penalty.cells
        n_kinds = 2
        if cells is not None and len(cells.code.shape) == 1:
            n_kinds = 2 * (cells.n_cells + 1)

        def kind(some: Any) -> Array:
            label = as_index(y[some])
            return label if cells is None or n_kinds == 2 else label + 2 * (as_index(cells.code[some]) + 1)

        rows, factor = sample_rows(kind, n_kinds, self.scores.weight, n_rows, n_rows // max(n_kinds, 10))
        X = self.X[row_numbers(rows, self.scores.weight)]
        return LinearObjective(
            self.scores.take(rows, factor), X, alpha=self.alpha, fit_intercept=self.fit_intercept
        )

    def _with(self, scores: ScoreObjective) -> Self:
        other = copy(self)
        other.scores = scores
        return other

    def raw_scores(self, theta: np.ndarray) -> Array:
        """Return g = Xw + b, in the dtype of X."""
        return self.scores.whole(self._scores_of(theta))

    def _scores_of(self, theta: np.ndarray) -> Callable[[slice], Array]:
        """Return the function that computes the raw scores of some rows."""
        w, products = theta[: self.n_features], self.products
        b = float(theta[-1]) if self.fit_intercept else 0.0
        if products is not None:
            return lambda rows: products.scores(rows, w, b)
        w = as_array(w, self.scores.weight)
        return lambda rows: self._rows(rows) @ w + b

    def _rows(self, rows: slice) -> Array:
        """Return rows of X; X itself where it is all of them."""
        return self.X if rows == EVERY_ROW else self.X[rows]

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return F(θ) and ∂F/∂θ."""
        w, eta, moments = theta[: self.n_features], self.scores.eta, self.moments
        scores = self.scores if moments is None else self.scores.with_eta(0.0)
        first = scores.first_round(self._scores_of(theta))
        value, D = scores.between(first)
        parts = scores.second_round(first, D, self._in_parameters)
        gradient = np.zeros(theta.shape)
        gradient[: self.n_features] = sum(in_w for in_w, _ in parts) + self.ridge * w
        if self.fit_intercept:
            gradient[-1] = sum(in_b for _, in_b in parts)
        if moments is not None and eta > 0:
            distance, in_w = moments(w)
            value += eta * distance
            gradient[: self.n_features] += eta * in_w
        return value + 0.5 * float(self.ridge * w @ w), gradient

    def _in_parameters(self, rows: slice, gradient: Array) -> tuple[np.ndarray, float]:
        """Return what some rows add to the derivatives in w (d,) and b, from those in their scores."""
        if self.products is not None:
            return self.products.transposed(rows, gradient), float(gradient.sum(dtype=np.float64))
        return to_numpy(self._rows(rows).T @ gradient).astype(np.float64), float(gradient.sum())

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Return Σ share·ℓ''·xxᵀ + λ + 2η·(∂r/∂θ)ᵀ(∂r/∂θ) (m, m): Gauss–Newton's matrix."""
        loss_part, gram = self.curvature_parts(theta)
        return loss_part + 2 * self.scores.eta * gram

    def curvature_parts(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ share·ℓ''·xxᵀ + λ and (∂r/∂θ)ᵀ(∂r/∂θ), the latter 0 where η = 0."""
        scores, g, d = self.scores, self.raw_scores(theta), self.n_features
        in_scores = scores.penalty is not None and scores.eta > 0 and self.moments is None
        found: np.ndarray | None = None
        if scores.in_parts:
            H, found = scores.curvature_in_parts(g, self._rows_in_order, penalised=in_scores)
        else:
            H = np.zeros((len(theta), len(theta)))
            for block in blocks(g):
                self._add_products(H, block, scores.loss_curvature(g, block))
            if in_scores and scores.penalty is not None:
                found = scores.penalty.curvature(scores.penalty.sums(g), self.rows_of)
        diagonal = np.arange(d)
        H[diagonal, diagonal] += self.ridge
        gram = np.zeros(H.shape) if found is None else found
        if self.moments is not None and scores.eta > 0:
            gram[:d, :d] = self.moments.gram(theta[:d])
        return H, gram

    def _add_products(self, H: np.ndarray, block: slice, curvature: Array) -> None:
        """H += Σ curvature·xxᵀ over the rows of a block."""
        xp = namespace(curvature)
        rows: Any = block
        (curved,) = xp.nonzero(curvature)  # few rows, with a smoothed hinge
        if curved.shape[0] < FEW * curvature.shape[0]:
            rows, curvature = block.start + curved, curvature[curved]
        root = xp.sqrt(curvature)
        X = self._features(rows) * root[:, None]
        d = self.n_features
        H[:d, :d] += to_numpy(X.T @ X)
        if self.fit_intercept:
            H[:d, d] += to_numpy(X.T @ cast(root, X.dtype))
            H[d, :d] = H[:d, d]
            H[d, d] += float(root @ root)

    def _features(self, rows: Any) -> Array:
        """Return rows of X, dense float64; a view where they already are."""
        X = self.X[rows]
        X = X.toarray() if is_sparse(X) else X
        return cast(X, namespace(self.scores.weight).float64)

    def rows_of(self, block: Any) -> Array:
        """Return rows of X with the intercept's column, dense float64."""
        X = self._features(block)
        one = 1 + 0 * cast(self.scores.weight[block], X.dtype)
        return concat([X, one[:, None]], 1) if self.fit_intercept else X

    def _rows_in_order(self, block: slice) -> np.ndarray:
        """Return `rows_of` a block, in the order of rows."""
        return np.ascontiguousarray(self.rows_of(block))

    def preconditioner(self) -> np.ndarray:
        """Return a first guess of the inverse curvature: (E xxᵀ + λ)⁻¹ over θ, or its diagonal (m,).

        With the whole matrix the solver sees standardised, uncorrelated features whatever their units; while
        d is small it costs as much as a few evaluations. It is 0 along directions in which the rows do not
        differ (duplicated columns, one-hot sets), so that a solver does not move in them.
        """
        ridge = np.append(self.ridge, 0.0) if self.fit_intercept else self.ridge
        if self.n_features > FULL_MATRICES:
            return 1 / _positive(self.mean_square() + ridge)
        return self._inverse_moments()

    def mean_square(self) -> np.ndarray:
        """Return E x² of each column, the intercept's 1 last (m,)."""
        share = self.scores.weight / self.scores.total
        square = np.ones(self.n_parameters)
        if is_sparse(self.X):
            square[: self.n_features] = self.X.multiply(self.X).T @ share
        else:
            parts = ((self.X[block] ** 2).T @ share[block] for block in blocks(share))
            square[: self.n_features] = to_numpy(sum(parts))
        return square

    @cached_property
    def row_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """μ and E (x − μ)(x − μ)ᵀ; μ = 0 where there is no intercept to absorb it."""
        share = self.scores.weight / self.scores.total
        return second_moments(self.X, share, centred=self.fit_intercept)

    @cached_property
    def ridge(self) -> np.ndarray:
        """λ of each column (d,), with as much more in float32 as is lost in rounding.

        Columns that are linear combinations of others keep differences of the size of their rounding.
        Compiled loops add up in float64, where these can be seen, and would fit them, with coefficients of
        thousands that cancel.
        """
        if self.products is None or self.eps < FINE:
            return np.full(self.n_features, self.alpha)
        return self.alpha + self.eps * self.variances

    @cached_property
    def variances(self) -> np.ndarray:
        """E (x − μ)² of each column (d,): the diagonal of `row_moments`, at less cost."""
        if "row_moments" in vars(self) or is_sparse(self.X):
            return self.row_moments[1].diagonal()
        share = self.scores.weight / self.scores.total
        centre = (self.X.T @ share) * float(self.fit_intercept)
        return to_numpy(sum(((self.X[block] - centre) ** 2).T @ share[block] for block in blocks(share)))

    def _inverse_moments(self) -> np.ndarray:
        """Return (E xxᵀ + λ)⁻¹, the intercept's 1 being the last entry of x.

        Taken about the mean μ, in float64 and on unit scales. With A the inverse of the centred part the
        blocks are A, −Aμ and 1 + μᵀAμ.
        """
        mean, second = self.row_moments
        second = second + np.diag(self.ridge)
        root = np.sqrt(_positive(second.diagonal()))
        values, vectors = np.linalg.eigh(second / np.outer(root, root))
        varies = values > COLLINEAR
        vectors = (vectors / root[:, None])[:, varies]
        A = vectors / (values[varies] + SINGULAR) @ vectors.T
        if not self.fit_intercept:
            return A
        corner = np.atleast_2d(1 + mean @ A @ mean)
        return np.block([[A, -(A @ mean)[:, None]], [-(A @ mean)[None, :], corner]])


class LinearProblem(LinearObjective):
    """A `LinearObjective` of X in the form of `Columns`, and its coefficients in terms of X itself."""

    def __init__(self, scores: ScoreObjective, X: Array, *, alpha: float, fit_intercept: bool) -> None:
        self.columns = Columns.from_rows(X, scores.weight, fit_intercept)
        self.dtype = X.dtype
        fitted = self.columns.transform(X, scores.weight)
        super().__init__(scores, fitted, alpha=alpha, fit_intercept=fit_intercept)

    def attributes(self, theta: np.ndarray, slope: float = 1.0, intercept: float = 0.0) -> dict[str, Any]:
        """Return `coef_` and `intercept_` of X, for raw scores slope·g(θ) + intercept."""
        d = self.n_features
        b = float(theta[d]) if self.fit_intercept else 0.0
        w, b = self.columns.to_coefficients(slope * theta[:d], slope * b + intercept, self.dtype)
        return {"coef_": w[None, :], "intercept_": np.array([b], dtype=self.dtype)}

    def theta_of(self, coef: np.ndarray, intercept: float) -> np.ndarray | None:
        """Return the θ of given coefficients of X, to start from; None if their number differs."""
        if len(coef) != len(self.columns.kept):
            return None
        w, b = self.columns.from_coefficients(coef.astype(np.float64), intercept)
        return np.append(w, b) if self.fit_intercept else w


def linear_scores(X: Any, w: np.ndarray, b: float) -> np.ndarray:
    """Return Xw + b for rows to predict."""
    # Equal rows must tie. BLAS adds in another order at the edges of its tiles, so that equal rows could
    # differ by an ulp; einsum does not, and is as fast.
    g = X @ w if is_sparse(X) else np.einsum("ij,j->i", X, w)
    return np.asarray(g + b)


def _positive(square: np.ndarray) -> np.ndarray:
    """Replace 0, the mean square of a column of zeros, by 1."""
    return np.where(square > 0, square, 1.0)
