"""The gap itself: squared difference of two distribution functions of s, over all thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenrisk._xp import (
    Array,
    Cells,
    as_array,
    as_index,
    cast,
    concat,
    cumsum,
    namespace,
    segment_dot,
    sigmoid,
)
from evenrisk.distances._grid import Grid, GridDistance, Placed
from evenrisk.distances._power import PowerNorm, SquareNorm
from evenrisk.distances._protocol import Traits, cell_weights

# Extra nodes on either side of the window. Scores outside the window are placed on them, three nodes away,
# where they affect no threshold and no node inside.
MARGIN = 3


@dataclass(frozen=True)
class GapDistance(GridDistance):
    """d = ∫ (F₀(t) − F₁(t))² dt over all thresholds t: the squared gap itself.

    A step function has no useful gradient, so every score is spread on a grid of step Δ by a quadratic
    B-spline: ψ_j(s) = B(s/Δ − j). The cumulative sum U of the difference of two cells' means is the gap
    between their distribution functions at the thresholds t_j = (j + ½)Δ, and d = Σ_j Δ·U_j². As the grid
    gets finer, d tends to half the squared energy distance.

    Parameters
    ----------
    n_thresholds : int, default=400
        Number of thresholds on the grid over the window.
    window : (float, float), default=(0, 1)
        The thresholds that count, for users whose cut-off will always lie between, say, 0.2 and 0.6.
    scale : {"score", "rank"}, default="score"
        "score" integrates over thresholds dt, and falls when all scores are merely squeezed together.
        "rank" integrates over the people, ∫ (F₀ − F₁)² dH with H = ½(F₀ + F₁) (Cramér–von Mises), so
        that squeezing does not lower it as long as the sd of s is at least ten grid steps. The window stays
        in units of s.
    power : float, default=2.0
        p in d = (∫ abs(F₀ − F₁)^p)^(2/p), the squared p-norm of the gap, 2 or more. The larger it is the more
        the worst thresholds count, and at infinity d would be the squared max gap; 8 is near that and
        smooth.
    """

    n_thresholds: int = 400
    window: tuple[float, float] = (0.0, 1.0)
    scale: str = "score"
    power: float = 2.0

    def __post_init__(self) -> None:
        if not (isinstance(self.n_thresholds, (int, np.integer)) and self.n_thresholds >= 2):
            raise ValueError(f"`n_thresholds` must be a whole number, 2 or more, got {self.n_thresholds!r}")
        number = isinstance(self.power, (int, float, np.number)) and not isinstance(self.power, bool)
        if not (number and 2 <= self.power < np.inf):
            raise ValueError(f"`power` must be a number, 2 or more, got {self.power!r}")
        if self.scale not in ("score", "rank"):
            raise ValueError(f"`scale` must be 'score' or 'rank', got {self.scale!r}")
        try:
            low, high = (float(edge) for edge in self.window)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not 0 <= low < high <= 1:
            raise ValueError(f"`window` must be (low, high) with 0 <= low < high <= 1, got {self.window!r}")
        object.__setattr__(self, "window", (low, high))  # a list or an array would not be hashable

    @property
    def traits(self) -> Traits:
        """With power 2 on the score scale: linear in the means, a norm, and bounded; otherwise none."""
        plain = self.scale == "score" and self.power == 2
        return Traits(linear=plain, norms=plain, bounded=plain)

    @property
    def _norm(self) -> SquareNorm:
        return SquareNorm() if self.power == 2 else PowerNorm(self.power)

    @property
    def step(self) -> float:
        """Δ, the distance between neighbouring thresholds."""
        return (self.window[1] - self.window[0]) / self.n_thresholds

    @property
    def n_nodes(self) -> int:
        """Nodes of the grid: n_thresholds + 1 in the window, the margins, and one for rounding."""
        return self.n_thresholds + 2 * MARGIN + 2

    @property
    def grid(self) -> Grid:
        """The nearest node of each score; those outside the window are held on the margins."""
        inside = self.window == (0.0, 1.0)
        return Grid(
            n_bins=self.n_nodes,
            degree=2,
            scale=1 / self.step,
            origin=self.window[0],
            first=MARGIN,
            half=0.5,
            low=0.0 if inside else 0.5,
            high=0.0 if inside else self.n_thresholds + 2 * MARGIN - 0.5,
        )

    def sums_of_moments(self, moments: list[Array]) -> Array:
        """Σ w ψ(s) over each cell (c, nodes), from the moments of the scores around their nearest node."""
        m0, m1, m2 = moments
        return _to_nodes(m0 / 8 - m1 / 2 + m2 / 2, 0.75 * m0 - m2, m0 / 8 + m1 / 2 + m2 / 2)

    def residual(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """r_j = √w_j·U_j, w_j the measure of threshold j (see `compare`); for other powers see `PowerNorm`.

        On the score scale w_j = Δ; on the rank scale w_j = m_j and u_j takes the place of U_j.
        """
        xp = namespace(a)
        below = np.tri(self.n_nodes)[self._kept]  # U_j = Σ_{i ≤ j}
        half = 0.5 * np.eye(self.n_nodes)[self._kept]
        if self.scale == "score":
            u = cumsum(a - b, -1)[..., self._kept]
            root = as_array(self.step**0.5, a) + 0 * u
            in_u, in_mass = as_array(below, a), 0 * u
        else:
            mass, u = self._ranks(a, b)
            positive = mass > 0
            root = xp.sqrt(mass)
            # ψ'² ≤ 2ψ, so where a node holds no mass its derivative holds none either
            in_mass = xp.where(positive, 0.25 / xp.where(positive, root, 1 + 0 * root), 0 * root)
            in_u = as_array(below - half, a)
        unit = self._norm.unit(u)
        h, slope = self._norm.half_power(u / unit)
        # r = unit·R(u/unit): the factor stays with R and its derivative in the mass, not in u
        through_mass = as_array(2 * half, a) * (unit * in_mass * h)[..., None]
        through_u = in_u * (root * slope)[..., None]
        return self._norm.residual(unit, root * h, through_mass + through_u, through_mass - through_u)

    def residual_jacobian(self, a: Array, b: Array, A: Array, B: Array) -> Array:
        """∂r/∂θ; on the score scale a cumulative sum instead of a matrix product."""
        if self.traits.linear:
            return self.step**0.5 * cumsum(A - B, 0)[self._kept]
        return super().residual_jacobian(a, b, A, B)

    def compare(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """d = S^(2/p), S = Σ_j w_j·abs(u_j)^p, and its derivatives, by cumulative sums instead of matrices.

        Score: w_j = Δ and u = U. Rank: w = m = ½(a + b) and u_j = ½(U_{j−1} + U_j), differentiated through m
        too.
        """
        xp = namespace(a)
        if self.scale == "score":
            u = cumsum(a - b, -1)[..., self._kept]
            if self.traits.linear:
                in_a = self._above(2 * self.step * u)
                return self.step * xp.sum(u * u, axis=-1), in_a, -in_a
            unit = self._norm.unit(u)
            u = u / unit
            d, in_S = self._norm.squared_norm(xp.sum(self.step * self._norm.power(u), axis=-1))
            in_a = self._above(unit * in_S * self.step * self._norm.power_slope(u))
            return unit[..., 0] ** 2 * d, in_a, -in_a
        mass, u = self._ranks(a, b)
        unit = self._norm.unit(u)
        power = self._norm.power(u / unit)
        d, in_S = self._norm.squared_norm(xp.sum(mass * power, axis=-1))
        v = unit * in_S * mass * self._norm.power_slope(u / unit)
        through_mass = self._padded(unit**2 * in_S * 0.5 * power)
        through_u = self._above(v) - self._padded(0.5 * v)
        return unit[..., 0] ** 2 * d, through_mass + through_u, through_mass - through_u

    def coefficients(self, D: Array) -> list[Array]:
        """With j the nearest node: ½(D_{j+1} − D_{j−1}) and D_{j−1} − 2D_j + D_{j+1}, (c, nodes) each."""
        return _differences(D)

    def jacobian_of_moments(self, moments: list[Array]) -> Array:
        """Σ w ψ_j'(s)·s' x (c, nodes, d)."""
        m0, m1 = moments
        return _to_nodes(m1 - m0 / 2, -2 * m1, m1 + m0 / 2)

    def row_norms(self, g: Array | Placed) -> tuple[Array, Array]:
        """Return Σ_j Δ·U_j² of one row, U the cumulative sum of its own ψ, and its derivative in g.

        U is 0 before the nearest node j and 1 after it, except that U_{j−1} = ½(½ − f)² and
        U_j = 1 − ½(½ + f)².
        Only squares on the score scale are norms.
        """
        if not self.traits.norms:
            return super().row_norms(g)
        j, f, slope = g if isinstance(g, Placed) else self.prepare(g)
        first, last = self._kept.start, self._kept.stop - 1
        before, at = 0.5 - f, 0.5 + f
        u_before = 0.5 * before * before * cast((j > first) & (j <= last + 1), f.dtype)
        u_at = (1 - 0.5 * at * at) * cast((j >= first) & (j <= last), f.dtype)
        after = cast(namespace(f).clip(last - j, 0, last - first + 1), f.dtype)
        norm = self.step * (after + u_before * u_before + u_at * u_at)
        return norm, -2 * self.step * slope * (u_before * before + u_at * at)

    def curvature_bound(self, g: Array, cells: Cells, D: Array, damping: float) -> Array:
        """Return damping·h + max(0, Σ_j D[cell, j]·(ψ_j)''(g)) (n,), with diag(h) at least 2JᵀJ.

        J = ∂r/∂g. At least means that the difference has no negative eigenvalue. All entries of one column
        of J have the same sign, so the sums of abs(JᵀJ) over its rows, which bound it from above, are two
        cumulative sums. The other part is the curvature of ψ itself, D held fixed. Only for squares on the
        score scale.
        """
        if not self.traits.bounded:
            return super().curvature_bound(g, cells, D, damping)
        placed = self.prepare(g)
        bent = sum(self._psi_curvature(g, placed, one, D) for one in cells.memberships())
        return damping * self._row_sums(placed, cells) + bent

    def _row_sums(self, placed: Placed, cells: Cells) -> Array:
        """Return 2·Σ_k abs(JᵀJ)_ik, over all pairs."""
        memberships = cells.memberships()
        w = cells.unite(cell_weights(cells)[0])[:, None]
        ones = 1 + 0 * placed.f[:, None]
        # the decrease of each distribution function per unit that all its scores rise, (u, nodes)
        falls = sum(self.jacobian(placed, one, ones)[:, :, 0] for one in memberships)
        density = -cumsum(cells.unite(falls), -1) / w
        first, second = as_index(cells.pairs[:, 0]), as_index(cells.pairs[:, 1])
        both = density[first] + density[second]
        met = segment_dot(cells.pair_weight, first, cells.n_unions, both)
        met = met + segment_dot(cells.pair_weight, second, cells.n_unions, both)
        table = cells.divide(-2 * self.step * self._above(met[:, self._kept]) / w)
        return sum(self.gradient(placed, one, table) for one in memberships)

    def _psi_curvature(self, g: Array, placed: Placed, cells: Cells, D: Array) -> Array:
        """Return w·max(0, Σ_j D[cell, j]·d²ψ_j(x(g))/dg²)."""
        xp = namespace(g)
        placed, key = self._place(placed, cells)
        slope = placed.slope
        first, second = _differences(D)
        in_x = self.polynomial(placed, key, [first, second])
        # dx/dg = s(1 − s)/Δ, so d²x/dg² = (1 − 2s)·dx/dg
        curvature = self.polynomial(placed, key, [second]) * slope**2 + in_x * slope * (1 - 2 * sigmoid(g))
        return cells.weight * xp.where(curvature > 0, curvature, 0 * curvature)

    @property
    def _kept(self) -> slice:
        """Which entries count: thresholds inside the window, or (rank) nodes up to one step outside it."""
        extra = 0 if self.scale == "score" else 1
        return slice(MARGIN - extra, MARGIN + self.n_thresholds + 2 * extra)

    def _ranks(self, a: Array, b: Array) -> tuple[Array, Array]:
        """m_j and u_j at the kept nodes."""
        difference = a - b
        u = cumsum(difference, -1) - 0.5 * difference
        return (0.5 * (a + b))[..., self._kept], u[..., self._kept]

    def _padded(self, kept: Array) -> Array:
        """Put zeros at the nodes that do not count."""
        zero = 0 * kept[..., :1]
        front = [zero] * self._kept.start
        return concat([*front, kept, *[zero] * (self.n_nodes - self._kept.stop)], -1)

    def _above(self, kept: Array) -> Array:
        """Σ_{j ≥ i} of the kept entries, for every node i."""
        padded = self._padded(kept)
        running = cumsum(padded, -1)
        return running[..., -1:] - running + padded


def _differences(D: Array) -> list[Array]:
    """First and second central differences along the nodes."""
    edge = 0 * D[:, :1]
    before, after = concat([edge, D[:, :-1]], 1), concat([D[:, 1:], edge], 1)
    return [0.5 * (after - before), before - 2 * D + after]


def _to_nodes(left: Array, centre: Array, right: Array) -> Array:
    """Add the contributions of each bin to the node before it, to its own node and to the node after it."""
    edge = 0 * left[:, :1]
    return centre + concat([left[:, 1:], edge], 1) + concat([edge, right[:, :-1]], 1)
