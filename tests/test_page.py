"""The page in a browser: opened from disk, offline, read and dragged as a person would."""

import copy
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from audit_pages import GROUPS, LABEL, POSITIVE, QUICK, SCRIPT, audited, crowded
from evenrisk.report import audit, words
from optional import need

axe = need("axe_playwright_python.sync_playwright")

RATES = ("selection_rate", "tpr", "fpr", "ppv", "accuracy")
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def plain():
    return audited()


@pytest.fixture(scope="module")
def crowd():
    return crowded().summary


def shown_threshold(page):
    return page.locator("[data-threshold]").first.inner_text()


def table(page):
    """The numbers of the first table of groups, as a person reads them."""
    cells = page.locator("#score-0 [data-cell]").all()
    return {cell.get_attribute("data-cell"): cell.inner_text() for cell in cells}


def assert_numbers_at(page, world, t):
    """Hold the page's first section against scikit-learn's counts at a threshold."""
    found, names = table(page), world.report.summary["groups"]
    counted = [world.rates(name, t) for name in names]
    for j, expected in enumerate(counted):
        assert found[f"{j}-count"] == expected["count"]
        for key in RATES:
            same_percent(found[f"{j}-{key}"], expected[key])
    for key in ("selection_rate", "tpr", "fpr"):
        for cell in page.locator(f"#score-0 [data-gap={key}]").all():
            same_percent(cell.inner_text(), np.ptp([rates[key] for rates in counted]))
    good = [rates["selection_rate"] for rates in counted]
    good = good if world.favourable == "high" else [1 - rate for rate in good]
    if max(good) > 0:
        ratio = min(good) / max(good)
        assert float(page.locator("[data-ratio]").first.inner_text()) == pytest.approx(ratio, abs=0.00501)
        assert page.locator("[data-below]").first.is_visible() == (ratio < 0.8)
        assert page.locator("[data-above]").first.is_visible() == (ratio >= 0.8)


def same_percent(text, rate):
    if np.isnan(rate):
        assert text == "–"
    else:
        assert re.fullmatch(r"\d+\.\d", text)
        assert float(text) == pytest.approx(100 * rate, abs=0.0501)


def cut_lines(page):
    """Where the threshold's line is in every plot of the first section, as a share of the plot's width."""
    return page.evaluate(
        """() => Array.from(document.querySelectorAll("#score-0 .cut")).map((line) => {
            const box = line.ownerSVGElement.getBoundingClientRect();
            return (line.getBoundingClientRect().x - box.x) / box.width;
        })"""
    )


def assert_lines_at(page, share):
    lines = cut_lines(page)
    assert len(lines) == 6
    assert lines == pytest.approx([share] * 6, abs=0.01)


def test_it_opens_from_disk_without_network_request_or_error(opened, plain):
    page = opened(plain.report.to_html())
    assert page.locator("h1").inner_text() == plain.report.summary["title"]
    assert "js" in page.locator("html").get_attribute("class")
    assert page.locator("[data-slider]").is_visible()
    assert_numbers_at(page, plain, 0.5)


def test_the_policy_of_the_page_forbids_requests(browser, plain):
    page = browser.new_page()
    page.set_content(plain.report.to_html())
    refused = "fetch('data:,x').then(() => 'sent', () => 'refused')"
    assert page.evaluate(refused) == "refused"
    page.close()


@pytest.mark.parametrize("favourable", ["high", "low"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_numbers_at_five_thresholds_are_those_of_python(opened, weighted, favourable):
    world = audited(weighted=weighted, favourable=favourable)
    page = opened(world.report.to_html())
    for t in (0.2, 0.37, 0.5, 0.81, world.score.max()):
        page.locator("[data-number]").fill(repr(float(t)))
        page.keyboard.press("Enter")
        assert float(shown_threshold(page)) == t
        assert_numbers_at(page, world, t)
    verb = "Selected" if favourable == "high" else "Flagged"
    assert page.locator("table.groups thead th").nth(1).inner_text() == verb


def test_the_keyboard_moves_the_threshold(opened, plain):
    page = opened(plain.report.to_html())
    score = plain.report.summary["scores"][0]
    steps, start = score["steps"]["thresholds"], score["start"]
    slider = page.locator("[data-slider]")
    slider.focus()
    for key, step in [("ArrowRight", start + 1), ("ArrowLeft", start), ("End", len(steps) - 1), ("Home", 0)]:
        page.keyboard.press(key)
        assert float(shown_threshold(page)) == pytest.approx(steps[step])
        assert slider.get_attribute("aria-valuetext") == shown_threshold(page)
        assert_numbers_at(page, plain, steps[step])
    page.keyboard.press("PageUp")
    assert int(slider.input_value()) == pytest.approx(len(steps) / 10, abs=1)


def test_buttons_go_to_the_worst_threshold_and_back(opened, plain):
    page = opened(plain.report.to_html())
    asked, *worst = page.locator("[data-step]").all()
    parities = plain.report.summary["scores"][0]["parities"]
    assert len(worst) == len(parities) == 2
    for button, parity in zip(worst, parities, strict=True):
        button.click()
        assert float(shown_threshold(page)) == parity["worst"]["threshold"]
        assert_numbers_at(page, plain, parity["worst"]["threshold"])
        rate = {"everybody": "selection_rate", "negatives": "fpr", "positives": "tpr"}
        cell = page.locator(f"#score-0 .live [data-gap={rate[parity['worst']['stratum']]}]")
        assert float(cell.inner_text()) == pytest.approx(100 * parity["max_gap"]["value"], abs=0.0501)
    asked.click()
    assert shown_threshold(page) == "0.5"


@pytest.mark.parametrize("plot", range(6))
def test_dragging_in_any_plot_moves_the_line_in_all(opened, plain, plot):
    page = opened(plain.report.to_html())
    frame = page.locator("#score-0 [data-drag]").nth(plot)
    frame.scroll_into_view_if_needed()
    box = frame.locator("> svg").bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 60)
    page.mouse.down()
    assert float(shown_threshold(page)) == pytest.approx(0.25, abs=0.011)
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] - 80, steps=5)  # out of the plot: it is held
    t = float(shown_threshold(page))
    assert t == pytest.approx(0.7, abs=0.011)
    assert_numbers_at(page, plain, t)
    assert_lines_at(page, t)
    page.mouse.up()
    page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 60)
    assert float(shown_threshold(page)) == t


def swipe(page, start, end):
    """A finger put down, drawn along and lifted."""
    session = page.context.new_cdp_session(page)
    places = [
        (start[0] + i * (end[0] - start[0]) / 10, start[1] + i * (end[1] - start[1]) / 10) for i in range(11)
    ]
    for kind, at in [
        ("touchStart", places[0]),
        *(("touchMove", at) for at in places[1:]),
        ("touchEnd", None),
    ]:
        points = [{"x": at[0], "y": at[1]}] if at else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_timeout(100)


def test_a_finger_moves_the_threshold_sideways_and_scrolls_downwards(opened, plain):
    page = opened(plain.report.to_html(), **PHONE)
    frame = page.locator("#score-0 [data-drag] > svg").first
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    x, y = box["x"], box["y"] + 100
    swipe(page, (x + 0.5 * box["width"], y), (x + 0.8 * box["width"], y))
    t = float(shown_threshold(page))
    assert t == pytest.approx(0.8, abs=0.015)
    assert_numbers_at(page, plain, t)
    assert_lines_at(page, t)
    scrolled = page.evaluate("scrollY")
    swipe(page, (x + 0.3 * box["width"], y), (x + 0.3 * box["width"], y - 150))
    assert float(shown_threshold(page)) == t
    assert page.evaluate("scrollY") > scrolled
    box = frame.bounding_box()
    page.touchscreen.tap(x + 0.4 * box["width"], box["y"] + 180)
    assert float(shown_threshold(page)) == pytest.approx(0.4, abs=0.015)


VIEWS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": PHONE,
    "phone, dark": PHONE | {"color_scheme": "dark"},
}


def serious(page):
    found = axe.Axe().run(page).response["violations"]
    return [f"{v['id']}: {v['nodes'][0]['html']}" for v in found if v["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(opened, plain, view):
    assert not serious(opened(plain.report.to_html(), **VIEWS[view]))


def test_axe_finds_nothing_serious_in_a_crowd(opened, crowd):
    assert not serious(opened(page_of(crowd), **VIEWS["phone, dark"]))


def page_of(summary):
    from evenrisk.report.page import to_html

    return to_html(summary)


def test_axe_would_notice(opened, plain):
    broken = plain.report.to_html().replace('lang="en"', "").replace("--muted: #565c64", "--muted: #cccccc")
    found = serious(opened(broken, color_scheme="light"))
    assert {"html-has-lang", "color-contrast"} <= {violation.partition(":")[0] for violation in found}


def test_hostile_names_are_text(opened, plain):
    page = opened(plain.report.to_html())
    names = page.locator("table.groups tbody th").all_inner_texts()
    assert names == plain.report.summary["groups"]
    assert set(names) == set(GROUPS)
    assert page.locator("#score-0 h2").inner_text() == "risk & <b>score</b>"
    assert f"{LABEL} = {POSITIVE}" in page.locator("#data ~ .wide thead").inner_text()
    assert page.evaluate("document.scripts.length") == 2
    assert page.locator("b, i").filter(has_text="score").count() == 0
    assert page.locator("svg [role=img] title, svg[role=img] > title").filter(has_text=SCRIPT).count() == 3


@pytest.mark.parametrize("name", ["\u202exyz", "\u2067xyz", "\u200fxyz", "אדום", "أحمر ١٢", "a\u2069\u202eb"])
def test_a_name_cannot_turn_the_words_around_it(opened, name):
    """A right-to-left override in a group's name made 34 points read as 43."""
    group = np.repeat(np.array([name, "b"], dtype=object), 100)
    score = np.concatenate([np.arange(100) < 67, np.arange(100) < 33]).astype(float)
    named = {"sensitive_features": pd.Series(group, name=name)}
    page = opened(audit(None, pd.Series(score, name=name), **named, **QUICK).to_html())
    places = page.evaluate(
        """() => {
            const read = (node) => {
                const range = document.createRange(), places = [];
                for (let i = node.data.indexOf("34 points"); i < node.data.indexOf(" points") + 7; i++) {
                    range.setStart(node, i);
                    range.setEnd(node, i + 1);
                    const box = range.getBoundingClientRect();
                    places.push([Math.round(box.top / 8), box.left]);
                }
                return places;
            };
            return read(document.querySelector(".verdict p").firstChild);
        }"""
    )
    assert len(places) == len("34 points")
    assert places == sorted(places), "letters stand in their order"
    text = page.locator("body").inner_text()
    assert not set(text) & set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067")
    assert text.count("\u2068") == text.count("\u2069")
    assert set(page.title()) & set("xyzאحb")


def test_one_person_is_shown_and_sets_no_gap_wherever_the_cut_off_is(opened):
    rng = np.random.default_rng(0)
    group = np.append(np.repeat(["a", "b"], 100), "solo")
    y, score = rng.integers(0, 2, 201), rng.random(201).round(2)
    with pytest.warns(UserWarning, match="Left out of demographic parity"):
        report = audit(y, score, sensitive_features=group, **QUICK)
    page = opened(report.to_html())
    for t in (0.1, 0.5, 0.93):
        page.locator("[data-number]").fill(str(t))
        page.keyboard.press("Enter")
        rates = {name: (score > t)[group == name].mean() for name in ("a", "b", "solo")}
        both = rates["a"], rates["b"]
        same_percent(table(page)["2-selection_rate"], rates["solo"])
        for cell in page.locator("#score-0 [data-gap=selection_rate]").all():
            same_percent(cell.inner_text(), np.ptp(both))
        for label, key in ((1, "tpr"), (0, "fpr")):
            found = [(score > t)[(group == name) & (y == label)].mean() for name in ("a", "b")]
            for cell in page.locator(f"#score-0 [data-gap={key}]").all():
                same_percent(cell.inner_text(), np.ptp(found))
        ratio = float(page.locator("[data-ratio]").inner_text())
        assert ratio == pytest.approx(min(both) / max(both), abs=0.00501)
    assert page.locator("table.groups tbody th").last.inner_text() == "solo (left out)"


def test_names_cannot_end_the_data_of_the_script(opened, plain):
    summary = copy.deepcopy(plain.report.summary)
    summary["settings"]["favourable"] = "</script><script>alert(2)</script><!--&"
    html = page_of(summary)
    assert html.count("<script") == html.count("</script>") == 2
    opened(html)


def test_without_javascript_everything_is_there(opened, plain):
    page = opened(plain.report.to_html(), java_script_enabled=False)
    text = page.locator("body").inner_text().replace("\u00a0", " ")
    score = plain.report.summary["scores"][0]
    for paragraph in plain.report.summary["verdict"]:
        assert paragraph in text
    for parity in score["parities"]:
        for key in ("max_gap", "rank_gap", "gap_at_threshold"):
            value, low, high = (f"{100 * parity[key][k]:.1f}" for k in ("value", "low", "high"))
            assert f"{value} ({low} to {high})" in text
        assert (
            f"{100 * parity['noise_floor']['mean']:.1f} to {100 * parity['noise_floor']['p95']:.1f}" in text
        )
        for _, sentence in words.limits(parity["certificates"]):
            assert sentence in text
    for interval in [score["auc"]["overall"], *score["auc"]["groups"], *score["auc"]["abroca"]]:
        assert "{value:.3f} ({low:.3f} to {high:.3f})".format(**interval) in text
    for note in plain.report.summary["notes"]:
        assert note["text"] in text
    assert_numbers_at(page, plain, 0.5)
    assert_lines_at(page, 0.5)
    assert page.locator(".gap").count() == 3
    assert page.locator("path.outline").count() == 3 * len(GROUPS)
    assert all(plot["width"] > 300 and plot["height"] > 50 for plot in plot_boxes(page))
    assert not page.locator("[data-slider], .choices, .with-script").filter(visible=True).count()


def plot_boxes(page):
    return [path.bounding_box() for path in page.locator("path.gap, path.band, path.outline").all()]


def test_the_curve_and_the_dot_reach_the_largest_gap(opened, plain):
    page = opened(plain.report.to_html())
    curve = plain.report.summary["scores"][0]["parities"][0]["curve"]
    gap = curve["strata"][0]["gap"]
    drawn = page.locator("#score-0 [data-drag]").first.evaluate(
        """(frame) => {
            const number = (node, name) => Number.parseFloat(node.getAttribute(name));
            const grid = Array.from(frame.querySelectorAll(".grid"), (line) => number(line, "y1"));
            const texts = Array.from(frame.querySelectorAll(".tick.up"), (text) => Number(text.textContent));
            const [path, dot] = [frame.querySelector(".gap"), frame.querySelector(".dot")];
            const points = (y) => texts[1] * (grid[0] - y) / (grid[0] - grid[1]);
            return [points(path.getBBox().y), points(number(dot, "cy")), number(dot, "cx") / 100];
        }"""
    )
    largest = 100 * max(gap)
    assert drawn[:2] == pytest.approx([largest, largest], abs=0.05)
    assert drawn[2] == pytest.approx(curve["thresholds"][int(np.argmax(gap))], abs=0.001)


def test_printed_it_is_light_and_whole(opened, plain):
    page = opened(plain.report.to_html(), color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(media="print", color_scheme="dark")
    assert dark != page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("[data-slider], .choices, .with-script").filter(visible=True).count()
    assert page.locator("[data-threshold]").is_visible()
    for figure in page.locator("figure, tr").all():
        assert figure.evaluate("node => getComputedStyle(node).breakInside") == "avoid"
    assert 2 <= page.pdf(format="A4").count(b"/Type /Page\n") <= 8


@pytest.mark.parametrize("scripted", [True, False])
def test_nothing_is_wider_than_a_phone(opened, crowd, plain, scripted):
    for html in (page_of(crowd), plain.report.to_html()):
        page = opened(html, java_script_enabled=scripted, **PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate("visualViewport.scale") == 1


def test_text_in_plots_keeps_its_size_on_a_phone_and_does_not_collide(opened, crowd):
    page = opened(page_of(crowd), **PHONE)
    sizes = page.evaluate(
        "Array.from(document.querySelectorAll('svg text'), t => getComputedStyle(t).fontSize)"
    )
    assert min(float(size.removesuffix("px")) for size in sizes) >= 12
    ticks = page.evaluate(
        """() => Array.from(document.querySelectorAll("[data-drag]"), (frame) =>
            Array.from(frame.querySelectorAll(".tick:not(.up)"), (text) => {
                const box = text.getBoundingClientRect();
                return [box.left, box.right];
            }))"""
    )
    assert len(ticks) == 24
    for boxes in ticks:
        assert 2 <= len(boxes) <= 8
        assert all(left[1] < right[0] for left, right in pairwise(boxes))


def test_a_crowd_fits_into_a_page(crowd):
    assert 100_000 < len(page_of(crowd).encode()) < 1_300_000  # ten million rows have longer counts


def test_every_column_has_a_threshold_of_its_own(opened, crowd):
    page = opened(page_of(crowd))
    before = page.locator("[data-threshold]").all_inner_texts()
    page.locator("[data-slider]").nth(2).focus()
    page.keyboard.press("Home")
    after = page.locator("[data-threshold]").all_inner_texts()
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, True]


def test_columns_are_compared(opened, crowd):
    page = opened(page_of(crowd))
    rows = page.locator("#comparison ~ .wide tbody tr").all_inner_texts()
    assert len(rows) == 8
    for row, (score, parity) in zip(
        rows, [(s, p) for s in crowd["scores"] for p in s["parities"]], strict=True
    ):
        assert score["name"] in row
        assert parity["words"] in row
        assert f"{100 * parity['max_gap']['value']:.1f}" in row
    assert page.locator("#comparison ~ .plots path.outline").count() == 8


def test_the_fragment_is_a_page_in_a_frame(browser, plain):
    page = browser.new_page()
    page.set_content(f"<p id=outside>notebook</p>{plain.report._repr_html_()}")
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").inner_text() == plain.report.summary["title"]
    frame.locator("[data-slider]").focus()
    page.keyboard.press("Home")
    assert frame.locator("[data-threshold]").inner_text() == "0"
    assert page.evaluate("getComputedStyle(document.body).maxWidth") == "none"
    assert frame.locator("body").evaluate("node => node.scrollWidth <= innerWidth")
    page.close()
