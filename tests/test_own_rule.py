"""A rule of a user's own, or one more entry in PARITIES, is named everywhere that ours are."""

import re
import runpy

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from evenrisk import Comparison, Parity, threshold_profile
from evenrisk.cli import main
from evenrisk.exceptions import SmallCellWarning
from evenrisk.metrics import scorers
from evenrisk.parity import PARITIES, STRATA
from evenrisk.report import audit

QUICK = {"n_resamples": 40, "n_permutations": 40}


def by_label(y):
    return y


BALANCE = Parity("error_balance", ("defaulters", "payers"), by_label)
HAND = "<b>hand</b>"


@pytest.fixture(scope="module")
def loans():
    rng = np.random.default_rng(2)
    bank = rng.choice(["north", "south", "west"], 600, p=[0.5, 0.3, 0.2])
    paid = rng.random(600) < 0.55
    score = (rng.random(600) * 0.8 + 0.2 * paid * (bank == "north")).round(3)
    return pd.DataFrame({"bank": bank, "paid": np.where(paid, "yes", "no"), "score": score})


@pytest.fixture(scope="module")
def report(loans):
    return audit_of(loans, [BALANCE, "equal_opportunity"])


def audit_of(loans, parity, **settings):
    data = {"sensitive_features": loans["bank"], "positive": "yes"}
    return audit(loans["paid"], loans["score"], parity=parity, **data, **QUICK, **settings)


def live_gaps(page):
    """Key, value and words of every gap in the page's live line."""
    live = re.search(r'<p class="live">(.*?)</p>', page, re.DOTALL)[1]
    return re.findall(r'<b data-gap="(\w+)">([^<]*)</b> among ([^<]*?),?</span>', live)


def test_strata_know_whom_they_hold_and_what_their_rate_is():
    outcomes = {"name": "paid", "negative": "no", "positive": "yes"}
    negatives, positives = PARITIES["equalized_odds"].describe()
    assert (negatives.rate, positives.rate) == ("fpr", "tpr")
    assert positives.words(outcomes) == "people with paid = yes"
    assert positives.words() == "positives"
    assert PARITIES["demographic_parity"].describe() == (STRATA["everybody"],)
    assert STRATA["everybody"].words(outcomes) == "everybody"
    first, second = BALANCE.describe()
    assert (first.rate, first.rate_words, first.words(outcomes)) == (
        "fpr",
        "false-positive rate",
        "defaulters",
    )
    assert (second.rate, second.words(outcomes)) == ("tpr", "payers")
    one = Parity("all", ("borrowers",), lambda rows: rows * 0, needs_label=False)
    assert one.describe()[0].rate == "selection_rate"
    assert (BALANCE.title, BALANCE.words) == ("Error balance", "error balance")


def test_a_rule_is_a_function_of_the_label():
    codes = np.zeros(5, int)
    with pytest.raises(
        ValueError, match=r"`stratum` of 'rows' must map each label to its stratum, got an .*5"
    ):
        Parity("rows", ("a",), lambda y: codes).describe()


def test_the_profile_names_its_strata(loans):
    profile = threshold_profile(
        loans["paid"], loans["score"], sensitive_features=loans["bank"], parity=BALANCE, pos_label="yes"
    )
    assert profile.worst_stratum in BALANCE.strata
    frame = profile.to_frame()
    np.testing.assert_array_equal(frame["gap among payers"], profile.gap_by_stratum[1])
    few = loans[(loans["bank"] != "west") | (loans["paid"] == "no")]
    data = {"sensitive_features": few["bank"], "pos_label": "yes"}
    with pytest.raises(ValueError, match="group 'west' among payers"):
        threshold_profile(few["paid"], few["score"], parity=BALANCE, **data)


def test_the_page_shows_the_gap_of_every_stratum(report, loans):
    page = report.to_html()
    gaps = live_gaps(page)
    assert [(key, words) for key, _, words in gaps] == [
        ("tpr", "people with paid = yes"),
        ("fpr", "defaulters"),
        ("tpr", "payers"),
    ]
    above = loans["score"] > 0.5
    for key, value, _ in gaps:
        rates = above[loans["paid"] == ("yes" if key == "tpr" else "no")].groupby(loans["bank"]).mean()
        assert float(value) == pytest.approx(100 * (rates.max() - rates.min()), abs=0.051)
    titles = re.findall(r'<span class="title">([^<]*)</span>', page)
    beside = ["Gap among defaulters", "Scores of people with paid = no"]
    assert titles[:4] == [*beside, "Gap among payers", "Scores of people with paid = yes"]
    assert "Worst for error balance" in page
    assert "Limits, error balance" in page


def test_sentences_and_notes_name_the_rule_and_its_strata(report):
    (found, _), notes = report.summary["scores"][0]["parities"], report.summary["notes"]
    assert found["worst"]["words"] in BALANCE.strata
    assert report.summary["verdict"][0].startswith(f"Error balance: among {found['worst']['words']}, at the ")
    (note,) = [note["text"] for note in notes if note["title"] == "Error balance"]
    assert (
        "among payers it is the gap in true-positive rates, among defaulters in false-positive rates" in note
    )
    text = report.to_markdown()
    assert "| error balance |" in text
    assert "**Error balance.**" in text


def test_names_of_rules_and_strata_are_data(loans):
    rule = Parity(f"by {HAND}", ("[a](b)", HAND), by_label)
    report = audit_of(loans, rule)
    page, text = report.to_html(), report.to_markdown()
    assert HAND not in page
    assert f"Gap among {HAND.replace('<', '&lt;').replace('>', '&gt;')}" in page
    assert HAND not in text
    assert "[a](b)" not in text


def test_too_few_rows_are_counted_in_the_stratum(loans):
    """One payer in the west is left out under our rule and under the user's own, and said to be once each."""
    west = loans.index[(loans["bank"] == "west") & (loans["paid"] == "yes")]
    few = loans.drop(west[1:])
    with pytest.warns(SmallCellWarning):
        report = audit_of(few, [BALANCE, "equalized_odds"])
    told = " ".join(report.summary["warnings"])
    assert "Left out of error balance" in told
    assert "(1 among payers)" in told
    assert "Only 1 row" not in told
    assert report.summary["compared"]["tpr"]["groups"] == [0, 1]
    some = loans.drop(west[5:])
    some.loc[west[:5], "score"] = 0.999  # the worst gap is theirs
    only_payers = Parity("only payers", ("payers",), lambda y: y - 1)
    with pytest.warns(SmallCellWarning):
        (verdict,) = audit_of(some, only_payers, comparison=Comparison(min_rows=5)).summary["verdict"]
    assert "group west (5 rows only)" in verdict


def test_one_more_entry_is_all_that_a_new_rule_needs(monkeypatch, loans, tmp_path):
    monkeypatch.setitem(PARITIES, "error_balance", BALANCE)
    made = runpy.run_path(scorers.__file__)["SCORERS"]
    ours = made["max_error_balance_difference"]
    data = {"sensitive_features": loans["bank"], "pos_label": "yes"}
    witness = made["max_equalized_odds_difference"](loans["paid"], loans["score"], **data)
    assert ours(loans["paid"], loans["score"], **data) == witness
    assert "under error balance" in ours.__doc__
    assert "error_balance" in CliRunner().invoke(main, ["audit", "--help"]).output
    table = tmp_path / "loans.csv"
    loans.to_csv(table, index=False)
    command = ["audit", str(table), "--score", "score", "--group", "bank", "--label", "paid"]
    done = CliRunner().invoke(main, [*command, "--parity", "error_balance", "--max-gap", "1"])
    assert (done.exit_code, done.exception) == (0, None)
    assert "PASS  score, error balance: max gap" in done.output
    refused = CliRunner().invoke(main, [*command, "--parity", "error_balances"])
    assert refused.exit_code == 2
    assert "'error_balance'" in refused.output


# The decision of the gate


@pytest.fixture(scope="module")
def judged(loans):
    return audit_of(loans, ["demographic_parity", "equalized_odds"], max_gap=[0.01, 0.3, 0.99])


def test_the_measured_gap_decides(judged):
    gaps = {each["parity"]: each["max_gap"]["value"] for each in judged.summary["scores"][0]["parities"]}
    low, high = sorted(gaps, key=gaps.get)
    between = (gaps[low] + gaps[high]) / 2
    assert not judged.passes(between)
    assert judged.passes(between, parity=low)
    assert not judged.passes(between, parity=[low, high])
    assert [each.parity for each in judged.judge(between)] == list(gaps)
    assert {each.parity: each.passes for each in judged.judge(between)} == {low: True, high: False}
    assert judged.passes(gaps[high]), "a gap at the limit is within it"
    assert judged.passes(gaps[high] - 1e-13), "up to its last digits"


def test_strict_asks_for_the_certificate_that_assumes_nothing(judged):
    assert judged.passes(0.99, strict=True)
    assert not judged.passes(0.3, strict=True)
    line = judged.judge(0.3, strict=True, parity="demographic_parity")[0]
    assert (line.score, line.passes) == ("score", False)
    assert "is not certified to be within 0.3" in line.words
    for parity in judged.summary["scores"][0]["parities"]:
        by = {(each["limit"], each["method"]): each["verdict"] for each in parity["certificates"]}
        assert by[0.3, "dkw"] != "certified"
        assert judged.passes(0.99, strict=True, parity=parity["parity"]) == (by[0.99, "dkw"] == "certified")


def test_the_order_of_certificates_decides_nothing(judged, loans):
    report = audit_of(loans, None, max_gap=[0.01, 0.3, 0.99])
    for parity in report.summary["scores"][0]["parities"]:
        parity["certificates"].reverse()
    for limit in (0.01, 0.3, 0.99):
        assert report.judge(limit, strict=True) == judged.judge(limit, strict=True)


def test_what_cannot_be_judged_is_refused(judged):
    with pytest.raises(
        ValueError, match=r"`max_gap` must be a limit of the audit .*\(0.01, 0.3, 0.99\), got 0.2"
    ):
        judged.passes(0.2, strict=True)
    with pytest.raises(
        ValueError, match=r"`parity` must be one of 'demographic_parity', 'equalized_odds', got"
    ):
        judged.passes(0.2, parity="equal_opportunity")
    with pytest.raises(ValueError, match=r"`max_gap` must be a number above 0"):
        judged.passes(0)
