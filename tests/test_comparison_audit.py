"""Who is compared, in audits: numbers against masks, the command against Python, the page in a browser."""

import json
import re
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib import pyplot as plt

from attributes import HARD, KINDS, SOFT, Kind, below_and_over, gaps, people
from audit_pages import QUICK, SCRIPT
from evenrisk import Comparison, FairLogisticRegression, threshold_profile
from evenrisk.cli import main
from evenrisk.plots import GapByCutDisplay, ParityCurveDisplay
from evenrisk.report import audit
from evenrisk.report.words import to_terminal

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::evenrisk.exceptions.{name}")
    for name in ("SmallCellWarning", "MajorityRateWarning", "CollapseWarning")
]
P = people(900, seed=7, rare=12)
RISK = np.round(1 / (1 + np.exp(-P.score / 2)), 3)
LABEL = np.where(P.y == 1, "late", "paid")


def kind_of(name):
    return KINDS[name](P, np.ones(len(P.y)))


def audited(name, **settings):
    kind = kind_of(name)
    data = {"sensitive_features": kind.features, "comparison": kind.comparison, "positive": "late"}
    return audit(pd.Series(LABEL, name="loan"), pd.Series(RISK, name="risk"), **data | QUICK | settings)


def entry(report, rule="demographic_parity"):
    (score,) = report.summary["scores"]
    return next(each for each in score["parities"] if each["parity"] == rule)


# ---------------------------------------------------------------- numbers


def large_enough(kind, rule, least=30):
    """The comparisons with enough rows on both sides, in every stratum of a rule."""
    strata = [np.full(len(P.y), True)] if rule == "demographic_parity" else [P.y == 0, P.y == 1]
    kept = [
        [pair for pair in each if all(side[rows].sum() >= least for side in pair for rows in strata)]
        for each in kind.attributes
    ]
    return kind._replace(attributes=[each for each in kept if each])


@pytest.mark.parametrize("name", [name for name in KINDS if "rest" not in name])  # who has a test of its own
@pytest.mark.parametrize("rule", ["demographic_parity", "equalized_odds"])
def test_the_worst_gap_is_that_of_all_that_is_large_enough(name, rule):
    report, kind = audited(name), large_enough(kind_of(name), rule)
    t = np.unique(RISK)
    found = gaps(kind, rule, RISK, P.y, np.ones(len(P.y)), t)
    measured = entry(report, rule)
    assert measured["max_gap"]["value"] == pytest.approx(max(each.max() for each in found))
    owners = np.repeat(np.arange(len(kind.attributes)), [len(each) for each in kind.attributes])
    for place, each in enumerate(measured["attributes"]):
        expected = max(stratum[owners == place].max() for stratum in found)
        assert each["max_gap"]["value"] == pytest.approx(expected)
        assert each["max_gap"]["low"] <= expected <= each["max_gap"]["high"]
    at = report.summary["scores"][0]["at_threshold"]
    if rule == "demographic_parity":
        here = gaps(kind, rule, RISK, P.y, np.ones(len(P.y)), np.array([at["threshold"]]))[0]
        assert at["gaps"]["selection_rate"] == pytest.approx(here.max())


def test_who_is_left_out_is_not_among_the_rest():
    report = audited("rest")
    assert [each["group"] for each in entry(report)["left_out"]] == ["d"]
    masks = [(P.race == each) * 1.0 for each in "abc"]
    rest = Kind(None, None, [[(one, sum(masks) - one) for one in masks]])
    expected = gaps(rest, "demographic_parity", RISK, P.y, np.ones(len(P.y)), np.unique(RISK))[0].max()
    assert entry(report)["max_gap"]["value"] == pytest.approx(expected)


@pytest.mark.parametrize("asked", ["cuts", "reference"])
def test_the_ratio_is_that_of_the_lowest_and_highest_rate_that_are_compared(asked):
    report, kind = audited(asked, threshold=0.5), large_enough(kind_of(asked), "demographic_parity")
    rates = [
        [np.average(RISK > 0.5, weights=side) for side in pair] for each in kind.attributes for pair in each
    ]
    found = report.summary["scores"][0]["at_threshold"]["impact_ratio"]
    assert found == pytest.approx(min(min(pair) / max(pair) for pair in rates))


def test_no_small_groups_are_left_out_where_that_is_asked_for():
    report = audited("rest", comparison=Comparison(against="rest", min_rows=0))
    assert entry(report)["left_out"] == []
    assert "Left out" not in report.to_markdown()
    only_c = audited("every", comparison=Comparison(min_share=0.25))
    assert [each["group"] for each in entry(only_c)["left_out"]] == ["c", "d"]


# ---------------------------------------------------------------- words


class Sentence(NamedTuple):
    """Words that a report has, whatever its numbers, and those that it must not have."""

    there: tuple[str, ...]
    absent: tuple[str, ...] = ("nan", "None", "sex sex", "group age", "group sex")


SENTENCES = {
    "every": Sentence(("group a", "Left out: group d, 12 rows.")),
    "rest": Sentence(("than everybody else", "Left out: group d, 12 rows.")),
    "reference": Sentence(("group b",)),
    "excluded": Sentence(("group is unknown in 129 of 900 rows, which are in no comparison of it.",)),
    "unknown group": Sentence(("unknown 129",)),
    "each": Sentence(("race c", "Left out: race d, 12 rows.", "sex f")),
    "each and crossed": Sentence(("m × c", "sex × race")),
    "ordered": Sentence(("people with age over", "are selected", "than people with age up to", "10 cuts")),
    "cuts": Sentence(("3 cuts, 30.5, 47, 60", "age is unknown in 100 of 900 rows")),
    "mixed": Sentence(("sex, race and age", "race b", "4 cuts")),
    "probabilities": Sentence(
        ("Groups are probabilities", "by resampling", "by probabilities, group", "may be another.")
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences_say_who_is_compared(name):
    report = audited(name, max_gap=0.1)
    text = "\n".join([to_terminal(report.summary), report.to_markdown(), *report.summary["warnings"]])
    for words in SENTENCES[name].there:
        assert words in text
    for words in SENTENCES[name].absent:
        assert not re.search(rf"\b{words}\b", text)
    (decision,) = report.judge(0.1, parity="demographic_parity")
    measured = entry(report)["max_gap"]["value"]
    assert decision.passes == (measured <= 0.1)
    assert ("exceeds" in decision.words) == (measured > 0.1)


def test_a_column_without_a_name_reads_well_too():
    report = audit(None, RISK, sensitive_features=P.age, comparison="ordered", **QUICK)
    assert re.search(
        r"people over \d+ are selected .* than people up to \d+ \(", report.summary["verdict"][0]
    )


def test_one_attribute_has_no_table_of_attributes():
    simple, several = audited("every"), audited("each")
    assert entry(simple)["attributes"] == []
    assert "by itself" not in simple.to_markdown() + simple.to_html() + to_terminal(simple.summary)
    assert "by itself" in several.to_markdown()
    assert "Each attribute by itself" in several.to_html()
    assert "each attribute by itself" in to_terminal(several.summary)


def test_a_rule_that_compares_nothing_of_an_attribute_says_so():
    few = np.where(np.arange(900) < 40, "few", "many")
    label = np.where(np.arange(900) < 40, np.arange(900) < 10, P.y == 1)
    report = audit(label, RISK, sensitive_features={"sex": P.sex, "few": few}, comparison="each", **QUICK)
    assert [each["attribute"] for each in entry(report, "equalized_odds")["attributes"]] == []
    assert any(
        "few could not be measured under equalized odds" in each for each in report.summary["warnings"]
    )


# ---------------------------------------------------------------- the command


def options_of(kind, columns):
    """The options of the command for a kind."""
    asked = kind.comparison if isinstance(kind.comparison, Comparison) else None
    text = kind.comparison if asked is None else asked.columns
    out = []
    ordered = (asked.ordered or {}) if asked else dict.fromkeys(columns if text == "ordered" else (), 10)
    if text == "probabilities" or (asked and asked.probabilities):
        out += [part for column in columns for part in ("--probability", column)]
    else:
        for column in columns:
            cuts = ordered.get(column, None)
            if cuts is None:
                out += ["--group", column]
            elif np.ndim(cuts):
                out += [part for cut in cuts for part in ("--cut", column, f"{cut}")]
            else:
                out += ["--ordered", column]
    if text in ("each", "each and crossed"):
        out += ["--columns", text.replace(" ", "-")]
    if text == "rest" or (asked and asked.against == "rest"):
        out += ["--against", "rest"]
    if asked and asked.reference is not None:
        named = asked.reference.items() if isinstance(asked.reference, dict) else [(None, asked.reference)]
        out += [p for at, g in named for p in ("--reference", g if at is None else f"{at}={g}")]
    if asked and asked.unknown != "error":
        out += ["--unknown", asked.unknown]
    if asked and asked.min_rows is not None:
        out += ["--min-rows", str(asked.min_rows)]
    if asked and asked.min_share:
        out += ["--min-share", str(asked.min_share)]
    return out


def table_of(kind):
    """A kind's features as named columns."""
    features = kind.features
    if isinstance(features, dict):
        return {str(name): column for name, column in features.items()}
    return {"race": features} if features.ndim == 1 else dict(zip("pqrs", features.T, strict=False))


def run(path, *options):
    done = CliRunner().invoke(main, ["audit", str(path), "--score", "risk", *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize(
    ("name", "suffix"),
    [*((name, "csv") for name in KINDS), ("mixed", "parquet"), ("cuts", "parquet"), ("excluded", "parquet")],
)
def test_the_command_says_what_python_says(name, suffix, tmp_path):
    kind = kind_of(name)
    columns = table_of(kind)
    comparison = kind.comparison
    if name in ("mixed", "ordered, unknown group"):  # the command has ten cuts, or those that are named
        comparison = Comparison(**vars(comparison) | {"ordered": {"age": [30, 45, 60]}})
        kind = kind._replace(comparison=comparison)
    frame = pd.DataFrame({"risk": RISK, "loan": LABEL, **columns})
    path = tmp_path / f"scores.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    options = options_of(kind, list(columns))
    done = run(path, *options, "--label", "loan", "--positive", "late", "--json", tmp_path / "out.json")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "out.json").read_text())
    data = {"sensitive_features": pd.DataFrame(columns), "comparison": comparison, "positive": "late"}
    report = audit(pd.Series(LABEL, name="loan"), pd.Series(RISK, name="risk"), **data, random_state=0)
    assert found["attributes"] == report.summary["attributes"]
    assert found == json.loads(report.to_json())


BAD = {  # options, the message
    "no attribute": ([], "Missing option '--group' (or --ordered, --cut or --probability)"),
    "probabilities and groups": (
        ["--group", "sex", "--probability", "p", "--probability", "q"],
        "--probability must not go with --group",
    ),
    "cuts and quantiles": (
        ["--ordered", "age", "--cut", "age", "30"],
        "--ordered must not go with --cut for the same column, got age",
    ),
    "no such reference": (
        ["--group", "race", "--reference", "z"],
        "--reference must be a group in 'race' ('a', 'b', 'c', 'd'), got 'z'",
    ),
    "an empty side": (["--cut", "age", "99"], "must leave people on both sides of each cut in 'age'"),
    "text that is ordered": (["--ordered", "race"], "must"),
    "unknown": (["--group", "gaps"], "must have a value in every row, got no value"),
    "all too small": (
        ["--group", "race", "--min-rows", "800"],
        "--group must have 2 or more groups of at least 800 rows",
    ),
    "not probabilities": (
        ["--probability", "age", "--probability", "q"],
        "must be probabilities from 0 to 1",
    ),
    "not adding to 1": (["--probability", "p", "--probability", "half"], "must add up to 1 in each row"),
    "one probability": (["--probability", "p"], "must have a column of probabilities for each of 2 or more"),
    "share": (["--group", "sex", "--min-share", "2"], "--min-share must be a number from 0 to below 1"),
    "all unknown": (["--group", "nothing", "--unknown", "exclude"], "must have known values"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named(case, tmp_path):
    frame = pd.DataFrame(
        {"risk": RISK, "sex": P.sex, "race": P.race, "age": P.age, "gaps": P.some("race", 5)}
    )
    p = np.round(P.share[:, 0], 3)
    frame = frame.assign(p=p, q=1 - p, half=0.5, nothing=None)
    frame.to_csv(tmp_path / "scores.csv", index=False)
    options, message = BAD[case]
    done = run(tmp_path / "scores.csv", *options)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


# ---------------------------------------------------------------- the page


HOSTILE = {"a": SCRIPT, "b": "</script><b>b", "c": 'c "quoted" & 日本', "d": "d"}


def percent(text):
    return np.nan if text == "–" else float(text) / 100


@pytest.mark.parametrize(
    "name", ["each and crossed", "mixed", "ordered, unknown group", "rest", "probabilities"]
)
def test_the_numbers_of_the_page_follow_its_cut_off(opened, name):
    page, kind = opened(audited(name).to_html()), large_enough(kind_of(name), "demographic_parity")
    if name == "rest":
        masks = [(P.race == each) * 1.0 for each in "abc"]
        kind = kind._replace(attributes=[[(one, sum(masks) - one) for one in masks]])
    for t in (0.3, 0.5, 0.62):
        page.locator("[data-number]").fill(str(t))
        page.keyboard.press("Enter")
        rates = [
            [np.average(t < RISK, weights=side) for side in pair] for each in kind.attributes for pair in each
        ]
        for cell in page.locator("#score-0 [data-gap=selection_rate]").all():
            gap = max(abs(a - b) for a, b in rates)
            assert percent(cell.inner_text()) == pytest.approx(gap, abs=0.000501)
        ratio = min(min(pair) / max(pair) for pair in rates if max(pair) > 0)
        assert float(page.locator("[data-ratio]").first.inner_text()) == pytest.approx(ratio, abs=0.00501)


def test_names_of_several_attributes_are_text_on_the_page(opened):
    race = np.array([HOSTILE[each] for each in P.race])
    features = {"<i>sex</i>": P.sex, "<script>alert(2)</script>": race, "age </svg>": P.age}
    report = audit(
        pd.Series(LABEL, name="loan"),
        RISK,
        sensitive_features=features,
        comparison=Comparison(columns="each and crossed", ordered="age </svg>", unknown="exclude"),
        positive="late",
        **QUICK,
    )
    page = opened(report.to_html())
    assert page.locator("h1").inner_text() == report.summary["title"]
    assert (
        page.locator("i, b").count() == opened(audited("each and crossed").to_html()).locator("i, b").count()
    )
    body = page.locator("body").inner_text()
    for text in (*features, HOSTILE["b"]):
        assert text in body


def test_each_attribute_has_its_plots_and_the_simple_page_has_none_of_them(opened):
    def headings(name):
        return [
            each.text_content()
            for each in opened(audited(name).to_html()).locator("figcaption, h3, h4").all()
        ]

    mixed = " ".join(headings("mixed"))
    for words in ("by sex", "by race", "by age", "Gap of each attribute", "Largest gap by the cut in age"):
        assert words in mixed
    simple = " ".join(headings("every"))
    for words in ("by race", "each attribute", "by the cut"):
        assert words not in simple


def test_the_page_of_several_attributes_fits_a_phone(opened):
    page = opened(audited("mixed").to_html(), viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


# ---------------------------------------------------------------- the gap by the cut


@pytest.fixture
def ages():
    features = {"age": P.age, "sex": P.sex}
    comparison = Comparison(ordered={"age": [25, 35, 45, 60]})
    return threshold_profile(P.y, RISK, sensitive_features=features, comparison=comparison)


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_the_gap_by_the_cut_is_that_of_two_groups_at_each(ages):
    assert mpl.get_backend().lower() == "agg"
    band = ages.band(n_resamples=99, random_state=0)
    display = GapByCutDisplay(ages, name="risk").plot(band=band)
    cuts, gap = display.line_.get_data()
    assert cuts.tolist() == [25, 35, 45, 60]
    two = Kind(None, None, [below_and_over(P.age, cuts)])
    expected = gaps(two, "demographic_parity", RISK, P.y, np.ones(900), np.unique(RISK))[0].max(axis=1)
    assert gap == pytest.approx(expected)
    low, high = ages.cut_band(band)["age"]
    (outline,) = display.band_.get_paths()
    assert outline.vertices[:, 1].min() == pytest.approx(low.min())
    assert outline.vertices[:, 1].max() == pytest.approx(high.max())
    assert (low <= gap).all()
    assert (gap <= high).all()
    worst = int(np.argmax(expected))
    assert legend(display) == [
        f"risk (max gap {expected[worst]:.2f} at {cuts[worst]:g})",
        "95 % band, all cuts and thresholds at once",
    ]
    assert display.ax_.get_xlabel() == "cut in age"
    assert display.ax_.get_ylim()[0] == 0
    plt.close("all")


def test_from_predictions_and_from_estimator_measure_what_is_asked(ages):
    features = {"age": P.age, "sex": P.sex}
    data = {"sensitive_features": features, "comparison": Comparison(ordered={"age": [25, 35, 45, 60]})}
    drawn = GapByCutDisplay.from_predictions(P.y, RISK, **data)
    assert drawn.line_.get_ydata() == pytest.approx(ages.gap_by_cut["age"][1])
    model = FairLogisticRegression(eta=0).fit(P.X, P.y)
    same = GapByCutDisplay.from_estimator(model, P.X, P.y, ax=drawn.ax_, **data)
    by_hand = threshold_profile(P.y, model.predict_proba(P.X)[:, 1], **data)
    assert same.line_.get_ydata() == pytest.approx(by_hand.gap_by_cut["age"][1])
    first, second = drawn.ax_.get_lines()
    assert first.get_color() != second.get_color()
    assert "FairLogisticRegression" in legend(same)[1]
    plt.close("all")


def test_the_legend_of_many_groups_left_out_leaves_the_axes_room():
    race = np.where(np.arange(900) % 90 < 4, "A race whose name is long, and longer", P.race)
    both = {"sex": P.sex, "race of the person": race}
    asked = Comparison(columns="each and crossed", min_share=0.1)
    display = ParityCurveDisplay.from_predictions(None, RISK, sensitive_features=both, comparison=asked)
    display.figure_.canvas.draw()
    assert "not compared, rows:" in legend(display)[-1]
    assert display.ax_.get_position().width > 0.6
    plt.close("all")


def test_an_attribute_without_cuts_is_refused(ages):
    display = GapByCutDisplay(ages)
    with pytest.raises(ValueError, match=r"must be an ordered attribute of the profile \('age'\), got 'sex'"):
        display.plot(attribute="sex")
    plain = threshold_profile(P.y, RISK, sensitive_features=P.sex)
    with pytest.raises(ValueError, match=r"none: name one in Comparison\(ordered=...\)"):
        GapByCutDisplay(plain).plot()
    with pytest.raises(ValueError, match="`band` must be of this profile"):
        display.plot(band=plain.band(n_resamples=99, random_state=0))
    plt.close("all")


def test_all_kinds_are_hard_or_soft():
    assert sorted([*HARD, *SOFT]) == sorted(KINDS)


# ---------------------------------------------------------------- what an attack found


def test_a_reference_with_few_rows_is_named():
    with pytest.raises(ValueError, match="2 or more groups, the reference among them, of at least 30 rows"):
        audited("every", comparison=Comparison(reference="d"))
    report = audit(
        P.y,
        RISK,
        sensitive_features={"sex": P.sex, "race": P.race},
        comparison=Comparison(columns="each", reference={"race": "d"}),
        **QUICK,
    )
    (said,) = (each for each in report.summary["warnings"] if "could not" in each and "demographic" in each)
    assert "race could not be measured under demographic parity: there are no 2 groups, the reference" in said


def test_a_group_without_an_outcome_can_be_drawn():
    age = np.linspace(20, 59, 400).round()
    y = np.where((age > 49) & (age <= 53), 0, np.arange(400) % 2)
    cuts = Comparison(ordered={"age": [25, 30, 35, 40, 45, 49, 53, 55]})
    page = audit(y, RISK[:400], sensitive_features={"age": age}, comparison=cuts, **QUICK).to_html()
    assert "age over 49 to 53" in page


def test_cuts_that_are_left_out_are_no_groups():
    y = np.where(P.age < 30, 0, P.y)
    report = audit(
        y,
        RISK,
        sensitive_features={"age": P.age, "sex": P.sex},
        comparison=Comparison(ordered={"age": [22, 25, 40]}),
        parity="equal_opportunity",
        **QUICK | {"max_gap": 0.2},
    )
    (decision,) = report.judge(0.2)
    assert decision.words.endswith("Left out: 2 cuts with few rows on a side.")
    text = "\n".join([to_terminal(report.summary), *report.summary["verdict"], *report.summary["warnings"]])
    assert "Left out: the cut with age up to 22, " in text
    assert "Left out of equal opportunity, which compares groups of at least 30 rows of" in text
    assert ": the cut with 'age up to 22', " in text
    assert "(left out" not in text
    assert [each["is_cut"] for each in entry(report, "equal_opportunity")["left_out"]] == [True, True]


def test_the_gate_says_that_a_gap_by_probabilities_is_not_one_between_groups():
    report = audited("probabilities", max_gap=0.9)
    (decision,) = report.judge(0.9, parity="demographic_parity", strict=True)
    assert decision.passes
    assert "The gap between the groups themselves may be another." in decision.words
    assert "of expected rows" in report.to_html()
    assert "of expected rows" not in audited("every").to_html()
