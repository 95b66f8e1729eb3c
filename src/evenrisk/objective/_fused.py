"""Both rounds of an objective by compiled loops: a part of the rows at a time, on every core.

A part goes through all of round 1 while it is in a core's cache: its scores are computed, then their losses,
bins and sums; and through all of round 2. Losses that have a `kind` and distances on a `Grid` can be worked
on in this way. Others, few rows, and arrays of other libraries take the plain way of `ScoreObjective`.

Conventions
-----------
As in `ScoreObjective`, and in the loops themselves, `evenrisk._kernels`. m counts the cells that a row is in,
or parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from evenrisk import _kernels
from evenrisk._xp import Cells, is_sparse
from evenrisk.distances import Distance, Grid, GridDistance

CURVATURE_ROWS = 2048  # at a time; with fifty features they stay in a core's second cache
TABLE_BYTES = 2**25  # that the tables of all parts may take
MANY_COLUMNS = 100_000  # of a sparse X, which every part of the rows has a sum for
NOTHING, NO_ROWS, NO_LABELS = np.empty((0, 0)), np.empty(0), np.empty(0, np.int8)
NO_GRID = (False, 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
Scores = Callable[[slice], np.ndarray]  # the raw scores of some rows


@dataclass(frozen=True)
class FusedCells:
    """Cells, and the distance between them, in the form that compiled loops read."""

    loops: ModuleType
    distance: GridDistance
    grid: Grid
    weight: np.ndarray  # (n,), or (1,) where all are the same
    code: np.ndarray  # (m, n) int32
    share: np.ndarray  # (m, n), or (0, 0) where every row is in one cell at most
    n_cells: int

    @classmethod
    def of(cls, distance: Distance, cells: Cells) -> FusedCells | None:
        """Return the cells if compiled loops can work on them, else None."""
        loops = _kernels.loops(cells.weight, cells.code)
        if loops is None or not isinstance(distance, GridDistance) or not is_plain(distance):
            return None
        code = np.ascontiguousarray(np.atleast_2d(cells.code.T), dtype=np.int32)
        share = NOTHING if cells.share is None else np.ascontiguousarray(cells.share.T, dtype=np.float64)
        return cls(loops, distance, distance.grid, compact(cells.weight), code, share, cells.n_cells)

    def arguments(self, shift: float) -> tuple[Any, ...]:
        """Return what the loops take of cells, and how they place scores."""
        at = self.grid
        origin = at.origin + (shift if at.raw else 0.0)
        numbers = (origin, at.scale, at.first, at.half, at.low, at.high)
        return self.weight, self.code, self.share, (at.raw, at.n_bins, *(float(each) for each in numbers))

    @property
    def moments_shape(self) -> tuple[int, int]:
        """Of a table of moments: all bins of all cells, those of rows in no cell first."""
        return (self.n_cells + 1) * self.grid.n_bins, self.grid.degree + 1

    def sums(self, g: np.ndarray, shift: float) -> np.ndarray:
        """Round 1 of the penalty alone: return Σ w ψ of every cell (c, p)."""
        arguments = (g, NO_LABELS, NO_ROWS, self.loops.NO_LOSS, 1.0, NO_ROWS, *self.arguments(shift))

        def part(rows: slice) -> np.ndarray:
            table = np.zeros(self.moments_shape)
            self.loops.first_round(rows.start, rows.stop, *arguments, table)
            return table

        tables = _kernels.run(part, _kernels.parts(len(g), _kernels.SCORES_PART))
        return self.psi_sums(added(tables))

    def psi_sums(self, table: np.ndarray) -> np.ndarray:
        """Return Σ w ψ of every cell (c, p), from its moments."""
        return self.distance.sums_of_moments(self._by_cell(table, self.n_cells))

    def coefficients(self, D: np.ndarray) -> np.ndarray:
        """Return those of the polynomials of all bins, for D the derivative in the sums (c, p)."""
        pieces = np.stack(self.distance.coefficients(D), axis=-1)
        nobody = np.zeros((1, *pieces.shape[1:]))
        return np.concatenate([nobody, pieces]).reshape((-1, pieces.shape[-1]))

    def slopes_by_part(self, g: np.ndarray, shift: float, part: np.ndarray, n_parts: int) -> np.ndarray:
        """Return the derivatives of the sums in θ (c, p, m) for g = θ[part]."""
        n_cells = self.n_cells * n_parts
        table = np.zeros(((n_cells + 1) * self.grid.n_bins, self.grid.degree))
        self.loops.add_part_moments(g, *self.arguments(shift), part, n_parts, table)
        slopes = self.distance.jacobian_of_moments(
            [each[..., None] for each in self._by_cell(table, n_cells)]
        )
        return np.swapaxes(slopes.reshape((self.n_cells, n_parts, -1)), -1, -2)

    def _by_cell(self, table: np.ndarray, n_cells: int) -> list[np.ndarray]:
        """Return the columns of a table (c, b) each, without rows in no cell."""
        table = table.reshape((n_cells + 1, -1, table.shape[-1]))[1:]
        return [table[..., q] for q in range(table.shape[-1])]


@dataclass(frozen=True)
class FusedRounds:
    """The rows of an objective in the form that compiled loops read."""

    loops: ModuleType
    y: np.ndarray  # (n,) int8
    weight: np.ndarray  # (n,), or (1,) where all are the same
    cells: FusedCells | None  # None without a penalty

    @classmethod
    def of(cls, loss: Any, y: Any, weight: Any, penalty: Any) -> FusedRounds | None:
        """Return the rows if compiled loops can work on them and on the penalty's cells, else None."""
        cells = None if penalty is None else penalty.fused
        loops = _kernels.loops(weight, y)
        if loops is None or getattr(loss, "kind", None) is None or (penalty is not None and cells is None):
            return None
        return cls(loops, y.astype(np.int8), compact(weight), cells)

    def whole(self, scores: Scores) -> np.ndarray:
        """Return the raw scores of all rows (n,)."""
        g = np.empty(len(self.y), self.weight.dtype)

        def part(rows: slice) -> None:
            g[rows] = scores(rows)

        _kernels.run(part, _kernels.parts(len(g)))
        return g

    def first(
        self, loss: Any, scores: Scores, shift: float, *, penalised: bool, least: int = _kernels.LEAST_PART
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        """Round 1: return Σ weight·ℓ, g (n,) and, where `penalised`, Σ w ψ of every cell (c, p)."""
        g = np.empty(len(self.y), self.weight.dtype)
        cells = self.cells if penalised else None
        arguments = self._arguments(g, loss, shift)

        def part(rows: slice) -> tuple[float, np.ndarray]:
            g[rows] = scores(rows)
            table = NOTHING if cells is None else np.zeros(cells.moments_shape)
            return self.loops.first_round(rows.start, rows.stop, *arguments, table), table

        found = _kernels.run(part, _kernels.parts(len(g), least))
        total = sum(value for value, _ in found)
        psi = None if cells is None else cells.psi_sums(added([table for _, table in found]))
        return total, g, psi

    def second(
        self,
        loss: Any,
        g: np.ndarray,
        shift: float,
        D: np.ndarray | None,
        total: float,
        collect: Callable[[slice, np.ndarray], Any],
        bend: np.ndarray = NO_ROWS,
        least: int = _kernels.LEAST_PART,
    ) -> list[Any]:
        """Round 2: return what `collect` makes of the gradient in the scores of each part.

        weight·ℓ'' is written to `bend` (n,), if one is given.
        """
        arguments = self._arguments(g, loss, shift)
        table = NOTHING if D is None or self.cells is None else self.cells.coefficients(D)

        def part(rows: slice) -> Any:
            gradient = np.empty(rows.stop - rows.start, g.dtype)
            self.loops.second_round(rows.start, rows.stop, *arguments, table, total, gradient, bend)
            return collect(rows, gradient)

        return _kernels.run(part, _kernels.parts(len(g), least))

    def curvature(
        self, loss: Any, g: np.ndarray, shift: float, total: float, features: Scores, *, penalised: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return Σ weight·ℓ''/total·xxᵀ (m, m) and, where `penalised`, ∂/∂θ of the sums (c, p, m).

        `features` returns x of some rows, (n, m) float64 in the order of rows.
        """
        m = features(slice(0, 1)).shape[1]
        cells = self.cells if penalised else None
        size = (0, 0, m) if cells is None else (cells.moments_shape[0], cells.grid.degree, m)

        def part(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            H, table = np.zeros((m, m)), np.zeros(size)
            for start in range(rows.start, rows.stop, CURVATURE_ROWS):
                block = slice(start, min(start + CURVATURE_ROWS, rows.stop))
                X = features(block)
                if cells is not None:
                    self.loops.add_row_moments(block.start, block.stop, g, *cells.arguments(shift), X, table)
                bend = loss.rows(block).curvature(self.y[block], g[block]) * (self._weight(block) / total)
                curved = np.flatnonzero(bend)  # few rows, with a smoothed hinge
                if len(curved) < len(bend):
                    X, bend = X[curved], bend[curved]
                X = X * np.sqrt(bend)[:, None]
                H += np.dot(X.T, X)  # and not `@`, which keeps Python's lock
            return H, table

        fewest = max(math.prod(size) * 8 * len(self.y) // TABLE_BYTES, _kernels.LEAST_PART)
        with _kernels.one_blas_thread():
            found = _kernels.run(part, _kernels.parts(len(self.y), fewest))
        H = added([each for each, _ in found])
        if cells is None:
            return H, None
        table = added([each for _, each in found])
        moments = table.reshape((cells.n_cells + 1, -1, *size[1:]))[1:]
        return H, cells.distance.jacobian_of_moments([moments[:, :, q] for q in range(size[1])])

    def _weight(self, block: slice) -> np.ndarray:
        return self.weight if len(self.weight) == 1 else self.weight[block]

    def _arguments(self, g: np.ndarray, loss: Any, shift: float) -> tuple[Any, ...]:
        """Return what both loops take after the range of rows."""
        cells = (self.weight, np.empty((0, 0), np.int32), NOTHING, NO_GRID)
        if self.cells is not None:
            cells = self.cells.arguments(shift)
        mu, a = float(getattr(loss, "mu", 1.0)), getattr(loss, "a", NO_ROWS)
        return g, self.y, self.weight, loss.kind, mu, a, *cells


@dataclass(frozen=True)
class FusedProducts:
    """Xw + b and Xᵀ·slope of parts of the rows."""

    scores_of: Callable[..., None]
    add: Callable[..., None]
    X: tuple[np.ndarray, ...]  # dense, or the three arrays of a CSR matrix
    n_features: int
    dtype: Any

    @classmethod
    def of(cls, scores: FusedRounds | None, X: Any) -> FusedProducts | None:
        """Return the products if compiled loops can take them, else None."""
        if scores is None:
            return None
        loops = scores.loops
        if is_sparse(X) and X.format == "csr" and X.shape[1] <= MANY_COLUMNS:
            arrays = (X.data, X.indices, X.indptr)
            return cls(loops.scores_of_sparse, loops.add_of_sparse, arrays, X.shape[1], X.dtype)
        if not isinstance(X, np.ndarray):
            return None
        if X.flags.c_contiguous:
            return cls(loops.scores_by_row, loops.add_by_row, (X,), X.shape[1], X.dtype)
        if X.flags.f_contiguous:
            return cls(loops.scores_by_column, loops.add_by_column, (X,), X.shape[1], X.dtype)
        return None

    def scores(self, rows: slice, w: np.ndarray, b: float) -> np.ndarray:
        """Return Xw + b of some rows, in the dtype of X, in which a model keeps its coefficients too."""
        g = np.empty(rows.stop - rows.start, self.dtype)
        w = w.astype(self.dtype).astype(np.float64)
        self.scores_of(rows.start, rows.stop, *self.X, w, float(self.dtype.type(b)), g)
        return g

    def transposed(self, rows: slice, slope: np.ndarray) -> np.ndarray:
        """Return Xᵀ·slope of some rows (d,), in float64."""
        total = np.zeros(self.n_features)
        self.add(rows.start, *self.X, slope, total)
        return total


def added(tables: list[np.ndarray]) -> np.ndarray:
    """Return the sum of tables, in order; it takes the place of the first."""
    total = tables[0]
    for each in tables[1:]:
        total += each
    return total


def compact(weight: np.ndarray) -> np.ndarray:
    """Return one weight where a single number stands for all rows in memory, else all of them in a row."""
    return weight[:1].copy() if weight.strides == (0,) else np.ascontiguousarray(weight)


def is_plain(distance: GridDistance) -> bool:
    """Whether a distance does with rows what `GridDistance` does, on a grid that the loops can write to.

    They check no bounds, so no score may lie outside the bins.
    """
    own = type(distance)
    ours = ("prepare", "psi_sums", "gradient", "jacobian", "polynomial", "_place")
    grid = distance.grid
    if grid.degree not in (2, 3) or any(
        getattr(own, each) is not getattr(GridDistance, each) for each in ours
    ):
        return False
    if grid.raw:
        return grid.n_bins == 1 and grid.origin == 0
    x = [(s - grid.origin) * grid.scale + grid.first for s in (0.0, 1.0)]
    if grid.high > grid.low:
        x = [min(max(each, grid.low), grid.high) for each in x]
    return own.shift is Distance.shift and all(0 <= each + grid.half < grid.n_bins for each in x)
