"""The page in a browser: it asks for nothing, its controls work, and it is readable on a phone."""

from itertools import pairwise

import pytest

from tests import sound
from tests.page.results_of_demo import MILLISECONDS
from thinwire.plugins import ROOT

pytestmark = pytest.mark.slow

ROWS = "[...document.querySelectorAll('{} tbody tr')]"
RUN = "run-demo/digits/cnn/ssgd/w4/seed1"


def column(page, section, title):
    """The texts of a column of the table in a section."""
    heads = page.run(
        f"[...document.querySelectorAll('{section} th[scope=col]')].map(head => head.textContent)"
    )
    return page.run(f"{ROWS.format(section)}.map(row => row.cells[{heads.index(title)}].textContent)")


def choose(page, name, value):
    page.run(f"at('choose-{name}').value = '{value}'; at('choices').dispatchEvent(new Event('change'))")


def test_nothing_is_asked_from_outside_and_no_script_fails(page, results):
    page.run("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    page.wait("document.querySelectorAll('#runs details svg.marks').length === 8")
    assert page.requests == [(results / "index.html").as_uri()]
    assert page.errors == []


def test_the_table_of_a_place_sorts_by_the_buttons_of_its_headings(page):
    assert [text.split()[0] for text in column(page, "#summary", "method")] == list(MILLISECONDS)
    # Whether a method reaches the target depends on invented scores.
    page.run("rowsOf('places').forEach((row, i) => { row.seconds_to_target = 100 - i; }); choose()")
    target = page.run("fixed(timesHere()[0].target_score, 2)")
    title = f"time to target {target}"
    button = f"[...document.querySelectorAll('#summary th button')].find(b => b.textContent === '{title}')"

    def seconds():
        texts = column(page, "#summary", title)
        return [float(text.split()[0]) for text in texts if text[:1].isdigit()]

    page.run(f"{button}.click()")
    rising = seconds()
    assert len(rising) > 1
    assert rising == sorted(rising)
    page.run(f"{button}.focus()")
    page.press("Enter", 13, text="\r")
    assert page.run(f"{button}.parentElement.getAttribute('aria-sort')") == "descending"
    assert seconds() == rising[::-1]
    page.run("choose()")
    assert seconds() == rising[::-1], "another choice keeps the order"


def test_tables_say_what_is_known_about_methods_and_differences(page):
    page.run("DATA.reconstructed.push('top_k'); rowsOf('summary').forEach(row => row.score_text += ', 2 x')")
    page.run("rowsOf('places').forEach(row => { row.nodes = 8 }); choose()")
    text = page.run("document.querySelector('#summary table').innerText")
    assert text.count(" *") == 1
    assert "2 x" in text
    assert "momentum" in text
    assert column(page, "#summary", "speed-up on 8 nodes")[0] == "0.90 simulated"
    assert column(page, "#summary", "verdict").count("three pairs say nothing") == 2
    assert (
        column(page, "#summary", "difference, points")[1] == "\N{MINUS SIGN}0.50 \N{MINUS SIGN}1.00 to 0.25"
    )
    assert page.run("prose('`a` <b>').map(part => part.outerHTML ?? part)") == ["", "<code>a</code>", " <b>"]
    assert page.run("[[-0.001, 2], [-1.5, 1], [null, 1]].map(([value, digits]) => fixed(value, digits))") == [
        "0.00",
        "\N{MINUS SIGN}1.5",
        "",
    ]


def test_the_front_is_of_methods_that_none_surpasses_in_score_and_bytes(page):
    rows = "[[90, 5], [90, 4], [89, 4], [80, 1], [null, 0]].map(([score_mean, total_with_prepared_bytes]) =>"
    rows += " ({ score_mean, total_with_prepared_bytes }))"
    assert page.run(f"frontOf({rows}, 1).map(row => row.score_mean)") == [90, 80]
    assert page.run(f"frontOf({rows}, -1).map(row => row.score_mean)") == [80]


def test_times_of_another_suite_count_for_methods_with_the_same_options(page):
    other = "Object.assign(structuredClone(DATA.suites[0]), { name: 'times' })"
    page.run(f"DATA.suites.push({other}); delete DATA.suites[0].tables.places; chosen.suite.decoded = null")
    of_top_k = "rowsOf('runs', DATA.suites[1]).filter(row => row.method === 'top_k')"
    page.run(f"{of_top_k}.forEach(row => {{ row.options = 'others' }})")
    page.run("choose()")
    assert column(page, "#summary", "speed-up") == ["0.90 simulated", "1.00 simulated", "no simulated time"]


def test_a_number_of_the_scorecard_shows_its_claims_alone_until_the_next_click(page):
    shown = "[...document.querySelectorAll('.claim:not([hidden])')].map(claim => claim.dataset.verdict)"
    held = "[...document.querySelectorAll('#claim-counts .verdict')].find(b => b.dataset.verdict === 'held')"
    first, *others = page.run(shown)
    verdicts = {"differs by place", "no effect", "not testable here", "no runs yet"}
    assert (first, set(others)) == ("held", verdicts)
    page.run(f"{held}.click()")
    assert page.run(shown) == ["held"]
    assert page.run("at('untested-claims').hidden")
    page.run(f"{held}.click()")
    assert page.run(shown) == [first, *others]


def test_the_slider_gives_the_speed_up_at_its_rate_and_moves_the_line_in_the_map(page):
    line = "document.querySelector('#speed-ups .layer_1_marks line').getBoundingClientRect().x"

    def speed_ups(rate):
        page.run(f"at('rate').value = {rate}; at('rate').dispatchEvent(new Event('input'))")
        return dict(zip(column(page, "#break-even", "method"), column(page, "#break-even", "speed-up")))

    at_first = page.run(line)
    assert speed_ups(0) == {"ssgd": "0.90", "ssgd_bf16": "1.00", "top_k": "2.00"}
    assert speed_ups(2) == {"ssgd": "1.00", "ssgd_bf16": "0.50", "top_k": "0.50"}
    page.wait(f"{line} > {at_first} + 100")
    between = speed_ups(1.5)
    assert between["top_k"] == f"{(1.0 * 0.5) ** 0.5:.2f}", "interpolated on logarithmic axes"
    assert "interpolated" in page.run("at('rate-shown').textContent")
    assert column(page, "#break-even", "break-even")[2] == "faster below 10 Gbit/s"
    second = "from_gbit_per_second: 300, to_gbit_per_second: Infinity"
    page.run(f"{{ const rows = rowsOf('break_even'); rows.push({{...rows.at(-1), {second}}}) }}")
    speed_ups(0)
    assert column(page, "#break-even", "break-even")[2:] == [
        "faster below 10 Gbit/s, faster above 300 Gbit/s"
    ]
    choose(page, "cell", "digits, cnn, 4 workers")
    assert page.run("document.querySelector('#break-even .panel').hidden && !at('rates-note').hidden")


def test_the_plan_shows_the_methods_at_the_chosen_point_and_the_map_leads_to_it(page):
    def choose_point(name, value):
        page.run(f"at('{name}').value = '{value}'; at('plan-form').dispatchEvent(new Event('input'))")
        return column(page, "#plan-table", "method")

    def columns(*titles):
        return [column(page, "#plan-table", title) for title in titles]

    assert choose_point("choose-workers", 16) == ["sparse_loco", "top_k", "ssgd_bf16", "ssgd"]
    assert columns("step, s", "speed-up") == [
        ["0.01410", "0.04610", "0.1701", "0.3301"],
        ["12.06", "3.69", "1.00", "0.52"],
    ]
    assert choose_point("link-rate", 1) == ["sparse_loco", "ssgd_bf16", "ssgd", "top_k"]
    assert columns("MB sent", "Gbit/s needed") == [
        ["0.50", "20.00", "40.00", "2.00"],
        ["100", "none of those", "none of those", "100"],
    ]
    choose_point("choose-latency", 1)
    assert set(*columns("Gbit/s needed")) == {"none of those"}
    asked = "thinwire plan --model resnet18 --workers 16 --per-node 4 --rate 100 --latency 25 --accelerator"
    assert asked in page.run("at('plan-commands').innerText")
    assert choose_point("choose-per-node", 8) == ["ssgd_bf16", "ssgd", "top_k"]
    choose_point("choose-per-node", 4)
    buttons = "[...document.querySelectorAll('#map button')]"
    assert page.run(f"{buttons}.map(button => button.className)") == ["unknown", "none"] * 2
    keys = "[...document.querySelectorAll('#map-key > :not([hidden]) > b')].map(key => key.textContent)"
    assert page.run(keys) == ["hollow", "grey"]
    page.run("document.querySelector('#plan [value=same]').click()")
    assert columns("method") == [["ssgd_bf16", "ssgd"]]
    assert page.run(f"{buttons}.map(button => button.className)") == ["none"] * 4
    assert page.run(keys) == ["grey"]
    page.run(f"{buttons}[2].click()")
    assert page.run("[at('choose-workers').value, at('link-rate').value]") == ["8", "0"]
    assert page.run(f"{buttons}.map(button => button.ariaPressed)") == ["false", "false", "true", "false"]


def test_curves_change_their_axis_and_the_legend_chooses_methods(page):
    def svg(axis):
        page.run("document.querySelector('#curves .chart').replaceChildren()")
        page.run(f"document.querySelector('#curves input[value={axis}]').click()")
        page.wait("document.querySelector('#curves svg') !== null")
        return page.run("document.querySelector('#curves svg').textContent")

    paths = "document.querySelectorAll('#curves .mark-line path')"
    assert page.run(f"{paths}.length") > 3
    view = "document.querySelector('#curves .chart').shown.view"
    page.run(f"void {view}.signal('methods_method_legend', 'ssgd').run()")
    page.wait(f"[...{paths}].filter(path => path.getAttribute('opacity') < 0.1).length === 7")
    assert "payload pushed and pulled by a worker, MB" in svg("bytes")
    assert "seconds of training" in svg("seconds"), "simulated points alone"
    fills = page.run(
        "[...document.querySelectorAll('#curves g.mark-symbol.role-mark path[d]')]"
        ".map(point => point.getAttribute('fill'))"
    )
    assert set(fills) == {"transparent"}


def test_ends_of_curves_have_labels_that_do_not_cover_each_other(page):
    labels = "[...document.querySelectorAll('#curves .ends_marks text')]"
    boxes = page.run(f"{labels}.map(label => label.getBoundingClientRect().toJSON())")
    assert len(boxes) == len(MILLISECONDS)
    tops = sorted(box["top"] for box in boxes)
    assert all(after - before >= 10 for before, after in pairwise(tops))
    right = page.run("document.querySelector('#curves .chart').getBoundingClientRect().right")
    assert all(box["right"] <= right for box in boxes)


def test_a_chart_is_as_high_as_its_legend(page):
    page.size(1440)
    page.run("rows = [...'abcd'].flatMap(method => [1, 9].map(rate => ({ method, rate, seconds: rate })))")
    page.run("looks = Object.fromEntries([...'abcd'].map(method => [method, chosen.suite.looks.ssgd]))")
    page.run("draw('#seconds', secondsChart(rows, looks), 'four methods')")
    names, chart = "#seconds .role-legend-label text", "#seconds svg"
    bottoms = page.run(
        f"[...document.querySelectorAll('{names}, {chart}')].map(each => each.getBoundingClientRect().bottom)"
    )
    assert len(bottoms) == 5
    assert max(bottoms) == bottoms[0], "the chart comes first"


def test_charts_on_paper_are_as_wide_as_their_place(page):
    page.call("Emulation.setEmulatedMedia", media="print")
    page.run("document.querySelector('main').style.width = '500px'")
    widths = page.run(
        "[...document.querySelectorAll('.chart svg')].map(svg => svg.getBoundingClientRect().width)"
    )
    page.call("Emulation.setEmulatedMedia", media="")
    assert len(widths) == 4
    assert max(widths) <= 500


def test_seconds_to_the_target_are_those_of_a_step_times_the_steps(page):
    view = "document.querySelector('#seconds').shown.view"
    rows = page.run(f"{view}.data('source_0').map(row => [row.method, row.rate, row.seconds])")
    assert ["top_k", 1, pytest.approx(0.045 * 40)] in rows
    assert len(rows) == 9


def test_an_address_opens_a_run_and_chooses_its_cell(page, results):
    page.run(f"location.hash = '{RUN}'")
    page.wait(f"at('{RUN}')?.open")
    page.wait(f"at('{RUN}').innerText.includes('world')")
    (cell,) = (cell for cell in sound.cells("demo") if f"run-demo/{cell.path}" == RUN)
    assert f"{sound.curve(cell)[-1]['payload_push_bytes'] / 1e6:.3f}" in page.run(f"at('{RUN}').innerText")
    assert page.run("at('choose-cell').value") == "digits, cnn, 4 workers"
    links = page.run(f"[...at('{RUN}').querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert len(links) == 5
    assert all((results / link).exists() for link in links)
    named = page.run("[...document.querySelectorAll('a[href^=\"#\"]')].map(a => decodeURI(a.hash.slice(1)))")
    assert any(name.startswith("run-") for name in named)
    assert all(page.run(f"at({name!r}) !== null") for name in set(named))


def test_the_committed_page_links_only_what_is_committed(browser):
    """Its records are in archives; their folders are there only where somebody has unpacked them."""
    reference = ROOT / "results/reference"
    browser.open((reference / "index.html").as_uri())
    links = browser.run(
        "[...document.links].map(link => link.getAttribute('href')).filter(link => !link.startsWith('#'))"
    )
    archives = browser.run("DATA.suites.map(suite => suite.archive)")
    assert links == []
    assert sorted(archives) == sorted(
        path.relative_to(reference).as_posix() for path in (reference / "records").rglob("*.tar.xz")
    )


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast_and_the_page_fits_a_phone(page, dark):
    page.size(390, dark=dark)
    page.run("choose()")
    assert page.run("document.documentElement.scrollWidth") <= 390
    page.wait("document.querySelector('#summary .wide').classList.contains('more')")
    page.run("document.querySelector('#summary .wide').scrollLeft = 200")
    assert page.run("document.querySelector('#summary tbody th').getBoundingClientRect().x") < 20
    for colour in ("--text", "--muted", "--link", "--mark"):
        assert contrast(page, colour, "--ground") >= 4.5, colour


def contrast(page, one, other):
    """The ratio of two colours' luminances, as WCAG 2 defines it."""

    def luminance(name):
        text = page.run(f"getComputedStyle(document.documentElement).getPropertyValue('{name}')")
        parts = [int(text.strip().lstrip("#")[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_control_has_a_name_and_every_chart_a_description(page):
    unnamed = "[...document.querySelectorAll('select, input')].filter(c => !c.labels.length).length"
    assert page.run(unnamed) == 0
    labels = page.run("[...document.querySelectorAll('.chart')].map(chart => chart.ariaLabel)")
    assert all(len(label) > 30 for label in labels)
    levels = page.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
