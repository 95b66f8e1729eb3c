"""The two records that everything agrees on: who is compared with whom, and what is summed over them.

Conventions
-----------
n rows, c cells, p entries of the feature map ψ, q compared pairs of cells. A *cell* is one group inside one
stratum of a parity rule. Arrays may belong to NumPy, torch or CuPy; all arrays of one record to the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Array = Any  # a NumPy, torch or CuPy array: the array API has no common static type


class Cells(NamedTuple):
    """All that a distance knows of people."""

    code: Array  # (n,) int: the cell of each row, −1 = in none
    weight: Array  # (n,) the weight of each row
    n_cells: int
    pairs: Array  # (q, 2) int: the cells compared
    pair_weight: Array  # (q,) the weight of each comparison in the penalty

    def rows(self, rows: Any) -> Cells:
        """Return the cells of some rows; cells and pairs stay as they are, so that sums still add."""
        return self._replace(code=self.code[rows], weight=self.weight[rows])

    def moved(self, index: Callable[[Array], Array], number: Callable[[Array], Array]) -> Cells:
        """Return the same cells with arrays that live elsewhere, such as on a GPU.

        `index` moves whole numbers, `number` moves weights.
        """
        return Cells(
            code=index(self.code),
            weight=number(self.weight),
            n_cells=self.n_cells,
            pairs=index(self.pairs),
            pair_weight=number(self.pair_weight),
        )


class Sums(NamedTuple):
    """Additive over rows, batches and workers."""

    psi: Array  # (c, p) Σ w ψ(g)
    w: Array  # (c,) Σ w
    w2: Array  # (c,) Σ w²

    def plus(self, other: Sums) -> Sums:
        """Return the sums of two disjoint sets of rows (`+` on a tuple would concatenate)."""
        return Sums(self.psi + other.psi, self.w + other.w, self.w2 + other.w2)
