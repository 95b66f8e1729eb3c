"""The interface of a distance between two cells of scores, and the penalty E_f built from it.

Conventions
-----------
g (n,) raw scores; s = sigmoid(g); c cells, p entries of ψ; a, b (…, p) the means of ψ over the two cells of
a pair, any number of pairs at once; r (…, m) the residual and d = ‖r‖² the distance. D (c, p) is the
derivative of the penalty in the **sums** of ψ. A cell is summarised by additive sums, so full batch,
mini-batch, out-of-core and cluster run the same lines::

    c = distance.shift(g, cells)
    S = distance.sums(g − c, cells)                                       # adds over blocks of rows
    value, D = penalty(distance, S, cells)                                # tiny arrays only
    gradient = distance.gradient(g − c, cells, D)                         # block by block again
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, Self

from evenrisk._xp import (
    Array,
    Cells,
    Sums,
    as_array,
    as_index,
    namespace,
    segment_dot,
    segment_sum,
)

# Earlier names of methods of `Distance`: calling and overriding them still works, with a warning
RENAMED = {
    "pull": "gradient",
    "rows": "jacobian",
    "placed": "prepare",
    "norms": "row_norms",
    "residual_rows": "residual_jacobian",
}


class Traits(NamedTuple):
    """Optional properties of a distance, which let callers use faster or unbiased methods.

    Attributes
    ----------
    linear : bool
        The residual is linear in the cells' means, so that its derivatives do not depend on them.
    two_moments : bool
        ψ(g) = (g, g²): the distance depends on the mean and variance of each cell only.
    norms : bool
        d = ‖mean Φ − mean Φ‖² for some Φ, so that there is an unbiased form; see `Distance.row_norms`.
    bounded : bool
        There is a safe bound on the curvature; see `Distance.curvature_bound`.
    """

    linear: bool = False
    two_moments: bool = False
    norms: bool = False
    bounded: bool = False


class Distance(ABC):
    """A feature map ψ of one score, and a residual between two cells' means of ψ.

    A distance that is a dataclass has its fields as settings in scikit-learn's sense: a search can try
    ``distance__scale``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for old, new in RENAMED.items():
            # Every class has both names for its own method, so that super() works with either. An earlier
            # name that is not callable is a setting of the class, such as a dataclass field `rows: int = 5`.
            owner = next(each for each in cls.__mro__ if callable(vars(each).get(old)) or new in vars(each))
            if new not in vars(owner):
                message = f"`{owner.__name__}.{old}` is deprecated: rename it to `{new}`"
                warnings.warn(message, DeprecationWarning, stacklevel=3)  # abc has a frame of its own
                setattr(cls, new, vars(owner)[old])
            elif old not in vars(owner) and old not in vars(cls):
                setattr(cls, old, _deprecated(owner, old, new))

    @property
    def traits(self) -> Traits:
        """The optional properties of this distance; a user's own distance may keep this default."""
        return Traits()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Parameters
        ----------
        deep : bool, default=True
            Not used: no setting has settings.

        Returns
        -------
        dict
            Names and values.
        """
        return {each.name: getattr(self, each.name) for each in fields(self)} if is_dataclass(self) else {}

    def set_params(self, **params: Any) -> Self:
        """Change settings in place, as scikit-learn does; all of them, or none if one is refused.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        self
            The distance.
        """
        known = self.get_params()
        unknown = [name for name in params if name not in known]
        if unknown:
            names = ", ".join(map(repr, known)) or "none, it has no settings"
            raise ValueError(f"a setting of {type(self).__name__} must be one of {names}, got {unknown[0]!r}")
        if params:
            changed: Any = replace(self, **params)  # type: ignore[type-var]
            for name, value in vars(changed).items():
                object.__setattr__(self, name, value)  # the dataclass is frozen
        return self

    def __sklearn_clone__(self) -> Self:
        # a plain copy: a user's own class may have no settings from which it could be rebuilt
        return deepcopy(self)

    def shift(self, g: Array, cells: Cells) -> Array | float:
        """Return a number to subtract from all g for numerical accuracy; it does not change the distance."""
        return 0.0

    def prepare(self, g: Array) -> Any:
        """Return g prepared for the other methods, which accept the result in place of g.

        It is the place for work that several methods would otherwise repeat."""
        return g

    @abstractmethod
    def psi_sums(self, g: Array, cells: Cells) -> Array:
        """Σ w ψ(g) over each cell (c, p), in O(n)."""

    def sums(self, g: Array, cells: Cells) -> Sums:
        """Σ w ψ(g), Σ w and Σ w² over each cell; the last two do not depend on the scores."""
        return Sums(self.psi_sums(g, cells), *cell_weights(cells))

    @abstractmethod
    def residual(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """Return r (…, m) and its derivatives in a and in b (…, m, p)."""

    def residual_jacobian(self, a: Array, b: Array, A: Array, B: Array) -> Array:
        """∂r/∂θ (m, d) of one pair from the derivatives A, B (p, d) of its means, for Gauss–Newton."""
        _, in_a, in_b = self.residual(a, b)
        return in_a @ A + in_b @ B

    def compare(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """d = ‖r‖² (…) and its derivatives in a and in b (…, p)."""
        xp = namespace(a)
        r, in_a, in_b = self.residual(a, b)
        return xp.sum(r * r, axis=-1), _times(2 * r, in_a), _times(2 * r, in_b)

    def row_norms(self, g: Array) -> tuple[Array, Array]:
        """Return ‖Φ(g)‖² of each row (n,) and its derivative, where `traits.norms`.

        An unbiased form of d needs these products of each row with itself, in addition to the sums.
        """
        raise NotImplementedError(f"{type(self).__name__} is no norm of a difference of means")

    def curvature_bound(self, g: Array, cells: Cells, D: Array, damping: float) -> Array:
        """Return a diagonal (n,) that bounds the curvature of E_f from above, where `traits.bounded`.

        For methods that move every row separately. `damping` multiplies the Gauss–Newton part.
        """
        raise NotImplementedError(f"{type(self).__name__} has no bound on its curvature")

    @abstractmethod
    def gradient(self, g: Array, cells: Cells, D: Array) -> Array:
        """Return the gradient in the scores, w·Σ_j D[cell, j] ψ_j'(g) (n,); 0 for rows in no cell."""

    @abstractmethod
    def jacobian(self, g: Array, cells: Cells, X: Array) -> Array:
        """Σ w ψ_j'(g) x over each cell (c, p, d): the Jacobian of the sums for g = Xθ. X may be sparse."""


def _deprecated(owner: type, old: str, new: str) -> Callable[..., Any]:
    def call(self: Distance, *args: Any, **kwargs: Any) -> Any:
        message = f"`{type(self).__name__}.{old}` is now called `{new}`"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(owner, new)(self, *args, **kwargs)

    return call


for _old, _new in RENAMED.items():
    setattr(Distance, _old, _deprecated(Distance, _old, _new))


def _times(r: Array, jacobian: Array) -> Array:
    """rᵀJ for every pair."""
    return namespace(r).sum(r[..., :, None] * jacobian, axis=-2)


def cell_sum(cells: Cells, values: Array) -> Array:
    """Σ of `values` (n,) over each cell (c,); every row is in one cell at most."""
    # segment 0 collects the rows that are in no cell
    return segment_sum(values, as_index(cells.code) + 1, cells.n_cells + 1)[1:]


def cell_weights(cells: Cells) -> tuple[Array, Array]:
    """Σ w and Σ w² over each cell."""
    w, w2 = zip(
        *((cell_sum(one, one.weight), cell_sum(one, one.weight * one.weight)) for one in cells.memberships()),
        strict=True,
    )
    return sum(w), sum(w2)


def psi_sums(distance: Distance, g: Array, cells: Cells) -> Array:
    """Σ w ψ(g) over each cell (c, p), of rows in one cell or several; g may be prepared."""
    return sum(distance.psi_sums(g, one) for one in cells.memberships())


def penalty(distance: Distance, sums: Sums, cells: Cells) -> tuple[Array, Array]:
    """E_f = Σ_pairs pair_weight · d(a, b), and its derivative in the sums (c, p)."""
    xp = namespace(sums.psi)
    w = cells.unite(sums.w)[:, None]
    means = cells.unite(sums.psi) / w
    first, second = cells.pairs[:, 0], cells.pairs[:, 1]
    d, in_a, in_b = distance.compare(means[first], means[second])
    pair_weight = as_array(cells.pair_weight, sums.psi)
    # the derivative in a mean is the sum over the pairs that contain it
    D = segment_dot(pair_weight, as_index(first), cells.n_unions, in_a)
    D = D + segment_dot(pair_weight, as_index(second), cells.n_unions, in_b)
    return xp.sum(pair_weight * d), cells.divide(D / w)


def evaluate(distance: Distance, g: Array, cells: Cells) -> tuple[Array, Array]:
    """Return E_f(g) and its gradient in the scores (n,), in one block."""
    g = g - distance.shift(g, cells)
    sums = Sums(psi_sums(distance, g, cells), *cell_weights(cells))
    value, D = penalty(distance, sums, cells)
    return value, sum(distance.gradient(g, one, D) for one in cells.memberships())
