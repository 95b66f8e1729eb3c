"""What the page is made of: numbers as text, scales, paths; and pages with little to show. No browser."""

import copy
import re

import numpy as np
import pytest

from audit_pages import QUICK, audited
from evenrisk.exceptions import SmallCellWarning
from evenrisk.report import audit, drawings, numerals
from evenrisk.report.page import to_fragment, to_html

SCALES = [(0, 1), (1, 10), (-300, 850), (0, 2.5e-6), (-4e12, 9e12), (17.2, 17.3), (0.05, 0.051), (0, 999_999)]


@pytest.mark.parametrize(("low", "high"), SCALES)
def test_ticks_are_few_round_and_told_apart(low, high):
    values = drawings.ticks(low, high)
    texts = numerals.ticks(values)
    assert 2 <= len(values) <= 8
    assert all(low - 1e-9 * (high - low) <= value <= high + 1e-9 * (high - low) for value in values)
    assert len(set(texts)) == len(texts)
    assert max(map(len, texts)) <= 8
    assert np.allclose(np.diff(values), values[1] - values[0])
    assert f"{values[1] - values[0]:.0e}"[0] in "125"


@pytest.mark.parametrize(
    ("scale", "value", "text"),
    [
        ((0, 10), 4.0, "4"),
        ((0, 10), 0.5, "0.5"),
        ((0, 1), 0.478512, "0.4785"),
        ((0, 1), 0.5, "0.5"),
        ((0, 1), 0.0, "0"),
        ((0, 100), 70.0, "70"),
        ((-300, 850), -242.6123, "−242.6"),
        ((0, 2.5e-6), 1.25e-6, "1.25×10⁻⁶"),
        ((-4e12, 9e12), -4e12, "−4×10¹²"),
        ((0.3, 0.3001), 0.30005, "0.30005"),
        ((-0.5, 0.5), -1e-9, "0"),
    ],
)
def test_thresholds_have_the_digits_they_need(scale, value, text):
    assert numerals.threshold_writer(scale)(value) == text


CLOSE = np.array([0.1, 0.49997, 0.49999, 0.7, 0.7 + 1e-12, 0.9])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (0.12345678, "0.1235"),  # nobody between: the usual digits
        (0.49997, "0.49997"),  # 0.5 would select others
        (0.49999, "0.5"),
        (0.499966, "0.4999"),  # rounded away from the next score
        (0.7, "0.7"),
        (0.7 + 1e-12, "0.7001"),
        (0.7 - 1e-12, "0.6999"),
        (0.05, "0.05"),
        (0.95, "0.95"),
    ],
)
def test_thresholds_part_the_scores_as_printed(value, text):
    assert numerals.threshold_writer((0, 1), CLOSE)(value) == text
    assert ((numerals.parse(text) < CLOSE) == (value < CLOSE)).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_every_threshold_parts_the_scores_as_printed(scale, kind):
    rng = np.random.default_rng(0)
    near = np.cumsum(10.0 ** rng.uniform(-17, -2, 300)) + rng.choice([0, 0.5])
    scores = np.unique((scale * np.concatenate([near, rng.random(300), -rng.random(50)])).astype(kind))
    write = numerals.threshold_writer((-scale, 2 * scale), scores)
    values = [*scores.tolist(), *(scale * rng.random(100)).tolist()]
    for value in values:
        printed = kind(numerals.parse(write(value)))
        assert np.array_equal(scores > printed, scores > kind(value)), (value, write(value))
    assert max(len(write(value)) for value in values) < 25


def test_a_threshold_that_is_asked_for_is_written_whole():
    scores = np.arange(300.0, 850)
    write = numerals.threshold_writer((300, 850), scores, 0.0031415)
    assert [write(0.0031415), write(0.0031416)] == ["0.0031415", "0"]
    for asked, text in ((1e300, "1×10³⁰⁰"), (-2.5e-20, "−2.5×10⁻²⁰"), (0.5, "0.5"), (1e6, "1000000")):
        assert numerals.threshold_writer((0, 1), scores / 850, asked)(asked) == text
        assert numerals.parse(text) == asked


def test_halves_are_rounded_up_as_a_browser_does():
    assert [numerals.fixed(x, 1) for x in (12.25, 12.75, 0.25, 1.0)] == ["12.3", "12.8", "0.3", "1.0"]
    assert numerals.fixed(1.005, 2) == "1.00"  # the double lies below the half
    assert numerals.fixed(-0.04, 1) == "0.0"


def test_what_was_not_measured_is_a_dash():
    nothing = {"value": None, "low": None, "high": None}
    assert numerals.interval(nothing, numerals.points) == "–"
    assert numerals.percent(None) == numerals.percent(float("nan")) == "–"


def test_an_interval_in_units_of_the_score_has_the_same_digits_throughout():
    measured = {"value": 0.0194, "low": 0.000716, "high": 0.038}
    assert numerals.score_interval(measured) == "0.0194 (0.0007\u00a0to\u00a00.0380)"
    assert numerals.score_interval({"value": 0.0, "low": 0.0, "high": 0.0}).startswith("0.00")
    assert numerals.score_interval({"value": 4e-8, "low": 0.0, "high": 5e-8}).endswith("5.00×10⁻⁸)")


def test_p_values():
    assert [numerals.p_value(p) for p in (0.0004, 0.000999, 0.0312, 1.0)] == [
        "under 0.001",
        "0.001",
        "0.031",
        "1.000",
    ]


ALONG, UP = drawings.across(0.0, 10.0), drawings.upwards(1.0, 100.0, 100.0)


def test_a_step_function_holds_its_value_to_the_next_threshold():
    assert drawings.step_path([0, 1, 4, 10], [0, 0.5, 0.5, 0.2], ALONG, UP) == "M0 100H100V50H1000V80H1000"


def test_a_line_goes_from_point_to_point():
    assert drawings.line_path([0, 1, 2], [0, 0.5, 1], ALONG, UP) == "M0 100L100 50L200 0"


def test_a_band_goes_along_the_upper_curve_and_back_along_the_lower():
    path = drawings.band_path([0, 2, 4], [0, 0.2, 0.1], [0.4, 0.6, 0.6], ALONG, UP)
    assert path == "M0 60H200V40H400V80H200V100H0Z"


def test_a_histogram_stands_on_the_ground():
    assert drawings.outline_path([0, 5, 10], [0.5, 1.0], ALONG, UP) == "M0 100V50H500V0H1000V100"


def test_a_group_that_is_left_out_is_marked_and_makes_no_histogram_flat():
    rng = np.random.default_rng(0)
    score, group, y = rng.random(400), np.array(["a", "b"] * 200, dtype="U5"), rng.integers(0, 2, 400)
    group[7] = "alone"
    others = group != "alone"
    with pytest.warns(SmallCellWarning):
        page = audit(y, score, sensitive_features=group, **QUICK).to_html()
    without = audit(y[others], score[others], sensitive_features=group[others], **QUICK).to_html()
    outlines = [
        re.findall(r'<path class="filled outline style-[0-9]+" d="([^"]+)"', each) for each in (page, without)
    ]
    assert len(outlines[1]) == 6  # two groups among everybody and among the people of each outcome
    assert outlines[0] == outlines[1]
    legend = re.search(r'<ul class="legend">.*?</ul>', page, re.DOTALL)[0]
    assert re.findall(r"</svg>(.*)</li>", legend) == ["a", "alone (left out)", "b"]
    assert "by group: a, b." in page


@pytest.mark.parametrize(
    ("gaps", "at"),
    [
        ([0.05, 0.9 - 0.8, 0.8 - 0.7, 0.0], "b"),  # both are a tenth, the second is larger by one last digit
        ([0.05, 0.8 - 0.7, 0.9 - 0.8, 0.0], "b"),
        ([0.05, 0.1 - 1e-9, 0.1, 0.0], "c"),  # really larger
        ([0.0, 0.1, 0.1, 0.0], "b"),
        ([0.2, 0.1, 0.0, 0.2], "a"),
    ],
)
def test_the_dot_is_on_the_first_of_equal_gaps(gaps, at):
    chance = {"mean": 0.01, "p95": 0.02}
    stratum = {"words": "everybody", "gap": gaps, "low": gaps, "high": gaps, "noise_floor": chance}
    curve = {"thresholds": [0.1, 0.2, 0.3, 0.4], "written": ["a", "b", "c", "d"]}
    plot = drawings.gap_plot(stratum, curve, drawings.Axis(drawings.across(0.0, 1.0), 0.5), 1.0, "95 %")
    place = "abcd".index(at)
    assert plot.dot["text"] == f"{numerals.points(gaps[place])} at {at}"
    assert plot.dot["x"] == f"{10 * (place + 1):.2f}%"


def test_what_is_out_of_scale_is_drawn_on_the_edge():
    assert [ALONG(-1), ALONG(11), UP(1.7)] == [0.0, 1000.0, 0.0]


def test_a_threshold_far_outside_does_not_stretch_the_axis():
    assert drawings.domain(1, 10, [0.5, 10]) == (0.5, 10)
    assert drawings.domain(300, 850, [0.5, 850]) == pytest.approx((245, 850))
    assert drawings.domain(7, 7, [7, 7]) == (3.5, 10.5)


def test_the_same_audit_gives_the_same_bytes():
    assert audited().report.to_html() == audited().report.to_html()


def test_what_an_audit_cannot_measure_still_makes_a_page():
    summary = copy.deepcopy(audited().report.summary)
    score = summary["scores"][0]
    for measured in score["auc"]["groups"]:
        measured |= {"value": None, "low": None, "high": None}
    score["auc"]["abroca"] = []
    for parity in score["parities"]:
        parity["certificates"] = []
    for group in score["at_threshold"]["groups"]:
        group |= dict.fromkeys(("tpr", "fpr", "ppv"))
    score["at_threshold"] |= {"impact_ratio": None, "gaps": dict.fromkeys(score["at_threshold"]["gaps"])}
    text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", to_html(summary), flags=re.S)
    assert text.count("–") > 15
    assert not re.search(r"\b(None|nan|null|undefined)\b", text)


def test_without_outcomes_there_are_selection_rates_alone():
    rng = np.random.default_rng(0)
    group = np.repeat(["women", "men"], [40, 70])
    html = audit(None, rng.random(110), sensitive_features=group, **QUICK).to_html()
    assert "Selected of rows" in html
    assert not re.search("TPR|PPV|AUC|Accuracy", html)
    assert html.count('data-cell="0-') == 2


def test_a_constant_score_makes_a_page():
    group = np.repeat(["a", "b"], [80, 140])
    html = audit(np.arange(220) % 2, np.full(220, 7.0), sensitive_features=group, **QUICK).to_html()
    assert "All scores are 7." in html
    assert 'data-cell="1-tpr"' in html


def test_the_fragment_hides_the_page_from_its_surroundings():
    fragment = to_fragment(audited().report.summary)
    assert fragment.startswith("<iframe ")
    assert fragment.count("<") == 2
    assert 'sandbox="allow-scripts"' in fragment
