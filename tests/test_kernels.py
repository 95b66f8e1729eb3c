"""Compiled loops: NumPy's form is the witness for all of them, and threads change nothing."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise, product
from multiprocessing import get_context
from threading import Thread

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy import sparse

import evenrisk
from evenrisk import FairLinearSVC, FairLogisticRegression, GapDistance, HistogramDistance, _kernels, curves
from evenrisk._kernels import _threads
from evenrisk.curves import cell_curves
from evenrisk.distances import DISTANCES
from evenrisk.losses import HINGE, LOGISTIC, SQUARED_HINGE, SmoothedHinge
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from optional import need
from worlds import world

ALL = {
    **DISTANCES,
    "gap-window": GapDistance(window=(0.2, 0.6)),
    "gap-rank": GapDistance(scale="rank"),
    "gap-rank-window": GapDistance(scale="rank", window=(0.3, 0.7), n_thresholds=100),
    "gap-power": GapDistance(power=8),
    "histogram-fine": HistogramDistance(n_bins=50, bandwidth=0.03, floor=1e-4),
}
LOSSES = {
    "logistic": LOGISTIC,
    "hinge": HINGE,
    "squared_hinge": SQUARED_HINGE,
    "smoothed_hinge": SmoothedHinge(0.2, np.random.default_rng(0).random(300)),
}
MEMBERSHIPS = ("one", "none", "soft", "several", "unions")
PARITIES = ("demographic_parity", "equalized_odds", "equal_opportunity")
# of float32, places and sums are computed in float64 here and in float32 by NumPy
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-4}


@pytest.fixture(scope="module", autouse=True)
def numba():
    return need("numba")


def compiled():
    return _kernels.use("numba", few_rows=1)


def cells_of(kind, w):
    """Cells of a world: one each, some in none, with shares, in several at once, or compared as unions."""
    cells, rng = w.cells(), np.random.default_rng(1)
    n = len(w.g)
    if kind == "none":
        return cells._replace(code=np.where(rng.random(n) < 0.3, -1, cells.code))
    if kind == "soft":
        code = (cells.code[:, None] + np.arange(3)) % cells.n_cells
        return cells._replace(
            code=np.where(cells.code[:, None] < 0, -1, code), share=rng.dirichlet([1, 2, 3], n)
        )
    if kind == "several":
        other = np.where(rng.random(n) < 0.4, -1, rng.integers(0, cells.n_cells, n))
        return cells._replace(code=np.column_stack([cells.code, other]))
    if kind == "unions":
        members = np.eye(cells.n_cells)
        members[0, -1] = members[-1, 0] = 1
        return cells._replace(
            unions=members, pairs=np.array([[0, 1], [1, 2]]), pair_weight=np.array([1.0, 0.5])
        )
    return cells


def score_objective(w, distance, loss=LOGISTIC, kind="one", dtype=np.float64, eta=0.7):
    cells = cells_of(kind, w)
    cells = cells._replace(weight=cells.weight.astype(dtype))
    weight = (w.weight * np.where(w.y == 1, 1.5, 1.0)).astype(dtype)  # class weights: not those of the cells
    return ScoreObjective(loss, w.y, weight, Penalty(distance, cells), eta)


def close(ours, theirs, dtype):
    """Equal to rounding, in units of the largest entry."""
    scale = max(np.abs(theirs).max(), 1e-5)  # GA of one feature does not depend on its weight
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(("name", "parity", "kind"), list(product(ALL, PARITIES, MEMBERSHIPS)))
def test_both_rounds_are_numpys(name, parity, kind, dtype):
    w = world(parity, n=300)
    for weighted, loss in product((True, False), LOSSES.values()):
        objective = {}
        for which in ("numpy", "numba"):
            with _kernels.use(which, few_rows=1):
                rows = w if weighted else world(parity, weighted=False, n=300)
                objective[which] = score_objective(rows, ALL[name], loss, kind, dtype)
        assert [each.in_parts for each in objective.values()] == [False, True]
        g = w.g.astype(dtype)
        (value, gradient, summed), ours = (each.evaluate(g) for each in objective.values())
        assert ours[0] == pytest.approx(value, rel=TOLERANCE[dtype])
        assert ours[1].dtype == dtype
        close(ours[1], gradient, dtype)
        if name != "gaussian":  # whose sums are about another number
            close(ours[2].sums.psi, summed.sums.psi, dtype)
        plain, ours = (each.with_eta(0.0)(g) for each in objective.values())
        assert ours[0] == pytest.approx(plain[0], rel=TOLERANCE[dtype])
        close(ours[1], plain[1], dtype)


STORED = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every other": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "sparse": sparse.csr_array,
    "matrix": sparse.csr_matrix,
}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_features", [4, 1, 7])
def test_a_linear_objective_is_numpys(name, stored, dtype, fit_intercept, n_features, monkeypatch):
    monkeypatch.setattr("evenrisk.objective._linear.ENTRIES", 0)  # GA by rows, not by moments of the features
    monkeypatch.setattr(_kernels, "LEAST_PART", 70)
    w = world(n=300)
    X = np.column_stack([w.X, w.X**2])[:, :n_features].astype(dtype)
    theta = np.random.default_rng(2).normal(size=n_features + fit_intercept).astype(dtype).astype(float)
    found = []
    for which in ("numpy", "numba"):
        with _kernels.use(which, few_rows=1):
            scores = score_objective(w, ALL[name], dtype=dtype)
            F = LinearObjective(scores, STORED[stored](X), alpha=0.3, fit_intercept=fit_intercept)
            assert (F.products is not None) == (which == "numba" and stored != "every other")
            found.append((*F(theta), F.raw_scores(theta), *F.curvature_parts(theta)))
    for theirs, ours in zip(*found, strict=True):
        close(np.asarray(ours), np.asarray(theirs), dtype)


@pytest.mark.parametrize("kind", MEMBERSHIPS)
@pytest.mark.parametrize("name", ALL)
def test_a_boosting_rounds_terms_are_numpys(name, kind):
    w = world(n=300)
    part = np.random.default_rng(0).integers(0, 5, 300)
    found = []
    for which in ("numpy", "numba"):
        with _kernels.use(which, few_rows=1):
            for loss in LOSSES.values():
                objective = score_objective(w, ALL[name], loss, kind)
                found.append(objective.terms(lambda rows: w.g[rows]))
            gram = objective.penalty.curvature_of_parts(w.g, part, 6)
            value = objective.penalty.value(w.g)
            found.append((value, gram, objective.penalty.sums(w.g).sums.psi))
    n = len(LOSSES)
    for theirs, ours in zip(found[:n], found[n + 1 : -1], strict=True):
        assert ours.value == pytest.approx(theirs.value, rel=1e-12)
        close(ours.slope, theirs.slope, np.float64)
        close(ours.bend, theirs.bend, np.float64)
    for theirs, ours in zip(found[n], found[-1], strict=True):
        close(np.asarray(ours), np.asarray(theirs), np.float64)


def test_rows_move_by_their_leaves_values():
    from evenrisk.boosting._rounds import moved, sums_by_leaf

    rng = np.random.default_rng(0)
    leaf, g, slope, bend = rng.integers(0, 4, 300), *rng.normal(size=(3, 300))
    values = np.array([0.1, -0.2, 0.0, 3.0, 5.0])
    with compiled():
        ours = moved(g, leaf, values)(slice(10, 200))
        sums = sums_by_leaf(leaf, slope, bend, 5)
    np.testing.assert_array_equal(ours, (g + values[leaf])[10:200])
    np.testing.assert_allclose(sums[0], np.bincount(leaf, slope, 5), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums[1], np.bincount(leaf, bend, 5), rtol=1e-12, atol=1e-12)


def test_n_jobs_bounds_the_threads(monkeypatch):
    monkeypatch.setattr(_threads.os, "cpu_count", lambda: 8)
    monkeypatch.setattr("sklearn.utils._openmp_helpers._openmp_effective_n_threads", lambda: 8)
    assert _kernels.n_threads() == 8
    for n_jobs, n_threads in ((None, 8), (-1, 8), (0, 8), (3, 3), (-2, 7), (-100, 1), (100, 8)):
        with _kernels.at_most(n_jobs):
            assert _kernels.n_threads() == n_threads
            with _kernels.at_most(None):
                assert _kernels.n_threads() == n_threads
        assert _kernels.n_threads() == 8


def test_few_rows_with_curvature_are_enough():
    w = world(n=300)
    loss = SmoothedHinge(0.01, np.full(300, 0.5))
    found = []
    for which in ("numpy", "numba"):
        with _kernels.use(which, few_rows=1):
            F = LinearObjective(score_objective(w, ALL["gap"], loss), w.X, alpha=0.0, fit_intercept=True)
            found.append(F.curvature(np.array([0.8, -0.5, 0.3, 1.0, -0.2])))
    close(found[1], found[0], np.float64)


@pytest.mark.parametrize("g", [np.nan, np.inf, -np.inf, 1e308, -1e308, 800.0, -800.0, 0.0])
@pytest.mark.parametrize("name", ALL)
def test_scores_out_of_bounds_write_out_of_no_bounds(name, g):
    w = world(n=300)
    scores = w.g.copy()
    scores[::5] = g
    with np.errstate(all="ignore"):
        theirs = score_objective(w, ALL[name]).with_eta(0.0)(scores)
        with compiled():
            objective = score_objective(w, ALL[name])
        ours = objective.with_eta(0.0)(scores)
        objective(scores)
    assert ours[0] == pytest.approx(theirs[0], rel=1e-12, nan_ok=True)
    if np.isfinite(g):
        close(ours[1], theirs[1], np.float64)


def test_the_exponential_and_the_logarithm_are_exact():
    from evenrisk._kernels import _loops

    x = -np.r_[0, np.logspace(-300, np.log10(708), 20_000), np.linspace(0, 40, 20_000)]
    ours = np.array([_loops._exp(each) for each in x])
    np.testing.assert_allclose(ours, np.exp(x), rtol=5e-16)
    e = np.r_[0, np.logspace(-300, 0, 20_000), np.linspace(0, 1, 20_000)]
    ours = np.array([_loops._log1p(each) for each in e])
    np.testing.assert_allclose(ours, np.log1p(e), rtol=7e-16)


def test_equal_rows_have_equal_scores_and_slopes_wherever_they_are():
    n = 5003  # no multiple of anything
    rng = np.random.default_rng(0)
    three = rng.normal(size=(3, 5))
    code = rng.integers(0, 3, n)
    w = world(n=n)
    cells = w.cells()._replace(code=code, weight=np.ones(n), n_cells=3, pairs=np.array([[0, 1], [1, 2]]))
    cells = cells._replace(pair_weight=np.ones(2))
    for store in (np.ascontiguousarray, np.asfortranarray):
        with compiled():
            scores = ScoreObjective(LOGISTIC, np.ones(n, int), np.ones(n), Penalty(ALL["gap"], cells), 1.0)
            F = LinearObjective(scores, store(three[code]), alpha=0.0, fit_intercept=True)
        g = F.raw_scores(rng.normal(size=6))
        assert len(np.unique(g)) == 3
        assert len(np.unique(scores(g)[1])) == 3


# ---------------------------------------------------------------- which way is taken


class OwnPlace(GapDistance):
    """A distance that does something of its own with rows."""

    def prepare(self, g):
        return super().prepare(2 * g)


class OwnResidual(GapDistance):
    """One that does not: what differs are tiny arrays."""

    def compare(self, a, b):
        return tuple(2 * each for each in super().compare(a, b))


@dataclass(frozen=True)
class OwnGrid(GapDistance):
    """A distance on a grid of its own."""

    own: tuple = ()

    @property
    def grid(self):
        return super().grid._replace(**dict(self.own))


class OwnShift(GapDistance):
    """A distance that wants scores shifted before they become risks."""

    def shift(self, g, cells):
        return 0.5


@pytest.mark.parametrize(
    ("distance", "is_compiled"),
    [
        (OwnGrid(own=(("low", 50.0), ("high", 300.0))), True),
        (OwnGrid(own=(("low", 0.0), ("high", 300.0))), True),  # held from 0
        (OwnGrid(own=(("scale", 800.0),)), False),  # half of the scores beyond the last bin
        (OwnGrid(own=(("first", -5.0),)), False),
        (OwnGrid(own=(("scale", 800.0), ("high", 406.0))), True),
        (OwnGrid(own=(("degree", 1),)), False),
        (OwnGrid(own=(("degree", 4),)), False),
        (OwnShift(), False),
    ],
    ids=str,
)
def test_loops_that_check_no_bounds_get_no_grid_that_needs_it(distance, is_compiled):
    w = world(n=300)
    with compiled():
        objective = score_objective(w, distance)
    assert objective.in_parts == is_compiled
    if is_compiled:
        theirs = score_objective(w, distance)(w.g)
        assert objective(w.g)[0] == pytest.approx(theirs[0], rel=1e-12)
        close(objective(w.g)[1], theirs[1], np.float64)


def test_what_a_distance_does_of_its_own_is_done():
    w = world(n=300)
    for distance, is_compiled in ((OwnPlace(), False), (OwnResidual(), True)):
        theirs = score_objective(w, distance)(w.g)
        with compiled():
            objective = score_objective(w, distance)
        assert objective.in_parts == is_compiled
        assert objective(w.g)[0] == pytest.approx(theirs[0], rel=1e-12)
        close(objective(w.g)[1], theirs[1], np.float64)


def test_few_rows_and_other_arrays_take_the_plain_way():
    torch = need("torch")
    w = world(n=300)
    with _kernels.use("numba"):
        assert not score_objective(w, ALL["gap"]).in_parts
    with compiled():
        cells = w.cells(convert=torch.from_numpy)
        y, weight = torch.from_numpy(w.y), torch.from_numpy(w.weight)
        assert not ScoreObjective(LOGISTIC, y, weight, Penalty(ALL["gap"], cells), 1.0).in_parts


def test_the_choice_is_visible_and_can_be_made(monkeypatch, capsys):
    monkeypatch.delenv("EVENRISK_KERNELS", raising=False)
    assert _kernels.kind() == "numba"
    evenrisk.show_versions()
    shown = capsys.readouterr().out
    assert f"evenrisk          {evenrisk.__version__}" in shown
    assert "compiled by numba, " in shown
    monkeypatch.setenv("EVENRISK_KERNELS", "numpy")
    assert _kernels.kind() == "numpy"
    evenrisk.show_versions()
    assert "NumPy, one thread" in capsys.readouterr().out
    with _kernels.use("numba"):
        assert _kernels.kind() == "numba"
    assert _kernels.kind() == "numpy"
    monkeypatch.setenv("EVENRISK_KERNELS", "cuda")
    with pytest.raises(ValueError, match="EVENRISK_KERNELS must be 'numba' or 'numpy', got 'cuda'"):
        _kernels.kind()


def test_without_numba_numpy_does_the_work(monkeypatch):
    monkeypatch.delenv("EVENRISK_KERNELS", raising=False)
    monkeypatch.setattr(_kernels, "_installed", lambda: False)
    monkeypatch.setattr(_kernels, "FEW_ROWS", 1)
    w = world(n=300)
    assert not score_objective(w, ALL["gap"]).in_parts
    with pytest.raises(ImportError, match=r"evenrisk\[fast\]"), _kernels.use("numba"):
        pass
    assert _kernels.kind() == "numpy"


# ---------------------------------------------------------------- threads


def many_people(n=30_000, d=6):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) + 0.4 * group[:, None]
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ np.linspace(1, -1, d)))).astype(int)
    return X, y, group


def fitted(n_threads, monkeypatch, model):
    X, y, group = many_people()
    monkeypatch.setattr(_threads, "n_threads", lambda: n_threads)
    return model.fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_fit_is_the_same_to_the_last_bit_with_any_number_of_threads(monkeypatch, distance):
    found = [
        fitted(k, monkeypatch, FairLogisticRegression(distance=distance, eta=0.3)).coef_ for k in (1, 2, 5, 2)
    ]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("model", [FairLogisticRegression(eta=3), FairLinearSVC(eta=1, tol=1e-4)], ids=str)
def test_a_fit_is_as_by_numpy(monkeypatch, model):
    ours = fitted(2, monkeypatch, model)
    coef, objective = ours.coef_.copy(), ours.objective_
    with _kernels.use("numpy"):
        theirs = fitted(2, monkeypatch, model)
    assert objective == pytest.approx(theirs.objective_, rel=1e-6)
    np.testing.assert_allclose(coef, theirs.coef_, atol=1e-4)


def test_parts_cover_all_rows_and_depend_on_their_number_alone():
    for n in (1, 4095, 4096, 20_000, 300_000, 5_000_000):
        parts = _kernels.parts(n)
        assert parts[0].start == 0
        assert parts[-1].stop == n
        assert all(a.stop == b.start for a, b in pairwise(parts))
        sizes = [part.stop - part.start for part in parts]
        assert max(sizes) <= _kernels.MOST_PART
        assert max(sizes) - min(sizes) < len(parts)
        assert len(_kernels.parts(n, n)) == 1
    assert len(_kernels.parts(1_000_000)) == 32
    assert len(_kernels.parts(34_000, _kernels.SCORES_PART)) == 1


def test_results_come_in_order(monkeypatch):
    monkeypatch.setattr(_threads, "n_threads", lambda: 4)
    assert _kernels.run(lambda i: time.sleep(0.001 * (i % 3)) or i, range(50)) == list(range(50))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["caller", "other"])
def test_an_exception_ends_the_work_and_is_raised(monkeypatch, error, where):
    monkeypatch.setattr(_threads, "n_threads", lambda: 2)
    done = []

    def task(i):
        from threading import current_thread, main_thread

        time.sleep(0.001)
        if i > 3 and (current_thread() is main_thread()) == (where == "caller"):
            raise error("here")
        done.append(i)

    with pytest.raises(error, match="here"):
        _kernels.run(task, range(1000))
    assert len(done) < 100
    assert _kernels.run(lambda i: i, range(9)) == list(range(9))


def blas_threads():
    from threadpoolctl import threadpool_info

    return {each["filepath"]: each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_two_callers_at_once_and_blas_afterwards():
    X, y, group = many_people()
    expected = FairLogisticRegression(eta=3).fit(X, y, sensitive_features=group).coef_
    found = {}

    def fit(i):
        found[i] = FairLogisticRegression(eta=3).fit(X, y, sensitive_features=group).coef_

    before = blas_threads()
    for _ in range(3):
        threads = [Thread(target=fit, args=(i,)) for i in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        after = blas_threads()
        assert before == {path: after[path] for path in before}
        assert len(found) == 3
        for coef in found.values():
            np.testing.assert_array_equal(coef, expected)
        found.clear()


WHO_LIMITS = """
import numpy as np
from threading import Event, Thread
from threadpoolctl import threadpool_info
from evenrisk._kernels import one_blas_thread

def blas():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

assert blas() == {2}, blas()
with one_blas_thread():
    assert blas() == {1}, blas()
    with one_blas_thread():
        assert blas() == {1}, blas()
    assert blas() == {1}, blas()
assert blas() == {2}, blas()
with one_blas_thread(False):
    assert blas() == {2}, blas()

came, leave = Event(), Event()

def other():
    with one_blas_thread():
        came.set()
        leave.wait()

thread = Thread(target=other)
with one_blas_thread():  # the first to come is the first to leave
    thread.start()
    came.wait()
assert blas() == {2}, blas()
leave.set()
thread.join()
assert blas() == {2}, blas()
with one_blas_thread():
    assert blas() == {1}, blas()
assert blas() == {2}, blas()
"""


def test_the_number_of_blas_threads_is_what_it_was():
    env = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", WHO_LIMITS], env=env, check=True)


def _fit_and_send(pipe):
    X, y, group = many_people()
    pipe.send(FairLogisticRegression(eta=3).fit(X, y, sensitive_features=group).coef_)


@pytest.mark.skipif(sys.platform == "win32", reason="a fork is not possible there")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_after_a_fit_can_fit(monkeypatch):
    expected = fitted(2, monkeypatch, FairLogisticRegression(eta=3)).coef_
    here, there = get_context("fork").Pipe()
    child = get_context("fork").Process(target=_fit_and_send, args=(there,))
    child.start()
    assert here.poll(60)
    np.testing.assert_array_equal(here.recv(), expected)
    child.join(30)
    assert child.exitcode == 0


def test_workers_of_joblib_fit_the_same():
    X, y, group = many_people()
    model = FairLogisticRegression(eta=3)
    expected = model.fit(X, y, sensitive_features=group).coef_
    found = Parallel(2)(delayed(model.fit)(X, y, sensitive_features=group) for _ in range(2))
    for each in found:
        np.testing.assert_array_equal(each.coef_, expected)


INTERRUPTED = """
import sys, numpy as np
from evenrisk import FairLogisticRegression
rng = np.random.default_rng(0)
X, group = rng.normal(size=(400_000, 30)), rng.integers(0, 2, 400_000)
y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
model = FairLogisticRegression(eta=30, tol=1e-15, max_iter=100_000)
model.fit(X[:30_000], y[:30_000], sensitive_features=group[:30_000])  # loads the loops
before = dict(vars(model))
print("ready", flush=True)
try:
    while True:
        model.fit(X, y, sensitive_features=group)
except KeyboardInterrupt:
    assert vars(model).keys() == before.keys()
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
def test_ctrl_c_ends_a_fit_within_a_second():
    env = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], **settings) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        start = time.perf_counter()
        assert process.stdout.readline() == "interrupted\n", process.stderr.read()
        assert time.perf_counter() - start < 1
        assert process.wait(20) == 0


# ---------------------------------------------------------------- scores in order


@pytest.mark.parametrize("n_cells", [2, 5])
@pytest.mark.parametrize("ties", ["none", "many", "one score", "two scores"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_curves_by_buckets_are_numpys(monkeypatch, n_cells, ties, dtype):
    monkeypatch.setattr(curves, "BUCKET_ROWS", 100)
    monkeypatch.setattr(_kernels, "SCORES_PART", 700)
    monkeypatch.setattr(_threads, "n_threads", lambda: 3)
    rng = np.random.default_rng(0)
    n = 5000
    score = rng.normal(size=n)
    score[::3] += 100
    score[:5] = [0.0, -0.0, np.inf, -np.inf, 0.0]
    if ties != "none":
        score = {"many": np.round(score, 1), "one score": 0 * score[5:6], "two scores": np.sign(score)}[
            ties
        ] + 0 * score.clip(-9, 9)
    score, weight = score.astype(dtype), rng.integers(0, 4, n).astype(dtype)
    code = rng.integers(-1, n_cells, n)
    with _kernels.use("numpy"):
        theirs = cell_curves(score, code, weight, n_cells)
    with compiled():
        ours = cell_curves(score, code, weight, n_cells)
        rising = cell_curves(np.arctan(score / 3).astype(dtype), code, weight, n_cells)
    np.testing.assert_array_equal(ours.thresholds, theirs.thresholds)
    np.testing.assert_array_equal(ours.mass, theirs.mass)
    np.testing.assert_allclose(ours.above, theirs.above, rtol=0, atol=1e-15 if dtype == np.float64 else 1e-6)
    if ties == "many" and dtype == np.float64:
        np.testing.assert_array_equal(rising.above, ours.above)


def test_a_profile_of_many_people_is_numpys(monkeypatch):
    rng = np.random.default_rng(1)
    n = 120_000
    group, score = rng.integers(0, 3, n), rng.random(n).round(4)
    y, weight = (rng.random(n) < score).astype(int), rng.random(n)
    for parity in ("demographic_parity", "equalized_odds"):
        settings = {"sensitive_features": group, "parity": parity, "sample_weight": weight}
        ours = evenrisk.threshold_profile(y, score, **settings)
        with _kernels.use("numpy"):
            theirs = evenrisk.threshold_profile(y, score, **settings)
        assert ours.max_gap == pytest.approx(theirs.max_gap, rel=1e-12)
        np.testing.assert_array_equal(ours.thresholds, theirs.thresholds)
        np.testing.assert_allclose(ours.gap, theirs.gap, rtol=0, atol=1e-13)
