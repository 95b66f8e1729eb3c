"""The loops over rows that numba compiles: both rounds of an objective in the scores, each in one pass.

What they compute is defined in the losses and the distances, whose NumPy form they are tested against. Here
it is written so that a processor can do several rows at once: a block of rows at a time, in plain steps over
arrays that stay in cache. The exponential and the logarithm are written out for the same reason. A library's
would be called row by row, at ten times the cost.

Conventions
-----------
g (n,) raw scores; y (n,) in {0, 1}; weight (n,) of a row in the loss and cell_weight (n,) in the penalty,
either of them (1,) where all are the same;
code (m, n) the cells of each row, −1 = none, and share (m, n) of its weight in each, or (0, 0) where that is
all of it. kind and mu say which loss, and a (n,) is used by the smoothed hinge alone. grid: how scores are
placed, (raw, n_bins, origin, scale, first, half, low, high) of a distance's `Grid`. The first of c cells is
of rows in no cell. table (c·b, q + 1) the sums of w·f^0 … w·f^q in each bin of each cell; coefficient
(c·b, q) those of the polynomial of each bin. All is computed in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

NO_LOSS, LOGISTIC, HINGE, SQUARED_HINGE, SMOOTHED_HINGE = -1, 0, 1, 2, 3
BLOCK = 1024  # rows: a few arrays of this length stay in the cache next to a core

LOG2_E = 1.4426950408889634
LN_2_HIGH, LN_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # k·LN_2_HIGH is exact
LEAST_EXPONENT = -708.0  # of e in normal numbers

# sums may be taken in any order: otherwise a compiler must add one row after the other
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
step: Any = njit(**OPTIONS)
in_order: Any = njit(nogil=True, error_model="numpy", fastmath={"contract"})  # where the order is the point


def kernel(function):
    """Compile a function when it is first called, and keep the result on disk if that is possible."""
    try:
        return njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # neither the folder of this file nor the user's own may be written to
        return njit(**OPTIONS)(function)


@in_order
def _exp(x):
    """e^x for x ≤ 0, as 2^k·e^r with abs(r) ≤ ln(2)/2."""
    x = x if x > LEAST_EXPONENT else LEAST_EXPONENT
    k = np.floor(x * LOG2_E + 0.5)
    r = (x - k * LN_2_HIGH) - k * LN_2_LOW
    p = 1 / 6227020800  # the series of e^r, from r^13/13! down
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 1 / 2
    p = p * r + 1
    p = p * r + 1
    return p * np.int64((np.int64(k) + 1023) << 52).view(np.float64)


@in_order
def _log1p(e):
    """log(1 + e) for e in [0, 1], as 2·artanh(z) with z = e/(2 + e) ≤ 1/3."""
    z = e / (2 + e)
    q = z * z
    p = 1 / 31  # the series of artanh(z)/z, from q^15/31 down
    p = p * q + 1 / 29
    p = p * q + 1 / 27
    p = p * q + 1 / 25
    p = p * q + 1 / 23
    p = p * q + 1 / 21
    p = p * q + 1 / 19
    p = p * q + 1 / 17
    p = p * q + 1 / 15
    p = p * q + 1 / 13
    p = p * q + 1 / 11
    p = p * q + 1 / 9
    p = p * q + 1 / 7
    p = p * q + 1 / 5
    p = p * q + 1 / 3
    p = p * q + 1
    return 2 * z * p


@step
def _risks(g, s):
    """s = sigmoid(g)."""
    for i in range(len(g)):
        e = _exp(-abs(g[i]))
        s[i] = (1.0 if g[i] > 0 else e) / (1 + e)


@step
def _losses(g, y, kind, mu, a, out):
    """ℓ(y, g)."""
    if kind == LOGISTIC:
        for i in range(len(g)):
            out[i] = _log1p(_exp(-abs(g[i])))
        for i in range(len(g)):
            out[i] += (g[i] if g[i] > 0 else 0.0) - y[i] * g[i]
    elif kind == SMOOTHED_HINGE:
        for i in range(len(g)):
            slack = 1 - (2 * y[i] - 1) * g[i]
            u = min(max(a[i] + slack / mu, 0.0), 1.0)
            out[i] = u * slack - 0.5 * mu * (u - a[i]) ** 2
    else:
        for i in range(len(g)):
            slack = 1 - (2 * y[i] - 1) * g[i]
            slack = slack if slack > 0 else 0.0
            out[i] = slack if kind == HINGE else slack * slack


@step
def _slopes(g, s, y, kind, mu, a, out):
    """∂ℓ/∂g."""
    if kind == LOGISTIC:
        for i in range(len(g)):
            out[i] = s[i] - y[i]
    elif kind == SMOOTHED_HINGE:
        for i in range(len(g)):
            sign = 2 * y[i] - 1
            out[i] = -sign * min(max(a[i] + (1 - sign * g[i]) / mu, 0.0), 1.0)
    else:
        for i in range(len(g)):
            sign = 2 * y[i] - 1
            slack = 1 - sign * g[i]
            slope = -sign if kind == HINGE else -2 * sign * slack
            out[i] = slope if slack > 0 else 0.0


@step
def _bends(g, s, y, kind, mu, a, out):
    """∂²ℓ/∂g²."""
    if kind == LOGISTIC:
        for i in range(len(g)):
            out[i] = s[i] * (1 - s[i])
    elif kind == SMOOTHED_HINGE:
        for i in range(len(g)):
            u = a[i] + (1 - (2 * y[i] - 1) * g[i]) / mu
            out[i] = 1 / mu if 0 < u < 1 else 0.0
    else:
        for i in range(len(g)):
            out[i] = 2.0 if kind == SQUARED_HINGE and (2 * y[i] - 1) * g[i] < 1 else 0.0


@step
def _place(g, s, grid, j, f, slope):
    """The bin j of each score, its place f there and df/dg."""
    raw, _, origin, scale, first, half, low, high = grid
    if raw:
        for i in range(len(g)):
            j[i] = 0
            f[i] = g[i] - origin
            slope[i] = 1.0
        return
    for i in range(len(g)):
        f[i] = (s[i] - origin) * scale + first
        slope[i] = s[i] * (1 - s[i]) * scale
    if high > low:
        for i in range(len(g)):
            if not low < f[i] < high:
                f[i] = min(max(f[i], low), high)
                slope[i] = 0.0
    for i in range(len(g)):
        j[i] = np.int32(f[i] + half)
    for i in range(len(g)):
        f[i] -= j[i]


@step
def _keys(code, j, grid, key):
    """Which bin of which cell each row is in; the first bins are of rows in no cell."""
    n_bins = grid[1]
    for i in range(len(code)):
        key[i] = np.uint64((code[i] + 1) * n_bins + j[i])


@step
def _weights(weight, start, out):
    """The weights of the rows from `start` on; a single one is that of all rows."""
    if len(weight) == 1:
        for i in range(len(out)):
            out[i] = weight[0]
    else:
        for i in range(len(out)):
            out[i] = weight[start + i]


@step
def _weights_in_cell(cell_weight, share, k, start, out):
    """The weight of each row in the k-th of its cells."""
    _weights(cell_weight, start, out)
    if len(share):
        for i in range(len(out)):
            out[i] *= share[k, start + i]


@step
def _add_moments(key, f, w, table):
    """Σ w·f^q to `table`."""
    if table.shape[1] == 3:
        for i in range(len(key)):
            wf = w[i] * f[i]
            table[key[i], 0] += w[i]
            table[key[i], 1] += wf
            table[key[i], 2] += wf * f[i]
    else:
        for i in range(len(key)):
            wf = w[i] * f[i]
            wff = wf * f[i]
            table[key[i], 0] += w[i]
            table[key[i], 1] += wf
            table[key[i], 2] += wff
            table[key[i], 3] += wff * f[i]


@step
def _add_polynomials(key, f, w, coefficient, out):
    """w·Σ_q coefficient[cell, bin, q]·f^q to `out`."""
    if coefficient.shape[1] == 2:
        for i in range(len(key)):
            out[i] += w[i] * (coefficient[key[i], 0] + f[i] * coefficient[key[i], 1])
    else:
        for i in range(len(key)):
            rest = coefficient[key[i], 1] + f[i] * coefficient[key[i], 2]
            out[i] += w[i] * (coefficient[key[i], 0] + f[i] * rest)


@kernel
def first_round(begin, stop, g, y, weight, kind, mu, a, cell_weight, code, share, grid, table):
    """Return Σ weight·ℓ of the rows from `begin` to `stop`, and add their moments to `table`.

    An empty table is no penalty.
    """
    s, f, w, rest = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    j, key = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.uint64)
    total = 0.0
    for start in range(begin, stop, BLOCK):
        end = min(start + BLOCK, stop)
        n = end - start
        here = g[start:end]
        if kind != NO_LOSS:
            _losses(here, y[start:end], kind, mu, a[start:end], rest[:n])
            _weights(weight, start, w[:n])
            for i in range(n):
                total += w[i] * rest[i]
        if len(table) == 0:
            continue
        if not grid[0]:
            _risks(here, s[:n])
        _place(here, s[:n], grid, j[:n], f[:n], rest[:n])
        for k in range(len(code)):
            _weights_in_cell(cell_weight, share, k, start, w[:n])
            _keys(code[k, start:end], j[:n], grid, key[:n])
            _add_moments(key[:n], f[:n], w[:n], table)
    return total


@kernel
def second_round(
    begin, stop, g, y, weight, kind, mu, a, cell_weight, code, share, grid, coefficient, total, out, bend
):
    """Write weight·∂ℓ/∂g/total plus cell_weight·Σ_q coefficient[cell, bin, q]·f^q·df/dg to `out`,
    whose first entry is that of row `begin`. weight·∂²ℓ/∂g² is written to `bend`, unless that is empty.
    """
    s, f, w, slope = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    rest, pull = np.empty(BLOCK), np.empty(BLOCK)
    j, key = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.uint64)
    for start in range(begin, stop, BLOCK):
        end = min(start + BLOCK, stop)
        n = end - start
        here = g[start:end]
        if kind == LOGISTIC or not grid[0]:
            _risks(here, s[:n])
        _weights(weight, start, w[:n])
        if len(bend):
            _bends(here, s[:n], y[start:end], kind, mu, a[start:end], rest[:n])
            for i in range(n):
                bend[start + i] = rest[i] * w[i]
        _slopes(here, s[:n], y[start:end], kind, mu, a[start:end], rest[:n])
        for i in range(n):
            rest[i] *= w[i] / total
        if len(coefficient):
            _place(here, s[:n], grid, j[:n], f[:n], slope[:n])
            pull[:n] = 0.0
            for k in range(len(code)):
                _weights_in_cell(cell_weight, share, k, start, w[:n])
                _keys(code[k, start:end], j[:n], grid, key[:n])
                _add_polynomials(key[:n], f[:n], w[:n], coefficient, pull[:n])
            for i in range(n):
                rest[i] += pull[i] * slope[i]
        for i in range(n):
            out[start - begin + i] = rest[i]


@kernel
def scores_by_row(begin, stop, X, w, b, out):
    """Write Xw + b of the rows from `begin` to `stop` to `out`; X (n, d) in the order of its rows."""
    for i in range(begin, stop):
        total = b
        for j in range(len(w)):
            total += X[i, j] * w[j]
        out[i - begin] = total


@kernel
def scores_by_column(begin, stop, X, w, b, out):
    """The same for an X in the order of its columns, four columns at a time."""
    total = np.empty(BLOCK)
    d = len(w) - len(w) % 4
    for start in range(begin, stop, BLOCK):
        end = min(start + BLOCK, stop)
        n = end - start
        total[:n] = b
        for j in range(0, d, 4):
            x0, x1, x2, x3 = X[start:end, j], X[start:end, j + 1], X[start:end, j + 2], X[start:end, j + 3]
            for i in range(n):
                total[i] += x0[i] * w[j] + x1[i] * w[j + 1] + x2[i] * w[j + 2] + x3[i] * w[j + 3]
        for j in range(d, len(w)):
            x = X[start:end, j]
            for i in range(n):
                total[i] += x[i] * w[j]
        for i in range(n):
            out[start - begin + i] = total[i]


@kernel
def scores_of_sparse(begin, stop, data, indices, ends, w, b, out):
    """The same for an X in CSR."""
    for i in range(begin, stop):
        total = b
        for k in range(ends[i], ends[i + 1]):
            total += data[k] * w[indices[k]]
        out[i - begin] = total


@kernel
def add_by_row(begin, X, slope, out):
    """Add Xᵀ·slope of as many rows as there are slopes, from `begin` on, to `out`."""
    for i in range(len(slope)):
        for j in range(len(out)):
            out[j] += slope[i] * X[begin + i, j]


@kernel
def add_by_column(begin, X, slope, out):
    """The same for an X in the order of its columns, two columns at a time."""
    d = len(out) - len(out) % 2
    for start in range(0, len(slope), BLOCK):
        end = min(start + BLOCK, len(slope))
        here = slope[start:end]
        for j in range(0, d, 2):
            x0, x1 = X[begin + start : begin + end, j], X[begin + start : begin + end, j + 1]
            t0, t1 = 0.0, 0.0
            for i in range(len(here)):
                t0 += here[i] * x0[i]
                t1 += here[i] * x1[i]
            out[j] += t0
            out[j + 1] += t1
        for j in range(d, len(out)):
            x = X[begin + start : begin + end, j]
            for i in range(len(here)):
                out[j] += here[i] * x[i]


@kernel
def add_of_sparse(begin, data, indices, ends, slope, out):
    """The same for an X in CSR."""
    for i in range(len(slope)):
        for k in range(ends[begin + i], ends[begin + i + 1]):
            out[indices[k]] += slope[i] * data[k]


@kernel
def add_row_moments(begin, stop, g, cell_weight, code, share, grid, X, table):
    """Add Σ w·df/dg·f^q·x of the rows from `begin` to `stop`, whose x are X, to `table` (c·b, q, m)."""
    s, f, w, slope = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    j, key = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.uint64)
    for start in range(begin, stop, BLOCK):
        end = min(start + BLOCK, stop)
        n = end - start
        here = g[start:end]
        if not grid[0]:
            _risks(here, s[:n])
        _place(here, s[:n], grid, j[:n], f[:n], slope[:n])
        for k in range(len(code)):
            _weights_in_cell(cell_weight, share, k, start, w[:n])
            _keys(code[k, start:end], j[:n], grid, key[:n])
            for i in range(n):
                x = X[start - begin + i]
                value = w[i] * slope[i]
                for q in range(table.shape[1]):
                    into = table[key[i], q]
                    for column in range(len(x)):
                        into[column] += value * x[column]
                    value *= f[i]


# ---------------------------------------------------------------- trees


@kernel
def add_part_moments(g, cell_weight, code, share, grid, part, n_parts, table):
    """Add Σ w·df/dg·f^q of every bin to `table`, each cell split into the parts of its rows (n,)."""
    s, f, w, slope = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    j, key = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.uint64)
    n_bins = grid[1]
    for start in range(0, len(g), BLOCK):
        end = min(start + BLOCK, len(g))
        n = end - start
        here = g[start:end]
        if not grid[0]:
            _risks(here, s[:n])
        _place(here, s[:n], grid, j[:n], f[:n], slope[:n])
        for k in range(len(code)):
            _weights_in_cell(cell_weight, share, k, start, w[:n])
            for i in range(n):
                cell = code[k, start + i]
                fine = cell * n_parts + part[start + i] if cell >= 0 else -1
                key[i] = np.uint64((fine + 1) * n_bins + j[i])
            for i in range(n):
                value = w[i] * slope[i]
                for q in range(table.shape[1]):
                    table[key[i], q] += value
                    value *= f[i]


@kernel
def find_leaves(begin, stop, scores, before, order, between, table, first, width, leaf):
    """Write the leaf of each row: that whose value is nearest to how its score has moved.

    `order` sorts the values, and `between` are the points halfway between neighbours. `table` has the answer
    for each of equal buckets, or −1 where that is not one value. The scores are written to `before`.
    """
    last = len(table) - 1
    for i in range(begin, stop):
        x = scores[i] - before[i]
        before[i] = scores[i]
        found = table[min(max(np.int64((x - first) / width), 0), last)]
        if found < 0:
            found = order[np.searchsorted(between, x)]
        leaf[i] = found


@kernel
def moved(begin, stop, g, leaf, values, out):
    """Write the scores moved by the values of their leaves."""
    for i in range(begin, stop):
        out[i - begin] = g[i] + values[leaf[i]]


@kernel
def add_by_leaf(begin, stop, leaf, slope, bend, table):
    """Add the sums of slopes and bends of every leaf to `table` (m, 2)."""
    for i in range(begin, stop):
        table[leaf[i], 0] += slope[i]
        table[leaf[i], 1] += bend[i]


# ---------------------------------------------------------------- scores in order


@kernel
def find_buckets(begin, stop, score, code, edges, bucket, count):
    """Write the bucket of each row, between which of `edges` its score is, and count the rows of each.

    Rows in no cell are left out; their bucket is that behind the last.
    """
    for i in range(begin, stop):
        if code[i] < 0:
            bucket[i] = len(count)
            continue
        low, high = 0, len(edges)
        while low < high:
            middle = (low + high) // 2
            if edges[middle] < score[i]:
                low = middle + 1
            else:
                high = middle
        bucket[i] = low
        count[low] += 1


@kernel
def fill_buckets(begin, stop, score, code, weight, bucket, place, score_out, code_out, weight_out):
    """Copy rows to their buckets; `place` is where the next row of each goes."""
    for i in range(begin, stop):
        b = bucket[i]
        if b < len(place):
            at = place[b]
            place[b] = at + 1
            score_out[at], code_out[at], weight_out[at] = score[i], code[i], weight[i]


@kernel
def count_runs(score, order):
    """Return how many distinct scores there are."""
    m = min(len(order), 1)
    for i in range(1, len(order)):
        if score[order[i]] != score[order[i - 1]]:
            m += 1
    return m


@kernel
def add_runs(score, code, weight, order, threshold, mass):
    """Write the distinct scores, ascending, to `threshold` (m,), and each cell's weight there (c, m)."""
    k = -1
    for i in range(len(order)):
        at = order[i]
        if k < 0 or score[at] != threshold[k]:
            k += 1
            threshold[k] = score[at]
        mass[code[at], k] += weight[at]


@kernel
def shares_above(mass, before, total, above):
    """Write the share of each cell's weight above; mass (c, m), and `before` (c,) of all that is below."""
    for cell in range(len(mass)):
        below = before[cell]
        for k in range(mass.shape[1]):
            below += mass[cell, k]
            above[cell, k] = (total[cell] - below) / total[cell]
