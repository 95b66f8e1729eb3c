"""Certificates: a limit is kept, exceeded, or more rows are needed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scored_people import People, people


def shifted(n, gap, copies=1):
    """Two groups of n · copies rows whose measured max gap is `gap`, a multiple of 1/n."""
    score = np.arange(n)
    rows = np.concatenate([score, score + round(gap * n)])
    group = np.repeat(["a", "b"], n)
    return People(
        "demographic_parity", np.tile(rows, copies), np.zeros(2 * n * copies, int), np.tile(group, copies)
    )


def test_rows_needed_are_the_fields_figures():
    """Measured .02, limit .05, 95 %: 2 ln(80) / .03² rows by DKW, about 4,100 by the bootstrap."""
    profile = shifted(1000, 0.02).profile
    assert profile.max_gap == pytest.approx(0.02)
    dkw = profile.certify(0.05)
    assert dkw.verdict == "not decidable"
    assert dkw.rows_needed == math.ceil(2 * math.log(80) / 0.03**2) == 9738
    bootstrap = profile.certify(0.05, method="bootstrap", n_resamples=4000)
    assert bootstrap.verdict == "not decidable"
    assert bootstrap.rows_needed == pytest.approx(4100, rel=0.05)
    above = shifted(1000, 0.08).profile.certify(0.05)
    assert (above.verdict, above.rows_needed) == ("not decidable", 9738)


def test_rows_needed_count_cells():
    """ln(4k/α) under equalized odds with k groups, and the pair that is furthest from decided counts."""
    n = 200
    score = np.tile(np.concatenate([np.arange(n), np.arange(n) + 4, np.arange(n) + 2]), 2)
    y, group = np.repeat([0, 1], 3 * n), np.tile(np.repeat(list("abc"), n), 2)
    got = People("equalized_odds", score, y, group).profile.certify(0.05)
    assert got.max_gap.value == pytest.approx(0.02)
    assert got.rows_needed == math.ceil(2 * math.log(12 / 0.05) / 0.03**2)


def test_one_pair_above_the_limit_is_enough():
    """Gaps of .08, .12 and .20 against .05: the last is decided first, by 2 ln(2 · 3 / α) / .15² rows."""
    n = 100
    score = np.concatenate([np.arange(n), np.arange(n) + 8, np.arange(n) + 20])
    got = People(
        "demographic_parity", score, np.zeros(3 * n, int), np.repeat(list("abc"), n)
    ).profile.certify(0.05)
    assert got.max_gap.value == pytest.approx(0.2)
    assert (got.verdict, got.rows_needed) == ("not decidable", math.ceil(2 * math.log(120) / 0.15**2))


@pytest.mark.parametrize(("gap", "verdict"), [(0.02, "certified"), (0.08, "violated")])
def test_as_many_rows_as_needed_decide_and_fewer_do_not(gap, verdict):
    """DKW to 50 rows: 9,738 are needed; the same 50 rows 195 times are 9,750, 194 times 9,700."""
    for copies, expected in ((195, verdict), (194, "not decidable"), (156, "not decidable")):
        assert shifted(50, gap, copies).profile.certify(0.05).verdict == expected, copies


@pytest.mark.parametrize(("gap", "verdict"), [(0.02, "certified"), (0.08, "violated")])
def test_as_many_rows_as_needed_decide_by_the_bootstrap(gap, verdict):
    """2000 resamples know the half-width to 1.5 %, rows to 3 %: 10 % more decide, 20 % fewer do not."""
    needed = shifted(50, gap, 20).profile.certify(0.05, method="bootstrap", n_resamples=2000).rows_needed
    for factor, expected in ((1.1, verdict), (0.8, "not decidable")):
        profile = shifted(50, gap, round(factor * needed / 50)).profile
        assert profile.certify(0.05, method="bootstrap", random_state=1).verdict == expected, factor


def test_weighted_rows_need_more_of_them():
    """With weights 1 and 3 in turn a row is worth 4² / (2 · 10) = 0.8: Kish's effective number."""
    a = shifted(1000, 0.02)
    profile = replace(a, weight=np.where(np.arange(2000) % 2 == 0, 1.0, 3.0)).profile
    assert profile.max_gap == pytest.approx(0.02)
    heavy = profile.certify(0.05, n_resamples=4000)
    assert heavy.method == "bootstrap"
    assert heavy.rows_needed == pytest.approx(4100 / 0.8, rel=0.05)


@pytest.mark.parametrize("method", ["dkw", "bootstrap"])
def test_verdicts(method):
    a = people(sizes=(3000, 3000), apart=0.3)
    profile = a.profile
    interval = profile.band(method=method, random_state=0).max_gap
    for limit, verdict in (
        (interval.high, "certified"),
        (np.nextafter(interval.high, 0), "not decidable"),
        (interval.low, "not decidable"),
        (np.nextafter(interval.low, 0), "violated"),
        (1, "certified"),
    ):
        got = profile.certify(limit, method=method)
        assert (got.verdict, got.limit, got.method, got.level) == (verdict, limit, method, 0.95)
        assert got.max_gap == interval
        assert (got.rows_needed is not None) == (verdict == "not decidable")


def test_a_gap_at_the_limit_is_never_decided():
    a = People(
        "demographic_parity",
        np.repeat([0, 1, 0, 1], [10, 90, 40, 60]),
        np.zeros(200, int),
        np.repeat(["a", "b"], 100),
    )
    for limit in (0.3, 0.1 + 0.2):  # 0.9 − 0.6 is not 0.3 in its last digit
        got = a.profile.certify(limit)
        assert (got.verdict, got.rows_needed) == ("not decidable", None)


@pytest.mark.parametrize("limit", [0, 1.5, float("nan"), -0.1, "0.1", None, True])
def test_limits_out_of_range(limit):
    with pytest.raises(ValueError, match=r"^`max_gap` must be a number above 0 and at most 1, got"):
        people().profile.certify(limit)
