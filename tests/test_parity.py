"""Parity rules and the cells they make, on a table small enough to check by eye."""

import pickle

import numpy as np
import pytest

from evenrisk import Parity
from evenrisk.parity import PARITIES, cell_codes, group_pairs, make_cells
from optional import need

Y = np.array([0, 1, 1, 0, 1, 0])
GROUP = np.array([0, 2, 1, 1, 0, 2])
EXPECTED = {
    "demographic_parity": [0, 2, 1, 1, 0, 2],
    "equalized_odds": [0, 5, 4, 1, 3, 2],
    "equal_opportunity": [-1, 2, 1, -1, 0, -1],
    "predictive_equality": [0, -1, -1, 1, -1, 2],
}


@pytest.mark.parametrize("name", PARITIES)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_cells_of_six_people(name, dtype):
    y, group = Y.astype(dtype), GROUP.astype(dtype)
    assert cell_codes(PARITIES[name], y, group, 3).tolist() == EXPECTED[name]


@pytest.mark.parametrize("name", PARITIES)
def test_torch_makes_the_same_cells(name):
    torch = need("torch")
    weight = np.arange(1.0, 7.0)
    ours = make_cells(PARITIES[name], Y, GROUP, 3, weight)
    theirs = make_cells(PARITIES[name], *map(torch.from_numpy, (Y, GROUP)), 3, torch.from_numpy(weight))
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one, np.asarray(other))


def test_many_groups_do_not_overflow_small_labels():
    group = np.arange(200, dtype=np.int32)
    codes = cell_codes(PARITIES["equalized_odds"], np.ones(200, np.int8), group, 200)
    assert codes.tolist() == list(range(200, 400))


def test_pairs_stay_inside_strata_and_weigh_as_a_mean():
    assert group_pairs(2, 3) == [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]
    cells = make_cells(PARITIES["equalized_odds"], Y, GROUP, 3, np.ones(6))
    assert cells.pair_weight.tolist() == pytest.approx([1 / 3] * 6)
    assert cells.n_cells == 6
    two = make_cells(PARITIES["equalized_odds"], Y, GROUP.clip(0, 1), 2, np.ones(6))
    assert two.pair_weight.tolist() == [1, 1]  # the paper's sum over strata


def test_demographic_parity_needs_no_label():
    assert cell_codes(PARITIES["demographic_parity"], None, GROUP, 3).tolist() == GROUP.tolist()


@pytest.mark.parametrize("name", PARITIES)
def test_rules_survive_a_pickle(name):
    assert pickle.loads(pickle.dumps(PARITIES[name])) == PARITIES[name]


def test_cells_have_names():
    assert PARITIES["demographic_parity"].cell_names(["'a'", "'b'"]) == ["group 'a'", "group 'b'"]
    assert PARITIES["equalized_odds"].cell_names(["'a'"]) == [
        "group 'a' among negatives",
        "group 'a' among positives",
    ]


def test_a_rule_of_ones_own():
    rule = Parity("repaid only", ("repaid",), lambda y: y - 1)
    assert cell_codes(rule, Y, GROUP, 3).tolist() == EXPECTED["equal_opportunity"]
