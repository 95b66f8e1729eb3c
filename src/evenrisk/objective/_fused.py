"""Both rounds of an objective by compiled loops: a part of the rows at a time, on every core.

A part goes through all of round 1 while it is in a core's cache: its scores are computed, then their losses,
bins and sums; and through all of round 2. Losses that have a `kind` and distances on a `Grid` can be worked
on in this way. Others, few rows, and arrays of other libraries take the plain way of `ScoreObjective`.
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
from evenrisk.distances import Distance, GridDistance

MANY_COLUMNS = 100_000  # of a sparse X, which every part of the rows has a sum for
CURVATURE_ROWS = 2048  # at a time; with fifty features they stay in a core's second cache
TABLE_BYTES = 2**26  # that the tables of all parts may take
NOTHING = np.empty((0, 0))
NO_ROWS = np.empty(0)


@dataclass(frozen=True)
class FusedRounds:
    """The rows of an objective in the form that compiled loops read."""

    loops: ModuleType
    distance: GridDistance | None  # None without a penalty
    y: np.ndarray  # (n,) int8
    weight: np.ndarray  # (n,)
    cell_weight: np.ndarray  # (n,)
    code: np.ndarray  # (m, n) int32
    share: np.ndarray  # (m, n), or (0, 0) where every row is in one cell at most
    n_cells: int

    @classmethod
    def of(
        cls, loss: Any, y: Any, weight: Any, distance: Distance | None, cells: Cells | None
    ) -> FusedRounds | None:
        """Return the rows if compiled loops can work on them, else None."""
        if getattr(loss, "kind", None) is None or not (distance is None or is_plain_grid(distance)):
            return None
        arrays = [y, weight] if cells is None else [y, weight, cells.weight, cells.code]
        loops = _kernels.loops(*arrays)
        if loops is None:
            return None
        code, share = np.empty((0, len(y)), np.int32), NOTHING
        if cells is not None:
            code = np.ascontiguousarray(np.atleast_2d(cells.code.T), dtype=np.int32)
            if cells.share is not None:
                share = np.ascontiguousarray(cells.share.T, dtype=np.float64)
        return cls(
            loops=loops,
            distance=distance,  # type: ignore[arg-type]  # `is_plain_grid` has checked it
            y=y.astype(np.int8),
            weight=weight,
            cell_weight=weight if cells is None else cells.weight,
            code=code,
            share=share,
            n_cells=0 if cells is None else cells.n_cells,
        )

    def whole(self, scores: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Return the raw scores of all rows (n,)."""
        return np.concatenate(_kernels.run(scores, _kernels.parts(len(self.y))))

    def first(
        self, loss: Any, scores: Callable[[slice], np.ndarray], shift: float, *, penalised: bool
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        """Round 1: return Σ weight·ℓ, g (n,) and, where `penalised`, Σ w ψ of every cell (c, p)."""
        g = np.empty(len(self.weight), self.weight.dtype)
        size = (0, 0)
        if penalised:
            assert self.distance is not None
            grid = self.distance.grid
            size = ((self.n_cells + 1) * grid.n_bins, grid.degree + 1)

        def part(rows: slice) -> tuple[float, np.ndarray]:
            g[rows] = scores(rows)
            table = np.zeros(size)
            value = self.loops.first_round(rows.start, rows.stop, *self._arguments(g, loss, shift), table)
            return value, table

        found = _kernels.run(part, _kernels.parts(len(g)))
        total = sum(value for value, _ in found)
        if not penalised:
            return total, g, None
        assert self.distance is not None
        table = np.sum([each for _, each in found], axis=0).reshape((self.n_cells + 1, -1, size[1]))[1:]
        return total, g, self.distance.sums_of_moments([table[..., q] for q in range(size[1])])

    def second(
        self,
        loss: Any,
        g: np.ndarray,
        shift: float,
        D: np.ndarray | None,
        total: float,
        collect: Callable[[slice, np.ndarray], Any],
    ) -> tuple[np.ndarray, list[Any]]:
        """Round 2: return the gradient in the scores (n,), and what `collect` makes of that of each part."""
        gradient = np.empty(len(g), g.dtype)
        table = NOTHING
        if D is not None:
            assert self.distance is not None
            pieces = np.stack(self.distance.coefficients(D), axis=-1)
            nobody = np.zeros((1, *pieces.shape[1:]))
            table = np.concatenate([nobody, pieces]).reshape((-1, pieces.shape[-1]))

        def part(rows: slice) -> Any:
            arguments = self._arguments(g, loss, shift)
            self.loops.second_round(rows.start, rows.stop, *arguments, table, total, gradient)
            return collect(rows, gradient[rows])

        return gradient, _kernels.run(part, _kernels.parts(len(g)))

    def curvature(
        self,
        loss: Any,
        g: np.ndarray,
        shift: float,
        total: float,
        features: Callable[[slice], np.ndarray],
        *,
        penalised: bool,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return Σ weight·ℓ''/total·xxᵀ (m, m) and, where `penalised`, ∂/∂θ of the sums (c, p, m).

        `features` returns x of some rows, (n, m) float64 in the order of rows.
        """
        m = features(slice(0, 1)).shape[1]
        grid = None if self.distance is None or not penalised else self.distance.grid
        size = (0, 0, m) if grid is None else ((self.n_cells + 1) * grid.n_bins, grid.degree, m)
        arguments = self._arguments(g, loss, shift)[6:]

        def part(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            H, table = np.zeros((m, m)), np.zeros(size)
            for start in range(rows.start, rows.stop, CURVATURE_ROWS):
                block = slice(start, min(start + CURVATURE_ROWS, rows.stop))
                X = features(block)
                if grid is not None:
                    self.loops.add_row_moments(block.start, block.stop, g, *arguments, X, table)
                bend = loss.rows(block).curvature(self.y[block], g[block]) * (self.weight[block] / total)
                curved = np.flatnonzero(bend)  # few rows, with a smoothed hinge
                if len(curved) < len(bend):
                    X, bend = X[curved], bend[curved]
                X = X * np.sqrt(bend)[:, None]
                H += np.dot(X.T, X)  # and not `@`, which keeps Python's lock
            return H, table

        fewest = max(math.prod(size) * 8 * len(self.y) // TABLE_BYTES, 1)
        with _kernels.one_blas_thread():
            found = _kernels.run(part, _kernels.parts(len(self.y), fewest))
        H = np.sum([each for each, _ in found], axis=0)
        if grid is None:
            return H, None
        assert self.distance is not None
        table = np.sum([each for _, each in found], axis=0)
        moments = table.reshape((self.n_cells + 1, grid.n_bins, grid.degree, m))[1:]
        return H, self.distance.jacobian_of_moments([moments[:, :, q] for q in range(grid.degree)])

    def _arguments(self, g: np.ndarray, loss: Any, shift: float) -> tuple[Any, ...]:
        """Return what both loops take after the range of rows."""
        if self.distance is None:
            grid: tuple[Any, ...] = (False, 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        else:
            at = self.distance.grid
            origin = at.origin + (shift if at.raw else 0.0)
            numbers = (origin, at.scale, at.first, at.half, at.low, at.high)
            grid = (at.raw, at.n_bins, *(float(each) for each in numbers))
        return (
            *(g, self.y, self.weight),
            *(loss.kind, float(getattr(loss, "mu", 1.0)), getattr(loss, "a", NO_ROWS)),
            *(self.cell_weight, self.code, self.share, grid),
        )


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


def is_plain_grid(distance: Distance) -> bool:
    """Whether a distance does with rows what `GridDistance` does, and nothing of its own."""
    ours = ("prepare", "psi_sums", "gradient", "jacobian")
    return isinstance(distance, GridDistance) and all(
        getattr(type(distance), name) is getattr(GridDistance, name) for name in ours
    )
