"""Laws over one list of all distances × parities × {2, 3 groups} × {weights or not}, and their witnesses."""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import energy_distance
from sklearn.base import clone

from evenrisk import FairLogisticRegression, GapDistance, GaussianDistance, HistogramDistance
from evenrisk._xp import Cells, Sums
from evenrisk.distances import Distance, cell_weights, evaluate, penalty
from evenrisk.parity import PARITIES, make_cells
from optional import need
from worlds import world

# name → instance, step of the numerical derivative (the rank form's second derivative jumps at nodes)
DISTANCES = {
    "gap": (GapDistance(), 1e-5),
    "gap-window": (GapDistance(window=(0.2, 0.6)), 1e-6),
    "gap-coarse": (GapDistance(n_thresholds=30), 1e-5),
    "gap-rank": (GapDistance(scale="rank"), 1e-7),
    "gap-rank-window": (GapDistance(scale="rank", window=(0.3, 0.7), n_thresholds=100), 1e-7),
    "gap-power": (GapDistance(power=8), 1e-6),
    "gap-rank-power": (GapDistance(scale="rank", power=5.5), 1e-7),
    "histogram": (HistogramDistance(), 1e-5),
    "histogram-fine": (HistogramDistance(n_bins=50, bandwidth=0.03, floor=1e-4), 1e-5),
    "gaussian": (GaussianDistance(), 1e-5),
}
CASES = list(product(DISTANCES, PARITIES, (2, 3), (False, True)))
laws = pytest.mark.parametrize(("name", "parity", "n_groups", "weighted"), CASES)
each = pytest.mark.parametrize("name", DISTANCES)


def value(distance, g, cells):
    return float(evaluate(distance, g, cells)[0])


@laws
def test_zero_for_equal_cells(name, parity, n_groups, weighted):
    distance = DISTANCES[name][0]
    w = world(parity, n_groups, weighted, n=60)
    k = w.n_groups
    # the same scores and weights in every group, in different order
    order = np.random.default_rng(1).permutation(60 * k)
    copies = {"g": np.tile(w.g, k), "y": np.tile(w.y, k), "weight": np.tile(w.weight, k)}
    group = np.repeat(np.arange(k), 60)
    same = type(w)(
        **{key: v[order] for key, v in copies.items()},
        group=group[order],
        n_groups=k,
        parity=parity,
        X=np.empty((60 * k, 0)),
    )
    d, gradient = evaluate(distance, same.g, same.cells())
    assert abs(d) < 1e-20
    assert np.abs(gradient).max() < 1e-10
    assert value(distance, w.g, w.cells()) > 1e-4


@laws
def test_value_and_gradient_are_of_one_function(name, parity, n_groups, weighted):
    distance, step = DISTANCES[name]
    w = world(parity, n_groups, weighted)
    cells = w.cells()
    gradient = evaluate(distance, w.g, cells)[1]
    rng = np.random.default_rng(2)
    for direction in rng.standard_normal((3, len(w.g))):
        up, down = (
            value(distance, w.g + step * direction, cells),
            value(distance, w.g - step * direction, cells),
        )
        numerical = (up - down) / (2 * step)
        tolerance = 1e-6 * np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert abs(gradient @ direction - numerical) < tolerance


@laws
def test_autograd_on_the_same_sums_agrees(name, parity, n_groups, weighted):
    torch = need("torch")
    distance = DISTANCES[name][0]
    w = world(parity, n_groups, weighted)
    g = torch.tensor(w.g, requires_grad=True)
    cells = w.cells(convert=torch.from_numpy)
    d, _ = penalty(distance, distance.sums(g - distance.shift(g, cells), cells), cells)
    d.backward()
    expected, gradient = evaluate(distance, w.g, w.cells())
    assert d.item() == pytest.approx(expected, rel=1e-12)
    assert g.grad.numpy() == pytest.approx(gradient, rel=1e-8, abs=1e-10 * np.abs(gradient).max())
    with torch.no_grad():
        from_tensors = evaluate(distance, g.detach(), cells)[1]
    assert from_tensors.numpy() == pytest.approx(gradient, rel=1e-8, abs=1e-12 * np.abs(gradient).max())


@laws
def test_weights_equal_repetition(name, parity, n_groups, weighted):
    distance = DISTANCES[name][0]
    w = world(parity, n_groups, weighted=True)
    times = w.weight.astype(int)
    repeated = type(w)(
        g=np.repeat(w.g, times),
        y=np.repeat(w.y, times),
        group=np.repeat(w.group, times),
        n_groups=n_groups,
        weight=np.ones(times.sum()),
        parity=parity,
        X=w.X,
    )
    d, gradient = evaluate(distance, w.g, w.cells())
    d_repeated, gradient_repeated = evaluate(distance, repeated.g, repeated.cells())
    assert d == pytest.approx(d_repeated, rel=1e-10)
    by_row = np.add.reduceat(gradient_repeated, np.r_[0, np.cumsum(times)[:-1]])
    assert gradient == pytest.approx(by_row, rel=1e-8, abs=1e-10 * np.abs(gradient).max())


@laws
def test_sums_add_over_blocks_of_rows(name, parity, n_groups, weighted):
    distance = DISTANCES[name][0]
    w = world(parity, n_groups, weighted)
    g = w.g - distance.shift(w.g, w.cells())
    whole = distance.sums(g, w.cells())
    parts = [
        distance.sums(g[rows], w.cells(rows)) for rows in (slice(0, 17), slice(17, 100), slice(100, None))
    ]
    total = parts[0].plus(parts[1]).plus(parts[2])
    for one, other in zip(whole, total, strict=True):
        assert one == pytest.approx(other, rel=1e-10, abs=1e-12)


@laws
def test_renaming_groups_and_reordering_rows_change_nothing(name, parity, n_groups, weighted):
    distance = DISTANCES[name][0]
    w = world(parity, n_groups, weighted)
    order = np.random.default_rng(3).permutation(len(w.g))
    renamed = np.random.default_rng(4).permutation(n_groups)
    renamed = renamed if (renamed != np.arange(n_groups)).any() else renamed[::-1]
    other = type(w)(
        g=w.g[order],
        y=w.y[order],
        group=renamed[w.group][order],
        n_groups=n_groups,
        weight=w.weight[order],
        parity=parity,
        X=w.X,
    )
    d, gradient = evaluate(distance, w.g, w.cells())
    d_other, gradient_other = evaluate(distance, other.g, other.cells())
    assert d == pytest.approx(d_other, rel=1e-10)
    assert gradient[order] == pytest.approx(gradient_other, rel=1e-7, abs=1e-10 * np.abs(gradient).max())


@each
def test_a_distance_is_symmetric(name):
    distance = DISTANCES[name][0]
    w = world("demographic_parity", 2)
    cells = w.cells()
    sums = distance.sums(w.g - distance.shift(w.g, cells), cells)
    a, b = sums.psi / sums.w[:, None]
    d, in_a, in_b = distance.compare(a, b)
    d_swapped, in_b_swapped, in_a_swapped = distance.compare(b, a)
    assert d == pytest.approx(d_swapped, rel=1e-12)
    assert in_a == pytest.approx(in_a_swapped, rel=1e-9, abs=1e-12)
    assert in_b == pytest.approx(in_b_swapped, rel=1e-9, abs=1e-12)


@each
@pytest.mark.parametrize("parity", PARITIES)
def test_inputs_are_left_as_they_were(name, parity):
    distance = DISTANCES[name][0]
    w = world(parity)
    cells = w.cells()
    before = [np.copy(a) for a in (w.g, cells.code, cells.weight, cells.pairs, cells.pair_weight)]
    evaluate(distance, w.g, cells)
    distance.jacobian(w.g, cells, w.X)
    after = (w.g, cells.code, cells.weight, cells.pairs, cells.pair_weight)
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))


@each
@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_float32_stays_float32_and_agrees_with_float64(name, parity, library):
    distance = DISTANCES[name][0]
    w = world(parity, n=3000)

    def single(x):
        x = x.astype(np.float32) if x.dtype.kind == "f" else x
        return x if library == "numpy" else need("torch").from_numpy(x)

    cells = w.cells(convert=single)
    d, gradient = evaluate(distance, single(w.g), cells)
    assert "float32" in str(d.dtype)
    assert "float32" in str(gradient.dtype)
    expected, expected_gradient = evaluate(distance, w.g.astype(np.float32).astype(float), w.cells())
    assert float(d) == pytest.approx(expected, rel=1e-4)
    error = np.abs(np.asarray(gradient) - expected_gradient).max()
    assert error < 2e-3 * np.abs(expected_gradient).max()


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("parity", PARITIES)
def test_gaussian_is_accurate_in_float32_far_from_zero(parity, library):
    w = world(parity, n=5000)
    g = (30 + 0.01 * (w.g - w.g.mean()) / w.g.std()).astype(np.float32)

    def single(x):
        x = x.astype(np.float32) if x.dtype.kind == "f" else x
        return x if library == "numpy" else need("torch").from_numpy(x)

    d, gradient = evaluate(GaussianDistance(), single(g), w.cells(convert=single))
    expected, expected_gradient = evaluate(GaussianDistance(), g.astype(float), w.cells())
    assert float(d) == pytest.approx(expected, rel=1e-4)
    assert np.abs(np.asarray(gradient) - expected_gradient).max() < 1e-4 * np.abs(expected_gradient).max()


@each
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_reproduce_the_jacobian_of_the_residual(name, sparse):
    from scipy.sparse import csr_array

    distance = DISTANCES[name][0]
    w = world("demographic_parity", 2)
    cells = w.cells()
    theta = np.array([0.8, -0.5, 0.3, 1.0])

    def residual(theta):
        sums = distance.sums(w.X @ theta, cells)
        return distance.residual(*(sums.psi / sums.w[:, None]))[0]

    sums = distance.sums(w.X @ theta, cells)
    r, in_a, in_b = distance.residual(*(sums.psi / sums.w[:, None]))
    rows = distance.jacobian(w.X @ theta, cells, csr_array(w.X) if sparse else w.X) / sums.w[:, None, None]
    jacobian = in_a @ rows[0] + in_b @ rows[1]
    step = 1e-6
    numerical = np.stack(
        [(residual(theta + step * e) - residual(theta - step * e)) / (2 * step) for e in np.eye(4)], axis=1
    )
    # the rank residual √m·u has unbounded curvature where a node is nearly empty
    tolerance = 2e-2 if "rank" in name else 1e-6
    assert np.abs(jacobian - numerical).max() < tolerance * np.abs(numerical).max()
    d, D = penalty(distance, sums, cells)
    assert r @ r == pytest.approx(d, rel=1e-10)
    # the residual's own gradient is that of the distance, exactly
    assert 2 * r @ jacobian == pytest.approx(
        (D[:, :, None] * rows * sums.w[:, None, None]).sum((0, 1)), rel=1e-8
    )
    assert 2 * r @ jacobian == pytest.approx(w.X.T @ distance.gradient(w.X @ theta, cells, D), rel=1e-8)


@each
def test_residual_rows_are_the_chain_rule(name):
    """∂r/∂θ = ∂r/∂a·A + ∂r/∂b·B, whatever A and B; and 2·JᵀJ is Σ 2·∇rᵢ∇rᵢᵀ of the numerical ∇rᵢ."""
    distance = DISTANCES[name][0]
    w = world("demographic_parity", 2)
    cells = w.cells()
    rng = np.random.default_rng(0)
    theta = np.array([0.8, -0.5, 0.3, 1.0])

    def means(theta):
        sums = distance.sums(w.X @ theta, cells)
        return sums.psi / sums.w[:, None]

    a, b = means(theta)
    A, B = rng.standard_normal((2, len(a), 3))
    _, in_a, in_b = distance.residual(a, b)
    expected = in_a @ A + in_b @ B
    found = distance.residual_jacobian(a, b, A, B)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12 * np.abs(expected).max())
    rows = distance.jacobian(w.X @ theta, cells, w.X) / cell_weights(cells)[0][:, None, None]
    J = distance.residual_jacobian(a, b, rows[0], rows[1])
    step = 1e-6
    ahead, behind = (
        np.stack([distance.residual(*means(theta + sign * step * e))[0] for e in np.eye(4)], axis=1)
        for sign in (1, -1)
    )
    numerical = (ahead - behind) / (2 * step)
    tolerance = 2e-2 if "rank" in name else 1e-6  # √m·u bends sharply where a node is nearly empty
    exact = 2 * numerical.T @ numerical
    assert np.abs(2 * J.T @ J - exact).max() < tolerance * np.abs(exact).max()


def test_rows_run_on_torch():
    torch = need("torch")
    w = world("equalized_odds", 3)
    for distance, _ in DISTANCES.values():
        expected = distance.jacobian(w.g, w.cells(), w.X)
        found = distance.jacobian(
            torch.from_numpy(w.g), w.cells(convert=torch.from_numpy), torch.from_numpy(w.X)
        )
        assert found.numpy() == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("n_bins", "bandwidth", "floor"), [(20, None, 1e-6), (50, 0.03, 1e-4), (7, 0.4, 1e-12)]
)
@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("spread", [0.3, 1.0, 6.0])
def test_histogram_equals_the_papers_formula(n_bins, bandwidth, floor, parity, spread):
    w = world(parity, 2, weighted=False)
    g = spread * w.g
    s = 1 / (1 + np.exp(-g))
    centre = (np.arange(1, n_bins + 1) - 0.5) / n_bins
    sigma = bandwidth or 1 / n_bins
    expected = 0.0
    strata = {"demographic_parity": [w.y >= 0], "equalized_odds": [w.y == 0, w.y == 1]}
    strata |= {"equal_opportunity": [w.y == 1], "predictive_equality": [w.y == 0]}
    for stratum in strata[parity]:
        p, q = (
            np.exp(-((s[stratum & (w.group == a), None] - centre) ** 2) / (2 * sigma**2)).sum(axis=0)
            for a in (0, 1)
        )
        p, q = ((h / h.sum() + floor) / (1 + n_bins * floor) for h in (p, q))
        expected += ((p - q) * np.log(p / q)).sum()
    distance = HistogramDistance(n_bins=n_bins, bandwidth=bandwidth, floor=floor)
    assert value(distance, g, w.cells()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("g", [50.0, 1000.0])
def test_histogram_counts_risks_of_just_one(g):
    s, group, weight = np.array([1.0, 0.0, 1.0]), np.array([0, 1, 1]), np.array([1.0, 2.0, 3.0])
    cells = make_cells(PARITIES["demographic_parity"], None, group, 2, weight)
    centre = (np.arange(1, 21) - 0.5) / 20
    psi = np.exp(-((s[:, None] - centre) ** 2) / (2 * 0.05**2))
    found = HistogramDistance().psi_sums(np.array([g, -1000.0, g]), cells)
    assert found == pytest.approx(np.stack([psi[0], 2 * psi[1] + 3 * psi[2]]), rel=1e-12, abs=1e-12)


def test_gaussian_equals_the_closed_form():
    def kl(m0, v0, m1, v1):
        return 0.5 * (np.log(v1 / v0) + ((m0 - m1) ** 2 + v0) / v1 - 1)

    w = world("equalized_odds", 3, weighted=True)
    expected = 0.0
    for label in (0, 1):
        moments = []
        for a in range(3):
            rows = (w.y == label) & (w.group == a)
            mean = np.average(w.g[rows], weights=w.weight[rows])
            moments.append((mean, np.average((w.g[rows] - mean) ** 2, weights=w.weight[rows])))
        pairs = [(0, 1), (0, 2), (1, 2)]
        expected += np.mean([kl(*moments[a], *moments[b]) + kl(*moments[b], *moments[a]) for a, b in pairs])
    assert value(GaussianDistance(), w.g, w.cells()) == pytest.approx(expected, rel=1e-6)


def test_gaussian_survives_a_constant_cell_and_constant_scores():
    w = world("demographic_parity", 2)
    g = np.where(w.group == 0, 0.3, w.g)
    d, gradient = evaluate(GaussianDistance(), g, w.cells())
    assert np.isfinite(d)
    assert np.isfinite(gradient).all()
    assert d > 1e3
    d, gradient = evaluate(GaussianDistance(), 0 * g + 2.5, w.cells())
    assert d == 0
    assert not gradient.any()


def test_gap_converges_to_half_the_squared_energy_distance():
    rng = np.random.default_rng(0)
    g = np.r_[rng.normal(0, 1, 5000), rng.normal(0.4, 1.3, 3000)]
    cells = (
        world("demographic_parity", 2)
        .cells()
        ._replace(code=np.repeat([0, 1], [5000, 3000]), weight=np.ones(8000))
    )
    s = 1 / (1 + np.exp(-g))
    expected = energy_distance(s[:5000], s[5000:]) ** 2 / 2
    errors = [
        abs(value(GapDistance(n_thresholds=n), g, cells) / expected - 1) for n in (100, 400, 1600, 6400)
    ]
    assert errors[1] < 2e-4
    assert errors[-1] < 2e-5
    assert all(later < earlier for earlier, later in pairwise(errors))


def test_gap_window_counts_only_thresholds_inside():
    w = world("demographic_parity", 2)
    s = 1 / (1 + np.exp(-w.g))
    t = 0.2 + (np.arange(4000) + 0.5) * 0.4 / 4000
    F = [
        ((s[w.group == a, None] <= t) * w.weight[w.group == a, None]).sum(0) / w.weight[w.group == a].sum()
        for a in (0, 1)
    ]
    expected = 0.4 * np.mean((F[0] - F[1]) ** 2)
    assert value(GapDistance(window=(0.2, 0.6), n_thresholds=4000), w.g, w.cells()) == pytest.approx(
        expected, rel=2e-3
    )
    # a score outside the window, moved about outside it, changes nothing
    outside = np.where(s > 0.7, w.g + 5, w.g)
    assert value(GapDistance(window=(0.2, 0.6)), outside, w.cells()) == pytest.approx(
        value(GapDistance(window=(0.2, 0.6)), w.g, w.cells()), rel=1e-12
    )


def test_rank_gap_is_the_cramer_von_mises_integral():
    w = world("demographic_parity", 2, n=2000)
    F, mid = {}, {}
    for a in (0, 1):
        rows = w.group == a
        share = w.weight[rows] / w.weight[rows].sum()
        F[a] = (share[:, None] * (w.g[rows, None] <= w.g)).sum(0)
        mid[a] = F[a] - 0.5 * (share[:, None] * (w.g[rows, None] == w.g)).sum(0)
    u = mid[0] - mid[1]
    totals = [w.weight[w.group == a].sum() for a in (0, 1)]
    dH = 0.5 * w.weight / np.where(w.group == 0, *totals)
    found = value(GapDistance(scale="rank", n_thresholds=4000), w.g, w.cells())
    assert found == pytest.approx((dH * u**2).sum(), rel=2e-3)


@pytest.mark.parametrize("parity", PARITIES)
def test_squeezing_gains_nothing_on_the_rank_scale(parity):
    w = world(parity, n=2000)
    g = 1.5 * w.g / w.g.std()
    rank, score = GapDistance(scale="rank"), GapDistance()
    assert value(rank, g / 10, w.cells()) == pytest.approx(value(rank, g, w.cells()), rel=0.01)
    assert value(score, g / 10, w.cells()) < 0.2 * value(score, g, w.cells())


def test_penalty_is_the_mean_over_pairs_summed_over_strata():
    w = world("equalized_odds", 3)
    distance = GapDistance()
    expected = 0.0
    for label in (0, 1):
        for a, b in [(0, 1), (0, 2), (1, 2)]:
            rows = (w.y == label) & np.isin(w.group, (a, b))
            code = (w.group[rows] == b).astype(int)
            two = Cells(code, w.weight[rows], 2, np.array([[0, 1]]), np.array([1.0]))
            expected += value(distance, w.g[rows], two) / 3
    assert value(distance, w.g, w.cells()) == pytest.approx(expected, rel=1e-12)


@each
def test_penalty_differentiates_in_the_sums(name):
    distance = DISTANCES[name][0]
    w = world("equalized_odds", 3)
    cells = w.cells()
    sums = distance.sums(w.g - distance.shift(w.g, cells), cells)
    _, D = penalty(distance, sums, cells)
    rng = np.random.default_rng(5)
    # in every entry that holds mass; an empty node has no meaningful side to step to
    direction = rng.standard_normal(sums.psi.shape) * (sums.psi > 1e-3 * sums.psi.max())
    step = 1e-6

    def moved(t):
        return penalty(distance, Sums(sums.psi + t[0] * direction, *cell_weights(cells)), cells)[0]

    assert (D * direction).sum() == pytest.approx(approx_fprime([0.0], moved, step)[0], rel=1e-4, abs=1e-9)


@each
def test_extreme_scores_stay_finite(name):
    distance = DISTANCES[name][0]
    w = world("demographic_parity", 2)
    with np.errstate(all="raise", under="ignore"):
        d, gradient = evaluate(distance, 400 * w.g, w.cells())
    assert np.isfinite(d)
    assert np.isfinite(gradient).all()


@each
def test_settings_compare_print_and_survive_a_pickle(name):
    import pickle

    distance = DISTANCES[name][0]
    assert pickle.loads(pickle.dumps(distance)) == distance
    assert type(distance).__name__ in repr(distance)
    assert len({distance, pickle.loads(pickle.dumps(distance))}) == 1


@each
def test_settings_can_be_read_and_changed_by_name(name):
    distance = DISTANCES[name][0]
    assert type(distance)(**distance.get_params()) == distance
    copied = clone(distance)
    assert copied == distance
    assert copied is not distance


def test_changed_settings_are_checked_all_at_once():
    distance = HistogramDistance(n_bins=500, bandwidth=0.1)
    assert distance.set_params(n_bins=20, bandwidth=None) is distance
    assert distance == HistogramDistance()
    assert hash(distance) == hash(HistogramDistance())
    with pytest.raises(ValueError, match="`floor` must be a positive number"):
        distance.set_params(n_bins=30, floor=0)
    with pytest.raises(ValueError, match=r"HistogramDistance must be one of 'n_bins', .*, got 'bins'"):
        distance.set_params(n_bins=30, bins=3)
    assert distance == HistogramDistance()
    with pytest.raises(ValueError, match="GaussianDistance must be one of none, it has no settings, got 'a'"):
        GaussianDistance().set_params(a=1)
    assert GaussianDistance().set_params() == GaussianDistance()


class Own(Distance):
    """A distance of a user's own that says nothing of its settings."""

    psi_sums = residual = gradient = jacobian = None

    def __init__(self, factor):
        self.factor = factor


def test_a_distance_without_settings_of_its_own_is_copied_whole():
    copied = clone(Own(3.0))
    assert copied.factor == 3.0
    assert copied.get_params() == {}


def test_methods_go_by_their_earlier_names_too():
    w = world("demographic_parity", 2)
    distance, cells = GapDistance(), w.cells()
    D = np.random.default_rng(0).normal(size=(2, distance.n_nodes))
    a, b, A, B = distance.psi_sums(w.g, cells)[0], D[0], D[:, :, None][0], D[:, :, None][1]
    calls = {
        "pull": ("gradient", (w.g, cells, D)),
        "rows": ("jacobian", (w.g, cells, w.X)),
        "placed": ("prepare", (w.g,)),
        "norms": ("row_norms", (w.g,)),
        "residual_rows": ("residual_jacobian", (a, b, A, B)),
    }
    for old, (new, args) in calls.items():
        with pytest.warns(DeprecationWarning, match=rf"`GapDistance.{old}` is now called `{new}`") as warned:
            found = getattr(distance, old)(*args)
        assert warned[0].filename == __file__
        np.testing.assert_array_equal(found, getattr(distance, new)(*args))


def test_a_distance_that_defines_the_earlier_names_gives_the_same_fit():
    theirs = GaussianDistance()

    class New(Distance):
        psi_sums, residual, gradient, jacobian = (
            theirs.psi_sums,
            theirs.residual,
            theirs.gradient,
            theirs.jacobian,
        )

    with pytest.warns(DeprecationWarning, match=r"`Old.\w+` is deprecated: rename it to `") as warned:

        class Old(Distance):
            psi_sums, residual, pull, rows = (
                theirs.psi_sums,
                theirs.residual,
                theirs.gradient,
                theirs.jacobian,
            )

    assert [warning.filename for warning in warned] == [__file__] * 2
    w = world("demographic_parity", 2)
    fits = [FairLogisticRegression(distance=distance, eta=0.3) for distance in (New(), Old(), theirs)]
    new, old, gaussian = (fit.fit(w.X, w.y, sensitive_features=w.group).coef_ for fit in fits)
    np.testing.assert_array_equal(new, old)
    assert new == pytest.approx(gaussian, rel=1e-4)


def test_super_works_across_both_names():
    with pytest.warns(DeprecationWarning, match=r"^`Old.pull` is deprecated: rename it to `gradient`$"):

        class Old(GaussianDistance):
            def pull(self, g, cells, D):
                return 2 * super().pull(g, cells, D)

    class New(Old):
        def gradient(self, g, cells, D):
            return 3 * super().gradient(g, cells, D)

    w = world("demographic_parity", 2)
    with pytest.warns(DeprecationWarning, match=r"`New.pull` is now called `gradient`"):
        found = evaluate(New(), w.g, w.cells())[1]
    np.testing.assert_array_equal(found, 6 * evaluate(GaussianDistance(), w.g, w.cells())[1])


def test_a_setting_may_have_the_earlier_name_of_a_method():
    @dataclass(frozen=True)
    class Windowed(GaussianDistance):
        rows: int = 5

    @dataclass(frozen=True)
    class Doubled(Windowed):
        norms: float = 2.0

        def jacobian(self, g, cells, X):
            return 2 * super().jacobian(g, cells, X)

    w = world("demographic_parity", 2)
    plain, doubled = GaussianDistance().jacobian(w.g, w.cells(), w.X), Doubled().jacobian(w.g, w.cells(), w.X)
    np.testing.assert_array_equal(Windowed().jacobian(w.g, w.cells(), w.X), plain)
    np.testing.assert_array_equal(doubled, 2 * plain)
    assert (Windowed().rows, Doubled(rows=7).rows, Doubled().norms) == (5, 7, 2.0)


def test_defaults_are_part_of_the_definition():
    assert HistogramDistance() == HistogramDistance(n_bins=20, bandwidth=None, floor=1e-6)
    assert HistogramDistance().sigma == 1 / 20
    assert GapDistance() == GapDistance(n_thresholds=400, window=(0, 1), scale="score")


def test_cell_weights_by_hand():
    cells = Cells(np.array([0, 1, -1, 1]), np.array([2.0, 3.0, 7.0, 1.0]), 2, np.array([[0, 1]]), np.ones(1))
    sums = GapDistance().sums(np.zeros(4), cells)
    assert sums.w.tolist() == [2, 4]
    assert sums.w2.tolist() == [4, 10]


def test_gaussian_with_its_floor_by_hand():
    """One cell is constant: its variance is the floor, 1e-8·(½σ₁² + ¼δ²)."""
    g = np.array([2.0, 2.0, 2.0, 0.0, 1.0, 5.0])
    cells = Cells(np.repeat([0, 1], 3), np.ones(6), 2, np.array([[0, 1]]), np.ones(1))
    v1, delta = np.var([0, 1, 5]), 2.0 - 2.0
    floor = 1e-8 * (0.5 * v1 + 0.25 * delta**2)
    v0, v1 = floor, v1 + floor
    expected = 0.5 * ((v0 + delta**2) / v1 + (v1 + delta**2) / v0 - 2)
    assert value(GaussianDistance(), g, cells) == pytest.approx(expected, rel=1e-6)


def test_rank_gap_at_the_ends_of_the_scale_by_hand():
    """Scores at 0 and 1 are spread on three nodes each, one of them outside [0, 1]; all of it counts."""
    g = np.array([-80.0] * 7 + [80.0] * 3 + [-80.0] * 4 + [80.0] * 6)
    cells = Cells(np.repeat([0, 1], 10), np.ones(20), 2, np.array([[0, 1]]), np.ones(1))
    spread = np.array([1 / 8, 3 / 4, 1 / 8])
    a, b = np.r_[0.7 * spread, 0.3 * spread], np.r_[0.4 * spread, 0.6 * spread]
    U = np.cumsum(a - b)
    u = (U + np.r_[0, U[:-1]]) / 2
    assert value(GapDistance(scale="rank"), g, cells) == pytest.approx((0.5 * (a + b) * u**2).sum(), rel=1e-9)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_autograd_survives_scores_whose_exponential_overflows(name, dtype):
    torch = need("torch")
    g = torch.linspace(-900, 900, 41, dtype=getattr(torch, dtype)).requires_grad_()
    code = torch.arange(41) % 2
    cells = Cells(
        code, torch.ones(41, dtype=g.dtype), 2, torch.tensor([[0, 1]]), torch.ones(1, dtype=g.dtype)
    )
    distance = DISTANCES[name][0]
    penalty(distance, distance.sums(g - distance.shift(g, cells), cells), cells)[0].backward()
    assert torch.isfinite(g.grad).all()


def test_many_groups():
    rng = np.random.default_rng(0)
    g, group = rng.standard_normal(6000), np.arange(6000) % 60
    cells = make_cells(PARITIES["demographic_parity"], None, group, 60, np.ones(6000))
    d, gradient = evaluate(GapDistance(), g, cells)
    step = 1e-5 * rng.standard_normal(6000)
    change = value(GapDistance(), g + step, cells) - value(GapDistance(), g - step, cells)
    assert 2 * gradient @ step == pytest.approx(change, rel=1e-4)
    assert 0 < d < 0.01


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", ["score", "rank"])
def test_a_high_power_is_the_max_gap_and_does_not_vanish(scale, dtype):
    w = world()
    g, cells = 0.05 * w.g.astype(dtype), w.cells()
    distance = GapDistance(power=500, scale=scale, n_thresholds=4000)
    means = distance.sums(g, cells).psi / distance.sums(g, cells).w[:, None]
    largest = max(np.abs(np.cumsum(means[i] - means[j])).max() for i, j in cells.pairs)
    worst = max(distance.compare(means[i], means[j])[0] for i, j in cells.pairs)
    assert worst**0.5 == pytest.approx(largest, rel=0.05)


@pytest.mark.parametrize("window", [(0.0, 1.0), (0.2, 0.6), (0.0, 0.5), (0.45, 1.0)])
@pytest.mark.parametrize("n_thresholds", [2, 30, 400])
def test_norms_are_those_of_rows_that_are_cells(window, n_thresholds):
    """‖Φ‖² = Σ Δ·U² of a row alone, in NumPy and torch, and its derivative."""
    torch = need("torch")
    distance = GapDistance(window=window, n_thresholds=n_thresholds)
    g = np.r_[-50.0, 50.0, 0.0, np.random.default_rng(0).normal(0, 2, 60)]
    alone = Cells(np.arange(63), np.ones(63), 63, np.array([[0, 1]]), np.ones(1))

    def norms(g):
        psi = distance.psi_sums(g, alone)
        return distance.compare(psi, 0 * psi)[0]

    found, slope = distance.row_norms(g)
    assert found == pytest.approx(norms(g), rel=1e-9, abs=1e-15)
    step = 1e-5
    numerical = (norms(g + step) - norms(g - step)) / (2 * step)
    assert slope == pytest.approx(numerical, abs=1e-5)  # its own derivative jumps at the nodes
    assert np.abs(slope).max() > 1e-3
    for one, other in zip(distance.row_norms(torch.from_numpy(g)), (found, slope), strict=True):
        assert one.numpy() == pytest.approx(other, rel=1e-12, abs=1e-15)


@each
def test_only_squares_on_the_score_scale_are_norms(name):
    distance = DISTANCES[name][0]
    is_norm = name in ("gap", "gap-window", "gap-coarse")
    assert (distance.traits.norms, distance.traits.bounded) == (is_norm, is_norm)
    if not is_norm:
        w = world("demographic_parity", 2)
        with pytest.raises(NotImplementedError, match="is no norm of a difference of means"):
            distance.row_norms(w.g)
        with pytest.raises(NotImplementedError, match="has no bound on its curvature"):
            distance.curvature_bound(w.g, w.cells(), np.ones((2, 1)), 1.0)


@pytest.mark.parametrize("distance", [GapDistance(), GapDistance(30), GapDistance(50, window=(0.2, 0.6))])
@pytest.mark.parametrize(("parity", "n_groups"), [("demographic_parity", 2), ("equalized_odds", 3)])
def test_the_bound_of_the_gaps_curvature_bounds_it(distance, parity, n_groups):
    w = world(parity, n_groups, weighted=True, n=80)
    for g in (w.g, 0.01 * w.g):  # spread out, and nearly tied
        cells = w.cells()
        sums = distance.sums(g, cells)
        D = penalty(distance, sums, cells)[1]
        slopes = distance.jacobian(g, cells, np.eye(len(g))) / sums.w[:, None, None]
        means = sums.psi / sums.w[:, None]
        H = np.zeros((len(g), len(g)))
        for (i, j), share in zip(cells.pairs, cells.pair_weight, strict=True):
            J = distance.residual_jacobian(means[i], means[j], slopes[i], slopes[j])
            H += 2 * share * J.T @ J
        bend = distance.curvature_bound(g, cells, D, 0.0)
        h = distance.curvature_bound(g, cells, D, 1.0) - bend
        eigenvalues = np.linalg.eigvalsh(np.diag(h) - H)
        assert eigenvalues.min() > -1e-9 * h.max()
        assert h == pytest.approx(np.abs(H).sum(axis=1), rel=1e-9, abs=1e-12)
        # the rest is the curvature of ψ with D held, where it is positive
        step = 1e-5
        numerical = (distance.gradient(g + step, cells, D) - distance.gradient(g - step, cells, D)) / (
            2 * step
        )
        agree = np.abs(np.maximum(numerical, 0) - bend) < 1e-3 * np.abs(numerical).max()
        assert agree.mean() > 0.97  # it jumps where two pieces meet
        assert (numerical < 0).any()
        assert (numerical > 0).any()
