"""The audit's dict and the texts made of it: every number has a witness, every name is the user's."""

import copy
import json
import math
import re
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_score, recall_score, roc_auc_score

from evenrisk import Comparison, Parity, threshold_profile
from evenrisk._validation import shown, visible
from evenrisk.datasets import load_compas
from evenrisk.exceptions import MisalignedIndexWarning, SmallCellWarning
from evenrisk.report import audit, numerals, words
from evenrisk.report.summary import BUCKETS, round_numbers, slider_stops, thinned
from evenrisk.report.words import to_terminal
from full_disk import full_disk
from optional import need

QUICK = {"n_resamples": 200, "n_permutations": 200}


@pytest.fixture(scope="module")
def people():
    """Three unequal groups, a continuous score and a coarse one."""
    rng = np.random.default_rng(0)
    group = rng.choice(["ash", "birch", "cedar"], 900, p=[0.5, 0.3, 0.2])
    y = rng.integers(0, 2, 900)
    score = 1 / (1 + np.exp(-(rng.normal(size=900) + y + 0.7 * (group == "ash"))))
    return pd.DataFrame(
        {"score": score, "stars": np.ceil(5 * score), "tree": group, "late": np.where(y, "yes", "no")}
    )


@pytest.fixture(scope="module")
def report(people):
    return audit(people["late"], people["score"], positive="yes", sensitive_features=people["tree"], **QUICK)


@pytest.fixture(scope="module")
def compas_report():
    data = load_compas()
    return audit(
        data.y,
        data.frame["decile_score"],
        sensitive_features=data.sensitive_features,
        favourable="low",
        threshold=4,
    )


def only(summary, parity="demographic_parity"):
    """The one score column's entry under a rule."""
    (score,) = summary["scores"]
    return next(entry for entry in score["parities"] if entry["parity"] == parity)


def plain(value):
    """Whether JSON can hold it without help."""
    if isinstance(value, dict):
        return all(type(key) is str and plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


def test_the_summary_is_plain_and_json_is_the_same_thing(report, tmp_path):
    assert plain(report.summary)
    text = report.to_json(tmp_path / "audit.json")
    assert json.loads(text) == report.summary == json.loads((tmp_path / "audit.json").read_text())


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_gaps_are_the_profile_s(people, report, parity):
    names = {"sensitive_features": people["tree"], "parity": parity}
    profile = threshold_profile(people["late"], people["score"], pos_label="yes", **names)
    entry = only(report.summary, parity)
    for name in ("max_gap", "mean_gap", "rank_gap"):
        assert entry[name]["value"] == getattr(profile, name)
        assert 0 <= entry[name]["low"] <= entry[name]["value"] <= entry[name]["high"]
    assert entry["gap_at_threshold"]["value"] == profile.at(0.5)
    assert entry["worst"]["threshold"] == profile.worst_threshold
    assert entry["worst"]["stratum"] == profile.worst_stratum
    band = profile.band(0.95, "bootstrap", 200, 0)
    assert (entry["max_gap"]["low"], entry["max_gap"]["high"]) == band.max_gap[1:]
    test = profile.test(200, 0)
    assert entry["p_value"] == test.p_value
    assert entry["noise_floor"] == {"mean": test.noise_floor.mean, "p95": test.noise_floor.p95}
    for stratum, entry_of in zip(range(len(profile.parity.strata)), entry["curve"]["strata"], strict=True):
        assert max(entry_of["gap"]) == profile.gap_by_stratum[stratum].max()
        at = np.searchsorted(profile.thresholds, entry["curve"]["thresholds"])
        np.testing.assert_array_equal(entry_of["gap"], profile.gap_by_stratum[stratum, at])
        np.testing.assert_array_equal(entry_of["low"], band.gap_by_stratum[0][stratum, at])
        np.testing.assert_array_equal(entry_of["high"], band.gap_by_stratum[1][stratum, at])


def test_the_worst_pair_is_reported(people, report):
    worst = only(report.summary)["worst"]
    rates = (people["score"] > worst["threshold"]).groupby(people["tree"]).mean()
    assert worst["higher"] == rates.idxmax()
    assert worst["lower"] == rates.idxmin()
    assert worst["higher_rate"] == pytest.approx(rates.max())
    assert worst["lower_rate"] == pytest.approx(rates.min())
    assert worst["selection_rate"] == pytest.approx((people["score"] > worst["threshold"]).mean())


def test_rates_at_the_threshold_against_scikit_learn(people, report):
    late = (people["late"] == "yes").to_numpy()
    for entry in report.summary["scores"][0]["at_threshold"]["groups"]:
        mine = (people["tree"] == entry["group"]).to_numpy()
        y, chosen = late[mine], people["score"].to_numpy()[mine] > 0.5
        assert (entry["selected"], entry["rows"]) == (chosen.sum(), mine.sum())
        assert entry["selection_rate"] == pytest.approx(chosen.mean())
        assert entry["tpr"] == pytest.approx(recall_score(y, chosen))
        assert entry["fpr"] == pytest.approx(recall_score(~y, chosen))
        assert entry["ppv"] == pytest.approx(precision_score(y, chosen))
        assert entry["accuracy"] == pytest.approx(accuracy_score(y, chosen))


def test_the_slider_s_counts(people, report):
    score = report.summary["scores"][0]
    steps = score["steps"]
    assert steps["thresholds"][score["start"]] == 0.5
    for i, name in enumerate(report.summary["groups"]):
        mine = people[people["tree"] == name]
        for j in range(0, len(steps["thresholds"]), 37):
            above = mine["score"] > steps["thresholds"][j]
            assert steps["selected"][i][j] == above.sum()
            assert steps["true_positives"][i][j] == (above & (mine["late"] == "yes")).sum()
        assert (steps["rows"][i], steps["positives"][i]) == (len(mine), (mine["late"] == "yes").sum())


def test_auc_against_scikit_learn(people, report):
    measured = report.summary["scores"][0]["auc"]
    y = people["late"] == "yes"
    assert measured["overall"]["value"] == pytest.approx(roc_auc_score(y, people["score"]))
    for entry in measured["groups"]:
        mine = people["tree"] == entry["group"]
        assert entry["value"] == pytest.approx(roc_auc_score(y[mine], people["score"][mine]))
        assert entry["low"] < entry["value"] < entry["high"]
    assert [entry["pair"] for entry in measured["abroca"]] == [
        ["ash", "birch"],
        ["ash", "cedar"],
        ["birch", "cedar"],
    ]


@pytest.mark.parametrize("column", ["score", "stars"])
def test_distributions_are_shares_of_each_group(people, column):
    summary = audit(
        people["late"], people[column], positive="yes", sensitive_features=people["tree"], **QUICK
    ).summary
    shown = summary["scores"][0]["distributions"]
    assert [entry["words"] for entry in shown] == [
        "everybody",
        "people with late = no",
        "people with late = yes",
    ]
    for entry, label in zip(shown, (None, "no", "yes"), strict=True):
        edges = np.array(entry["edges"])
        for name, density in zip(summary["groups"], entry["density"], strict=True):
            mine = people[(people["tree"] == name) & ((people["late"] == label) | (label is None))]
            # a bar of a coarse scale ends at its score
            inside = (
                np.array([(mine[column] == edge).mean() for edge in edges[1:]])
                if column == "stars"
                else np.histogram(mine[column], edges)[0] / len(mine)
            )
            np.testing.assert_allclose(density * np.diff(edges), inside, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("score", [0.7, 0.9])
@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_the_rate_of_a_group_that_is_left_out(dtype, score):
    """One positive, and two negatives of weights 3 and 1: nobody at the cut-off is above it."""
    s = np.r_[np.linspace(0, 1, 160), 0.9, score, 0.1].astype(dtype)
    y, g = [0, 0, 1, 1] * 40 + [1, 0, 0], ["a", "b"] * 80 + ["c"] * 3
    weight = [1.0] * 161 + [3.0, 1.0]
    options = {"parity": "equalized_odds", "threshold": 0.7, **QUICK}
    report = audit(y, s, sensitive_features=g, sample_weight=weight, **options)
    (left,) = report.summary["scores"][0]["parities"][0]["left_out"]
    rates = {cell["stratum"]: cell["rate"] for cell in left["cells"]}
    assert rates == {"positives": 1.0, "negatives": 0.75 if score > 0.7 else 0.0}


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_the_user_may_say_how_many_rows_are_enough():
    s, g = np.r_[np.linspace(0, 1, 80), 0.2, 0.6], ["a", "b"] * 40 + ["c"] * 2
    for least, compared in ((2, [0, 1, 2]), (3, [0, 1]), (None, [0, 1]), (0, [0, 1, 2])):
        comparison = Comparison(min_rows=least)
        summary = audit(None, s, sensitive_features=g, comparison=comparison, **QUICK).summary
        assert summary["compared"]["selection_rate"] == {"groups": compared, "pairs": None}
        left_out = summary["scores"][0]["parities"][0]["left_out"]
        assert [each["group"] for each in left_out] == ["c"] * (3 - len(compared))
        assert summary["settings"]["comparison"]["min_rows"] == (30 if least is None else max(least, 1))


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_which_rows_a_rule_wants_is_said():
    """Two positives and no negative: enough for equal opportunity, too few for both outcomes."""
    s, g = np.r_[np.linspace(0, 1, 80), 0.2, 0.6, 0.4], ["a", "b"] * 40 + ["c"] * 2 + ["d"]
    y = [0, 0, 1, 1] * 20 + [1, 1, 1]
    for parity, gone, which in (
        ("equal_opportunity", ["d"], "at least 2 rows of the outcome that it looks at"),
        ("equalized_odds", ["c", "d"], "at least 2 rows of each outcome"),
    ):
        options = {"parity": parity, "comparison": Comparison(min_rows=2), **QUICK}
        summary = audit(y, s, sensitive_features=g, **options).summary
        assert [each["group"] for each in summary["scores"][0]["parities"][0]["left_out"]] == gone
        assert any(which in warning for warning in summary["warnings"])


def test_whole_numbers_of_a_nested_list_are_not_merged():
    group = ["a", "b"] * 40
    with pytest.raises(ValueError, match="`y_score` must be numbers that differ in float64 too"):
        audit(None, [[2**60 + i, 0.5 * i] for i in range(80)], sensitive_features=group, **QUICK)
    columns = audit(None, [[i, 0.5 * i] for i in range(80)], sensitive_features=group, **QUICK).summary[
        "scores"
    ]
    assert [column["distinct"] for column in columns] == [80, 80]


ULPS = 0.3 + np.spacing(0.3) * np.arange(3)


@pytest.mark.parametrize(
    "values",
    [
        ULPS,
        [0.1 + 0.2, 0.3, 0.7],
        [np.nextafter(1, 0), 1],
        [-1, np.nextafter(-1, 0)],
        1e15 + np.arange(3) / 8,
        [-1e15, 0, 1e-20],
        [0, 5e-324, 1],
        [1e15],
        [-1e15],
        [1e17],
        [1e308],
        [-1e308],
        [np.finfo(float).max],
        1 + np.spacing(1) * np.arange(70),
    ],
)
def test_scores_that_only_rounding_tells_apart_or_that_are_huge(values):
    """Every number is finite, and the bars hold everybody."""
    score = np.resize(values, 240)
    group = np.repeat(["a", "b"], [90, 150])
    report = audit(np.arange(240) // 7 % 2, score, sensitive_features=group, **QUICK)
    assert report.to_html().startswith("<!DOCTYPE html>")
    (column,) = json.loads(report.to_json())["scores"]  # NaN and infinity are refused
    assert column["distinct"] == len(values)
    assert column["range"][0] < column["range"][1]
    everybody = column["distributions"][0]
    edges = np.array(everybody["edges"])
    assert np.all(np.diff(edges) > 0)
    own = len(values) > 1 and np.array_equal(edges[1:], np.sort(values))  # each score has a bar of its own
    assert own or not np.array_equal(values, ULPS)
    for name, density in zip("ab", everybody["density"], strict=True):
        mine = score[group == name]
        counted = [np.sum(mine == edge) for edge in edges[1:]] if own else np.histogram(mine, edges)[0]
        np.testing.assert_allclose(density * np.diff(edges), np.divide(counted, len(mine)))


def test_verdict_in_the_user_s_own_words(compas_report):
    parity, odds = compas_report.summary["verdict"]
    assert parity.startswith(
        "At the worst cut-off, 4, group African-American is flagged 25 points more often than "
        "group Caucasian (58 % against 33 %; 95 % interval of the worst gap: 21 to 28 points); "
        "chance alone would give 1.9 points on average, and rarely more than 3.3. "
    )
    assert "This is more than chance (p = 0.001)." in parity
    assert parity.endswith("A limit of 10 points is exceeded (95 % sure).")
    assert odds.startswith("Equalized odds: among people with two_year_recid = 1, at the worst cut-off, 6, ")
    assert compas_report.summary["title"] == "Audit of decile_score by race"


def test_a_gap_of_chance_is_called_so():
    rng = np.random.default_rng(3)
    summary = audit(None, rng.random(400), sensitive_features=rng.choice(["f", "m"], 400), **QUICK).summary
    entry = only(summary)
    assert entry["p_value"] > 0.05
    assert "It is not shown to be more than chance" in summary["verdict"][0]
    most = numerals.short_points(entry["max_gap"]["high"])
    assert f"the true gap may be up to {most} points" in summary["verdict"][0]
    assert "cannot be decided with this sample" in summary["verdict"][0]


@pytest.mark.parametrize(
    ("shift", "level", "more"),
    [(0.0, 0.5, False), (0.0, 0.95, False), (0.04, 0.5, True), (0.04, 0.95, True), (0.04, 0.999, False)],
)
def test_when_a_gap_is_called_more_than_chance(shift, level, more):
    """p is about .2, or about .01: a level of .5 does not make the first a finding."""
    rng = np.random.default_rng(14)
    score, group = rng.random(400), rng.choice(["f", "m"], 400)
    score = score + shift * (group == "f")
    summary = audit(None, score, sensitive_features=group, level=level).summary
    p = only(summary)["p_value"]
    assert 0.1 < p < 0.3 if shift == 0 else 0.001 < p < 0.05
    assert ("This is more than chance" in summary["verdict"][0]) is more
    assert summary["settings"]["n_resamples"] == (2000 if level == 0.999 else 1000)


def test_the_notes_say_why_an_interval_and_the_test_may_differ(report):
    (band,) = [note["text"] for note in report.summary["notes"] if note["title"] == "The band"]
    assert "The interval comes from a band that covers all cut-offs and is cautious; the test can" in band


def test_equal_scores_are_called_equal():
    summary = audit(None, [1.0] * 80, sensitive_features=["f", "m"] * 40, **QUICK).summary
    (verdict,) = summary["verdict"]
    assert verdict.startswith("At every cut-off all groups are selected equally often.")
    assert "chance" not in verdict


@pytest.mark.parametrize("favourable", ["high", "low"])
def test_favourable_changes_words_and_the_impact_ratio_alone(people, favourable):
    summary = audit(
        None, people["score"], sensitive_features=people["tree"], favourable=favourable, **QUICK
    ).summary
    rate = (people["score"] > 0.5).groupby(people["tree"]).mean()
    good = rate if favourable == "high" else 1 - rate
    assert summary["scores"][0]["at_threshold"]["impact_ratio"] == pytest.approx(good.min() / good.max())
    assert (" is selected " if favourable == "high" else " is flagged ") in summary["verdict"][0]
    assert only(summary)["max_gap"]["value"] == max(
        threshold_profile(None, people["score"], sensitive_features=people["tree"]).gap
    )


def test_without_outcomes_there_is_demographic_parity_alone(people):
    summary = audit(None, people["score"], sensitive_features=people["tree"], **QUICK).summary
    assert summary["settings"]["parities"] == ["demographic_parity"]
    assert summary["label"] is summary["scores"][0]["auc"] is None
    assert "true_positives" not in summary["scores"][0]["steps"]
    assert summary["scores"][0]["at_threshold"]["groups"][0]["tpr"] is None


def test_parities_asked_for(people):
    rule = Parity("only the late", ("latecomers",), lambda y: y - 1)
    summary = audit(
        people["late"],
        people["score"],
        positive="yes",
        sensitive_features=people["tree"],
        parity=["equal_opportunity", rule],
        **QUICK,
    ).summary
    assert summary["settings"]["parities"] == ["equal_opportunity", "only the late"]
    first, second = summary["scores"][0]["parities"]
    assert first["max_gap"] == second["max_gap"]
    assert second["worst"]["words"] == "latecomers"


MEASURES = ("max_gap", "mean_gap", "rank_gap", "gap_at_threshold", "worst", "noise_floor", "p_value")
MEASURES = (*MEASURES, "certificates", "half_widths", "curve")


def same_verdicts(entry, alone):
    """Whether a rule finds what it finds where nobody was left out; digits may depend on all scores."""
    entry, alone = copy.deepcopy([entry, alone])
    for found in (entry, alone):
        assert len(found["curve"].pop("written")) == len(found["curve"]["thresholds"])
        assert float(found["worst"].pop("at")) == pytest.approx(found["worst"]["threshold"], abs=1e-3)
    assert {key: entry[key] for key in MEASURES} == {key: alone[key] for key in MEASURES}


@pytest.mark.parametrize("lates", [0, 1])
def test_a_group_that_lacks_an_outcome_is_named_and_the_others_are_compared(people, lates):
    late = people["late"].where(people["tree"] != "cedar", "no")
    late[people.index[people["tree"] == "cedar"][:lates]] = "yes"
    n = (people["tree"] == "cedar").sum()
    found = f"group 'cedar', {n} rows ({lates} among people with late = yes)"
    with pytest.warns(SmallCellWarning, match="Left out of equalized odds") as told:
        report = audit(late, people["score"], positive="yes", sensitive_features=people["tree"], **QUICK)
    summary = report.summary
    assert len(told) == 1
    assert summary["warnings"] == [
        f"Left out of equalized odds, which compares groups of at least 30 rows of each outcome: {found}."
    ]
    assert summary["settings"]["parities"] == ["demographic_parity", "equalized_odds"]
    assert summary["groups"] == ["ash", "birch", "cedar"]
    assert only(summary)["left_out"] == []
    assert "cedar" in {name for each in only(summary)["half_widths"] for name in each["pair"]}
    rest = people["tree"] != "cedar"
    alone = audit(
        late[rest], people["score"][rest], positive="yes", sensitive_features=people["tree"][rest], **QUICK
    ).summary
    same_verdicts(only(summary, "equalized_odds"), only(alone, "equalized_odds"))
    (entry,) = only(summary, "equalized_odds")["left_out"]
    above = people["score"][~rest & (late == "no")] > 0.5
    negatives, positives = entry["cells"]
    assert (entry["group"], entry["rows"]) == ("cedar", n)
    assert negatives == {
        "stratum": "negatives",
        "rows": n - lates,
        "too_few": False,
        "rate": pytest.approx(above.mean()),
    }
    first = people["score"][people["tree"] == "cedar"].iloc[0]
    assert positives["rows"] == lates
    assert positives["rate"] == (float(first > 0.5) if lates else None)
    assert summary["verdict"][1].endswith(f"Left out: {found.replace(chr(39), '')}.")
    for text in (report.to_markdown(), report.to_html(), to_terminal(summary)):
        assert "cedar (left out of equalized odds)" in text
    assert found in report.to_markdown()
    # the highest minus the lowest rate, and areas between curves, are of the others too
    compared = {"selection_rate": [0, 1, 2], "tpr": [0, 1], "fpr": [0, 1], "ppv": [0, 1, 2]}
    compared["accuracy"] = [0, 1, 2]
    assert summary["compared"] == {rate: {"groups": of, "pairs": None} for rate, of in compared.items()}
    assert [each["pair"] for each in summary["scores"][0]["auc"]["abroca"]] == [["ash", "birch"]]
    with pytest.warns(SmallCellWarning, match="Left out of equalized odds"):
        asked = audit(
            late,
            people["score"],
            positive="yes",
            sensitive_features=people["tree"],
            parity="equalized_odds",
            **QUICK,
        ).summary
    assert [entry["parity"] for entry in asked["scores"][0]["parities"]] == ["equalized_odds"]
    assert only(asked, "equalized_odds")["max_gap"] == only(alone, "equalized_odds")["max_gap"]


def test_a_rate_of_one_person_is_in_no_spread_whatever_the_rule(people):
    late = people["late"].where(people["tree"] != "cedar", "no")
    late[people.index[people["tree"] == "cedar"][:1]] = "yes"
    names = {"sensitive_features": people["tree"], "parity": "demographic_parity", **QUICK}
    with pytest.warns(SmallCellWarning, match="Only 1 row in group 'cedar' among people with late = yes"):
        summary = audit(late, people["score"], positive="yes", **names).summary
    assert only(summary)["left_out"] == []
    assert [summary["compared"][rate]["groups"] for rate in ("selection_rate", "tpr", "fpr")] == [
        [0, 1, 2],
        [0, 1],
        [0, 1, 2],
    ]


def test_a_group_of_one_row_sets_nothing_and_is_named(people):
    tree = people["tree"].copy()
    lowest = people["score"].idxmin()  # alone, it is as far from the others as can be
    tree[lowest] = "yew"
    with pytest.warns(SmallCellWarning, match="Left out of demographic parity") as told:
        report = audit(people["late"], people["score"], positive="yes", sensitive_features=tree, **QUICK)
    assert (told[0].filename, len(told)) == (__file__, 1)
    summary = report.summary
    lacked = {"no": "yes", "yes": "no"}[people["late"][lowest]]
    assert summary["warnings"] == [
        "Left out of demographic parity, which compares groups of at least 30 rows: group 'yew', 1 row.",
        "Left out of equalized odds, which compares groups of at least 30 rows of each outcome: "
        f"group 'yew', 1 row (0 among people with late = {lacked}).",
    ]
    rest = people.drop(index=lowest)
    alone = audit(
        rest["late"], rest["score"], positive="yes", sensitive_features=rest["tree"], **QUICK
    ).summary
    for parity in ("demographic_parity", "equalized_odds"):
        for key in ("max_gap", "mean_gap", "rank_gap", "p_value", "half_widths", "certificates"):
            assert only(summary, parity)[key] == only(alone, parity)[key]
    assert only(summary)["left_out"] == [
        {
            "group": "yew",
            "is_cut": False,
            "rows": 1,
            "cells": [{"stratum": "everybody", "rows": 1, "too_few": True, "rate": 0.0}],
        }
    ]
    assert summary["verdict"][0] == alone["verdict"][0] + " Left out: group yew, 1 row."
    assert summary["groups"][-1] == "yew"
    here, there = (each["scores"][0]["at_threshold"] for each in (summary, alone))
    assert (here["groups"][:3], here["impact_ratio"]) == (there["groups"], there["impact_ratio"])
    assert here["groups"][3]["selection_rate"] == 0.0
    for text in (report.to_markdown(), report.to_html(), to_terminal(summary)):
        assert "yew (left out)" in text
    assert json.loads(report.to_json()) == summary


@pytest.mark.parametrize("n", [2, 29, 30])
def test_a_small_group_that_is_compared_is_named(people, n):
    tree = people["tree"].copy()
    rows = [*people.index[people["late"] == "no"][:n], *people.index[people["late"] == "yes"][:n]]
    tree[rows] = "yew"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallCellWarning)
        summary = audit(
            people["late"],
            people["score"],
            positive="yes",
            sensitive_features=tree,
            comparison=Comparison(min_rows=2),
            **QUICK,
        ).summary
    noise = "fewer than 30: what is measured there is mostly noise."
    whole = f"Only {2 * n} rows in group 'yew', {noise}"
    parts = [
        f"Only {n} rows in group 'yew' among people with late = {each}, {noise}" for each in ("no", "yes")
    ]
    assert summary["warnings"] == ([whole] if n == 2 else parts if n == 29 else [])
    for parity in ("demographic_parity", "equalized_odds"):
        assert only(summary, parity)["left_out"] == []
        assert "yew" in {name for each in only(summary, parity)["half_widths"] for name in each["pair"]}


def test_exactly_thirty_rows_are_looked_into_by_outcome(people):
    """29 rows are named as a whole; from 30 on each outcome within them is."""
    few = people.index[people["late"] == "yes"][:3]
    for n, named in ((29, "Only 29 rows in group 'yew', "), (30, "Only 3 rows in group 'yew' among people ")):
        tree = people["tree"].copy()
        tree[[*few, *people.index[people["late"] == "no"][: n - 3]]] = "yew"
        with pytest.warns(SmallCellWarning, match=named):
            summary = audit(
                people["late"],
                people["score"],
                positive="yes",
                sensitive_features=tree,
                comparison=Comparison(min_rows=2),
                **QUICK,
            ).summary
        assert [sentence[: len(named)] for sentence in summary["warnings"]][-1] == named


def test_a_rule_with_nobody_to_compare(people):
    """Shown by default, it is left away and says why; asked for, it is an error. Both name the groups."""
    late = people["late"].where(people["tree"] == "ash", "no")
    n = people["tree"].value_counts()
    lacking = [
        f"group {name!r}, {n[name]} rows (0 among people with late = yes)" for name in ("birch", "cedar")
    ]
    names = {"sensitive_features": people["tree"], **QUICK}
    with pytest.warns(SmallCellWarning, match="No row in group 'birch' among people with late = yes"):
        summary = audit(late, people["score"], positive="yes", **names).summary
    assert summary["settings"]["parities"] == ["demographic_parity"]
    assert summary["warnings"][-1] == (
        "Equalized odds could not be measured: fewer than 2 groups have at least 30 rows of each outcome. "
        f"Too few rows: {'; '.join(lacking)}."
    )
    assert summary["scores"][0]["auc"]["left_out"] == ["birch", "cedar"]
    with pytest.raises(
        ValueError, match=r"2 or more groups of at least 30 rows of each outcome under "
    ) as error:
        audit(late, people["score"], positive="yes", parity=["demographic_parity", "equalized_odds"], **names)
    said = f"equalized_odds, got 1 (min_rows sets another number). Too few rows: {'; '.join(lacking)}"
    assert str(error.value).endswith(said)
    alone = np.where(people.index == 0, "yew", "ash")
    with pytest.raises(
        ValueError, match=r"under demographic_parity, got 1 .* Too few rows: group 'yew', 1 row"
    ):
        audit(None, people["score"], sensitive_features=alone, **QUICK)


def columns_of(people):
    return {
        "dict": {"score": people["score"].to_numpy(), "stars": people["stars"].tolist()},
        "frame": people[["score", "stars"]],
        "array": people[["score", "stars"]].to_numpy(),
    }


@pytest.mark.parametrize("kind", ["dict", "frame", "array"])
def test_several_columns(people, kind):
    summary = audit(None, columns_of(people)[kind], sensitive_features=people["tree"], **QUICK).summary
    names = ["score 1", "score 2"] if kind == "array" else ["score", "stars"]
    assert [score["name"] for score in summary["scores"]] == names
    for name, column, score in zip(names, ("score", "stars"), summary["scores"], strict=True):
        alone = threshold_profile(None, people[column], sensitive_features=people["tree"])
        assert score["parities"][0]["max_gap"]["value"] == alone.max_gap
        assert any(paragraph.startswith(f"{name}: At the worst") for paragraph in summary["verdict"])
    # 0.5 cuts the first; the second, from 1 to 5, begins at its median
    starts = [score["at_threshold"]["threshold"] for score in summary["scores"]]
    assert starts == [0.5, people["stars"].median()]


@pytest.mark.parametrize(
    ("scale", "start"),
    [
        (lambda s: s, 0.5),
        (lambda s: 100 * s, "median"),
        (lambda s: s / 100, "median"),  # chances of a rare event
        (lambda s: 0.45 + s / 10, 0.5),  # squeezed, and still cut by 0.5
        (lambda s: np.log(s / (1 - s)), "median"),
        (lambda s: np.append(100 * s[1:], 0.1), "median"),  # one person below 0.5
        (lambda s: 0.4 + 0.1 * (s > np.median(s)), "median"),  # nobody is above 0.5, half are at it
        (lambda s: 0.4 + 0.1 * s + 0.1 * (np.arange(900) < 9), "median"),  # 1 % above 0.5
        (lambda s: 0.4 + 0.1 * s + 0.1 * (np.arange(900) < 10), 0.5),
        (lambda s: 0.4 + 0.1 * s + 0.1 * (np.arange(900) >= 9), "median"),  # 1 % not above it
        (lambda s: 0.4 + 0.1 * s + 0.1 * (np.arange(900) >= 10), 0.5),
        (lambda s: (s - s.min()) / np.ptp(s), 0.5),  # from 0 to 1, both of them reached
        (lambda s: (s - s.min()) / np.ptp(s) * (1 + 1e-9), "median"),
        (lambda s: (s - s.min()) / np.ptp(s) - 1e-9, "median"),
    ],
)
def test_where_the_slider_starts(people, scale, start):
    score = scale(people["score"].to_numpy())
    entry = audit(None, score, sensitive_features=people["tree"], **QUICK).summary["scores"][0]
    assert entry["at_threshold"]["threshold"] == (np.median(score) if start == "median" else start)
    low, high = entry["range"]
    assert low <= score.min()
    assert high >= score.max()
    assert np.ptp(score) > 0.4 * (high - low)


@pytest.mark.parametrize(
    "scale", [lambda s: s, lambda s: 100 * s, lambda s: 300 + 550 * s, lambda s: s / 100]
)
@pytest.mark.parametrize("favourable", ["high", "low"])
def test_a_cut_off_that_is_asked_for_is_kept(people, scale, favourable):
    score = scale(people["score"].rename("points"))
    names = {"sensitive_features": people["tree"], "favourable": favourable, **QUICK}
    report = audit(None, score, threshold=0.5, **names)
    entry = report.summary["scores"][0]["at_threshold"]
    assert (entry["threshold"], entry["at"]) == (0.5, "0.5")
    assert [each["selected"] for each in entry["groups"]] == list((score > 0.5).groupby(people["tree"]).sum())
    ends = [float(end) for end in report.summary["scores"][0]["ends"]]
    assert ends == pytest.approx([score.min(), score.max()], rel=1e-2)
    told = [each for each in report.summary["warnings"] if "cut-off 0.5" in each]
    verb = "selected" if favourable == "high" else "flagged"
    if score.min() > 0.5:
        (sentence,) = told
        assert sentence.startswith("The cut-off 0.5 is below all scores of points, which run from ")
        assert sentence.endswith(f": everybody is {verb}.")
    elif score.max() <= 0.5:
        (sentence,) = told
        assert sentence.startswith("The cut-off 0.5 is at or above all scores of points, which run from ")
        assert sentence.endswith(f": nobody is {verb}.")
    else:
        assert told == []
    assert report.summary["settings"]["threshold"] == 0.5


@pytest.mark.parametrize(("threshold", "who"), [(0.5, "everybody"), (1, None), (4, None), (5, "nobody")])
def test_a_cut_off_at_the_lowest_score_parts_people_and_at_the_highest_does_not(people, threshold, who):
    names = {"sensitive_features": people["tree"], **QUICK}
    summary = audit(None, people["stars"], threshold=threshold, **names).summary
    assert [sentence.endswith(f": {who} is selected.") for sentence in summary["warnings"]] == [True] * bool(
        who
    )
    chosen = sum(group["selected"] for group in summary["scores"][0]["at_threshold"]["groups"])
    assert (chosen in (0, 900)) is bool(who)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("shift", [0, 1e-6, 0.3])
def test_a_cut_off_that_is_printed_decides_as_the_table_says(kind, shift):
    """The worst cut-off is 0.49997: as 0.5 it would select others."""
    score = np.concatenate([np.linspace(0.1, 0.49997, 80), np.linspace(0.49999, 0.9, 80)]) + shift
    score = np.append(score, [0.1, 0.9]).astype(kind)
    group = np.append(np.repeat(["a", "b"], 80), ["b", "a"])
    report = audit(None, score, sensitive_features=group, **QUICK)
    entry = report.summary["scores"][0]
    worst = only(report.summary)["worst"]
    assert worst["threshold"] == score[79]
    if not shift:
        assert worst["at"] == "0.49997"
    texts = [
        report.summary["verdict"][0],
        report.to_markdown(),
        to_terminal(report.summary),
        report.to_html(),
    ]
    assert all(worst["at"] in text for text in texts)
    steps = entry["steps"]
    for i, text in enumerate(steps["written"]):
        above = score > kind(numerals.parse(text))
        assert [above[group == name].sum() for name in "ab"] == [row[i] for row in steps["selected"]]
    curve = only(report.summary)["curve"]
    rates = np.array(
        [[(score[group == name] > kind(numerals.parse(t))).mean() for name in "ab"] for t in curve["written"]]
    )
    np.testing.assert_allclose(np.ptp(rates, axis=1), curve["strata"][0]["gap"], atol=1e-12)


def test_polars_and_crossed_groups(people):
    pl = need("polars")
    frame = pl.from_pandas(people.assign(half=np.arange(900) % 2))
    summary = audit(
        frame["late"],
        frame.select("score"),
        positive="yes",
        sensitive_features=frame.select("tree", "half"),
        **QUICK,
    ).summary
    assert summary["group_name"] == "tree × half"
    assert summary["groups"][0] == "ash × 0"
    assert summary["label"] == {"name": "late", "negative": "no", "positive": "yes"}


def test_the_positive_outcome_can_be_named(people):
    same = audit(people["late"], people["score"], sensitive_features=people["tree"], positive="yes", **QUICK)
    assert same.summary["label"] == {"name": "late", "negative": "no", "positive": "yes"}
    turned = audit(people["late"], people["score"], sensitive_features=people["tree"], positive="no", **QUICK)
    auc = [each.summary["scores"][0]["auc"]["overall"]["value"] for each in (same, turned)]
    assert auc[0] == pytest.approx(1 - auc[1])
    three = np.where(np.arange(900) % 4 == 0, "lost", people["late"])
    summary = audit(
        three, people["score"], sensitive_features=people["tree"], positive="lost", **QUICK
    ).summary
    assert summary["label"] == {"name": "outcome", "negative": "not 'lost'", "positive": "lost"}
    assert sum(cell["positives"] for cell in summary["cells"]) == (three == "lost").sum()


GUESSED = (
    "`y_true` has the labels 'no', 'yes': 'yes', the last in alphabetical order, is taken as the positive "
    "label, the one a high score stands for. Pass `positive` to say which one it is"
)


def test_a_positive_outcome_that_is_guessed_is_reported(people):
    data = {"sensitive_features": people["tree"], "parity": "demographic_parity", **QUICK}
    with pytest.warns(UserWarning, match=f"^{re.escape(GUESSED)}$") as told:
        report = audit(people["late"], people["score"], **data)
    assert [each.filename for each in told] == [__file__]
    assert report.summary["warnings"] == [f"{GUESSED}."]
    assert report.summary["label"]["positive"] == "yes"
    for outcome in (
        people["late"] == "yes",
        (people["late"] == "yes") + 1,
    ):  # numbers and booleans have an order
        assert audit(outcome, people["score"], **data).summary["warnings"] == []


def test_a_weight_of_two_is_two_rows(people):
    twice = np.where(np.arange(900) % 3 == 0, 2, 1)
    names = {"sensitive_features": people["tree"], "sample_weight": twice}
    weighted = audit(people["late"], people["score"], positive="yes", **names, **QUICK).summary
    rows = people.loc[people.index.repeat(twice)]
    repeated = audit(
        rows["late"], rows["score"], positive="yes", sensitive_features=rows["tree"], **QUICK
    ).summary
    for parity, name in product(
        ("demographic_parity", "equalized_odds"), ("max_gap", "mean_gap", "rank_gap")
    ):
        both = [only(summary, parity)[name]["value"] for summary in (weighted, repeated)]
        assert both[0] == pytest.approx(both[1], abs=1e-12)
    at = [summary["scores"][0]["at_threshold"]["groups"] for summary in (weighted, repeated)]
    for one, other in zip(*at, strict=True):
        for name in ("selection_rate", "tpr", "fpr", "ppv", "accuracy"):
            assert one[name] == pytest.approx(other[name], abs=1e-12)
        assert one["rows"] < other["rows"]  # counts are of rows
    assert weighted["settings"]["weighted"]
    methods = {made["method"] for made in only(weighted)["certificates"]}
    assert methods == {"bootstrap"}


def test_the_same_seed_gives_the_same_bytes(people):
    def page(seed):
        made = audit(
            people["late"],
            people["score"],
            positive="yes",
            sensitive_features=people["tree"],
            random_state=seed,
            **QUICK,
        )
        return made.to_json(), made.to_html(), made.to_markdown()

    assert page(1) == page(1)
    assert page(1)[0] != page(2)[0]


def test_limits_are_held_against_the_gap(people):
    summary = audit(
        None, people["score"], sensitive_features=people["tree"], max_gap=[0.01, 0.3, 0.99], **QUICK
    ).summary
    made = only(summary)["certificates"]
    assert [(each["limit"], each["method"]) for each in made] == list(
        product((0.01, 0.3, 0.99), ("dkw", "bootstrap"))
    )
    by = {(each["limit"], each["method"]): each["verdict"] for each in made}
    assert by[0.01, "bootstrap"] == "violated"
    assert by[0.3, "dkw"] == "not decidable"
    assert by[0.99, "dkw"] == "certified"
    profile = threshold_profile(None, people["score"], sensitive_features=people["tree"])
    needed = next(each["rows_needed"] for each in made if (each["limit"], each["method"]) == (0.3, "dkw"))
    assert needed == profile.certify(0.3).rows_needed


VERDICTS = {"certified": "at most 30 points", "violated": "is exceeded", "not decidable": "cannot be decided"}
GAPS = (0.1, 0.2996, 0.29995, 0.3, 0.3 + 1e-15, 0.30004, 0.3004, 0.5)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("gap", GAPS)
def test_no_sentence_on_a_limit_contradicts_another(gap, strict):
    above = gap > 0.3 + 1e-12
    possible = ("not decidable", "violated" if above else "certified")
    for by in product(possible, possible):
        made = [
            {"limit": 0.3, "verdict": verdict, "rows_needed": 100, "level": 0.95, "where": "in every group"}
            | {"words": words.certificate(verdict, 0.3, 100, 0.95, method, "in every group")}
            | {"method": method}
            for method, verdict in zip(("dkw", "bootstrap"), by, strict=True)
        ]
        parity = {"max_gap": {"value": gap}, "certificates": made, "left_out": [], "by_probabilities": False}
        line = words.limit_sentence(parity, 0.3, 900, above=above, strict=strict)
        assert (
            words.limit_sentence(parity | {"certificates": made[::-1]}, 0.3, 900, above=above, strict=strict)
            == line
        )
        fails = by[0] != "certified" if strict else above
        assert ("is within 0.3" in line) is not fails
        assert (" exceeds 0.3." in line) is above
        assert (float(re.search(r"max gap ([0-9.]+) ", line)[1]) > 0.3) is above
        told = by[1] if by[0] == "not decidable" else by[0]
        assert [said for said in VERDICTS.values() if said in line] == [VERDICTS[told]]
        assert ("By resampling, which holds approximately" in line) is (by[0] == "not decidable" != by[1])
        assert [line.endswith(sentence) for _, sentence in words.limits(made)] == [True]


def test_what_resampling_decides_is_said_once_everywhere(people):
    """The inequality leaves 15 points open, resampling does not."""
    rows = people[people["tree"] != "cedar"]
    report = audit(None, rows["score"], sensitive_features=rows["tree"], max_gap=0.15, **QUICK)
    made = only(report.summary)["certificates"]
    assert [each["verdict"] for each in made] == ["not decidable", "violated"]
    sentence = (
        "By resampling, which holds approximately, a limit of 15 points is exceeded (95 % sure); an answer "
        f"that assumes nothing takes about {made[0]['rows_needed']:,} rows in every group, if the measured "
        "gap stays."
    )
    for text in (report.summary["verdict"][0], report.to_html(), report.to_markdown()):
        assert text.count(sentence) >= 1
        assert "cannot be decided" not in text


def test_markdown_and_terminal_show_the_dict_s_numbers(compas_report):
    for text in (compas_report.to_markdown().replace("\\", ""), to_terminal(compas_report.summary)):
        assert "0.245 [0.21" in text
        assert "1,829 of 3,175" in text
        assert "0.704 [0.686, 0.722]" in text
        assert "equalized odds" in text


def test_markdown_escapes_names():
    group = np.array(["<b>|x", "*y*_z"])[np.arange(90) % 2]
    text = audit(
        None, pd.Series(np.arange(90.0), name="`a`"), sensitive_features=group, **QUICK
    ).to_markdown()
    assert r"\<b\>\|x" in text
    assert r"\*y\*\_z" in text
    assert r"\`a\`" in text


NASTY = (
    "~~~",
    "- x",
    "+ x",
    "1. x",
    "2) x",
    "# x",
    "===",
    "> x",
    "&copy;",
    "a|b\\|c\\",
    "`a` ``b",
    "<b>bold</b>",
    "[a](http://b.c)",
    "![a](b)",
    "http://b.c www.d.org",
    "*y* __z__",
    "~~gone~~",
    "$0-$20k",
    "a\nb\n\n# c",
    "\x1b[31mred\x1b[0m\x9b2J\x7f",
    "\u202ereversed\u2066",
    "[red]rich[/red]",
    ": x",
)


def named(name):
    """An audit with one name wherever a name can be."""
    rng = np.random.default_rng(0)
    score, y = rng.random(160), np.arange(160) % 2
    return audit(
        pd.Series(np.where(y, name, "no"), name=name),
        {name: score, "other": score},
        sensitive_features=pd.Series(np.repeat(np.array([name, "zz"], dtype=object), 80), name=name),
        positive=name,
        n_resamples=39,
        n_permutations=19,
    )


@pytest.fixture(scope="module")
def plain_name():
    return named("name")


def blocks(text):
    """What a Markdown document is made of, and the text of every block as a reader sees it."""
    MarkdownIt = need("markdown_it").MarkdownIt  # rich brings it from 13.4 on
    found = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inline = [token for token in found if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children} - {"text", "text_special"}
    seen = ["".join(child.content for child in token.children) for token in inline]
    return [token.type for token in found], kinds, seen


@pytest.mark.parametrize("name", NASTY)
def test_no_name_changes_a_markdown_document(plain_name, name):
    report = named(name)
    shape, kinds, seen = blocks(report.to_markdown())
    expected = blocks(plain_name.to_markdown())
    assert (shape, kinds) == expected[:2]
    assert kinds == {"strong_open", "strong_close"}  # of the notes
    printed = visible(name)
    assert sum(text == printed for text in seen) == sum(text == "name" for text in expected[2]) > 2
    assert report.summary["title"] in seen
    for paragraph in report.summary["verdict"]:
        assert paragraph in seen
    assert any(f"those with {printed} = {printed} it is" in text for text in seen)


def test_no_name_reaches_a_terminal_raw(plain_name):
    for name in NASTY[-5:-1]:
        report = named(name)
        summary = report.summary
        texts = [to_terminal(summary), repr(report), *summary["verdict"], summary["title"]]
        texts += [note["text"] for note in summary["notes"]]
        texts += [shown["words"] for score in summary["scores"] for shown in score["distributions"]]
        for text in texts:
            assert visible(text.replace("\n", "")) == text.replace("\n", "")
            assert text.isprintable() or text is texts[0]
        assert texts[0].count("\n") == to_terminal(plain_name.summary).count("\n")
        kept = json.loads(report.to_json())
        assert [kept["group_name"], kept["scores"][0]["name"], kept["label"]["positive"]] == [name] * 3
        assert sorted(kept["groups"]) == sorted([name, "zz"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("männlich", "männlich"),
        ("日本 a-b × c", "日本 a-b × c"),
        ("a\x1bb", "a\\x1bb"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202eabc", "\\u202eabc"),
        ("\u061ca\u2069", "\\u061ca\\u2069"),
        ("אדום 1", "\u2068אדום 1\u2069"),
        ("א\u2069", "\u2068א\\u2069\u2069"),
        ("١٢", "\u2068١٢\u2069"),
        ("\ud800", "\\ud800"),
        ("", "''"),
    ],
)
def test_how_a_name_is_shown(name, text):
    assert shown(name) == text
    assert words.group(name) == f"group {text}"


def test_terminal_lines_are_aligned(compas_report):
    lines = to_terminal(compas_report.summary).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("group"))
    assert len({line.index("0.") for line in lines[first + 1 : first + 3]}) == 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(500, 900), st.integers(0, 10))
def test_thinning_keeps_every_maximum(values, m, shift):
    values = np.resize(values, m) * np.linspace(1, 0.5, m)
    thresholds = np.cumsum(np.ones(m)) + shift
    curves = np.array([values, np.roll(values, 17 * shift)])
    share = 1 - np.arange(1, m + 1) / m
    kept = thinned(thresholds, share, curves)
    assert (np.diff(kept) > 0).all()
    np.testing.assert_array_equal(curves[:, kept].max(axis=1), curves.max(axis=1))
    assert {0, m - 1} <= set(kept.tolist())


def test_a_million_thresholds_become_few():
    rng = np.random.default_rng(0)
    thresholds = np.sort(rng.lognormal(0, 3, 10**6))  # most of them within a thousandth of the range
    curves = rng.random((2, 10**6))
    kept = thinned(thresholds, 1 - np.arange(1, 10**6 + 1) / 10**6, curves)
    assert 200 < len(kept) < 6 * BUCKETS + 2
    np.testing.assert_array_equal(curves[:, kept].max(axis=1), curves.max(axis=1))


@pytest.mark.parametrize(
    ("low", "high", "most"), [(0, 1, 500), (-300, 850, 500), (0, 1e-6, 60), (3, 3.01, 100), (-1e9, 2e9, 60)]
)
def test_round_numbers_cover_the_range(low, high, most):
    values = round_numbers(low, high, most)
    assert len(values) <= most
    assert len(values) > most / 6
    assert values[0] <= low + 1e-12
    assert values[-1] >= high - 1e-12
    step = np.diff(values)
    np.testing.assert_allclose(step, step[0], rtol=1e-6)
    assert round(float(f"{step[0]:.0e}"[0])) in (1, 2, 5)


def test_steps_are_all_scores_of_a_coarse_scale_and_few_of_a_fine_one():
    coarse = slider_stops(np.arange(1.0, 11), 0, 10, 100, [4.5])
    assert coarse.tolist() == [0, 1, 2, 3, 4, 4.5, 5, 6, 7, 8, 9, 10]
    fine = slider_stops(np.linspace(0.001, 0.01, 5000), 0, 1, 100, [0.123456])
    assert 0.123456 in fine
    assert len(fine) <= 101
    assert (fine < 0.01).sum() > 40  # quantiles are there where people are


@pytest.mark.parametrize(
    ("share", "text"), [(0.27, "27"), (0.043, "4.3"), (0.05, "5"), (0.0996, "10"), (0, "0"), (1, "100")]
)
def test_points(share, text):
    assert numerals.short_points(share) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.04, 0.07, "4.0 to 7.0"),
        (0.21, 0.28, "21 to 28"),
        (0.191, 0.194, "19.1 to 19.4"),
        (0.19, 0.19, "19"),
        (0.1912, 0.1913, "19.12 to 19.13"),
        (0.191234, 0.191235, "19"),
        (0.0, 0.0, "0"),
        (0.0, 0.0004, "0.00 to 0.04"),
    ],
)
def test_spans_have_two_ends_or_one_number(low, high, text):
    assert numerals.short_span(low, high) == text


def test_a_chance_that_is_one_number_has_no_second():
    assert words._by_chance(0.1, 0.15) == "10 points on average, and rarely more than 15"
    assert words._by_chance(0.0, 0.0) == "0 points"


def test_rates_that_differ_look_different():
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.random(20_000) < 0.501, rng.random(20_000) < 0.5]).astype(float)
    group = np.repeat(["männlich", "weiblich"], 20_000)
    worst = only(audit(None, score, sensitive_features=group, **QUICK).summary)["worst"]
    assert abs(worst["higher_rate"] - worst["lower_rate"]) < 0.005
    (sentence,) = [audit(None, score, sensitive_features=group, **QUICK).summary["verdict"][0]]
    rates = re.search(
        r"group (\w+) is selected ([0-9.]+) points more often than group (\w+) \((.+) % against (.+) %;",
        sentence,
    )
    assert (rates[1], rates[3]) == (worst["higher"], worst["lower"])
    assert float(rates[2]) == pytest.approx(100 * (worst["higher_rate"] - worst["lower_rate"]), rel=0.5)
    assert float(rates[4]) > float(rates[5])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"level": 1}, "`level` must be a number above 0 and below 1, got 1"),
        ({"threshold": np.nan}, "`threshold` must be a finite number"),
        ({"favourable": "both"}, "`favourable` must be one of 'high', 'low', got 'both'"),
        ({"parity": []}, "`parity` must name at least 1 rule, got none"),
        ({"parity": "fairness"}, "`parity` must be one of 'demographic_parity'"),
        ({"max_gap": 0}, "`max_gap` must be a number above 0 and at most 1, got 0"),
        ({"positive": "maybe"}, "`positive` must be a label in `y_true` ('no', 'yes'), got 'maybe'"),
        ({"n_resamples": 5}, "`n_resamples` must be a whole number of at least 19"),
        ({"n_permutations": 0}, "`n_permutations` must be a whole number of at least 1"),
    ],
)
def test_bad_settings(people, wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        audit(
            people["late"],
            people["score"],
            sensitive_features=people["tree"],
            **(QUICK | wrong),
        )


def test_huge_and_tiny_weights_are_weights(people):
    names = {"sensitive_features": people["tree"], **QUICK}
    twice = np.where(np.arange(900) % 3 == 0, 2.0, 1.0)
    plain, huge, tiny = (
        only(audit(None, people["score"], sample_weight=scale * twice, **names).summary)
        for scale in (1.0, 2.0**900, 2.0**-1000)
    )
    assert plain == huge == tiny


def test_a_shuffled_index_is_warned_of(people):
    shuffled = people.sample(frac=1, random_state=0)
    names = {"sensitive_features": people["tree"], "positive": "yes", **QUICK}
    for y, score in ((shuffled["late"], people["score"]), (people["late"], shuffled[["score"]])):
        with pytest.warns(MisalignedIndexWarning, match="same index labels in different order") as told:
            audit(y, score, **names)
        assert [each.filename for each in told] == [__file__] * len(told)


def test_columns_whose_limits_differ_are_all_reported(people):
    report = audit(None, people[["score", "stars"]], sensitive_features=people["tree"], **QUICK)
    text = report.to_markdown()
    assert text.count("A limit of 5 points is exceeded") + text.count("A limit of 10 points") >= 2


def test_bad_data(people):
    names = {"sensitive_features": people["tree"], **QUICK}
    with pytest.raises(ValueError, match=r"`y_true` is required under equalized_odds, got None"):
        audit(None, people["score"], parity="equalized_odds", **names)
    with pytest.raises(ValueError, match="`positive` needs `y_true`"):
        audit(None, people["score"], positive=1, **names)
    with pytest.raises(ValueError, match="`y_score` must have at least 1 column, got none"):
        audit(None, {}, **names)
    broken = people["score"].where(people.index != 3)
    with pytest.raises(ValueError, match=r"got nan in row 3 \(1 of 900 rows\) \(score column 'b'\)"):
        audit(None, {"a": people["score"], "b": broken}, **names)
    with pytest.raises(ValueError, match="must have columns of different names"):
        audit(None, {1: people["score"], "1": people["score"]}, **names)
    with pytest.raises(ValueError, match=r"must span 1e-150 to 1e\+150, got"):
        audit(None, people["score"] * 1.7e308, **names)
    with pytest.raises(ValueError, match="must have 2 or more groups, got 1"):
        audit(None, people["score"], sensitive_features=["x"] * 900)
    with pytest.raises(ValueError, match=r"must have 2 classes, got 1 class \('no'\)"):
        audit(["no"] * 900, people["score"], **names)
    missing = people["late"].where(people.index != 3)
    with pytest.raises(ValueError, match="`y_true` must not have missing values, got 1"):
        audit(missing, people["score"], positive="yes", **names)


def test_a_cut_off_is_read_in_the_precision_of_the_scores():
    score, group = np.array([0.1, 0.2, 0.3, 0.7] * 50, np.float32), np.repeat(["ash", "oak"], [80, 120])
    for scores in (score, {"a": score, "b": score.astype(np.float16)}, pd.DataFrame({"a": score})):
        summary = audit(None, scores, sensitive_features=group, threshold=0.2, **QUICK).summary
        for column in summary["scores"]:
            rates = [row["selection_rate"] for row in column["at_threshold"]["groups"]]
            assert rates == [0.5, 0.5]
            assert column["at_threshold"]["threshold"] == 0.2
            assert column["at_threshold"]["at"] == "0.2"
            assert column["parities"][0]["gap_at_threshold"]["value"] == 0


@pytest.mark.parametrize("kind", ["to_html", "to_json"])
def test_a_full_disk_loses_nothing(report, tmp_path, kind):
    path = tmp_path / "audit"
    path.write_text("the old one")
    with full_disk(1000), pytest.raises(OSError, match="File too large"):
        getattr(report, kind)(path)
    assert path.read_bytes() == b"the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_repr_and_notebook(report):
    assert repr(report).startswith("AuditReport(Audit of score by tree: At the worst cut-off, ")
    assert "<iframe" in report._repr_html_()


def test_a_score_may_be_named_like_an_argument():
    s = pd.Series(np.random.default_rng(0).random(200))
    y, a = (s > 0.5).astype(int), ["a", "b"] * 100
    report = audit(y, {"y_true": s, "sample_weight": s}, sensitive_features=a, random_state=0)
    assert [score["name"] for score in report.summary["scores"]] == ["y_true", "sample_weight"]
    with pytest.warns(
        MisalignedIndexWarning, match=r"`y_true` and `y_score\['y_true'\]` have the same index"
    ):
        audit(y, {"y_true": s[::-1]}, sensitive_features=a, random_state=0)
