"""The page in a browser: it asks for nothing, its controls work, and it is readable on a phone."""

from itertools import pairwise

import pytest

from tests import sound
from tests.page.results_of_demo import MILLISECONDS
from thinwire.plugins import ROOT

pytestmark = pytest.mark.slow

ROWS = "[...document.querySelectorAll('{} tbody tr')]"
RUN = "run-demo/digits/cnn/ssgd/w4/seed1"


def column(page, section, place):
    """The texts of a column of the table in a section."""
    return page.run(f"{ROWS.format(section)}.map(row => row.cells[{place}].textContent)")


def drawn(page, section):
    page.wait(f"document.querySelector('{section} .chart[role=img] svg') !== null")


def test_nothing_is_asked_from_outside_and_no_script_fails(page, results):
    for section in ("#curves", "#break-even", "#differences"):
        drawn(page, section)
    page.run("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    page.wait("document.querySelectorAll('#runs details:not([hidden]) svg').length === 8")
    assert page.requests == [(results / "index.html").as_uri()]
    assert page.errors == []


def test_the_leader_table_sorts_by_the_buttons_of_its_headings(page):
    assert column(page, "#leaders", 0) == list(MILLISECONDS)
    heads = page.run("[...document.querySelectorAll('#leaders th[scope=col]')].map(h => h.textContent)")
    place = heads.index("time to target")
    button = f"document.querySelectorAll('#leaders th button')[{place}]"

    def seconds():
        return [float(text.split()[0]) for text in column(page, "#leaders", place) if text[:1].isdigit()]

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


def test_a_reconstructed_method_a_run_at_chance_level_and_other_recipes_are_marked(page):
    page.run("DATA.reconstructed.push('top_k'); rowsOf('leaders').forEach(row => row.at_chance_level = 2)")
    page.run("choose()")
    text = page.run("document.querySelector('#leaders table').innerText")
    assert text.count("reconstructed") == 1
    assert "2 at chance level" in text
    assert "momentum" in text
    assert "with as many trials for each method" in page.run(
        "document.getElementById('recipes-note').innerText"
    )


def test_verdicts_are_the_words_of_the_comparisons(page):
    assert [text for row in (column(page, "#leaders", i) for i in range(9)) for text in row].count(
        "three pairs say nothing"
    ) == 2
    drawn(page, "#differences")
    assert column(page, "#differences", 2)[0] == "\N{MINUS SIGN}1.00 to 0.25"


def test_the_slider_gives_the_speed_up_at_its_rate(page):
    def speed_ups(rate):
        slider = "document.getElementById('rate')"
        page.run(f"{slider}.value = {rate}; {slider}.dispatchEvent(new Event('input'))")
        return dict(zip(column(page, "#break-even", 0), column(page, "#break-even", 1)))

    drawn(page, "#break-even")
    assert speed_ups(0) == {"ssgd": "0.90", "ssgd_bf16": "1.00", "top_k": "2.00"}
    assert speed_ups(2) == {"ssgd": "1.00", "ssgd_bf16": "0.50", "top_k": "0.50"}
    between = speed_ups(1.5)
    assert between["top_k"] == f"{(1.0 * 0.5) ** 0.5:.2f}", "interpolated on logarithmic axes"
    assert "interpolated" in page.run("document.getElementById('rate-shown').textContent")
    page.run("document.getElementById('rate').focus()")
    page.press("Home", 36)
    assert column(page, "#break-even", 1)[0] == "0.90"
    assert "at all rates" not in " ".join(column(page, "#break-even", 2))


def test_curves_change_their_axis_and_simulated_points_are_hollow_without_lines(page):
    def show(axis):
        page.run("document.querySelector('#curves .chart').replaceChildren()")
        page.run(f"document.querySelector('#curves input[value={axis}]').click()")
        drawn(page, "#curves")
        return page.run("document.querySelector('#curves svg').textContent")

    drawn(page, "#curves")
    assert page.run("document.querySelectorAll('#curves svg .mark-line path').length") > 3
    assert "payload pushed and pulled by a worker, MB" in show("bytes")
    assert "seconds of training" in show("seconds")
    assert page.run("document.querySelectorAll('#curves svg .mark-line path[d]').length") == 0
    fills = page.run(
        "[...document.querySelectorAll('#curves svg g.mark-symbol.role-mark path[d]')]"
        ".map(point => point.getAttribute('fill'))"
    )
    assert set(fills) == {"transparent"}


def test_an_address_opens_a_run_and_chooses_its_cell(page, results):
    page.run(f"location.hash = '{RUN}'")
    page.wait(f"document.getElementById('{RUN}').open")
    shown = page.run(f"document.getElementById('{RUN}').innerText")
    assert "world" in shown
    (cell,) = (cell for cell in sound.cells("demo") if f"run-demo/{cell.path}" == RUN)
    assert f"{sound.curve(cell)[-1]['payload_push_bytes'] / 1e6:.3f}" in shown
    assert page.run("select('workers').value") == "4 1"
    links = page.run(
        f"[...document.getElementById('{RUN}').querySelectorAll('a')].map(a => a.getAttribute('href'))"
    )
    assert len(links) == 5
    for link in links:
        assert (results / link).exists()
    named = page.run("[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))")
    assert all(page.run(f"document.getElementById({name!r}) !== null") for name in set(named))


def test_the_committed_page_links_only_what_is_committed(browser):
    """Its records are in archives; their folders are there only where somebody has unpacked them."""
    reference = ROOT / "results/reference"
    browser.open((reference / "index.html").as_uri())
    links = browser.run(
        "[...document.links, ...DATA.suites.flatMap(suite => rowsOf('runs', suite)"
        ".flatMap(row => [...provenanceOf(suite, row).querySelectorAll('a')]))]"
        ".map(link => link.getAttribute('href')).filter(link => !link.startsWith('#'))"
    )
    archives = (reference / "records").rglob("*.tar.xz")
    assert set(links) == {path.relative_to(reference).as_posix() for path in archives}


def test_times_on_another_number_of_nodes_than_the_runs_say_so(page):
    heads = "[...document.querySelectorAll('#leaders th[scope=col]')].map(h => h.textContent)"
    assert page.run("chosen.cell.nodes") == 2
    assert {"time to target", "speed-up (how)"} <= set(page.run(heads))
    page.run("rowsOf('places').forEach(row => { row.nodes = 8 }); choose()")
    assert {"time to target on 8 nodes", "speed-up on 8 nodes (how)"} <= set(page.run(heads))


def test_times_on_as_many_nodes_as_the_runs_are_shown_first(page):
    page.run(
        "rowsOf('places').unshift({...rowsOf('places')[0], nodes: 8}); select('place').length = 0; choose()"
    )
    assert page.run("[...select('place').options].map(option => option.value.includes('8 nodes'))") == [
        True,
        False,
    ]
    assert ", 2 nodes" in page.run("select('place').value")
    page.run("rowsOf('speed_ups').unshift({...rowsOf('speed_ups')[0], nodes: 8})")
    page.run("select('simulation').length = 0; offerSimulations()")
    assert page.run("[...select('simulation').options].map(option => option.value.slice(-7))") == [
        "8 nodes",
        "2 nodes",
    ]
    assert ", 2 nodes" in page.run("select('simulation').value")


def test_names_in_backticks_are_shown_as_code(page):
    page.run("chosen.suite.absent.leaders = 'Run `thinwire report` & <b>.'; choose()")
    shown = page.run("document.querySelector('[data-absent=leaders]').innerHTML")
    assert shown == "<span>Run <code>thinwire report</code> &amp; &lt;b&gt;.</span>"


def test_claims_are_sorted_by_their_verdicts_which_say_what_is_reconstructed(page):
    page.run("document.querySelectorAll('#claims th button')[5].click()")
    assert column(page, "#claims", 5) == ["held reconstructed", "not testable here"]


def test_the_page_opens_on_the_most_workers_with_accuracy_and_times(page):
    def opened(change=""):
        """What is chosen after the data was changed and nobody has chosen anything."""
        page.run(f"{change}; document.querySelectorAll('#choices select').forEach(list => list.length = 0)")
        page.run("startChoices()")
        return page.run("['suite', 'model', 'workers'].map(name => select(name).value)")

    assert opened() == ["0", "cnn", "8 2"]
    more = (
        "DATA.suites[0].cells.push({...chosen.cell, workers: 16, nodes: 4}, {...chosen.cell, model: 'mlp'})"
    )
    assert opened(more) == ["0", "cnn", "8 2"], "these cells have no accuracy"
    untimed = "DATA.suites.unshift({...DATA.suites[0], decoded: {...DATA.suites[0].decoded, places: []}})"
    assert opened(untimed) == ["1", "cnn", "8 2"], "the first suite has no times"
    assert opened("DATA.suites.pop()") == ["0", "cnn", "16 4"], "no cell has times"


def test_a_cell_that_was_not_simulated_says_so(page):
    page.run("select('workers').value = '4 1'; choose()")
    assert page.run("document.querySelector('#break-even .panel').hidden")
    assert "choose another number of workers" in page.run("document.getElementById('rates-note').textContent")


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast_and_the_page_fits_a_phone(page, dark):
    page.size(390, dark=dark)
    page.run("choose()")
    drawn(page, "#curves")
    assert page.run("document.documentElement.scrollWidth") <= 390
    for colour in ("--text", "--muted", "--link", "--mark"):
        assert contrast(page, colour, "--ground") >= 4.5, colour


def contrast(page, one, other):
    """The ratio of two colours' luminances, as WCAG 2 defines it."""

    def luminance(name):
        text = page.run(f"styleOf('{name}')").lstrip("#")
        parts = [int(text[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_control_has_a_name_and_every_chart_a_description(page):
    drawn(page, "#curves")
    unnamed = "[...document.querySelectorAll('select, input')].filter(c => !c.labels.length).length"
    assert page.run(unnamed) == 0
    page.wait("document.querySelectorAll('.chart[role=img]').length === 3")
    labels = page.run("[...document.querySelectorAll('.chart')].map(chart => chart.ariaLabel)")
    assert all(len(label) > 30 for label in labels)
    levels = page.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
