"""A diagonal that bounds the curvature of the gap: for methods that move every row on its own."""

from __future__ import annotations

from evenrisk._types import Array, Cells
from evenrisk._xp import as_index, concat, cumsum, namespace, segment_dot, sigmoid
from evenrisk.distances._grid import polynomial
from evenrisk.distances._protocol import cell_weights
from evenrisk.distances.gap import GapDistance


def gap_curvature_bound(distance: GapDistance, g: Array, cells: Cells, D: Array, damping: float) -> Array:
    """damping·h + max(0, Σ_j D[cell, j]·(ψ_j)''(g)) (n,), where diag(h) − 2JᵀJ has no negative eigenvalue.

    J = ∂r/∂g. All entries of one column of J have the same sign, so the sums of abs(JᵀJ) over its rows, which
    bound it from above, are two cumulative sums. The other part is the curvature of ψ itself, D held fixed.
    Only for squares on the score scale.
    """
    return damping * _row_sums(distance, g, cells) + _bend(distance, g, cells, D)


def _row_sums(distance: GapDistance, g: Array, cells: Cells) -> Array:
    """2·Σ_k abs(JᵀJ)_ik, over all pairs of cells."""
    w = cell_weights(cells)[0][:, None]
    # what one step up of all scores of a cell takes away from its distribution function, (c, nodes)
    density = -cumsum(distance.rows(g, cells, 1 + 0 * g[:, None])[:, :, 0], -1) / w
    first, second = as_index(cells.pairs[:, 0]), as_index(cells.pairs[:, 1])
    both = density[first] + density[second]
    met = segment_dot(cells.pair_weight, first, cells.n_cells, both)
    met = met + segment_dot(cells.pair_weight, second, cells.n_cells, both)
    table = -2 * distance.step * distance._above(met[:, distance._kept]) / w
    return distance.pull(g, cells, table)


def _bend(distance: GapDistance, g: Array, cells: Cells, D: Array) -> Array:
    """w·max(0, Σ_j D[cell, j]·d²ψ_j(x(g))/dg²)."""
    xp = namespace(g)
    bins, slope = distance._place(g, cells)
    edge = 0 * D[:, :1]
    before, after = concat([edge, D[:, :-1]], 1), concat([D[:, 1:], edge], 1)
    second = before - 2 * D + after
    in_x = polynomial(bins, [0.5 * (after - before), second])
    # dx/dg = s(1 − s)/Δ, so d²x/dg² = (1 − 2s)·dx/dg
    bend = polynomial(bins, [second]) * slope**2 + in_x * slope * (1 - 2 * sigmoid(g))
    return cells.weight * xp.where(bend > 0, bend, 0 * bend)
