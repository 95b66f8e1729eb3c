"""Distribution functions, gaps and AUC: against brute force, scikit-learn, torch and a hand-worked table."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evenrisk.curves import auc, cell_curves, gaps, run_ends
from optional import need
from worlds import world


def rows(seed=0, n=150, n_cells=3):
    """Scores with ties, cells of unequal size, rows in no cell, weights that are no whole numbers."""
    rng = np.random.default_rng(seed)
    code = rng.choice(np.arange(-1, n_cells), n, p=[0.2, 0.5, 0.2, 0.1])
    score = np.round(rng.normal(0.4 * code, 1 + (code < 1)), 1)
    return score, code, rng.uniform(0.1, 3, n)


def test_four_rows_by_hand():
    """A (t=1, w=2), (t=3, w=1) against B (t=2, w=1), (t=3, w=4), written out of order."""
    score, code = np.array([3.0, 1.0, 3.0, 2.0]), np.array([1, 0, 0, 1])
    curves = cell_curves(score, code, np.array([4.0, 2.0, 1.0, 1.0]), 2)
    np.testing.assert_array_equal(curves.thresholds, [1, 2, 3])
    np.testing.assert_allclose(curves.above, [[1 / 3, 1 / 3, 0], [1, 4 / 5, 0]], rtol=1e-15)
    np.testing.assert_array_equal(curves.mass, [[2, 0, 1], [0, 1, 4]])
    np.testing.assert_allclose(gaps(curves.above), [2 / 3, 7 / 15, 0], rtol=1e-15)
    # P(B > A): A=1 (2/3) loses always; A=3 (1/3) ties with B=3 (4/5)
    assert auc(score, code, np.array([4.0, 2.0, 1.0, 1.0])) == pytest.approx(2 / 3 + 1 / 2 * 1 / 3 * 4 / 5)


@pytest.mark.parametrize("seed", range(3))
def test_curves_equal_brute_force(seed):
    score, code, weight = rows(seed)
    curves = cell_curves(score, code, weight, 3)
    kept = sorted({float(x) for x, c in zip(score, code, strict=True) if c >= 0})
    assert curves.thresholds.tolist() == kept
    assert len(kept) < (code >= 0).sum(), "the case must have ties"
    for cell in range(3):
        mine = code == cell
        above = [weight[mine & (score > t)].sum() / weight[mine].sum() for t in kept]
        mass = [weight[mine & (score == t)].sum() for t in kept]
        np.testing.assert_allclose(curves.above[cell], above, atol=1e-14)
        np.testing.assert_allclose(curves.mass[cell], mass, atol=1e-12)


def test_rows_in_no_cell_are_ignored():
    score, code, weight = rows()
    with_them = cell_curves(score, code, weight, 3)
    kept = code >= 0
    assert set(score[~kept]) - set(score[kept]), "some score must occur outside the cells only"
    for a, b in zip(with_them, cell_curves(score[kept], code[kept], weight[kept], 3), strict=True):
        np.testing.assert_array_equal(a, b)


def test_curves_end_at_zero_exactly_and_fall():
    _, above, mass = cell_curves(*rows(), 3)
    assert (above[:, -1] == 0).all()
    assert (np.diff(above) <= 0).all()
    assert (above >= 0).all()
    assert (mass >= 0).all()


def test_inputs_stay_as_they_were():
    arrays = rows()
    copies = [a.copy() for a in arrays]
    cell_curves(*arrays, 3)
    auc(arrays[0], (arrays[1] > 0).astype(int), arrays[2])
    for a, b in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("ordered", "ends"),
    [([5.0], [0]), ([1.0, 1.0], [1]), ([1.0, 2.0], [0, 1]), ([-1.0, 0.0, -0.0, 0.0, 3.0, 3.0], [0, 3, 5])],
)
def test_run_ends(ordered, ends):
    np.testing.assert_array_equal(run_ends(np.array(ordered)), ends)


def test_gaps_are_taken_over_the_groups():
    above = np.random.default_rng(3).random((2, 3, 5))
    spread = [[max(column) - min(column) for column in stratum.T] for stratum in above]
    np.testing.assert_array_equal(gaps(above), spread)


@pytest.mark.parametrize("weighted", [False, True])
def test_auc_equals_sklearn(weighted):
    w = world(weighted=weighted)
    score = np.round(w.g, 1)
    assert len(np.unique(score)) < len(score) / 2, "the case must have ties"
    assert auc(score, w.y, w.weight) == pytest.approx(
        roc_auc_score(w.y, score, sample_weight=w.weight), abs=1e-13
    )
    assert auc(-score, w.y, w.weight) == pytest.approx(1 - auc(score, w.y, w.weight), abs=1e-13)


def test_auc_of_one_score_for_all_is_a_half():
    assert auc(np.zeros(5), np.array([0, 1, 0, 0, 1]), np.arange(1.0, 6.0)) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_torch_gives_the_same(dtype):
    torch = need("torch")
    score, code, weight = rows()
    score, weight = score.astype(dtype), weight.astype(dtype)
    tensors = torch.asarray(score), torch.asarray(code), torch.asarray(weight)
    ours, theirs = cell_curves(score, code, weight, 3), cell_curves(*tensors, 3)
    tolerance = 1e-14 if dtype == "float64" else 1e-5
    for a, b in zip(ours, theirs, strict=True):
        assert isinstance(b, torch.Tensor)
        assert str(b.dtype) == f"torch.{a.dtype}" == f"torch.{dtype}"
        np.testing.assert_allclose(a, b.numpy(), atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(gaps(ours.above), gaps(theirs.above).numpy(), atol=tolerance)
    ordered = np.sort(score)
    np.testing.assert_array_equal(run_ends(ordered), run_ends(torch.asarray(ordered)).numpy())
    y = (code == 1).astype(int)
    assert auc(*tensors[:1], torch.asarray(y), tensors[2]) == pytest.approx(
        auc(score, y, weight), abs=tolerance
    )
