"""Small worlds for the laws: scores, labels, unequal groups, weights, ties; nothing symmetric."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evenrisk.parity import PARITIES, make_cells


@dataclass(frozen=True)
class World:
    """Rows, and the rule that puts them into cells."""

    g: np.ndarray
    y: np.ndarray
    group: np.ndarray
    n_groups: int
    weight: np.ndarray
    parity: str
    X: np.ndarray

    def cells(self, rows=slice(None), convert=lambda x: x):
        """Cells of some rows, in NumPy or wherever `convert` puts the arrays."""
        return make_cells(
            PARITIES[self.parity],
            convert(self.y[rows]),
            convert(self.group[rows]),
            self.n_groups,
            convert(self.weight[rows]),
        )


def world(parity="equalized_odds", n_groups=3, weighted=True, n=240, seed=0):
    """Make one; every group has its own location and spread."""
    rng = np.random.default_rng(seed)
    group = rng.choice(n_groups, n, p=np.array([0.5, 0.3, 0.2][:n_groups]) / sum([0.5, 0.3, 0.2][:n_groups]))
    y = (rng.random(n) < 0.35 + 0.1 * group).astype(np.int64)
    X = rng.standard_normal((n, 4)) * [1, 0.5, 2, 0.1] + 0.4 * group[:, None]
    g = X @ [0.8, -0.5, 0.3, 1.0] + 0.6 * y - 0.4 + 0.3 * group * rng.standard_normal(n)
    g[1::7] = g[0]  # ties
    weight = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
    return World(g, y, group, n_groups, weight, parity, X)


def in_pieces(X, make=sparse.csr_matrix):
    """X with every entry in two pieces that add up to it, the columns of a row from right to left."""
    rows = [np.tile(np.flatnonzero(row)[::-1], 2) for row in X]
    ends = np.cumsum([0, *map(len, rows)])
    rng = np.random.default_rng(0)  # another share of every entry, without rounding
    first = [rng.choice([2.0, -1.0, 0.5], len(row) // 2) for row in rows]
    share = np.concatenate([np.append(part, 1 - part) for part in first])
    column = np.concatenate(rows)
    values = share * np.repeat(X, np.diff(ends), axis=0)[np.arange(len(column)), column]
    pieces = make((values, column, ends), shape=X.shape)
    assert not pieces.has_canonical_format
    np.testing.assert_array_equal(pieces.toarray(), X)
    return pieces


def as_it_came(X):
    """The arrays of a sparse matrix, to compare with later."""
    return [part.copy() for part in (X.data, X.indices, X.indptr)]
