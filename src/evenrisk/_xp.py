"""Arrays: the two records made of them, and the only code that knows array libraries.

`Cells` says who is compared with whom, `Sums` what is summed over them: everything above agrees on these
two. The functions below run on NumPy's arrays, and on torch's and CuPy's through array-api-compat.

Conventions
-----------
n rows, c cells, p entries of the feature map ψ, q comparisons. A *cell* is one group inside one stratum of a
parity rule. What is compared is a pair of cells or, where there are any, of the u *unions* of cells. A row is
in one cell, or in m of them with a share of its weight in each. All arrays of one record belong to the same
library.
`xp` is the namespace of the arrays at hand. Sums over segments come back in the dtype of their values:
float32 stays float32. A segment code of −1 means "in no segment".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Array = Any  # a NumPy, torch or CuPy array: the array API has no common static type

BLOCK_ROWS = 16_384  # a dozen float64 temporaries of this length stay in a core's cache
SMALL_SELECTOR = 1024  # entries of a matrix that is not worth making sparse


class Cells(NamedTuple):
    """All that a distance knows of people."""

    code: Array  # (n,) int: the cell of each row, −1 = in none; (n, m) where it is in several
    weight: Array  # (n,) the weight of each row
    n_cells: int
    pairs: Array  # (q, 2) int: the cells, or unions, compared
    pair_weight: Array  # (q,) the weight of each comparison in the penalty
    share: Array | None = None  # (n, m) of a row's weight in each of its cells; None: all of it
    unions: Array | None = None  # (u, c) 1 for the cells of each union, else 0; None: every cell is one

    def rows(self, rows: Any) -> Cells:
        """Return the cells of some rows; cells and pairs stay as they are, so that sums still add."""
        share = None if self.share is None else self.share[rows]
        return self._replace(code=self.code[rows], weight=self.weight[rows], share=share)

    @property
    def n_unions(self) -> int:
        """How many there are to compare."""
        return self.n_cells if self.unions is None else self.unions.shape[0]

    def memberships(self) -> list[Cells]:
        """Return m records in which every row is in one cell at most; the sums over all m add."""
        if len(self.code.shape) == 1:
            return [self]
        return [
            self._replace(
                code=self.code[:, j],
                weight=self.weight if self.share is None else self.weight * self.share[:, j],
                share=None,
            )
            for j in range(self.code.shape[1])
        ]

    def union_sums(self, values: Array) -> Array:
        """Return Σ share·values (n,) over the rows of each union (u,)."""
        total = 0
        for one in self._replace(weight=values).memberships():
            # segment 0 collects the rows that are in no cell
            total = total + segment_sum(one.weight, as_index(one.code) + 1, self.n_cells + 1)[1:]
        return self.unite(total)

    def unite(self, x: Array) -> Array:
        """Return Σ of x (c, …) over the cells of each union (u, …)."""
        return x if self.unions is None else _matrix_product(self.unions, x)

    def divide(self, x: Array) -> Array:
        """Return Σ of x (u, …) over the unions that each cell is part of (c, …): the transpose of `unite`."""
        return x if self.unions is None else _matrix_product(self.unions.T, x)

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
            share=None if self.share is None else number(self.share),
            unions=None if self.unions is None else number(self.unions),
        )


def _matrix_product(A: Array, x: Array) -> Array:
    """A·x over the first axis of x, in the dtype of x."""
    flat = x.reshape((x.shape[0], -1))
    return (cast(A, x.dtype) @ flat).reshape((A.shape[0], *x.shape[1:]))


class Sums(NamedTuple):
    """Additive over rows, batches and workers."""

    psi: Array  # (c, p) Σ w ψ(g)
    w: Array  # (c,) Σ w
    w2: Array  # (c,) Σ w²

    def plus(self, other: Sums) -> Sums:
        """Return the sums of two disjoint sets of rows (`+` on a tuple would concatenate)."""
        return Sums(self.psi + other.psi, self.w + other.w, self.w2 + other.w2)


def namespace(*arrays: Array) -> Any:
    """Return the array API namespace that `arrays` share."""
    # array-api-compat costs 50 ms to import and NumPy 2 speaks the standard itself
    if all(isinstance(a, np.ndarray) for a in arrays):
        return np
    if hasattr(arrays[0], "index_add"):
        import array_api_compat.torch as torch_namespace  # finding it out costs more than a small kernel

        return torch_namespace
    from array_api_compat import array_namespace

    return array_namespace(*arrays)


def is_sparse(X: Array) -> bool:
    """Whether X is one of SciPy's sparse matrices or arrays."""
    from scipy import sparse

    return bool(sparse.issparse(X))


def as_array(values: Any, like: Array, *, dtype: Any = None) -> Array:
    """Put `values` where `like` lives (library and device), with its dtype unless another is named."""
    dtype = like.dtype if dtype is None else dtype
    if isinstance(like, np.ndarray):
        return np.asarray(values, dtype=dtype)
    if isinstance(values, np.ndarray):
        values = np.array(values)  # torch shares memory and wants to be able to write
    return namespace(like).asarray(values, dtype=dtype, device=like.device)


def as_index(x: Array) -> Array:
    """Cast whole numbers to the index dtype."""
    if isinstance(x, np.ndarray):
        return x.astype(np.intp, copy=False)
    return namespace(x).astype(x, namespace(x).int64, copy=False)


def row_numbers(rows: np.ndarray, like: Array) -> Array:
    """Put row numbers where `like` lives, to select rows of it."""
    return rows if isinstance(like, np.ndarray) else as_array(rows, like, dtype=namespace(like).int64)


def arange(n: int, like: Array) -> Array:
    """0 … n − 1 as an index, made where `like` lives: a copy from the host would wait for the device."""
    if isinstance(like, np.ndarray):
        return np.arange(n)
    xp = namespace(like)
    return xp.arange(n, dtype=xp.int64, device=like.device)


def to_numpy(x: Array) -> np.ndarray:
    """Bring an array to the host as NumPy."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "detach"):
        x = x.detach().cpu()
    elif hasattr(x, "get"):
        x = x.get()
    return np.asarray(x)


def detach(x: Array) -> Array:
    """Cut x off from automatic differentiation, where the library has one."""
    return x.detach() if hasattr(x, "detach") else x


def blocks(x: Array) -> Iterator[slice]:
    """Slices over the rows of x: cache-sized in NumPy, one on a device (kernel launches are expensive)."""
    step = BLOCK_ROWS if isinstance(x, np.ndarray) else max(x.shape[0], 1)
    for start in range(0, x.shape[0], step):
        yield slice(start, start + step)


def segment_sum(values: Array, code: Array, n: int) -> Array:
    """Σ of `values` (m,) over each of the n segments in `code` (m,) → (n,). Codes are in 0 … n−1."""
    if isinstance(values, np.ndarray):
        return np.bincount(code, weights=values, minlength=n).astype(values.dtype, copy=False)
    xp = namespace(values)
    if hasattr(values, "index_add"):
        # in float64, as NumPy does it: a float32 counter stands still at 2²⁴
        total = xp.zeros(n, dtype=xp.float64, device=values.device)
        return cast(total.index_add(0, code, cast(values, xp.float64)), values.dtype)
    return xp.bincount(code, weights=values, minlength=n).astype(values.dtype)


def segment_dot(weight: Array, code: Array, n: int, X: Array) -> Array:
    """Σ weight_i X_i over the rows of each segment: weight, code (m,), X (m, d) → (n, d). X may be sparse."""
    if isinstance(weight, np.ndarray):
        dtype = np.result_type(weight, X.dtype)
        if X.shape[1] == 1 and isinstance(X, np.ndarray):
            return segment_sum(weight * X[:, 0], code, n)[:, None]
        if n * weight.shape[0] <= SMALL_SELECTOR and isinstance(X, np.ndarray):
            # SciPy takes ten times as long to set up as these few products take
            small = np.zeros((n, weight.shape[0]))
            small[code, np.arange(weight.shape[0])] = weight
            return (small @ X).astype(dtype, copy=False)
        from scipy import sparse

        shape, ends = (n, weight.shape[0]), np.arange(weight.shape[0] + 1)
        selector = sparse.csc_array((weight.astype(np.float64), code, ends), shape=shape)
        product = selector @ X
        dense = product.toarray() if sparse.issparse(product) else np.asarray(product)
        return dense.astype(dtype, copy=False)
    xp = namespace(weight)
    weighted = weight[:, None] * X
    if hasattr(weight, "index_add"):
        total = xp.zeros((n, X.shape[1]), dtype=xp.float64, device=weighted.device)
        return cast(total.index_add(0, code, cast(weighted, xp.float64)), weighted.dtype)
    return xp.stack([xp.bincount(code, weights=column, minlength=n) for column in weighted.T], axis=1)


def take(x: Array, index: Array) -> Array:
    """Select entries of x (m,) by index."""
    return np.take(x, index) if isinstance(x, np.ndarray) else x[index]


def cast(x: Array, dtype: Any) -> Array:
    """Convert x to `dtype`."""
    if isinstance(x, np.ndarray):
        return x.astype(dtype, copy=False)
    return namespace(x).astype(x, dtype, copy=False)


def concat(arrays: list[Array], axis: int) -> Array:
    """Join arrays along `axis` (NumPy 1 lacks the standard's name for it)."""
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays, axis)
    return namespace(*arrays).concat(arrays, axis=axis)


def argsort(x: Array) -> Array:
    """Order of x (m,); equal values stay in the order they came."""
    return np.argsort(x, kind="stable") if isinstance(x, np.ndarray) else namespace(x).argsort(x, stable=True)


def cumsum(x: Array, axis: int) -> Array:
    """Cumulative sum along `axis`."""
    return np.cumsum(x, axis=axis) if isinstance(x, np.ndarray) else namespace(x).cumulative_sum(x, axis=axis)


def swap_last_axes(x: Array) -> Array:
    """Return x with its last two axes exchanged."""
    return np.swapaxes(x, -1, -2) if isinstance(x, np.ndarray) else namespace(x).matrix_transpose(x)


def sigmoid(g: Array) -> Array:
    """s = 1/(1 + e^(−g)); where e^(−g) overflows, 1/∞ = 0 is the right answer."""
    if isinstance(g, np.ndarray):
        # SciPy's expit is exact too, and three times slower
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-g))
    if hasattr(g, "sigmoid"):
        return g.sigmoid()  # torch's own: the formula's derivative is 0·∞ where e^(−g) overflows
    xp = namespace(g)
    return 1.0 / (1.0 + xp.exp(-g))
