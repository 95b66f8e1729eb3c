"""Who is compared in profiles, bands, tests and certificates, against two groups at a time."""

from functools import partial
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score

from attributes import HARD, KINDS, SOFT, are, gaps, people, quantiles, rate_above, strata_of
from evenrisk import Comparison, threshold_profile
from evenrisk.metrics import decisions, risk_distribution
from evenrisk.metrics.scorers import SCORERS
from evenrisk.parity import PARITIES

pytestmark = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
kinds = pytest.mark.parametrize("name", KINDS)
ORDERED = ("ordered", "cuts", "ordered, unknown group", "mixed")
parities = pytest.mark.parametrize("parity", PARITIES)
weighting = pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
P = people()
KEPT = P.take(P.race != "d")
RESAMPLES = 200


def measured(p, name, parity="demographic_parity", weighted=False, **kwargs):
    """Return the profile of a kind, the kind, and the weights."""
    weight = p.weight if weighted else np.ones(len(p.y))
    kind = KINDS[name](p, weight)
    profile = threshold_profile(
        p.y,
        p.score,
        sensitive_features=kind.features,
        comparison=kind.comparison,
        parity=parity,
        sample_weight=p.weight if weighted else None,
        **kwargs,
    )
    return profile, kind, weight


def rows_of(features, index):
    """Some rows of a kind's features."""
    if isinstance(features, dict):
        return {title: column[index] for title, column in features.items()}
    return features[index]


def profile_by(features, comparison="crossed", p=P, parity="demographic_parity", weight=None):
    return threshold_profile(
        p.y,
        p.score,
        sensitive_features=features,
        comparison=comparison,
        parity=parity,
        sample_weight=weight,
    )


def same(one, other, rel=1e-10):
    """Whether two profiles are the same but for the order of additions."""
    assert one.thresholds.tolist() == other.thresholds.tolist()
    assert one.gap_by_stratum == pytest.approx(other.gap_by_stratum, rel=rel, abs=1e-12)
    for name in ("max_gap", "mean_gap", "rank_gap", "worst_threshold", "worst_stratum"):
        assert getattr(one, name) == (
            pytest.approx(getattr(other, name), rel=rel) if name != "worst_stratum" else other.worst_stratum
        )


# ---------------------------------------------------------------- all kinds


@weighting
@parities
@kinds
def test_the_gap_is_the_largest_of_two_groups_at_a_time(name, parity, weighted):
    profile, kind, weight = measured(P, name, parity, weighted)
    some = sum(side for attribute in kind.attributes for pair in attribute for side in pair) > 0
    rows = some & np.any(strata_of(parity, P.y), axis=0)
    assert profile.thresholds.tolist() == np.unique(P.score[rows]).tolist()
    expected = gaps(kind, parity, P.score, P.y, weight, profile.thresholds)
    assert len(profile.pairs) == len(expected[0])
    assert profile.gap_by_stratum == pytest.approx(np.array([each.max(axis=0) for each in expected]))
    assert profile.max_gap == pytest.approx(max(each.max() for each in expected))


@parities
@kinds
def test_the_rates_are_those_of_the_sides_by_name(name, parity):
    profile, kind, weight = measured(P, name, parity, weighted=True)
    sides = [pair for attribute in kind.attributes for pair in attribute]
    for stratum, rows in enumerate(strata_of(parity, P.y)):
        for pair, (a, b) in zip(sides, profile.pairs, strict=True):
            for side, place in zip(pair, (a, b), strict=True):
                expected = rate_above(P.score[rows], (weight * side)[rows], profile.thresholds)
                assert profile.rates[stratum, place] == pytest.approx(expected, abs=1e-12)
    worst = {profile.groups.index(each) for each in profile.worst_groups}
    assert worst in [{int(a), int(b)} for a, b in profile.pairs]
    stratum = profile.parity.strata.index(profile.worst_stratum)
    at = np.searchsorted(profile.thresholds, profile.worst_threshold)
    high, low = (profile.rates[stratum, profile.groups.index(each), at] for each in profile.worst_groups)
    assert high - low == pytest.approx(profile.max_gap)


@kinds
def test_weights_equal_repetition(name):
    times = P.weight.astype(int)
    weighted, kind, _ = measured(P, name, "equalized_odds", weighted=True)
    again = np.repeat(np.arange(len(times)), times)
    features, comparison = rows_of(kind.features, again), kind.comparison
    repeated = profile_by(features, comparison, P.take(again), "equalized_odds")
    same(weighted, repeated)
    assert weighted.groups == repeated.groups


@kinds
def test_nothing_depends_on_the_order_of_rows_or_the_scale_of_the_score(name):
    order = np.random.default_rng(3).permutation(len(P.y))
    profile, kind, _ = measured(P, name)
    features = rows_of(kind.features, order)
    score = np.exp(P.score[order])
    moved = threshold_profile(None, score, sensitive_features=features, comparison=kind.comparison)
    assert moved.groups == profile.groups
    assert moved.max_gap == pytest.approx(profile.max_gap)
    assert moved.rank_gap == pytest.approx(profile.rank_gap)


@kinds
def test_rows_without_weight_are_not_there(name):
    weight = np.where(np.arange(len(P.y)) % 5 == 0, 0.0, P.weight)
    kept = P.take(weight > 0)
    features, comparison, _ = KINDS[name](P, P.weight)
    whole = profile_by(features, comparison, weight=weight)
    some = profile_by(rows_of(features, weight > 0), comparison, kept, weight=kept.weight)
    same(whole, some)
    assert whole.groups == some.groups
    assert whole.left_out == some.left_out
    assert whole.unknown == some.unknown


@parities
def test_a_scorer_measures_what_the_profile_does(parity):
    profile, kind, weight = measured(P, "mixed", parity, weighted=True)
    scorer = SCORERS[f"max_{parity}_difference"]
    found = scorer(
        P.y, P.score, sensitive_features=kind.features, comparison=kind.comparison, sample_weight=weight
    )
    assert found == profile.max_gap


# ---------------------------------------------------------------- one kind is another


@weighting
@parities
def test_shares_of_0_and_1_are_hard_groups(parity, weighted):
    weight = P.weight if weighted else None
    hard = profile_by(P.race, parity=parity, weight=weight)
    table = pd.get_dummies(P.race)
    for dtype in (float, bool, "Float64"):
        soft = profile_by(table.astype(dtype), "probabilities", parity=parity, weight=weight)
        same(soft, hard)
        assert soft.worst_groups == hard.worst_groups
        assert soft.rates == pytest.approx(hard.rates)
    rest = profile_by(P.race, "rest", parity=parity, weight=weight)
    both = Comparison(probabilities=True, against="rest")
    same(profile_by(table.astype(float), both, parity=parity, weight=weight), rest)


@pytest.mark.parametrize("comparison", ["each", "each and crossed", Comparison(unknown="exclude")])
@parities
def test_one_attribute_by_itself_is_itself_crossed(parity, comparison):
    plain, each = profile_by(P.race, parity=parity), profile_by(P.race, comparison, parity=parity)
    assert each.rates.tobytes() == plain.rates.tobytes()
    assert each.test(50, 0) == plain.test(50, 0)
    assert each.band(n_resamples=40, random_state=0).half_width.tolist() == (
        plain.band(n_resamples=40, random_state=0).half_width.tolist()
    )


@weighting
@parities
def test_one_cut_is_two_groups(parity, weighted):
    weight = P.weight if weighted else None
    two = np.where(P.age > 43, "over", "below")
    same(
        profile_by({"age": P.age}, Comparison(ordered={"age": [43]}), parity=parity, weight=weight),
        profile_by(two, parity=parity, weight=weight),
    )


@parities
def test_of_two_groups_the_rest_is_the_other(parity):
    same(profile_by(P.sex, "rest", parity=parity), profile_by(P.sex, parity=parity))
    known = np.where(P.race == "d", None, P.race)  # nor is a small or an unknown one among the others
    two = Comparison(against="rest", unknown="exclude", min_share=0.26)
    kept = (P.race == "a") | (P.race == "b")
    same(profile_by(known, two, parity=parity), profile_by(P.race[kept], p=P.take(kept), parity=parity))


@parities
def test_the_rest_is_a_profile_of_relabelled_groups(parity):
    profile = profile_by({"race": P.race}, "rest", parity=parity, weight=P.weight)
    relabelled = [
        profile_by(np.where(P.race == race, race, "others"), parity=parity, weight=P.weight)
        for race in "abcd"
    ]
    expected = np.max([each.gap_by_stratum for each in relabelled], axis=0)
    assert profile.gap_by_stratum == pytest.approx(expected)
    assert profile.max_gap == pytest.approx(max(each.max_gap for each in relabelled))
    worst = "abcd"[int(np.argmax([each.max_gap for each in relabelled]))]
    assert sorted(profile.worst_groups) == sorted([worst, f"all but {worst}"])


@parities
def test_a_reference_group_is_compared_with_each_of_the_others(parity):
    profile = profile_by(P.race, Comparison(reference="c"), parity=parity)
    kept = [np.isin(P.race, ["c", race]) for race in "abd"]
    pairs = [profile_by(P.race[two], p=P.take(two), parity=parity) for two in kept]
    assert profile.max_gap == pytest.approx(max(each.max_gap for each in pairs))
    assert "c" in profile.worst_groups
    assert [{profile.groups[a], profile.groups[b]} for a, b in profile.pairs] == [
        {"c", race} for race in "abd"
    ]


@parities
@pytest.mark.parametrize("column", ["race", "age"])
def test_to_exclude_the_unknown_is_to_drop_the_rows(parity, column):
    values = P.some(column, 6)
    known = np.array([each is not None for each in values])
    cut = [30, 47] if column == "age" else False
    ordered = {0: cut} if cut else False
    whole = profile_by(values, Comparison(unknown="exclude", ordered=ordered), parity=parity, weight=P.weight)
    kept = P.take(known)
    features = getattr(kept, column)
    same(whole, profile_by(features, Comparison(ordered=ordered), kept, parity, kept.weight))
    assert whole.unknown == {"group": 70}


@parities
def test_a_small_group_is_left_out_as_if_it_were_not_there(parity):
    kept = P.take(P.race != "d")
    # of those whom the rule looks at, fewest of either outcome
    n = min(np.count_nonzero(P.race[rows] == "d") for rows in strata_of(parity, P.y))
    for rule in ({"min_rows": n + 1}, {"min_share": 9.5 / 420}):
        for against in ("every", "rest"):
            whole = profile_by(P.race, Comparison(against=against, **rule), parity=parity)
            same(whole, profile_by(kept.race, Comparison(against=against), kept, parity))
            assert whole.left_out == {"d": 9}
    for rule in ({"min_rows": n}, {"min_share": 9 / 420}):
        assert profile_by(P.race, Comparison(**rule), parity=parity).left_out == {}


def test_a_small_share_is_one_of_the_weight_of_those_who_are_known():
    weight = np.where(P.race == "d", 30.0, 1.0)
    assert profile_by(P.race, Comparison(min_share=0.16), weight=weight).left_out == {"c": 106}
    race = P.some("race", 2)
    n = np.count_nonzero(race == "d")
    exact = Comparison(min_share=n / 210, unknown="exclude")
    assert profile_by(race, exact).left_out == {}
    assert profile_by(race, Comparison(min_share=n / 209, unknown="exclude")).left_out == {"d": n}


def test_unknown_as_a_group_is_a_group_of_that_name():
    race = P.some("race", 6)
    named = np.array([each or "unknown" for each in race])
    same(profile_by(race, Comparison(unknown="group")), profile_by(named))
    mixed = np.where(np.arange(len(race)) % 12 == 0, "unknown", race)  # some are called so in the data
    same(profile_by(mixed, Comparison(unknown="group")), profile_by(named))
    same(profile_by(P.race, Comparison(unknown="group")), profile_by(P.race))


@pytest.mark.parametrize("parity", ["demographic_parity", "predictive_equality"])
def test_all_cuts_are_scipys_statistic_at_the_worst_of_them(parity):
    (rows,) = strata_of(parity, P.y)
    age, score = P.age[rows], P.score[rows]
    cuts = np.unique(age)[:-1]
    expected = {cut: ks_2samp(score[age <= cut], score[age > cut]).statistic for cut in cuts}
    profile = profile_by({"age": P.age}, Comparison(ordered={"age": cuts}), parity=parity)
    assert profile.max_gap == pytest.approx(max(expected.values()))
    worst = f"{max(expected, key=expected.get):g}"
    assert sorted(profile.worst_groups) == [f"age over {worst}", f"age up to {worst}"]


@parities
def test_several_columns_have_the_gap_of_the_worst(parity):
    by = partial(profile_by, p=KEPT, parity=parity, weight=KEPT.weight)
    features = {"sex": KEPT.sex, "race": KEPT.race, "age": KEPT.age}
    asked = Comparison(columns="each and crossed", ordered={"age": 4}, against="rest")
    profile = by(features, asked)
    single = {
        "sex": by({"sex": KEPT.sex}),
        "race": by({"race": KEPT.race}, "rest"),
        "sex × race": by({"sex": KEPT.sex, "race": KEPT.race}, "rest"),
        "age": by({"age": KEPT.age}, Comparison(ordered={"age": 4})),
    }
    assert list(profile.by_attribute) == list(single)
    for name, each in profile.by_attribute.items():
        same(each, single[name])
        assert len(each.groups) == len(single[name].groups)
    assert profile.max_gap == pytest.approx(max(each.max_gap for each in single.values()))
    assert profile.gap_by_stratum == pytest.approx(
        np.max([each.gap_by_stratum for each in single.values()], axis=0)
    )


def test_an_attribute_by_itself_leaves_out_who_is_unknown_in_it():
    features = {"sex": P.some("sex", 5), "race": P.some("race", 7)}
    profile = profile_by(features, Comparison(columns="each and crossed", unknown="exclude"))
    known = {name: np.array([each is not None for each in column]) for name, column in features.items()}
    known["sex × race"] = known["sex"] & known["race"]
    assert profile.unknown == {name: np.count_nonzero(~rows) for name, rows in known.items()}
    for name, rows in known.items():
        titles = name.split(" × ")
        expected = profile_by({title: features[title][rows] for title in titles}, p=P.take(rows))
        assert profile.by_attribute[name].thresholds.tolist() == np.unique(P.score[rows]).tolist()
        assert profile.by_attribute[name].max_gap == pytest.approx(expected.max_gap)
        assert profile.by_attribute[name].rank_gap == pytest.approx(expected.rank_gap)


def test_without_attributes_there_is_one_by_its_name():
    for features, name in (
        (P.race, "group"),
        ({"race": P.race}, "race"),
        ({"s": P.sex, "r": P.race}, "s × r"),
    ):
        profile = profile_by(features)
        assert list(profile.by_attribute) == [name]
        assert profile.by_attribute[name] is profile
    assert list(profile_by({"race": P.race}, "rest").by_attribute) == ["race"]


# ---------------------------------------------------------------- cuts


@weighting
def test_cuts_are_weighted_quantiles(weighted):
    weight = P.weight if weighted else np.ones(len(P.y))
    for n_cuts in (1, 3, 10, 60):
        profile = profile_by({"age": P.age}, Comparison(ordered={"age": n_cuts}), weight=weight)
        cuts = quantiles(P.age, weight, np.arange(1, n_cuts + 1) / (n_cuts + 1))
        cuts = cuts[cuts < P.age.max()]
        names = [f"age up to {cut:g}" for cut in cuts] + [f"age over {cut:g}" for cut in cuts]
        assert list(profile.groups) == names


def test_a_value_that_most_people_have_is_cut_once():
    wage = np.where(np.arange(420) < 300, 0.0, P.age)
    profile = profile_by({"wage": wage}, Comparison(ordered={"wage": 3}))
    assert list(profile.groups) == [
        *("wage up to 0", f"wage up to {quantiles(wage, np.ones(420), [0.75])[0]:g}"),
        *("wage over 0", f"wage over {quantiles(wage, np.ones(420), [0.75])[0]:g}"),
    ]
    top = profile_by(
        {"wage": np.where(np.arange(420) < 100, P.age, 99)}, Comparison(ordered={"wage": [98.5]})
    )
    assert top.groups == ("wage up to 98.5", "wage over 98.5")


def test_cuts_with_a_small_side_are_left_out():
    age = np.arange(420.0)
    for rule in ({"min_rows": 50}, {"min_share": 50 / 420}):
        profile = profile_by({"age": age}, Comparison(ordered={"age": [20, 48, 49, 200, 369, 370]}, **rule))
        assert [name for name in profile.groups if "up to" in name] == [
            f"age up to {cut}" for cut in (49, 200, 369)
        ]
        same(profile, profile_by({"age": age}, Comparison(ordered={"age": [49, 200, 369]})))


def test_the_age_that_is_not_known_is_compared_with_all_that_are():
    age = P.some("age", 6)
    profile = profile_by({"age": age}, Comparison(ordered={"age": [40]}, unknown="group"))
    assert profile.groups == ("age up to 40", "age over 40", "age unknown", "age known")
    two = np.array(["no" if each is None else "yes" for each in age])
    rates = profile_by(two).rates
    assert profile.rates[:, 2:] == pytest.approx(rates)


# ---------------------------------------------------------------- probabilities


def drawn_groups(rng):
    return (rng.random((len(P.y), 1)) > np.cumsum(P.share, axis=1)[:, :2]).sum(axis=1)


def test_soft_counts_are_the_mean_over_groups_drawn():
    cuts, rng = [-0.5, 0.5, 1.5], np.random.default_rng(1)
    soft = decisions(
        P.y,
        P.score,
        sensitive_features=P.share,
        comparison="probabilities",
        thresholds=cuts,
        sample_weight=P.weight,
    )
    names = ("rows", "positives", "selected", "true_positives")
    names = (*names, *(f"{name}_weight" for name in names[1:]), "weight")
    found = {name: [] for name in names}
    for _ in range(600):
        hard = decisions(
            P.y, P.score, sensitive_features=drawn_groups(rng), thresholds=cuts, sample_weight=P.weight
        )
        for name in names:
            found[name].append(getattr(hard, name))
    for name in names:
        error = np.std(found[name], axis=0) / 600**0.5
        assert (np.abs(np.mean(found[name], axis=0) - getattr(soft, name)) < 4.5 * error).all(), name


@parities
def test_soft_rates_are_nearly_the_mean_over_groups_drawn(parity):
    """A rate is a ratio of two sums, so that there is a bias of the order of 1/n."""
    soft = profile_by(P.share, "probabilities", parity=parity)
    rng = np.random.default_rng(2)
    rates = [profile_by(drawn_groups(rng), parity=parity).rates for _ in range(200)]
    error = np.std(rates, axis=0) / 200**0.5
    assert (np.abs(np.mean(rates, axis=0) - soft.rates) < 4.5 * error + 0.002).all()


def test_probabilities_may_be_rounded():
    rounded = np.round(P.share, 2)
    assert (np.abs(rounded.sum(axis=1) - 1) > 1e-9).any()
    scaled = rounded / rounded.sum(axis=1, keepdims=True)
    same(profile_by(rounded, "probabilities"), profile_by(scaled, "probabilities"))


# ---------------------------------------------------------------- each group by itself


# classes of an ordered column are not what is compared
@pytest.mark.parametrize("name", [name for name in KINDS if name not in ORDERED])
def test_every_group_has_its_own_area_under_the_curve(name):
    profile, kind, _ = measured(P, name)
    found = profile.discrimination(n_resamples=RESAMPLES, random_state=0)
    assert found.overall.value == pytest.approx(roc_auc_score(P.y, P.score))
    sides = {}
    pairs = [pair for attribute in kind.attributes for pair in attribute]
    for pair, places in zip(pairs, profile.pairs, strict=True):
        sides |= dict(zip((profile.groups[at] for at in places), pair, strict=True))
    for group, interval in found.auc.items():
        if group in sides:
            expected = roc_auc_score(P.y, P.score, sample_weight=sides[group])
            assert interval.value == pytest.approx(expected)
            assert interval.low <= expected <= interval.high
    assert set(found.abroca) <= {(profile.groups[a], profile.groups[b]) for a, b in profile.pairs}
    assert len(found.abroca) == len(profile.pairs)


@pytest.mark.parametrize("name", HARD)
def test_decisions_count_the_rows_of_every_group(name):
    _, kind, _ = measured(P, name)
    found = decisions(
        P.y, P.score, sensitive_features=kind.features, comparison=kind.comparison, thresholds=0.5
    )
    density = risk_distribution(
        P.y, P.score, sensitive_features=kind.features, comparison=kind.comparison, n_bins=7
    )
    assert density.groups == found.groups
    assert (density.density * np.diff(density.edges)).sum(axis=-1) == pytest.approx(1)
    columns = kind.features if isinstance(kind.features, dict) else {"": kind.features}
    for group, rows, selected, positives in zip(
        found.groups, found.rows, found.selected[:, 0], found.positives, strict=True
    ):
        mine = np.zeros(len(P.y), dtype=bool)
        for title, column in columns.items():
            for label in set(column[~pd.isna(column)].tolist()):
                if group in (label, f"{title} {label}"):
                    mine |= column == label
        if mine.any():
            assert (rows, selected) == (mine.sum(), (P.score[mine] > 0.5).sum())
            assert positives == P.y[mine].sum()


# ---------------------------------------------------------------- bands and certificates


@kinds
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_a_band_holds_what_was_measured(name, parity):
    profile, _, _ = measured(P, name, parity, weighted=name == "mixed")
    band = profile.band(n_resamples=RESAMPLES, random_state=0)
    assert band.half_width.shape == (len(profile.parity.strata), len(profile.pairs))
    assert (band.half_width > 0).all()
    assert band.pairs == tuple((profile.groups[a], profile.groups[b]) for a, b in profile.pairs)
    first, second = profile.pairs.T
    gap = profile.rates[:, first] - profile.rates[:, second]
    assert band.gap == pytest.approx(gap)
    assert (band.lower <= gap).all()
    assert (gap <= band.upper).all()
    low, high = band.gap_by_stratum
    assert (low <= profile.gap_by_stratum + 1e-12).all()
    assert (profile.gap_by_stratum <= high + 1e-12).all()
    value, low, high = band.max_gap
    assert low <= value == pytest.approx(profile.max_gap)
    assert value <= high


@pytest.mark.parametrize("name", ["each and crossed", "ordered", "mixed", "probabilities against the rest"])
def test_the_same_seed_gives_the_same_bytes(name):
    found = []
    for seed in (7, 7, 8):
        profile, _, _ = measured(P, name, "equalized_odds", weighted=True)
        intervals = profile.intervals(0.5, n_resamples=40, random_state=seed)
        found.append(
            (
                profile.band(n_resamples=40, random_state=seed).half_width.tobytes(),
                profile.test(40, seed),
                intervals,
                profile.certify(0.3, method="bootstrap", n_resamples=40, random_state=seed),
                profile.discrimination(n_resamples=40, random_state=seed),
            )
        )
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]
    assert found[0][1] != found[2][1]


def sups_of_resamples(kind, n_resamples, rng):
    """sup |Δ*(t) − Δ(t)| of each comparison when whole rows are drawn (n_resamples, q)."""
    n, t = len(P.y), np.unique(P.score)
    pairs = [pair for attribute in kind.attributes for pair in attribute]
    below = (P.score[:, None] <= t) * 1.0

    def curves(times):
        a, b = (np.array([times * pair[i] for pair in pairs]) for i in (0, 1))
        return a @ below / a.sum(axis=1)[:, None] - b @ below / b.sum(axis=1)[:, None]

    measured = curves(np.ones(n))
    times = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(n_resamples)]
    return np.array([np.abs(curves(each) - measured).max(axis=1) for each in times])


@pytest.mark.parametrize("name", ["ordered", "mixed", "probabilities", "small"])
def test_a_band_is_as_wide_as_resampled_rows_say(name):
    kept = P.race != "d"
    profile, kind, _ = measured(P, name)
    if name == "mixed":
        kind = KINDS["each against the rest"](P, np.ones(len(P.y)))
        profile = profile_by(kind.features, kind.comparison)
    sups = sups_of_resamples(kind, 400, np.random.default_rng(0))
    scale = sups.mean(axis=0)
    width = np.quantile((sups / scale).max(axis=1), 0.95) * scale
    band = profile.band(n_resamples=400, random_state=1)
    assert kept.any()
    assert band.half_width[0] == pytest.approx(width, rel=0.12)


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_bands_of_two_ways_to_say_the_same_are_as_wide(parity):
    pairs = [
        (
            profile_by({"age": P.age}, Comparison(ordered={"age": [43]}), parity=parity),
            profile_by(np.where(P.age > 43, "over", "below"), parity=parity),
        ),
        (
            profile_by(pd.get_dummies(P.race[P.race != "d"]) * 1.0, "probabilities", KEPT, parity),
            profile_by(KEPT.race, "crossed", KEPT, parity),
        ),
        (
            profile_by(P.race, Comparison(min_rows=10), parity=parity),
            profile_by(KEPT.race, "crossed", KEPT, parity),
        ),
    ]
    for one, other in pairs:
        widths = [np.sort(p.band(n_resamples=1000, random_state=3).half_width) for p in (one, other)]
        assert widths[0] == pytest.approx(widths[1], rel=0.07)
        floors = [p.noise_floor(500, 4) for p in (one, other)]
        assert floors[0].mean == pytest.approx(floors[1].mean, rel=0.06)
        intervals = [p.intervals(0.5, n_resamples=500, random_state=5) for p in (one, other)]
        assert intervals[0].rank_gap.high == pytest.approx(intervals[1].rank_gap.high, rel=0.04)
        assert intervals[0].mean_gap.high == pytest.approx(intervals[1].mean_gap.high, rel=0.04)
        assert intervals[0].gap_at == pytest.approx(intervals[1].gap_at)


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_massarts_band_is_the_formula(name, parity):
    profile, kind, _ = measured(P, name, parity)
    strata = strata_of(parity, P.y)
    n_unions = len(profile.groups) * len(strata)
    expected = [
        [
            sum(np.sqrt(np.log(2 * n_unions / 0.1) / (2 * side[rows].sum())) for side in pair)
            for attribute in kind.attributes
            for pair in attribute
        ]
        for rows in strata
    ]
    band = profile.band(0.9, method="dkw")
    assert band.half_width == pytest.approx(np.minimum(expected, 2))


@pytest.mark.parametrize("name", SOFT)
def test_massarts_inequality_refuses_probabilities_with_the_reason(name):
    profile, _, _ = measured(P, name)
    with pytest.raises(ValueError, match=r"got probabilities: the inequality is one for .* whole rows"):
        profile.band(method="dkw")
    with pytest.raises(ValueError, match="method='dkw' must have rows that are in a group or not"):
        profile.certify(0.2, method="dkw")
    assert profile.certify(0.2, n_resamples=RESAMPLES).method == "bootstrap"


def test_massarts_inequality_refuses_weights_whatever_is_compared():
    for name in ("ordered", "each"):
        profile, _, _ = measured(P, name, weighted=True)
        with pytest.raises(ValueError, match="must have rows of equal weight"):
            profile.band(method="dkw")


@kinds
def test_certificates(name):
    profile, _, _ = measured(KEPT, name)  # a band of the few in race d reaches 1
    sure = profile.certify(0.999, method="bootstrap", n_resamples=RESAMPLES)
    assert sure.verdict == "certified"
    assert profile.certify(1.0).verdict == "certified"
    assert profile.certify(1.0).method == ("bootstrap" if name in SOFT else "dkw")
    interval = sure.max_gap
    between = profile.certify(profile.max_gap * 1.0001, method="bootstrap", n_resamples=RESAMPLES)
    assert between.verdict == "not decidable"
    assert between.rows_needed > 1000
    if interval.low > 0.02:
        below = profile.certify(interval.low / 2, method="bootstrap", n_resamples=RESAMPLES)
        assert below.verdict == "violated"


@kinds
def test_intervals_hold_what_was_measured(name):
    profile, _, _ = measured(P, name, "equalized_odds", weighted=True)
    found = profile.intervals(0.5, n_resamples=RESAMPLES, random_state=0)
    for interval, value in (
        (found.max_gap, profile.max_gap),
        (found.mean_gap, profile.mean_gap),
        (found.rank_gap, profile.rank_gap),
        (found.gap_at, profile.at(0.5)),
    ):
        assert interval.value == pytest.approx(value)
        assert interval.low <= value <= interval.high


@pytest.mark.parametrize("name", ["each and crossed", "mixed", "each against the rest"])
def test_each_attribute_has_bands_and_tests_of_its_own(name):
    profile, kind, _ = measured(P, name)
    whole = profile.band(n_resamples=RESAMPLES, random_state=0)
    for (title, each), compared in zip(profile.by_attribute.items(), kind.attributes, strict=True):
        band = each.band(n_resamples=RESAMPLES, random_state=0)
        assert band.half_width.shape == (1, len(compared))
        assert each.test(RESAMPLES, 0).max_gap == each.max_gap
        joint = [whole.half_width[0, whole.pairs.index(pair)] for pair in band.pairs]
        assert (band.half_width[0] <= np.array(joint) * 1.05).all(), title  # fewer comparisons together


# ---------------------------------------------------------------- permutation tests


def table_of(name):
    """A few rows: labels, scores with a tie, the attribute table, its comparison, and sides by row of it."""
    y = np.array([0, 1, 0, 1, 0, 1, 0, 0, 1])
    score = np.array([3.0, 1, 5, 2, 2, 7, 6, 4, 3])
    sex = np.array(["f", "f", "m", "m", "m", "f", "m", "f", "m"])
    race = np.array(["a", "a", "b", "b", "c", "a", "b", "a", "c"])  # it is known whose sex is
    age = np.array([20.0, 30, 41, 52, 33, 27, 60, 45, 38])
    if name == "each":
        compared = [(are(sex, "f")[0], are(sex, "m")[0])]
        compared += list(combinations(are(race, *"abc"), 2))
        return y, score, {"sex": sex, "race": race}, "each", compared
    if name == "rest":
        sides = are(race, *"abc")
        return y, score, race, "rest", [(side, 1 - side) for side in sides]
    if name == "ordered":
        cuts = [30, 38, 45]
        compared = [((age <= cut) * 1.0, (age > cut) * 1.0) for cut in cuts]
        return y, score, age, Comparison(ordered={0: cuts}), compared
    share = np.column_stack([age, 10 + score[::-1] * 6, 100 - age])
    share /= share.sum(axis=1, keepdims=True)
    return y, score, share, "probabilities", list(combinations(share.T, 2))


def arrangements(y, score, compared, parity, weight=None):
    """Max gap and statistic of every arrangement of the rows of the table, the first as they came.

    A weight stays with its score, and the standard error is that of the arrangement.
    """
    weight = np.ones(len(y)) if weight is None else weight
    gap, statistic = [], []
    for rows in strata_of(parity, y):
        t = np.unique(score[np.any(strata_of(parity, y), axis=0)])
        below = (score[rows, None] <= t) * 1.0
        order = np.array(list(permutations(range(np.count_nonzero(rows)))))
        largest, square, width = 0.0, 0.0, 0.0
        for sides in compared:
            parts = [side[rows][order] * weight[rows] for side in sides]
            a, b = (part / part.sum(axis=1, keepdims=True) for part in parts)
            z = np.abs((a - b) @ below)  # (arrangements, m)
            unit = np.sqrt(((a - b) ** 2).sum(axis=1))
            width = np.maximum(width, z.max(axis=1) / unit * unit[0])  # in units of those who came
            largest = np.maximum(largest, z.max(axis=1) / unit)
            square = square + (z**2).mean(axis=1) / unit**2
        gap.append(width)
        statistic.append(largest + 1e-6 * square)
    if len(gap) == 1:
        return gap[0], statistic[0]
    return (np.maximum.outer(*parts).ravel() for parts in (gap, statistic))


@pytest.mark.parametrize("parity", ["equalized_odds", "predictive_equality"])
@pytest.mark.parametrize("name", ["each", "rest", "ordered", "probabilities"])
def test_whole_rows_of_the_table_are_dealt_out(name, parity):
    y, score, features, comparison, compared = table_of(name)
    profile = threshold_profile(y, score, sensitive_features=features, comparison=comparison, parity=parity)
    gap, statistic = arrangements(y, score, compared, parity)
    assert gap[0] == pytest.approx(profile.max_gap)
    exact = np.mean(statistic >= statistic[0] * (1 - 1e-9))
    n = 4000
    found = profile.test(n, 0)
    assert found.exact
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / n) + 1 / n)
    assert found.noise_floor.mean == pytest.approx(gap.mean(), abs=4 * gap.std() / n**0.5)
    nearby = np.quantile(gap, [0.94, 0.96])
    assert nearby[0] - 1e-12 <= found.noise_floor.p95 <= nearby[1] + 1e-12


def test_weights_of_soft_groups_stay_with_the_scores_and_count_in_every_arrangement():
    y, score, features, comparison, compared = table_of("probabilities")
    weight = np.array([1.0, 1, 9, 2, 1, 4, 1, 1, 6])
    profile = threshold_profile(
        y,
        score,
        sensitive_features=features,
        comparison=comparison,
        parity="predictive_equality",
        sample_weight=weight,
    )
    gap, statistic = arrangements(y, score, compared, "predictive_equality", weight)
    assert gap[0] == pytest.approx(profile.max_gap)
    exact = np.mean(statistic >= statistic[0] * (1 - 1e-9))
    found = profile.test(4000, 0)
    assert not found.exact
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000) + 1 / 4000)
    assert found.noise_floor.mean == pytest.approx(gap.mean(), abs=4 * gap.std() / 4000**0.5)


def test_a_test_is_exact_unless_other_people_are_unknown_in_each_column():
    sex, race = P.some("sex", 5), P.some("race", 5)
    each = Comparison(columns="each", unknown="exclude")
    assert profile_by({"sex": sex, "race": race}, each).test(19, 0).exact
    assert profile_by({"race": P.some("race", 7)}, each).test(19, 0).exact
    assert not profile_by({"sex": sex, "race": P.some("race", 7)}, each).test(19, 0).exact


def test_the_rows_that_decide_a_limit_do_not_depend_on_the_unit_of_weights():
    kind = KINDS["probabilities"](P, P.weight)
    data = {"sensitive_features": kind.features, "comparison": kind.comparison}
    found = [
        threshold_profile(None, P.score, sample_weight=unit * P.weight, **data).certify(
            0.1, n_resamples=RESAMPLES, random_state=0
        )
        for unit in (1.0, 1000.0)
    ]
    assert found[0].verdict == found[1].verdict == "not decidable"
    assert found[0].rows_needed == found[1].rows_needed
    (whole,) = {each.rows_needed for each in found}
    assert whole > len(P.y) / 10
    plain = threshold_profile(None, P.score, **data)
    assert plain._binned.counts == pytest.approx(P.share.sum(axis=0))


def test_columns_that_move_apart_would_give_another_noise_floor():
    """Sex is race under another name: dealt out by themselves, two columns would have two chances."""
    sex = np.where(P.race == "a", "f", "m")
    two = Comparison(columns="each", ordered=False)
    together = profile_by({"sex": sex, "again": sex}, two).test(400, 0)
    alone = profile_by({"sex": sex}, Comparison(against="rest", columns="each")).test(400, 0)
    assert together.noise_floor.mean == pytest.approx(alone.noise_floor.mean, rel=0.05)


@kinds
def test_a_gap_that_is_there_is_found_and_one_that_is_not_is_not(name):
    p = people(seed=4)
    kind = KINDS[name](p, np.ones(len(p.y)))
    shifted = p.score + 3 * kind.attributes[0][0][0]
    rng = np.random.default_rng(0)
    data = {"sensitive_features": kind.features, "comparison": kind.comparison}
    assert threshold_profile(None, shifted, **data).test(99, 0).p_value == 0.01
    noise = threshold_profile(None, rng.standard_normal(len(p.y)), **data).test(99, 0)
    assert noise.p_value > 0.01
    assert noise.noise_floor.mean == pytest.approx(noise.max_gap, rel=0.6)


# ---------------------------------------------------------------- what mutations of the code survived


def cuts_of(age, weight=None, **settings):
    """The cuts that are chosen of an ordered column."""
    score = np.arange(len(age)) * 1.0
    asked = Comparison(ordered={"age": settings.pop("cuts", 10)}, **settings)
    data = {"sensitive_features": {"age": age}, "comparison": asked, "sample_weight": weight}
    return threshold_profile(None, score, **data).gap_by_cut["age"][0].tolist()


def test_cuts_do_not_depend_on_the_unit_of_weights():
    age = np.arange(110.0)
    assert cuts_of(age) == [9, 19, 29, 39, 49, 59, 69, 79, 89, 99]
    assert cuts_of(age, np.full(110, 0.1)) == cuts_of(age, np.full(110, 1 / 3)) == cuts_of(age)


def test_no_cut_is_at_the_largest_value():
    assert cuts_of(np.repeat([1.0, 2.0, 3.0], [20, 20, 60])) == [1, 2]


def test_only_people_who_count_are_on_a_side():
    age = np.append(np.arange(20.0, 60.0), 90.0)
    weight = np.append(np.ones(40), 0.0)
    assert cuts_of(age, weight, cuts=[58]) == [58]
    for cut in (59, 70):
        with pytest.raises(ValueError, match=f"whose values run from 20 to 59, got {cut}"):
            cuts_of(age, weight, cuts=[cut])
    with pytest.raises(ValueError, match="must have finite numbers in 'age', got an infinite one"):
        cuts_of(np.append(age[:-1], np.inf), cuts=[30])


def test_a_column_may_be_named_by_a_number():
    frame = pd.DataFrame({0: P.sex, 7: P.age})
    profile = threshold_profile(None, P.score, sensitive_features=frame, comparison=Comparison(ordered=7))
    assert list(profile.by_attribute) == ["0", "7"]
    assert list(profile.gap_by_cut) == ["7"]


def test_too_many_combinations_are_refused():
    rng = np.random.default_rng(0)
    features = dict(zip("pq", rng.random((2, 8000)), strict=True))
    asked = Comparison(ordered=dict.fromkeys("pq", 99))
    with pytest.raises(ValueError, match="must have at most 5000 combinations of groups and cuts, got "):
        threshold_profile(None, np.arange(8000.0), sensitive_features=features, comparison=asked)


def test_probabilities_add_up_to_1_within_a_hundredth():
    def measure(row, comparison="probabilities"):
        share = P.share.copy()
        share[4] = row
        return threshold_profile(None, P.score, sensitive_features=share, comparison=comparison)

    near, exact = measure([0.507, 0.3, 0.2]), measure(np.array([0.507, 0.3, 0.2]) / 1.007)
    assert near.max_gap == pytest.approx(exact.max_gap, abs=1e-12)
    with pytest.raises(ValueError, match=r"to within 0\.01, got 1\.015 in row 4 \(the first is 0\)"):
        measure([0.515, 0.3, 0.2])
    with pytest.raises(ValueError, match="must not have missing values"):
        measure([0.5, np.nan, 0.5])
    known = measure([0.5, np.nan, 0.5], Comparison(probabilities=True, unknown="exclude"))
    assert known.unknown == {"group": 1}


def test_a_reference_group_after_one_that_is_left_out():
    race = np.where(P.race == "d", "0", P.race)  # the rare group comes first
    profile = profile_by(race, Comparison(reference="b", min_rows=20))
    kept = race != "0"
    alone = profile_by(race[kept], Comparison(reference="b"), P.take(kept))
    same(profile, alone)
    assert [profile.groups[b] for _, b in profile.pairs] == ["b", "b"]


def test_weights_by_group_move_with_the_row_of_the_table():
    y, score, features, comparison, compared = table_of("each")
    weight = np.array([{"a": 1.0, "b": 3.0, "c": 7.0}[race] for race in features["race"]])
    weight = weight * np.where(features["sex"] == "f", 2.0, 1.0)
    profile = threshold_profile(
        y,
        score,
        sensitive_features=features,
        comparison=comparison,
        parity="predictive_equality",
        sample_weight=weight,
    )
    gap, statistic = arrangements(
        y, score, [(a * weight, b * weight) for a, b in compared], "predictive_equality"
    )
    assert gap[0] == pytest.approx(profile.max_gap)
    exact = np.mean(statistic >= statistic[0] * (1 - 1e-9))
    found = profile.test(4000, 0)
    assert found.exact
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000) + 1 / 4000)
    assert found.noise_floor.mean == pytest.approx(gap.mean(), abs=4 * gap.std() / 4000**0.5)


def test_resamples_of_many_rows_spread_as_the_rows_would():
    """Of 60,000 rows 20,000 are drawn, and of a race of 150 people its own."""
    rng = np.random.default_rng(0)
    n = 60_000
    sex, race = np.where(rng.random(n) < 0.3, "f", "m"), np.where(np.arange(n) < 150, "few", "many")
    score = rng.random(n).round(2)
    features = {"sex": sex, "race": race}
    binned = threshold_profile(None, score, sensitive_features=features, comparison="each")._binned
    deviation = np.concatenate(list(binned.deviations(400, rng)))
    at = int(np.searchsorted(binned.thresholds, 0.5))
    for u, size in enumerate(binned.counts):
        expected = np.sqrt(0.25 / size)
        assert deviation[:, u, at].std() == pytest.approx(expected, rel=0.12)
