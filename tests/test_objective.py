"""The objective in scores and in parameters: value, gradient, blocks, libraries, sparse X."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad

import evenrisk._xp as xp_module
import evenrisk.objective._linear as objective_module
import evenrisk.objective._scores as scores_module
from evenrisk._estimator import eta_path, left_out_scores
from evenrisk._estimator._path import SolverSettings
from evenrisk.distances import DISTANCES, GapDistance, evaluate
from evenrisk.losses import HINGE, LOGISTIC, SQUARED_HINGE, SmoothedHinge
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.parity import PARITIES, make_cells
from optional import need
from worlds import world

each = pytest.mark.parametrize("name", DISTANCES)
THETA = np.array([0.8, -0.5, 0.3, 1.0, -0.2])


def objective(w, name, *, loss=LOGISTIC, X=None, convert=lambda x: x, fit_intercept=True, eta=0.7):
    penalty = Penalty(DISTANCES[name], w.cells(convert=convert))
    scores = ScoreObjective(loss, convert(w.y), convert(w.weight), penalty, eta)
    return LinearObjective(scores, convert(w.X) if X is None else X, alpha=0.3, fit_intercept=fit_intercept)


@each
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED_HINGE], ids=lambda loss: loss.name)
def test_gradient_is_the_numerical_derivative(name, fit_intercept, loss):
    F = objective(world(), name, loss=loss, fit_intercept=fit_intercept)
    theta = THETA if fit_intercept else THETA[:4]
    error = check_grad(lambda t: F(t)[0], lambda t: F(t)[1], theta, epsilon=1e-7)
    assert error < 1e-6 * np.linalg.norm(F(theta)[1]) + 1e-6


@each
def test_value_is_the_formula(name):
    w = world()
    g = w.X @ THETA[:4] + THETA[4]
    loss = np.average(np.log1p(np.exp(g)) - w.y * g, weights=w.weight)
    expected = loss + 0.15 * (THETA[:4] ** 2).sum() + 0.7 * evaluate(DISTANCES[name], g, w.cells())[0]
    F = objective(w, name)
    assert F(THETA)[0] == pytest.approx(expected, rel=1e-12)
    assert F.scores.penalty.value(g) == pytest.approx(evaluate(DISTANCES[name], g, w.cells())[0], rel=1e-12)
    assert F.with_eta(0.0)(THETA)[0] == pytest.approx(loss + 0.15 * (THETA[:4] ** 2).sum(), rel=1e-12)


@each
def test_blocks_change_nothing(name, monkeypatch):
    F = objective(world(), name)
    value, gradient = F(THETA)
    preconditioner = F.preconditioner()
    monkeypatch.setattr(xp_module, "BLOCK_ROWS", 7)
    assert F(THETA)[0] == pytest.approx(value, rel=1e-12)
    assert F(THETA)[1] == pytest.approx(gradient, rel=1e-9, abs=1e-12)
    assert F.preconditioner() == pytest.approx(preconditioner, rel=1e-9)


@each
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_equals_dense(name, kind):
    w = world()
    dense, stored = objective(w, name), objective(w, name, X=kind(w.X))
    assert stored(THETA)[0] == pytest.approx(dense(THETA)[0], rel=1e-12)
    assert stored(THETA)[1] == pytest.approx(dense(THETA)[1], rel=1e-9, abs=1e-12)
    assert stored.preconditioner() == pytest.approx(dense.preconditioner(), rel=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_many_features_get_the_diagonal_of_the_preconditioner(kind, monkeypatch):
    w = world()
    monkeypatch.setattr(objective_module, "FULL_MATRICES", 3)
    second = np.average(w.X**2, axis=0, weights=w.weight) + 0.3
    found = objective(w, "gap", X=kind(w.X)).preconditioner()
    assert found == pytest.approx(np.append(1 / second, 1.0), rel=1e-12)


@each
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_torch_equals_numpy(name, dtype):
    torch = need("torch")

    def convert(x):
        return torch.from_numpy(x.astype(dtype) if x.dtype.kind == "f" else x)

    w = world()
    ours, theirs = objective(w, name), objective(w, name, convert=convert)
    rel = 1e-10 if dtype is np.float64 else 2e-4
    assert theirs(THETA)[0] == pytest.approx(ours(THETA)[0], rel=rel)
    assert theirs(THETA)[1] == pytest.approx(ours(THETA)[1], rel=50 * rel, abs=50 * rel * 1e-2)
    assert theirs.preconditioner() == pytest.approx(
        ours.preconditioner(), rel=0.1 if dtype is np.float32 else 1e-8
    )
    assert str(theirs.raw_scores(THETA).dtype) == f"torch.{np.dtype(dtype)}"


def test_the_preconditioner_inverts_the_second_moments():
    w = world()
    X1 = np.column_stack([w.X, np.ones(len(w.X))])
    second = (X1 * (w.weight / w.weight.sum())[:, None]).T @ X1 + np.diag([0.3] * 4 + [0])
    assert objective(w, "gap").preconditioner() @ second == pytest.approx(np.eye(5), abs=1e-4)
    no_column = type(w)(**{**w.__dict__, "X": np.column_stack([w.X[:, :3], np.zeros(len(w.X))])})
    assert np.isfinite(objective(no_column, "gap").preconditioner()).all()


def test_segment_sums_do_not_stand_still_in_float32():
    torch = need("torch")
    values = np.r_[2.0**24, np.ones(100)].astype(np.float32)
    for convert in (np.asarray, torch.from_numpy):
        code = convert(np.zeros(101, dtype=np.int64))
        total = xp_module.segment_sum(convert(values), code, 1)
        assert "float32" in str(total.dtype)
        assert float(total[0]) == 2.0**24 + 100
        by_row = xp_module.segment_dot(convert(values), code, 1, convert(np.ones((101, 1), np.float32)))
        assert float(by_row[0, 0]) == 2.0**24 + 100


@pytest.mark.parametrize("limit", [3, 256])
def test_a_column_of_zeros_leaves_the_preconditioner_finite(limit, monkeypatch):
    w = world()
    monkeypatch.setattr(objective_module, "FULL_MATRICES", limit)
    X = np.column_stack([w.X[:, :3], np.zeros(len(w.X))])
    scores = ScoreObjective(LOGISTIC, w.y, w.weight)
    for kind in (np.asarray, sparse.csr_array):
        preconditioner = LinearObjective(scores, kind(X), alpha=0.0, fit_intercept=True).preconditioner()
        assert np.isfinite(preconditioner).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_preconditioner_keeps_the_digits_of_a_column_far_from_zero(kind):
    w = world()
    far = w.X + 2010 * np.eye(4)[0]
    scores = ScoreObjective(LOGISTIC, w.y, w.weight.astype(np.float32))
    single = LinearObjective(
        scores, kind(far.astype(np.float32)), alpha=0.0, fit_intercept=True
    ).preconditioner()
    share = w.weight / w.weight.sum()
    X1 = np.column_stack([far, np.ones(len(far))])
    exact = np.linalg.inv((X1 * share[:, None]).T @ X1)
    assert np.linalg.eigvalsh(single).min() > 0
    assert single[0, 0] == pytest.approx(exact[0, 0], rel=0.05)


BENT = {
    "logistic": LOGISTIC,
    "squared_hinge": SQUARED_HINGE,
    "hinge": HINGE,
    "smoothed": SmoothedHinge(0.5, np.linspace(0, 1, 240)),
}


def residuals(w, name, theta):
    """All pairs' residuals at g = Xw + b, each weighted as E_f weights it, from the sums of one block."""
    distance, cells = DISTANCES[name], w.cells()
    g = w.X @ theta[:4] + (theta[4] if len(theta) == 5 else 0.0)
    sums = distance.sums(g - distance.shift(g, cells), cells)
    means = sums.psi / sums.w[:, None]
    pairs = zip(cells.pairs, cells.pair_weight, strict=True)
    return np.concatenate([share**0.5 * distance.residual(means[i], means[j])[0] for (i, j), share in pairs])


@each
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", BENT)
def test_the_curvature_is_gauss_newtons(name, fit_intercept, loss):
    """Σ share·ℓ''·xxᵀ with ℓ'' by differences of ℓ', + λ, + 2η·JᵀJ with J by differences of r."""
    w = world()
    theta = THETA if fit_intercept else THETA[:4]
    X1 = np.column_stack([w.X, np.ones(len(w.X))])[:, : len(theta)]
    g, h = X1 @ theta, 1e-6
    up, down = (BENT[loss].value_gradient(w.y, g + sign * h)[1] for sign in (1, -1))
    bend = (up - down) / (2 * h) * w.weight / w.weight.sum()
    axes = h * np.eye(len(theta))
    J = np.stack([residuals(w, name, theta + e) - residuals(w, name, theta - e) for e in axes], axis=1)
    J /= 2 * h
    expected = X1.T @ (X1 * bend[:, None]) + np.diag([0.3] * 4 + [0])[: len(theta), : len(theta)]
    expected += 2 * 0.7 * J.T @ J
    assert np.sum(residuals(w, name, theta) ** 2) > 1e-3
    F = objective(w, name, loss=BENT[loss], fit_intercept=fit_intercept)
    assert F.curvature(theta) == pytest.approx(expected, rel=1e-5, abs=1e-6 * np.abs(expected).max())


@each
def test_the_curvature_in_blocks_and_of_sparse_and_single_rows(name, monkeypatch):
    w = world()
    loss = BENT["smoothed"]
    expected = objective(w, name, loss=loss).curvature(THETA)
    close = pytest.approx(expected, rel=1e-9, abs=1e-12)
    for kind in (sparse.csr_array, sparse.csr_matrix):
        assert objective(w, name, loss=loss, X=kind(w.X)).curvature(THETA) == close
    single = objective(w, name, loss=loss, X=w.X.astype(np.float32)).curvature(THETA)
    assert single == pytest.approx(expected, rel=1e-3, abs=1e-4 * np.abs(expected).max())
    monkeypatch.setattr(xp_module, "BLOCK_ROWS", 7)
    assert objective(w, name, loss=loss).curvature(THETA) == close


def test_without_a_penalty_the_curvature_is_the_losss_alone():
    F = objective(world(), "gap")
    X1 = np.column_stack([world().X, np.ones(240)])
    s = 1 / (1 + np.exp(-X1 @ THETA))
    share = world().weight / world().weight.sum()
    expected = X1.T @ (X1 * (share * s * (1 - s))[:, None]) + np.diag([0.3] * 4 + [0])
    assert F.with_eta(0.0).curvature(THETA) == pytest.approx(expected, rel=1e-9)


def test_another_loss_leaves_the_rest():
    F = objective(world(), "gap")
    G = F.with_loss(HINGE)
    g = G.raw_scores(THETA)
    change = np.average(
        HINGE.value_gradient(world().y, g)[0] - LOGISTIC.value_gradient(world().y, g)[0],
        weights=world().weight,
    )
    assert G(THETA)[0] - F(THETA)[0] == pytest.approx(change, rel=1e-9)
    assert F.scores.loss is LOGISTIC


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_mean_squares_of_the_columns(kind):
    w = world()
    expected = np.append(np.average(w.X**2, axis=0, weights=w.weight), 1.0)
    assert objective(w, "gap", X=kind(w.X)).mean_square() == pytest.approx(expected, rel=1e-12)


def test_the_curvature_of_ga_keeps_its_digits_far_from_zero():
    """GA does not change with the intercept, and the hinge has no curvature."""
    F = objective(world(), "gaussian", loss=HINGE)
    far = THETA + 1e7 * np.eye(5)[4]
    expected = F.curvature(THETA)
    assert F.curvature(far) == pytest.approx(expected, rel=1e-5, abs=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ga_by_moments_is_ga_by_rows(parity, kind, fit_intercept, monkeypatch):
    w = world()
    code = np.random.default_rng(0).integers(0, 3, len(w.y))
    cells = make_cells(PARITIES[parity], w.y, code, 3, w.weight)
    X, theta = kind(w.X), THETA if fit_intercept else THETA[:4]
    weight = w.weight.astype(X.dtype)

    def build():
        scores = ScoreObjective(LOGISTIC, w.y, weight, Penalty(DISTANCES["gaussian"], cells), 0.7)
        return LinearObjective(scores, X, alpha=0.3, fit_intercept=fit_intercept)

    by_moments = build()
    monkeypatch.setattr(objective_module, "ENTRIES", 0)
    by_rows = build()
    assert by_moments.moments is not None
    assert by_rows.moments is None
    rel = 1e-4 if X.dtype == np.float32 else 1e-9
    for ours, theirs in zip(by_moments(theta), by_rows(theta), strict=True):
        assert ours == pytest.approx(theirs, rel=rel, abs=rel)
    assert by_moments.curvature(theta) == pytest.approx(by_rows.curvature(theta), rel=rel, abs=rel)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_constant_column_has_no_moments_not_even_rounding(kind):
    """A tenth has no exact sum: the mean of many of them is off by rounding."""
    w = world()
    X = kind(np.column_stack([w.X, np.full(len(w.X), 0.1)]))
    scores = ScoreObjective(LOGISTIC, w.y, w.weight, Penalty(DISTANCES["gaussian"], w.cells()), 0.7)
    moments = LinearObjective(scores, X, alpha=0.0, fit_intercept=False).moments
    centre, covariance = moments._moments
    assert not centre[:, -1].any()
    assert not covariance[:, -1].any()
    assert not covariance[:, :, -1].any()


def test_moments_are_taken_once_and_shared_along_the_path(monkeypatch):
    F = objective(world(), "gaussian")
    taken = []
    of_cell = objective_module.CellMoments._of_cell
    monkeypatch.setattr(objective_module.CellMoments, "_of_cell", lambda *a: taken.append(1) or of_cell(*a))
    F.with_eta(0.0)(THETA)
    assert not taken  # nobody needs them without a penalty
    for eta in (0.1, 0.5):
        F.with_eta(eta)(THETA)
        F.with_eta(eta).with_loss(SQUARED_HINGE).curvature(THETA)
    assert len(taken) == world().cells().n_cells


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_moments_of_sparse_rows_keep_their_digits_far_from_zero(offset):
    w = world()
    far = w.X + offset * np.eye(4)[0]
    expected = objective(w, "gaussian").moments(THETA[:4])
    found = objective(w, "gaussian", X=sparse.csr_array(far)).moments(THETA[:4])
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    assert found[1] == pytest.approx(expected[1], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    "distance",
    [
        *DISTANCES.values(),
        GapDistance(scale="rank"),
        GapDistance(power=8),
        GapDistance(scale="rank", power=4),
    ],
    ids=str,
)
@pytest.mark.parametrize("parity", ["equalized_odds", "equal_opportunity"])
def test_parts_of_the_rows_add_up_to_the_whole(distance, parity):
    """Two workers that hold some rows each, and pass nothing but sums."""
    w = world(parity, 3)
    first = np.sort(np.random.default_rng(0).permutation(len(w.g))[:90])
    parts = [first, np.setdiff1d(np.arange(len(w.g)), first)]
    whole = ScoreObjective(LOGISTIC, w.y, w.weight, Penalty(distance, w.cells()), 0.7)
    value, gradient, summed = whole.evaluate(w.g)
    workers = [
        ScoreObjective(LOGISTIC, w.y[i], w.weight[i], Penalty(distance, w.cells(i)), 0.7, whole.total)
        for i in parts
    ]
    shift = distance.shift(w.g[first], w.cells(first))  # one worker's, for all
    rounds = [
        each.first_round(lambda rows, g=w.g[i]: g[rows], shift)
        for each, i in zip(workers, parts, strict=True)
    ]
    sums = rounds[0].summed.sums.plus(rounds[1].summed.sums)
    penalty, D = workers[0].penalty.derivative(sums)
    assert sum(each.loss for each in rounds) + 0.7 * penalty == pytest.approx(value, rel=1e-10)
    for worker, found, i in zip(workers, rounds, parts, strict=True):
        (ours,) = worker.second_round(found, 0.7 * D, lambda rows, gradient: gradient)
        assert ours == pytest.approx(gradient[i], rel=1e-8, abs=1e-12)
    slopes = [
        worker.penalty.slope_sums(found.summed, lambda block, X=w.X[i]: X[block])
        for worker, found, i in zip(workers, rounds, parts, strict=True)
    ]
    expected = whole.penalty.curvature(summed, lambda block: w.X[block])
    assert expected.any()
    assert workers[1].penalty.gram_of_sums(sums, sum(slopes)) == pytest.approx(expected, rel=1e-8)
    for again in (workers[0].with_eta(0.0), workers[0].with_loss(SQUARED_HINGE)):
        assert again.total == whole.total


@each
@pytest.mark.parametrize("parity", ["equalized_odds", "equal_opportunity"])
def test_the_curvature_of_parts_is_that_of_their_one_hot_columns(name, parity, monkeypatch):
    w = world(parity, 3)
    part = np.random.default_rng(0).integers(0, 5, len(w.g))
    columns = (part[:, None] == np.arange(6)).astype(float)  # the last part is empty
    penalty = Penalty(DISTANCES[name], w.cells())
    expected = penalty.curvature(penalty.sums(w.g), lambda block: columns[block])
    assert expected[:5, :5].any()
    for rows in (xp_module.BLOCK_ROWS, 7):
        monkeypatch.setattr(xp_module, "BLOCK_ROWS", rows)
        again = penalty.curvature_of_parts(w.g, part, 6)
        assert again == pytest.approx(expected, rel=1e-9, abs=1e-15)


@each
def test_round_two_is_the_same_where_too_many_rows_came_to_keep_their_places(name, monkeypatch):
    w = world("equalized_odds", 3)
    penalty = Penalty(DISTANCES[name], w.cells())
    monkeypatch.setattr(xp_module, "BLOCK_ROWS", 100)
    kept = penalty.sums(w.g)
    monkeypatch.setattr(scores_module, "KEPT_ROWS", 10)
    prepared_again = penalty.sums(w.g)
    assert len(kept.prepared) == 3
    assert prepared_again.prepared == []
    gradients = [np.zeros(len(w.g)), np.zeros(len(w.g))]
    for summed, gradient in zip((kept, prepared_again), gradients, strict=True):
        penalty.add_gradient(summed, penalty.derivative(summed.sums)[1], gradient)
    assert gradients[0].any()
    assert gradients[0].tolist() == gradients[1].tolist()


@each
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED_HINGE, HINGE], ids=lambda loss: loss.name)
def test_the_whole_path_runs_on_torch_tensors(name, loss):
    """X, labels, weights and cells stay in torch; θ and the matrices are NumPy's. The end is NumPy's own."""
    torch = need("torch")
    w = world("equalized_odds", 3)
    settings = SolverSettings("newton", tol=1e-7, max_iter=500, verbose=0)
    etas = [0.0, 0.05] if name != "gap" else [0.0, 1.0]
    found = []
    for convert in (np.asarray, torch.tensor):
        penalty = Penalty(DISTANCES[name], w.cells(convert=convert))
        scores = ScoreObjective(loss, convert(w.y), convert(w.weight), penalty)
        problem = LinearObjective(scores, convert(w.X), alpha=1e-3, fit_intercept=True)
        points = list(eta_path(problem, etas, settings))
        g = problem.raw_scores(points[-1].solution.theta)
        assert type(g) is type(convert(w.g))
        unseen = left_out_scores(problem.with_eta(etas[-1]), points[-1].solution.theta)
        found.append([*(point.solution for point in points), unseen])
    for ours, theirs in zip(*(each[:-1] for each in found), strict=True):
        assert theirs.value == pytest.approx(ours.value, rel=1e-9)
        assert theirs.theta == pytest.approx(ours.theta, rel=1e-4, abs=1e-5)
    assert found[1][-1] == pytest.approx(found[0][-1], rel=1e-3, abs=1e-4)


def test_a_path_from_a_known_eta_takes_no_larger_steps_than_from_0(capsys):
    w = world("demographic_parity", 2)
    settings = SolverSettings("auto", tol=1e-6, max_iter=500, verbose=1)
    scores = ScoreObjective(LOGISTIC, w.y, w.weight, Penalty(DISTANCES["gap"], w.cells()))
    problem = LinearObjective(scores, w.X, alpha=1e-3, fit_intercept=True)
    (start,) = eta_path(problem, [0.1], settings)

    def steps(*etas, **how):
        capsys.readouterr()
        list(eta_path(problem, etas, settings, start.solution.theta, **how))
        lines = capsys.readouterr().err.splitlines()
        return [float(line.removeprefix("eta ")) for line in lines if line.startswith("eta ")]

    assert steps(0.4, start_eta=0.1) == [0.4]
    assert steps(5.0, start_eta=0.1) == pytest.approx([0.1 * 10**0.5, 1, 10**0.5, 5], rel=1e-4)
    assert steps(5.0) == [5.0]
    assert steps(5.0, 6.0, 40.0, start_eta=4.0) == pytest.approx([5, 6, 10, 10**1.5, 40], rel=1e-4)
