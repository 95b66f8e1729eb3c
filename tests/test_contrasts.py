"""Rows in several cells, and unions of cells compared with unions: the laws, against pairs of two cells."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy import sparse

import evenrisk._xp as xp_module
from evenrisk import GapDistance, GaussianDistance, HistogramDistance
from evenrisk._xp import Cells, Sums
from evenrisk.boosting import ParityObjective
from evenrisk.boosting._rounds import Descent, sampled
from evenrisk.distances import cell_weights, evaluate, penalty, psi_sums
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Contrasts, make_cells
from evenrisk.solvers import newton
from optional import need
from worlds import world

# name → instance, step of the numerical derivative
DISTANCES = {
    "gap": (GapDistance(), 1e-5),
    "gap-rank": (GapDistance(scale="rank"), 1e-7),
    "gap-power": (GapDistance(power=8), 1e-6),
    "histogram": (HistogramDistance(), 1e-5),
    "gaussian": (GaussianDistance(), 1e-5),
}
KINDS = ("pairs", "rest", "reference", "cuts", "each", "each and crossed", "soft", "columns")
THETA = np.array([0.8, -0.5, 0.3, 1.0])
laws = pytest.mark.parametrize(("name", "parity", "kind"), list(product(DISTANCES, PARITIES, KINDS)))
each = pytest.mark.parametrize("name", DISTANCES)
kinds = pytest.mark.parametrize("kind", KINDS)


@dataclass
class People:
    """Rows of one kind: groups (n,) or (n, m), their shares, and who is compared, as masks over groups."""

    w: object
    group: np.ndarray
    n_groups: int
    contrasts: Contrasts | None
    share: np.ndarray | None
    compared: list  # (mask of the first, mask of the second, weight)

    def cells(self, rows=slice(None), convert=lambda x: x):
        w = self.w
        share = None if self.share is None else convert(self.share[rows])
        groups = convert(np.ascontiguousarray(self.group[rows]))
        return make_cells(
            PARITIES[w.parity],
            *(convert(w.y[rows]), groups, self.n_groups, convert(w.weight[rows]), self.contrasts, share),
        )

    def row_weights(self, mask):
        """Return how much each row counts in a union (n,)."""
        groups = self.group if self.group.ndim == 2 else self.group[:, None]
        share = np.ones(groups.shape) if self.share is None else self.share
        return self.w.weight * (share * np.where(groups >= 0, mask[groups], 0)).sum(axis=1)

    def two_cells(self):
        """Yield (rows, cells of two, weight) for every comparison in every stratum: the witness."""
        w = self.w
        strata = PARITIES[w.parity].stratum(w.y if PARITIES[w.parity].needs_label else w.group)
        for stratum in range(len(PARITIES[w.parity].strata)):
            for one, other, weight in self.compared:
                parts = [
                    (np.flatnonzero((strata == stratum) & (self.row_weights(m) > 0)), m) for m in (one, other)
                ]
                rows = np.concatenate([part for part, _ in parts])
                shares = np.concatenate([self.row_weights(m)[part] for part, m in parts])
                code = np.repeat([0, 1], [len(part) for part, _ in parts])
                yield rows, Cells(code, shares, 2, np.array([[0, 1]]), np.ones(1)), weight


def people(kind, parity="equalized_odds", n=240, seed=0):
    """Make rows of a kind; three groups of unequal sizes, weights, ties, some of unknown group."""
    w = world(parity, 3, n=n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    group, k, share, contrasts = w.group.copy(), 3, None, None
    one = np.eye(3)
    if kind == "pairs":
        compared = [(one[a], one[b], 1 / 3) for a, b in ((0, 1), (0, 2), (1, 2))]
    elif kind == "rest":
        contrasts = Contrasts.rest(3)
        compared = [(one[a], 1 - one[a], 1 / 3) for a in range(3)]
        group[::11] = -1
    elif kind == "reference":
        contrasts = Contrasts.reference(3, 1)
        compared = [(one[a], one[1], 1 / 2) for a in (0, 2)]
    elif kind == "cuts":
        k = 6
        age = w.group + rng.standard_normal(n)
        group = np.searchsorted(np.quantile(age, np.arange(1, k) / k), age)
        contrasts = Contrasts.cuts(k)
        order = np.arange(k)
        compared = [((order <= cut) * 1.0, (order > cut) * 1.0, 1 / (k - 1)) for cut in range(k - 1)]
    elif kind in ("each", "each and crossed", "columns"):
        other = (rng.random(n) < 0.3 + 0.2 * w.group).astype(int)
        of_first = [(one[a], one[b], 1 / 3) for a, b in ((0, 1), (0, 2), (1, 2))]
        if kind == "columns":  # the same as "each", a row in two cells
            group, k = np.stack([w.group, 3 + other], axis=1), 5
            group[::13, 1] = -1
            first, second = (np.arange(5) < 3) * 1, (np.arange(5) >= 3) * 1
            parts = [Contrasts.every_pair(3).of_classes(np.where(first, np.arange(5), -1))]
            parts += [Contrasts.every_pair(2).of_classes(np.where(second, np.arange(5) - 3, -1))]
            pad = np.zeros(2)
            compared = [(np.append(m, pad), np.append(o, pad), x / 2) for m, o, x in of_first]
            compared += [(np.eye(5)[3], np.eye(5)[4], 1 / 2)]
        else:
            group, k = 2 * w.group + other, 6
            parts = [Contrasts.every_pair(3).of_classes(np.arange(6) // 2)]
            parts += [Contrasts.every_pair(2).of_classes(np.arange(6) % 2)]
            parts += [Contrasts.every_pair(6)] if kind == "each and crossed" else []
            m = len(parts)
            compared = [(np.repeat(a, 2), np.repeat(b, 2), x / m) for a, b, x in of_first]
            compared += [(np.tile([1.0, 0.0], 3), np.tile([0.0, 1.0], 3), 1 / m)]
            crossed = [(a, b) for a in range(6) for b in range(a + 1, 6)] if m == 3 else []
            compared += [(np.eye(6)[a], np.eye(6)[b], 1 / 15 / 3) for a, b in crossed]
        contrasts = Contrasts.together(parts)
    else:
        share = rng.dirichlet([0.6, 0.5, 0.4], n)
        share = 0.5 * share + 0.5 * one[w.group]
        group = np.tile(np.arange(3), (n, 1))
        compared = [(one[a], one[b], 1 / 3) for a, b in ((0, 1), (0, 2), (1, 2))]
    return People(w, group, k, contrasts, share, compared)


def value(distance, g, cells):
    return float(evaluate(distance, g, cells)[0])


@laws
def test_it_is_the_weighted_sum_of_comparisons_of_two(name, parity, kind):
    distance = DISTANCES[name][0]
    p = people(kind, parity)
    expected, gradient = 0.0, np.zeros(len(p.w.g))
    for rows, cells, weight in p.two_cells():
        d, in_g = evaluate(distance, p.w.g[rows], cells)
        expected += weight * float(d)
        np.add.at(gradient, rows, weight * in_g)
    found, found_gradient = evaluate(distance, p.w.g, p.cells())
    assert found == pytest.approx(expected, rel=1e-9)
    assert found_gradient == pytest.approx(gradient, rel=1e-7, abs=1e-9 * np.abs(gradient).max())


@laws
def test_value_and_gradient_are_of_one_function(name, parity, kind):
    distance, step = DISTANCES[name]
    p = people(kind, parity)
    cells, g = p.cells(), p.w.g
    gradient = evaluate(distance, g, cells)[1]
    for direction in np.random.default_rng(2).standard_normal((2, len(g))):
        up, down = (value(distance, g + sign * step * direction, cells) for sign in (1, -1))
        tolerance = 1e-6 * np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert abs(gradient @ direction - (up - down) / (2 * step)) < tolerance


@laws
def test_torch_and_its_autograd_agree(name, parity, kind):
    torch = need("torch")
    distance = DISTANCES[name][0]
    p = people(kind, parity)
    g = torch.tensor(p.w.g, requires_grad=True)
    cells = p.cells(convert=torch.from_numpy)
    shifted = g - distance.shift(g, cells)
    d, _ = penalty(distance, Sums(psi_sums(distance, shifted, cells), *cell_weights(cells)), cells)
    d.backward()
    expected, gradient = evaluate(distance, p.w.g, p.cells())
    assert d.item() == pytest.approx(expected, rel=1e-12)
    assert g.grad.numpy() == pytest.approx(gradient, rel=1e-8, abs=1e-10 * np.abs(gradient).max())
    with torch.no_grad():
        from_tensors = evaluate(distance, g.detach(), cells)[1]
    assert from_tensors.numpy() == pytest.approx(gradient, rel=1e-8, abs=1e-12 * np.abs(gradient).max())


@laws
def test_weights_equal_repetition(name, parity, kind):
    distance = DISTANCES[name][0]
    p = people(kind, parity)
    times = p.w.weight.astype(int)
    again = {key: np.repeat(getattr(p.w, key), times, axis=0) for key in ("g", "y", "group", "X")}
    repeated = People(
        type(p.w)(**again, n_groups=3, weight=np.ones(times.sum()), parity=parity),
        np.repeat(p.group, times, axis=0),
        *(p.n_groups, p.contrasts, None if p.share is None else np.repeat(p.share, times, axis=0), []),
    )
    d, gradient = evaluate(distance, p.w.g, p.cells())
    d_repeated, in_repeated = evaluate(distance, repeated.w.g, repeated.cells())
    assert d == pytest.approx(d_repeated, rel=1e-10)
    by_row = np.add.reduceat(in_repeated, np.r_[0, np.cumsum(times)[:-1]])
    assert gradient == pytest.approx(by_row, rel=1e-8, abs=1e-10 * np.abs(gradient).max())


@each
@kinds
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_float32_stays_float32_and_agrees_with_float64(name, kind, library):
    distance = DISTANCES[name][0]
    p = people(kind, n=3000)

    def single(x):
        x = x.astype(np.float32) if x.dtype.kind == "f" else x
        return x if library == "numpy" else need("torch").from_numpy(x)

    d, gradient = evaluate(distance, single(p.w.g), p.cells(convert=single))
    assert "float32" in str(d.dtype)
    assert "float32" in str(gradient.dtype)
    expected, expected_gradient = evaluate(distance, p.w.g.astype(np.float32).astype(float), p.cells())
    assert float(d) == pytest.approx(expected, rel=1e-4)
    assert np.abs(np.asarray(gradient) - expected_gradient).max() < 2e-3 * np.abs(expected_gradient).max()


@each
@kinds
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_the_objective_and_its_curvature_are_those_of_comparisons_of_two(name, kind, make, monkeypatch):
    distance = DISTANCES[name][0]
    p = people(kind)
    w = p.w
    scores = ScoreObjective(LOGISTIC, w.y, w.weight, Penalty(distance, p.cells()), 0.7)
    F = LinearObjective(scores, make(w.X), alpha=0.3, fit_intercept=False)
    monkeypatch.setattr(xp_module, "BLOCK_ROWS", 50)
    expected, gram = 0.0, np.zeros((4, 4))
    for rows, cells, weight in p.two_cells():
        two = LinearObjective(
            ScoreObjective(LOGISTIC, w.y[rows], cells.weight, Penalty(distance, cells), 1.0),
            *(w.X[rows],),
            alpha=0.0,
            fit_intercept=False,
        )
        expected += weight * float(evaluate(distance, w.X[rows] @ THETA, cells)[0])
        gram += weight * two.curvature_parts(THETA)[1]
    assert F.scores.penalty.value(w.X @ THETA) == pytest.approx(expected, rel=1e-9)
    loss = F.with_eta(0.0)(THETA)[0]
    assert F(THETA)[0] == pytest.approx(loss + 0.7 * expected, rel=1e-9)
    assert F.curvature_parts(THETA)[1] == pytest.approx(gram, rel=1e-7, abs=1e-9 * np.abs(gram).max())
    step = 1e-6
    slopes = [(F(THETA + step * e)[0] - F(THETA - step * e)[0]) / (2 * step) for e in np.eye(4)]
    assert F(THETA)[1] == pytest.approx(slopes, rel=2e-4, abs=2e-5)


@kinds
def test_the_curvature_of_parts_is_that_of_their_one_hot_form(kind):
    p = people(kind)
    part = np.random.default_rng(0).integers(0, 5, len(p.w.g))
    both = Penalty(GapDistance(), p.cells())
    expected = both.curvature(both.sums(p.w.g), lambda block: np.eye(5)[part[block]])
    assert both.curvature_of_parts(p.w.g, part, 5) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@kinds
def test_the_bound_on_the_curvature_holds(kind):
    distance = GapDistance()
    p = people(kind, n=120)
    cells, g = p.cells(), p.w.g
    _, D = penalty(distance, Sums(psi_sums(distance, g, cells), *cell_weights(cells)), cells)
    bound = distance.curvature_bound(g, cells, D, 1.0)
    step = 1e-5
    hessian = np.stack(
        [
            (evaluate(distance, g + step * e, cells)[1] - evaluate(distance, g - step * e, cells)[1])
            / (2 * step)
            for e in np.eye(len(g))
        ]
    )
    least = np.linalg.eigvalsh(np.diag(bound) - 0.5 * (hessian + hessian.T)).min()
    assert least > -1e-6 * bound.max()


@kinds
def test_newton_reaches_the_minimum_of_lbfgs(kind):
    from scipy.optimize import minimize

    p = people(kind)
    scores = ScoreObjective(LOGISTIC, p.w.y, p.w.weight, Penalty(GapDistance(), p.cells()), 2.0)
    F = LinearObjective(scores, p.w.X, alpha=0.1, fit_intercept=True)
    ours = newton(F, np.zeros(5) + 0.1, curvature=F.curvature, tol=1e-8)
    theirs = minimize(F, ours.theta, jac=True, method="BFGS", options={"gtol": 1e-9})
    assert ours.converged
    assert ours.value <= theirs.fun + 1e-9


@kinds
def test_a_booster_never_rises(kind):
    p = people(kind, n=600)
    scores = ScoreObjective(LOGISTIC, p.w.y, p.w.weight, Penalty(GapDistance(), p.cells()), 20.0)
    descent = Descent(scores, np.zeros(len(p.w.g)), 0.3, 1.0)
    for number in range(12):
        column = p.w.X[:, number % 4]
        leaf = np.searchsorted(np.quantile(column, [0.2, 0.5, 0.7]), column)
        descent.move(leaf, descent.solve(leaf, 4))
    assert all(later <= earlier for earlier, later in zip(descent.curve, descent.curve[1:], strict=False))
    assert descent.curve[-1] < descent.curve[0] - 0.01


def test_one_cut_is_two_groups_and_two_groups_have_one_rest():
    w = world("equalized_odds", 2)
    pairs = w.cells()
    for contrasts in (Contrasts.cuts(2), Contrasts.rest(2), Contrasts.reference(2, 0)):
        cells = make_cells(PARITIES[w.parity], w.y, w.group, 2, w.weight, contrasts)
        for distance, _ in DISTANCES.values():
            d, gradient = evaluate(distance, w.g, pairs)
            other, in_other = evaluate(distance, w.g, cells)
            assert other == pytest.approx(d, rel=1e-12)
            assert in_other == pytest.approx(gradient, rel=1e-9, abs=1e-12 * np.abs(gradient).max())


def test_shares_of_0_and_1_are_hard_groups():
    w = world("equalized_odds", 3)
    soft = make_cells(
        PARITIES[w.parity], w.y, np.tile(np.arange(3), (len(w.g), 1)), 3, w.weight, None, np.eye(3)[w.group]
    )
    for distance, _ in DISTANCES.values():
        d, gradient = evaluate(distance, w.g, w.cells())
        other, in_other = evaluate(distance, w.g, soft)
        assert other == pytest.approx(d, rel=1e-12)
        assert in_other == pytest.approx(gradient, rel=1e-9, abs=1e-12 * np.abs(gradient).max())


def test_soft_sums_are_the_mean_over_groups_drawn():
    p = people("soft", "demographic_parity", n=60)
    distance, rng = GapDistance(n_thresholds=20), np.random.default_rng(5)
    expected = psi_sums(distance, p.w.g, p.cells())
    drawn = []
    for _ in range(4000):
        group = (rng.random((60, 1)) > np.cumsum(p.share, axis=1)[:, :2]).sum(axis=1)
        cells = make_cells(PARITIES["demographic_parity"], None, group, 3, p.w.weight)
        drawn.append(distance.psi_sums(p.w.g, cells))
    error = np.std(drawn, axis=0) / len(drawn) ** 0.5
    assert (np.abs(np.mean(drawn, axis=0) - expected) <= 4.5 * error + 1e-9).all()


def test_the_rest_is_a_comparison_with_relabelled_groups():
    p = people("rest")
    for distance, _ in DISTANCES.values():
        parts = []
        for a in range(3):
            two = np.where(p.group < 0, -1, (p.group == a).astype(int))
            cells = make_cells(PARITIES[p.w.parity], p.w.y, two, 2, p.w.weight)
            parts.append(value(distance, p.w.g, cells))
        assert value(distance, p.w.g, p.cells()) == pytest.approx(np.mean(parts), rel=1e-9)


def test_weights_of_comparisons_add_up_to_1_in_each_stratum():
    for kind in KINDS:
        cells = people(kind).cells()
        assert cells.pair_weight.sum() == pytest.approx(2)
        assert cells.n_unions == (len(cells.unions) if cells.unions is not None else cells.n_cells)


@kinds
def test_a_part_of_the_rows_stands_for_all_of_them(kind, monkeypatch):
    monkeypatch.setattr("evenrisk.boosting._rounds.CURVATURE_ROWS", 800)
    monkeypatch.setattr("evenrisk.boosting._rounds.LEAST_ROWS_OF_CELL", 20)
    p = people(kind, n=3000)
    whole = Penalty(GapDistance(), p.cells())
    index, fewer = sampled(whole)
    assert len(index) < 1000
    if p.group.ndim == 1:
        assert fewer.cell_weights[0] == pytest.approx(whole.cell_weights[0], rel=1e-9)
    assert fewer.value(p.w.g[index]) == pytest.approx(whole.value(p.w.g), rel=0.5)
    monkeypatch.setattr("evenrisk.boosting._rounds.CURVATURE_ROWS", 2)  # not a row of every cell
    index, fewer = sampled(whole)
    assert (fewer.cells.unite(fewer.cell_weights[0]) > 0).all()


def test_cells_move_with_shares_and_unions():
    torch = need("torch")
    for kind in ("soft", "cuts"):
        cells = people(kind).cells()
        moved = cells.moved(
            lambda x: torch.from_numpy(np.array(x)), lambda x: torch.from_numpy(np.array(x)).float()
        )
        assert moved.share is None or moved.share.dtype == torch.float32
        assert moved.unions is None or moved.unions.shape == cells.unions.shape
        g = torch.from_numpy(people(kind).w.g).float()
        assert float(evaluate(GapDistance(), g, moved)[0]) == pytest.approx(
            value(GapDistance(), people(kind).w.g, cells), rel=1e-4
        )


def test_the_bare_objective_for_boosters_is_unchanged():
    w = world("equalized_odds", 3)
    bare = ParityObjective(w.group, parity="equalized_odds", eta=3.0)
    gradient, curvature = bare(w.y, w.g, w.weight)
    expected = w.weight * (1 / (1 + np.exp(-w.g)) - w.y)
    expected = expected + 3.0 * w.weight.sum() * evaluate(GapDistance(), w.g, w.cells())[1]
    assert gradient == pytest.approx(expected, rel=1e-9)
    assert (curvature > 0).all()
