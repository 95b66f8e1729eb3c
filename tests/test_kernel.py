"""FairKernelSVC: libsvm as the witness, Nyström, memory, kernels that are none."""

import pickle
import tracemalloc

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.linalg import sqrtm
from scipy.optimize import minimize
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

import evenrisk.svm._kernel as kernel_module
import evenrisk.svm._memory as memory_module
from evenrisk import FairKernelSVC, FairLinearSVC, threshold_profile
from evenrisk.svm._kernels import KernelFeatures, RepeatedRows
from worlds import as_it_came, in_pieces

DECISION = 2e-3  # how far decision values may be from libsvm's at tol=1e-8
PENALISED = {"gap": 10.0, "histogram": 2.0, "gaussian": 2.0}


@pytest.fixture(scope="module")
def some(compas):
    """900 people: X, y, race."""
    rows = np.random.default_rng(5).permutation(len(compas[1]))[:900]
    return tuple(a[rows] for a in compas)


@pytest.fixture(scope="module")
def few(some):
    """250 people without two alike."""
    rows = np.unique(some[0], axis=0, return_index=True)[1][:250]
    return tuple(a[rows] for a in some)


def module_level_kernel(X, Z):
    return laplacian_kernel(X, Z, gamma=0.3)


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.5},
    "rbf-scale": {"kernel": "rbf", "gamma": "scale"},
    "rbf-auto": {"kernel": "rbf", "gamma": "auto"},
    "rbf-narrow": {"kernel": "rbf", "gamma": 1e6},
    "poly": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    "linear": {"kernel": "linear"},
    "callable": {"kernel": module_level_kernel},
}


# ---------------------------------------------------------------- without a penalty: libsvm, SciPy


@pytest.mark.parametrize(
    ("name", "weighted"),  # SVC's "scale" does not look at the weights; ours does, see below
    [
        (name, weighted)
        for name in KERNELS
        for weighted in (False, True)
        if (name, weighted) != ("rbf-scale", True)
    ],
)
def test_eta_zero_is_libsvms_machine(some, name, weighted):
    X, y, _ = some
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    reference = SVC(C=10, tol=1e-8, **KERNELS[name]).fit(X, y, sample_weight=weight)
    ours = FairKernelSVC(eta=0, tol=1e-8, **KERNELS[name]).fit(X, y, weight)
    assert np.abs(ours.decision_function(X) - reference.decision_function(X)).max() < DECISION
    new = X[:50] + 0.1
    assert np.abs(ours.decision_function(new) - reference.decision_function(new)).max() < DECISION


def test_eta_zero_is_libsvms_machine_at_the_default_tolerance(compas):
    X, y, _ = (a[:2500] for a in compas)
    reference = SVC(gamma=0.5, C=10, tol=1e-8).fit(X, y)
    ours = FairKernelSVC(eta=0).fit(X, y)
    assert np.abs(ours.decision_function(X) - reference.decision_function(X)).max() < 5e-3


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")  # a ridge of 1e4 leaves nothing
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e4])
def test_a_given_ridge_is_libsvms_C(some, alpha):
    X, y, _ = some
    reference = SVC(gamma=0.5, C=1 / (alpha * len(y)), tol=1e-10).fit(X, y)
    ours = FairKernelSVC(eta=0, alpha=alpha).fit(X, y)
    assert np.abs(ours.decision_function(X) - reference.decision_function(X)).max() < 1e-3


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_squared_hinge_is_the_minimum_scipy_finds(few, fit_intercept):
    """Over all coefficients of all rows: mean slack² + λ/2·αᵀKα."""
    X, y, _ = (a[:120] for a in few)
    K, sign, n = rbf_kernel(X, gamma=0.5), 2 * y - 1, len(y)

    def formula(t):
        f = K @ t[:n]
        slack = np.maximum(0, 1 - sign * (f + t[n] * fit_intercept))
        slope = -2 * sign * slack / n
        gradient = np.append(K @ slope + 0.01 * f, slope.sum() * fit_intercept)
        return (slack**2).mean() + 0.005 * t[:n] @ f, gradient

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9}
    reference = minimize(formula, np.zeros(n + 1), jac=True, method="L-BFGS-B", options=options)
    ours = FairKernelSVC(eta=0, alpha=0.01, loss="squared_hinge", fit_intercept=fit_intercept).fit(X, y)
    assert ours.objective_ == pytest.approx(reference.fun, rel=1e-6)
    g = K @ reference.x[:n] + reference.x[n] * fit_intercept
    assert np.abs(ours.decision_function(X) - g).max() < 2e-3


def test_without_an_intercept_scores_fall_to_zero_far_away(some):
    X, y, race = some
    clf = FairKernelSVC(eta=1, fit_intercept=False, n_components=40, random_state=0, tol=1e-5)
    clf.fit(X, y, sensitive_features=race)
    assert clf.intercept_.tolist() == [0]
    assert clf.decision_function(np.full((1, 4), 1e3)).tolist() == [0]


@pytest.mark.parametrize("eta", [0, 2])
def test_a_precomputed_kernel_is_the_named_one(few, eta):
    X, y, race = few
    train, test = slice(0, 180), slice(180, None)
    settings = {"eta": eta, "alpha": 0.01}
    K, groups = rbf_kernel(X, X[train], gamma=0.5), race[train]
    named = FairKernelSVC(**settings).fit(X[train], y[train], sensitive_features=groups)
    given = FairKernelSVC(**settings, kernel="precomputed").fit(K[train], y[train], sensitive_features=groups)
    called = FairKernelSVC(**settings, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5))
    called.fit(X[train], y[train], sensitive_features=groups)
    tolerance = 2e-3 if eta == 0 else 2e-2
    for rows in (train, test):
        g = named.decision_function(X[rows])
        assert np.abs(given.decision_function(K[rows]) - g).max() < tolerance
        assert np.abs(called.decision_function(X[rows]) - g).max() < tolerance
    assert given.objective_ == pytest.approx(named.objective_, rel=1e-5)
    assert given.support_.max() < 180
    assert not hasattr(given, "support_vectors_")
    copy = pickle.loads(pickle.dumps(given))
    assert np.array_equal(copy.predict(K[test]), given.predict(K[test]))


def test_cross_validation_slices_a_precomputed_kernel_both_ways(few):
    X, y, race = few
    by_kernel = FairKernelSVC(eta=2, kernel="precomputed", alpha=0.01, loss="squared_hinge")
    by_rows = FairKernelSVC(eta=2, alpha=0.01, loss="squared_hinge")
    with sklearn.config_context(enable_metadata_routing=True):
        found, expected = (
            cross_val_predict(
                clf, Z, y, cv=3, method="decision_function", params={"sensitive_features": race}
            )
            for clf, Z in ((by_kernel, rbf_kernel(X, gamma=0.5)), (by_rows, X))
        )
    assert found == pytest.approx(expected, abs=1e-3)


# ---------------------------------------------------------------- with a penalty


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("distance", PENALISED)
def test_no_higher_than_a_long_momentum_descent_from_the_same_start(some, distance, parity):
    X, y, race = (a[:500] for a in some)
    settings = {"parity": parity, "distance": distance, "eta": PENALISED[distance]}
    settings |= {"n_components": 25, "random_state": 0}
    ours = FairKernelSVC(**settings).fit(X, y, sensitive_features=race)
    paper = FairKernelSVC(**settings, solver="momentum", max_iter=1000).fit(X, y, sensitive_features=race)
    start = FairKernelSVC(**settings, solver="momentum", max_iter=1).fit(X, y, sensitive_features=race)
    assert ours.objective_ <= paper.objective_ * (1 + 1e-4)
    assert ours.objective_ >= paper.objective_ * (1 - 0.05)
    assert paper.objective_ < start.objective_ - 1e-3


@pytest.mark.parametrize("distance", PENALISED)
def test_a_linear_kernel_is_the_linear_machine(some, distance):
    X, y, race = some
    settings = {"distance": distance, "eta": 0.05}
    linear = FairLinearSVC(**settings).fit(X, y, sensitive_features=race)
    kernel = FairKernelSVC(**settings, kernel="linear").fit(X, y, sensitive_features=race)
    assert kernel.support_vectors_.shape == (4, 4)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=2e-5)
    assert np.abs(kernel.decision_function(X) - linear.decision_function(X)).max() < 0.02
    w = kernel.dual_coef_ @ kernel.support_vectors_
    assert w == pytest.approx(linear.coef_, abs=0.01)


def test_fairer_where_the_linear_machine_must_collapse(compas):
    """At a max gap of .10 in training, the kernel machine still ranks people."""
    X, y, race = compas
    clf = FairKernelSVC(distance="histogram", eta=10, n_components=50, random_state=0, tol=1e-4)
    s = clf.fit(X, y, sensitive_features=race).predict_proba(X)[:, 1]
    assert threshold_profile(y, s, sensitive_features=race).max_gap < 0.1
    assert s.std() > 0.1


# ---------------------------------------------------------------- Nyström


@pytest.mark.parametrize("eta", [0, 2])
def test_all_points_as_landmarks_are_the_exact_machine(few, eta):
    X, y, race = few
    exact = FairKernelSVC(eta=eta).fit(X, y, sensitive_features=race)
    for p in (len(y), 10**6):
        same = FairKernelSVC(eta=eta, n_components=p, random_state=3).fit(X, y, sensitive_features=race)
        assert np.array_equal(same.decision_function(X), exact.decision_function(X))
    nearly = FairKernelSVC(eta=0, n_components=len(y) - 1, random_state=3).fit(X, y)
    plain = FairKernelSVC(eta=0).fit(X, y)
    assert 0 < np.abs(nearly.decision_function(X) - plain.decision_function(X)).max() < 0.2


def test_landmarks_span_nystroms_features(few):
    """K(·, S)·K(S, S)^(−½) in a linear machine of libsvm's gives the same scores."""
    X, y, _ = few
    ours = FairKernelSVC(eta=0, n_components=20, random_state=0, tol=1e-8).fit(X, y)
    S = ours.support_vectors_
    assert len(S) == 20
    assert {tuple(row) for row in S} <= {tuple(row) for row in X}
    root = np.linalg.inv(sqrtm(rbf_kernel(S, gamma=0.5)).real)
    features = rbf_kernel(X, S, gamma=0.5) @ root
    reference = SVC(kernel="linear", C=10, tol=1e-8).fit(features, y)
    assert np.abs(ours.decision_function(X) - reference.decision_function(features)).max() < DECISION


def test_the_seed_chooses_the_landmarks(some, monkeypatch):
    X, y, _ = some
    one, same, other = (
        FairKernelSVC(eta=0, n_components=15, random_state=seed, tol=1e-3).fit(X, y) for seed in (0, 0, 1)
    )
    assert np.array_equal(one.support_vectors_, same.support_vectors_)
    assert not np.array_equal(one.support_vectors_, other.support_vectors_)
    assert pickle.dumps(one) == pickle.dumps(same)
    unseeded = FairKernelSVC(eta=0, n_components=15, tol=1e-3).fit(X, y)
    assert unseeded.support_vectors_.shape == (15, 4)
    # large data keep rows of weight 0
    monkeypatch.setattr("evenrisk._estimator._contract.MERGE_ENTRIES", 0)
    absent = FairKernelSVC(eta=0, n_components=15, random_state=0, tol=1e-3).fit(
        np.r_[X, X[:50] + 5], np.r_[y, y[:50]], np.r_[np.ones(900), np.zeros(50)]
    )
    assert np.array_equal(absent.support_vectors_, one.support_vectors_)


# ---------------------------------------------------------------- memory


def peak(n, **settings):
    """Bytes that a fit on n distinct rows allocates at most at a time, and the largest single array."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    y, group = (X[:, 0] + rng.standard_normal(n) > 0).astype(int), rng.integers(0, 2, n)
    clf = FairKernelSVC(eta=0.01, max_iter=3, tol=10.0, **settings)
    tracemalloc.start()
    clf.fit(X, y, sensitive_features=group)
    clf.decision_function(X)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_nystroms_memory_is_linear_in_the_rows(loss, monkeypatch):
    monkeypatch.setattr("evenrisk._estimator._contract.MERGE_ENTRIES", 0)
    small, large = (peak(n, n_components=20, random_state=0, loss=loss) for n in (9_000, 18_000))
    assert large < 2.2 * small
    assert large < 8 * 18_000 * 20 * 8  # eight matrices of n × p numbers
    assert large < 8 * 18_000**2 / 100


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("gamma", [0.5, 1e4])  # low rank, full rank
def test_the_exact_form_takes_what_it_says_it_takes(gamma, monkeypatch):
    asked = []
    monkeypatch.setattr(kernel_module, "available_memory", lambda: asked.append(1) or 10**12)
    n = 1500
    taken = peak(n, gamma=gamma)
    assert asked == [1]
    assert 8 * n * n < taken < 8 * kernel_module.MATRICES * n * n


def test_what_does_not_fit_is_refused_before_it_is_allocated(some, monkeypatch):
    X, y, race = some
    m = len(np.unique(X, axis=0))
    monkeypatch.setattr(kernel_module, "available_memory", lambda: 8 * kernel_module.MATRICES * m * m - 1)
    message = rf"on {m} distinct rows needs .* GiB, and .* GiB are available\. Set n_components \(say {m}\)"
    tracemalloc.start()
    with pytest.raises(MemoryError, match=message):
        FairKernelSVC().fit(X, y, sensitive_features=race)
    assert tracemalloc.get_traced_memory()[1] < 8 * m * m / 2
    tracemalloc.stop()
    FairKernelSVC(n_components=20, tol=1e-3).fit(X, y, sensitive_features=race)
    monkeypatch.setattr(kernel_module, "available_memory", lambda: 8 * kernel_module.MATRICES * m * m)
    FairKernelSVC(eta=0, tol=1e-3).fit(X, y)


def test_available_memory_is_the_smaller_of_what_is_reported(monkeypatch, tmp_path):
    assert 0 < memory_module.available_memory() < 2**50
    for told, expected in (((7, 5), 5), ((3, 5), 3), ((None, 5), 5), ((3, None), 3)):
        monkeypatch.setattr(memory_module, "_meminfo", lambda told=told: told[0])
        monkeypatch.setattr(memory_module, "_control_group", lambda told=told: told[1])
        assert memory_module.available_memory() == expected
    monkeypatch.setattr(memory_module, "_meminfo", lambda: None)
    monkeypatch.setattr(memory_module, "_control_group", lambda: None)
    assert memory_module.available_memory() > 2**27


def test_a_container_may_take_its_limit_less_its_use(monkeypatch, tmp_path):
    """Files cached in memory can be dropped, so they are no use."""
    monkeypatch.setattr(memory_module, "CONTROL_GROUP", tmp_path)
    assert memory_module._control_group() is None
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_module._control_group() is None
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory_module._control_group() == 300
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 450\nactive_file 5\n")
    assert memory_module._control_group() == 750
    (tmp_path / "memory.current").write_text("2000\n")
    assert memory_module._control_group() == 0


def test_large_predictions_go_block_by_block(some, monkeypatch):
    X, y, _ = some
    clf = FairKernelSVC(eta=0, n_components=30, random_state=0, tol=1e-3).fit(X, y)
    whole = clf.decision_function(X)
    monkeypatch.setattr(kernel_module, "BLOCK_BYTES", 8 * 30 * 7)
    assert clf.decision_function(X) == pytest.approx(whole, rel=1e-10, abs=1e-10)


# ---------------------------------------------------------------- the kernel's features


@pytest.mark.parametrize("kernel", [rbf_kernel, polynomial_kernel, laplacian_kernel])
def test_features_reproduce_the_kernel_and_its_norm(few, kernel, monkeypatch):
    X, _, _ = few
    K = kernel(X, X)
    phi = KernelFeatures.from_landmarks(kernel, X, alpha=1e-4, tol=1e-6)
    features = phi(X)
    assert np.abs(features @ features.T - K).max() < 1e-8 * K.max()
    w = np.random.default_rng(0).standard_normal(features.shape[1])
    dual = phi.dual_coefficients(w)
    assert kernel(X, phi.support) @ dual == pytest.approx(features @ w, abs=1e-4 * np.abs(K).max())
    assert dual @ kernel(phi.support, phi.support) @ dual == pytest.approx(w @ w, rel=1e-4)
    monkeypatch.setattr("evenrisk.svm._kernels.BLOCK_BYTES", 1)
    assert phi(X) == pytest.approx(features, rel=1e-6, abs=1e-8)


def test_the_rank_falls_with_the_ridge_and_the_tolerance(few):
    X, _, _ = few

    def rank(alpha, tol):
        return len(KernelFeatures.from_landmarks(lambda A, B: rbf_kernel(A, B, gamma=0.5), X, alpha, tol).T)

    ranks = [rank(alpha, 1e-6) for alpha in (0, 1e-4, 1, 1e4)]
    assert len(X) >= ranks[0] > ranks[1] > ranks[2] > ranks[3] > 0
    assert rank(1e-4, 1e-8) > ranks[1] > rank(1e-4, 1e-3)


def test_shared_rows_multiply_like_the_rows_written_out():
    rng = np.random.default_rng(0)
    base, index = rng.standard_normal((5, 3)), rng.integers(0, 5, 40)
    X, rows = base[index], RepeatedRows(base, index)
    w, r = rng.standard_normal(3), rng.standard_normal(40)
    assert rows.shape == X.shape
    assert rows @ w == pytest.approx(X @ w, rel=1e-12)
    assert rows.T @ r == pytest.approx(X.T @ r, rel=1e-12)
    assert np.array_equal(rows[3:9], X[3:9])
    assert np.array_equal(rows[[1, 7]], X[[1, 7]])


# ---------------------------------------------------------------- edges


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")  # of features that are constant
def test_scale_is_the_weighted_variance(some):
    X, y, _ = some
    times = np.random.default_rng(0).integers(1, 4, len(y))
    expected = SVC(gamma="scale").fit(np.repeat(X, times, axis=0), np.repeat(y, times))._gamma
    for given in (X, sparse.csr_array(X)):
        clf = FairKernelSVC(eta=0, gamma="scale", n_components=5, tol=1e-2).fit(given, y, times)
        assert clf.gamma_ == pytest.approx(expected, rel=1e-9)
    far = FairKernelSVC(eta=0, gamma="scale", n_components=5, tol=1e-2).fit(X + 1e7, y, times)
    assert far.gamma_ == pytest.approx(expected, rel=1e-6)
    uneven = np.linspace(0.31, 1.7, 42)
    for value in (0.0, 0.1, 1e9 / 3, 2 / 3):  # the mean of equal numbers is off by rounding
        for kind in (np.asarray, sparse.csr_array):
            flat = FairKernelSVC(eta=0, gamma="scale")
            flat.fit(kind(np.full((42, 7), value)), [0, 1, 1] * 14, uneven)
            assert flat.gamma_ == 1.0


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_entries_of_a_sparse_matrix_that_come_twice_are_summed(few, kernel):
    X, y, race = few
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    whole, pieces = sparse.csr_matrix(X), in_pieces(X)
    before = as_it_came(pieces)
    expected = FairKernelSVC(kernel=kernel, eta=1).fit(whole, y, sensitive_features=race)
    found = FairKernelSVC(kernel=kernel, eta=1).fit(pieces, y, sensitive_features=race)
    np.testing.assert_array_equal(found.decision_function(pieces), expected.decision_function(whole))
    for now, then in zip(as_it_came(pieces), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_an_offset_leaves_the_digits_of_the_distances(few):
    X, y, _ = few
    near = FairKernelSVC(eta=0).fit(X, y)
    far = FairKernelSVC(eta=0).fit(X + 1e6, y)
    assert np.abs(far.decision_function(X + 1e6) - near.decision_function(X)).max() < 5e-3


def test_float32_rows_are_computed_with_in_float64(few):
    X, y, race = few
    single = FairKernelSVC(eta=1).fit(X.astype(np.float32), y, sensitive_features=race)
    double = FairKernelSVC(eta=1).fit(X.astype(np.float32).astype(float), y, sensitive_features=race)
    assert np.array_equal(single.decision_function(X), double.decision_function(X))


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
def test_a_narrow_kernel_separates_everybody_and_one_row_nobody():
    rng = np.random.default_rng(0)
    X, y, group = rng.standard_normal((200, 2)), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    clf = FairKernelSVC(eta=1, gamma=1e6).fit(X, y, sensitive_features=group)
    assert len(clf.support_vectors_) == 200
    assert clf.score(X, y) == 1
    one = FairKernelSVC(eta=0).fit(np.ones((40, 2)), [0, 1, 1, 1] * 10)
    assert one.support_vectors_.shape == (1, 2)
    assert one.decision_function(np.ones((1, 2))) == pytest.approx([1], abs=1e-6)


def test_a_change_of_kernel_or_rows_under_warm_start_begins_afresh(few):
    X, y, _ = few
    K = rbf_kernel(X, gamma=0.5)
    clf = FairKernelSVC(eta=0, kernel="precomputed", warm_start=True).fit(K, y)
    cold = clf.n_iter_
    assert clf.fit(K, y).n_iter_ < cold
    clf.fit(K[:100, :100], y[:100])
    clf.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(clf, "support_")
    assert np.array_equal(clf.decision_function(X), FairKernelSVC(eta=0).fit(X, y).decision_function(X))
    before = clf.objective_
    assert clf.fit(sparse.csr_array(X), y).objective_ == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"kernel": "sigmoid"},
            "`kernel` must be one of 'rbf', 'linear', 'poly', 'precomputed', got 'sigmoid'",
        ),
        ({"kernel": 3}, "`kernel` must be one of 'rbf', 'linear', 'poly', 'precomputed', got 3"),
        ({"gamma": "wide"}, "`gamma` must be a number above 0, 'scale' or 'auto', got 'wide'"),
        ({"gamma": 0}, "`gamma` must be a finite number above 0, got 0"),
        ({"gamma": -1.0}, "`gamma` must be a finite number above 0, got -1.0"),
        ({"gamma": None}, "`gamma` must be a finite number above 0, got None"),
        ({"degree": 0}, "`degree` must be a whole number of at least 1, got 0"),
        ({"degree": 2.5}, "`degree` must be a whole number of at least 1, got 2.5"),
        ({"coef0": -1}, "`coef0` must be a finite number of at least 0, got -1"),
        ({"n_components": 0}, "`n_components` must be a whole number of at least 1, got 0"),
        ({"n_components": 2.5}, "`n_components` must be a whole number of at least 1, got 2.5"),
        ({"n_components": "all"}, "`n_components` must be a whole number of at least 1, got 'all'"),
        (
            {"kernel": "precomputed"},
            "a precomputed kernel must be square, (n, n), to fit, got shape (250, 4)",
        ),
    ],
)
def test_bad_settings(few, params, message):
    X, y, _ = few
    with pytest.raises(ValueError) as error:
        FairKernelSVC(eta=0, **params).fit(X, y)
    assert str(error.value) == message


def reflection(A, B):
    """I − 2vvᵀ among equal rows: one eigenvalue is −1."""
    same = (A[:, None] == B[None]).all(axis=2).astype(float)
    return same - 2 / 250


NO_KERNELS = {
    "NaN": (lambda A, B: np.full((len(A), len(B)), np.nan), "must give finite values, got NaN"),
    "infinite": (lambda A, B: np.full((len(A), len(B)), np.inf), "must give finite values"),
    "one value per row": (lambda A, B: np.ones(len(A)), r"shape \(250, 250\), got shape \(250,\)"),
    "a column too many": (lambda A, B: np.ones((len(A), len(B) + 1)), r"got shape \(250, 251\)"),
    "asymmetric": (lambda A, B: A[:, :1] + 0 * B[:, 0], "must be symmetric, got values that differ by"),
    "negative": (lambda A, B: -rbf_kernel(A, B), "must be positive semi-definite"),
    "distance": (lambda A, B: ((A[:, None] - B[None]) ** 2).sum(axis=2), "must be positive semi-definite"),
    "tanh": (lambda A, B: np.tanh(2 * A @ B.T - 3), "must be positive semi-definite"),
    "reflection": (reflection, "must be positive semi-definite"),
}


@pytest.mark.parametrize("name", NO_KERNELS)
def test_what_is_no_kernel_is_refused(few, name):
    X, y, _ = few
    kernel, message = NO_KERNELS[name]
    with pytest.raises(ValueError, match=f"^`kernel` .*{message}"):
        FairKernelSVC(eta=0, kernel=kernel).fit(X, y)


def test_values_away_from_the_landmarks_are_checked_too(few):
    X, y, _ = few
    K = rbf_kernel(X)
    for kernel, message in (
        (
            lambda A, B: rbf_kernel(A, B) if len(A) == len(B) else K,
            r"shape \(250, 5\), got shape \(250, 250\)",
        ),
        (lambda A, B: rbf_kernel(A, B) * (1 if len(A) == len(B) else np.nan), "got NaN or infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            FairKernelSVC(eta=0, kernel=kernel, n_components=5).fit(X, y)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
def test_a_kernel_that_is_zero_everywhere_leaves_a_constant(few):
    X, y, _ = few
    clf = FairKernelSVC(eta=0, kernel=lambda A, B: np.zeros((len(A), len(B)))).fit(X, y)
    assert set(clf.decision_function(X)) == {np.sign(y.mean() - 0.5)}
