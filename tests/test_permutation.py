"""The permutation test and its noise floor."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.linear_model import PoissonRegressor

from evenrisk.exceptions import SmallCellWarning
from evenrisk.metrics import resampling, threshold_profile
from evenrisk.metrics.resampling import BinnedScores
from scored_people import CASES, LABELS, People, Recorder, below, people, small


def within_binomial(p, alpha, times):
    """Whether P(p ≤ α) ≤ α, up to 3.5 standard errors."""
    return (p <= alpha + 1e-12).mean() <= alpha + 3.5 * math.sqrt(alpha * (1 - alpha) / times)


@small
@pytest.mark.parametrize(
    ("parity", "sizes", "steps", "weighted"),
    [
        ("demographic_parity", (25, 40), None, False),
        ("demographic_parity", (12, 30, 20), 4, True),
        ("equalized_odds", (10, 25), None, True),
        ("equalized_odds", (14, 20, 9), 3, False),
        ("equal_opportunity", (10, 25), 5, True),
    ],
)
def test_p_values_are_uniform_under_the_null(parity, sizes, steps, weighted):
    """300 samples without any difference. Ties between gaps are split by chance, which makes p exactly
    uniform: at most 1.63 / √300 from uniform, exceeded once in 100. The p-value itself may only be larger.
    """
    times, rng = 300, np.random.default_rng(8)
    split, p = [], []
    for seed in range(times):
        a = people(parity, sizes, steps, weighted, seed=seed, apart=0)
        result = a.profile.test(99, random_state=seed)
        p.append(result.p_value)
        _, drawn, measured, _ = resampling.permutations(a.profile._rows, 99, seed)
        larger = np.count_nonzero(drawn > measured * (1 + 1e-12))
        equal = np.count_nonzero(np.abs(drawn / measured - 1) <= 1e-12)
        assert p[-1] == (1 + larger + equal) / 100
        split.append((larger + rng.random() * (1 + equal)) / 100)
    ordered = np.sort(split)
    distance = np.abs(ordered - (np.arange(times) + 0.5) / times).max() + 0.5 / times
    assert distance <= 1.63 / math.sqrt(times)
    p = np.array(p)
    for alpha in (0.01, 0.05, 0.1, 0.2, 0.5):
        assert within_binomial(p, alpha, times), alpha


def rejections(times, sizes, draw, seed=0):
    """Share of `times` samples of noise whose p-value is at most 5 %; `draw(rng, group)` gives weights."""
    rng, found, group = np.random.default_rng(seed), 0, np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(times):
        score = rng.random(len(group))
        weight = draw(rng, group, score)
        score = np.where(score > 0.95, score, 0.0) if weight.max() == 5 else score
        profile = threshold_profile(None, score, sensitive_features=group, sample_weight=weight)
        found += profile.test(99, random_state=rng).p_value <= 0.05
    return found / times


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("ratio", [1e-6, 2.0, 9.0, 1e9])
def test_weights_of_whole_groups_change_nothing(parity, ratio):
    """A group's distribution function is the same whatever its rows weigh, all alike."""
    a = people(parity, (90, 40, 31), steps=12)
    weight = np.where(a.group == "b", ratio, 1.0)
    plain = a.profile.test(200, random_state=0)
    got = replace(a, weight=weight).profile.test(200, random_state=0)
    assert got.exact
    assert got.p_value == plain.p_value
    for one, two in zip(got.noise_floor_by_stratum, plain.noise_floor_by_stratum, strict=True):
        assert one.mean == pytest.approx(two.mean, rel=1e-9)
        assert one.p95 == pytest.approx(two.p95, rel=1e-9)


@pytest.mark.parametrize(
    ("sizes", "draw"),
    [
        ((450, 50), lambda rng, group, score: np.where(group == 1, 9.0, 1.0)),
        ((450, 50), lambda rng, group, score: np.where(group == 1, np.exp(rng.normal(size=500)), 1.0)),
        ((450, 50), lambda rng, group, score: np.where(group == 0, np.exp(rng.normal(size=500)), 5.0)),
        ((60, 60, 60), lambda rng, group, score: np.exp(3 * score) * (1 + group)),
        ((50, 50), lambda rng, group, score: np.where(score > 0.95, 5.0, 1.0)),
    ],
    ids=["of groups", "vary in the small group", "vary in the large group", "depend on the score", "rare"],
)
def test_weights_make_no_difference_out_of_noise(sizes, draw):
    """300 samples, 5 % plus or minus 3.5 (2.8 standard errors); benchmarks/false_alarms.py has many more.

    The rare heavy ones leave so few arrangements that the test can only be cautious.
    """
    assert (0.0 if len(sizes) == 2 and sizes[0] == 50 else 0.015) <= rejections(300, sizes, draw) <= 0.085


def test_a_difference_is_found():
    assert people(sizes=(60, 90), apart=0.5).profile.test(999, random_state=0).p_value == 0.001
    assert people(sizes=(60, 90), apart=0).profile.test(999, random_state=0).p_value > 0.05


def relative(a):
    """Weights divided by how heavy their group is among rows of about the same score, see below."""
    weight = np.ones(len(a.y)) if a.weight is None else a.weight.copy()
    codes = np.unique(a.group, return_inverse=True)[1]
    for rows in strata(a):
        ends = np.flatnonzero(np.append(np.diff(a.score[rows]) > 0, True))
        weight[rows] /= resampling.scales(codes[rows], weight[rows], ends)[codes[rows]]
    return weight


def test_scales_of_weights_are_those_of_a_poisson_regression():
    """log E[w] = group + class of score, ten classes of equal size, by scikit-learn's regression."""
    rng = np.random.default_rng(0)
    score = np.sort(rng.random(500))
    group = rng.choice(3, 500, p=[0.5, 0.3, 0.2])
    weight = rng.exponential(size=500) * np.array([1.0, 9.0, 0.2])[group] * np.exp(3 * score)
    last = np.searchsorted(np.arange(500), np.linspace(0, 499, 11)[1:])
    classes = np.searchsorted(last, np.arange(500))
    design = np.column_stack([group == 1, group == 2, *(classes == c for c in range(1, 10))]).astype(float)
    witness = PoissonRegressor(alpha=0, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(
        design, weight
    )
    got = resampling.scales(group, weight, np.arange(500))
    np.testing.assert_allclose(np.log(got[1:] / got[0]), witness.coef_[:2], atol=1e-6)


def test_scales_of_weights_do_not_depend_on_who_has_the_heavy_scores():
    """Weight 5 where the score is above 0, times 9 in one group: it has all such rows, none, or half."""
    score = np.repeat([0.0, 1.0], [90, 10])
    ends = np.array([89, 99])
    for group in (np.repeat([1, 0], [50, 50]), np.repeat([0, 1], [50, 50]), np.arange(100) % 2):
        weight = np.where(score > 0, 5.0, 1.0) * np.where(group == 1, 9.0, 1.0)
        got = resampling.scales(group, weight, ends)
        assert got[1] / got[0] == pytest.approx(9, rel=1e-12)
    assert resampling.scales(group, np.where(group == 1, 9.0, 1.0), ends).tolist() == [1, 9]


def noise(weight, inside):
    """Standard error, up to a factor, of the difference between those inside and the others."""
    return math.sqrt(sum((w**2).sum() / w.sum() ** 2 for w in (weight[inside], weight[~inside])))


def dealt_out(score, weight, group, dealt, t):
    """Max gap and statistic, by definition, of rows whose groups were `dealt` out anew."""
    everybody, moved, z = below(score, weight, t), [], []
    for g in np.unique(group):
        mine = dealt == g
        apart = below(score[mine], weight[mine], t) - below(score[~mine], weight[~mine], t)
        z.append(apart / noise(weight, mine))
        away = below(score[mine], weight[mine], t) - everybody
        # in units of the groups as they came: the noise of a difference, and the share of the others in F
        others = (weight[group != g].sum(), weight[~mine].sum())
        moved.append(away * noise(weight, group == g) / noise(weight, mine) * others[0] / others[1])
    z = np.array(z)
    return min(np.ptp(moved, axis=0).max(), 1.0), np.abs(z).max() + 1e-6 * (z**2).mean(axis=1).sum()


def strata(a):
    """Rows of each stratum, in the order of their scores."""
    for label in LABELS[a.parity]:
        rows = np.flatnonzero(a.y == label) if label is not None else np.arange(len(a.y))
        yield rows[np.argsort(a.score[rows], kind="stable")]


def statistic_of(a, t=None):
    """The test's statistic of the groups as they are, by definition."""
    weight, found = relative(a), []
    for rows in strata(a):
        at = np.unique(a.score[rows]) if t is None else t
        group = a.group[rows]
        found.append(dealt_out(a.score[rows], weight[rows], group, group, at)[1])
    return max(found)


def arrangements(a):
    """Gap and statistic of every way to deal the groups out, within labels where the rule looks at them."""
    weight, per_stratum = relative(a), []
    for rows in strata(a):
        t, group = np.unique(a.score[rows]), a.group[rows]
        gaps = [
            dealt_out(a.score[rows], weight[rows], group, np.array(dealt), t)
            for dealt in itertools.permutations(group.tolist())
        ]
        per_stratum.append(np.array(gaps).T)
    if len(per_stratum) == 1:
        return per_stratum[0]
    return [np.maximum.outer(*both).ravel() for both in zip(*per_stratum, strict=True)]


@small
@pytest.mark.parametrize(
    ("parity", "weighted"),
    [("demographic_parity", False), ("demographic_parity", True), ("equalized_odds", True)],
)
def test_p_value_equals_all_permutations(parity, weighted):
    """Five or six rows a stratum, every arrangement of the groups, against 20,000 drawn ones."""
    group, y = np.array(list("aabbbc")), np.zeros(6, int)
    score, weight = np.array([3, 5, 1, 2, 2, 4.0]), np.array([1, 2, 1, 3, 1, 2.0])
    if parity == "equalized_odds":
        group, y = np.append(group, list("aabbc")), np.append(y, np.ones(5, int))
        score, weight = np.append(score, [1, 2, 2, 5, 3]), np.append(weight, [2, 1, 1, 1, 4])
    a = People(parity, score, y, group, weight if weighted else None)
    law, statistics = arrangements(a)
    exact = (statistics >= statistic_of(a) - 1e-9).mean()
    assert 0.02 < exact < 0.98
    got = a.profile.test(20_000, random_state=0)
    assert got.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000) + 1e-4)
    assert got.noise_floor.mean == pytest.approx(law.mean(), abs=4 * law.std() / math.sqrt(20_000))
    assert got.exact == (not weighted)


@pytest.mark.parametrize(("parity", "sizes", "steps", "weighted"), CASES)
def test_permuted_gaps_equal_brute_force(parity, sizes, steps, weighted):
    a = people(parity, sizes, steps, weighted)
    rng = Recorder(6)
    got, statistics, measured, _ = resampling.permutations(a.profile._rows, 25, rng)
    assert measured == pytest.approx(statistic_of(a), rel=1e-10)
    weight, largest = relative(a), np.zeros(25)
    codes = np.unique(a.group, return_inverse=True)[1]
    for h, (rows, dealt) in enumerate(zip(strata(a), rng.dealt, strict=True)):
        t = np.unique(a.score[rows])
        for b, group in enumerate(dealt):
            assert sorted(group) == sorted(codes[rows])
            gap, found = dealt_out(a.score[rows], weight[rows], codes[rows], group, t)
            assert got[b, h] == pytest.approx(gap, abs=1e-12)
            largest[b] = max(largest[b], found)
    assert got.shape == (25, len(LABELS[parity]))
    np.testing.assert_allclose(statistics, largest, rtol=1e-10)


@small
def test_a_small_group_hides_no_other():
    """Two large groups differ; a dozen rows beside them, which move far by chance, do not matter."""
    rng = np.random.default_rng(1)
    score = np.concatenate([rng.normal(0, 1, 3000), rng.normal(0.12, 1, 3000), rng.normal(0, 1, 12)])
    group = np.repeat(["a", "b", "c"], [3000, 3000, 12])
    two = threshold_profile(None, score[:6000], sensitive_features=group[:6000]).test(random_state=0)
    three = threshold_profile(None, score, sensitive_features=group).test(random_state=0)
    assert two.p_value < 0.01
    assert three.p_value < 0.02
    assert three.noise_floor.mean > 2 * two.noise_floor.mean


def test_every_score_counts_up_to_the_limit():
    """60,000 distinct scores are more than the bins of a band, and fewer rows than the limit is for."""
    a = people(sizes=(25_000, 35_000))
    rng = Recorder(6)
    got = resampling.permutations(a.profile._rows, 3, rng).max_gap[:, 0]
    ordered = np.sort(a.score)
    for gap, group in zip(got, np.concatenate(rng.dealt), strict=True):
        witness = ks_2samp(ordered[group == 0], ordered[group == 1], method="asymp").statistic
        assert gap == pytest.approx(witness, abs=1e-12)


def test_noise_floor_equals_scipys_statistic():
    """SciPy's statistic of 2000 permutations of our own, with ties: within 4 standard errors."""
    a = people(sizes=(40, 60), steps=6, apart=0.05)
    first, second = (score for score, _ in a.cells())
    both, rng, law = np.concatenate([first, second]), np.random.default_rng(0), []
    for _ in range(2000):
        rng.shuffle(both)
        law.append(ks_2samp(both[: len(first)], both[len(first) :], method="asymp").statistic)
    law = np.array(law)
    got = a.profile.test(4000, random_state=0)
    assert got.max_gap == pytest.approx(ks_2samp(first, second).statistic)
    error = math.sqrt(1 / 2000 + 1 / 4000)
    assert got.noise_floor.mean == pytest.approx(law.mean(), abs=4 * law.std() * error)
    assert got.noise_floor.p95 == pytest.approx(np.quantile(law, 0.95), abs=0.02)
    # equal gaps are told apart by the mean square, so p lies between counting them all and none of them
    most, least = (law >= got.max_gap - 1e-12).mean(), (law > got.max_gap + 1e-12).mean()
    assert 0.05 < least < most < 0.95
    assert least - 4 * 0.5 * error <= got.p_value <= most + 4 * 0.5 * error


def test_noise_floor_is_that_of_the_weights_as_they_are():
    """Uneven weights in the small group only: samples of noise have this gap on average, to 6 %."""
    rng, measured, said = np.random.default_rng(0), [], []
    group = np.repeat(["a", "b"], [800, 120])
    for _ in range(300):
        weight = np.where(group == "b", np.exp(rng.normal(0, 0.8, 920)), 1.0)
        profile = threshold_profile(None, rng.random(920), sensitive_features=group, sample_weight=weight)
        measured.append(profile.max_gap)
        said.append(profile.noise_floor(20, rng).mean)
    assert np.mean(said) == pytest.approx(np.mean(measured), rel=0.06)


def test_noise_floor_by_stratum():
    a = people("equalized_odds", (40, 31, 60), steps=10, weighted=True)
    both = a.profile.test(2000, random_state=0)
    assert len(both.noise_floor_by_stratum) == 2
    for rule, floor in zip(
        ("predictive_equality", "equal_opportunity"), both.noise_floor_by_stratum, strict=True
    ):
        alone = replace(a, parity=rule).profile.test(2000, random_state=1).noise_floor
        assert floor.mean == pytest.approx(alone.mean, rel=0.03)
    assert both.noise_floor.mean > max(floor.mean for floor in both.noise_floor_by_stratum)


@pytest.mark.parametrize("large", [100, 2000, 20_000], ids=["normal", "mixed", "drawn"])
@pytest.mark.parametrize(
    ("parity", "sizes", "steps", "weighted"),
    [
        ("demographic_parity", (900, 2100, 3000), 40, True),
        ("demographic_parity", (1900, 3000), None, False),
        ("equalized_odds", (1500, 2500), 100, True),
    ],
)
def test_the_limit_of_permutations_equals_permutations(monkeypatch, large, parity, sizes, steps, weighted):
    """Mean within 4 %, 95 % point within 6 %: 4 standard errors of a difference, with 1500 and 3000 draws.

    In the limit, groups above `large` rows move like a bridge, the others like rows drawn from everybody.
    """
    profile = people(parity, sizes, steps, weighted).profile
    exact = profile.test(1500, random_state=0)
    monkeypatch.setattr(resampling, "LARGE_STRATUM", 1000)
    monkeypatch.setattr(resampling, "LARGE_CELL", large)
    rng = Recorder(0)
    limit = profile.test(3000, random_state=rng)
    assert (exact.exact, limit.exact) == (not weighted, False)
    assert {rows.shape[1] for rows in rng.rows} == {n for n in sizes if n <= large}
    assert limit.noise_floor.mean == pytest.approx(exact.noise_floor.mean, rel=0.04)
    assert limit.noise_floor.p95 == pytest.approx(exact.noise_floor.p95, rel=0.06)
    for one, two in zip(exact.noise_floor_by_stratum, limit.noise_floor_by_stratum, strict=True):
        assert one.mean == pytest.approx(two.mean, rel=0.04)


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_the_p_value_of_the_limit(monkeypatch, parity):
    """Groups alike: within 4 standard errors of 2000 permutations."""
    profile = people(parity, (900, 1500), 50, True, seed=3, apart=0).profile
    exact = profile.test(2000, random_state=0).p_value
    assert 0.05 < exact < 0.95
    monkeypatch.setattr(resampling, "LARGE_STRATUM", 1000)
    limit = profile.test(2000, random_state=1)
    assert not limit.exact
    assert limit.p_value == pytest.approx(exact, abs=4 * math.sqrt(2 * exact * (1 - exact) / 2000))


@pytest.mark.parametrize("large", [100, 20_000], ids=["mixed", "drawn"])
def test_the_limit_with_uneven_weights_in_a_small_group(monkeypatch, large):
    """The rows drawn for it are everybody's, of weight 1; the noise is that of its own weights."""
    rng, group = np.random.default_rng(0), np.repeat(["a", "b"], [3000, 90])
    weight = np.where(group == "b", np.exp(rng.normal(0, 0.8, 3090)), 1.0)
    profile = threshold_profile(None, rng.random(3090), sensitive_features=group, sample_weight=weight)
    permuted = profile.test(1500, random_state=0).noise_floor
    monkeypatch.setattr(resampling, "LARGE_STRATUM", 1000)
    monkeypatch.setattr(resampling, "LARGE_CELL", large)
    assert profile.test(3000, random_state=0).noise_floor.mean == pytest.approx(permuted.mean, rel=0.05)


def test_a_noise_floor_is_a_gap_whatever_the_weights():
    """One row of 20 has nearly all of its group's weight; rows that weigh next to nothing beside two."""
    rng, group = np.random.default_rng(0), np.repeat(["a", "b"], [1000, 40])
    heavy = np.where(np.arange(1040) == 1010, 200.0, 1.0)
    light = np.where(np.isin(np.arange(1040), [5, 1010]), 1.0, 1e-300)
    for weight in (heavy, light):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallCellWarning)
            profile = threshold_profile(
                None, rng.random(1040), sensitive_features=group, sample_weight=weight
            )
        test = profile.test(99, random_state=0)
        assert 0 < test.noise_floor.mean <= test.noise_floor.p95 <= 1
        assert 0.01 <= test.p_value <= 1


def test_from_which_size_on_the_limit_is_used(monkeypatch):
    profile = people(sizes=(40, 60)).profile
    for large, exact in ((100, True), (99, False)):
        monkeypatch.setattr(resampling, "LARGE_STRATUM", large)
        rng = Recorder(0)
        assert profile.test(9, rng).exact == exact
        assert bool(rng.dealt) == exact


def test_one_large_stratum_is_enough_for_the_limit(monkeypatch):
    a = people("equalized_odds", (100, 200))
    kept = a.take((a.y == 0) | (np.random.default_rng(0).random(len(a.y)) < 0.5))
    monkeypatch.setattr(resampling, "LARGE_STRATUM", 250)
    assert not kept.profile.test(9, 0).exact
    assert replace(kept, parity="equal_opportunity").profile.test(9, 0).exact


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_the_limit_is_held_against_its_own_bins(monkeypatch, parity):
    """The largest over 64 bins is less than that over all scores, and so is what chance gives there."""
    a = people(parity, sizes=(900, 1400, 700), weighted=True, apart=0.02)
    every = resampling.permutations(a.profile._rows, 1, 0).measured
    monkeypatch.setattr(resampling, "MOST_BINS", 64)
    monkeypatch.setattr(resampling, "ALL_BINS", 100)
    monkeypatch.setattr(resampling, "LARGE_STRATUM", 100)
    coarse = resampling.permutations(a.profile._rows, 1, 0).measured
    t = BinnedScores.of(a.profile._rows).thresholds
    assert len(t) <= 64
    # the classes of scores in which weights are compared end at bins, and the mean square is over bins too
    assert coarse == pytest.approx(statistic_of(a, t), rel=1e-4)
    assert coarse < every
