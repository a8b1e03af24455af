"""The paper: each number comes from a collected file and leads back to it, and no number is typed."""

import json
import re
import shutil

import pandas as pd
import pytest
import typst
import yaml

from tests import project, sound
from tests.sound import cells
from thinwire.audit.verify import problems_of_conclusions
from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION
from thinwire.plugins import ROOT
from thinwire.publish.paper import declarations, paper, values
from thinwire.publish.paper.declarations import Bars
from thinwire.publish.paper.values import MINUS, Value, text_of
from thinwire.report import report_files
from thinwire.report.rows import collect
from thinwire.report.rows.quantities import summarise
from thinwire.train.result_files import record_folder

TEXT = sorted([ROOT / "paper/paper.typ", *(ROOT / "paper/sections").glob("*.typ")])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Results of the demo with invented records, and the paper that is made of them."""
    results = tmp_path_factory.mktemp("made") / "results"
    for cell in cells("demo"):
        sound.publish(results, cell)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "cells", cells)
        collect.collect(["demo"], results)
    table = summarise(collect.read_summary(results, "demo"), ["ssgd"], CLASSIFICATION)
    report_files.write_table(table, results / "tables/demo/summary.csv", CLASSIFICATION)
    report_files.write_digests(results, "demo")
    paper.paper(results)
    return results


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made, tmp_path / "results")
    return tmp_path / "results"


def queried(results, selector):
    """The elements of the paper's text that the selector names."""
    folder = results / "paper"
    return json.loads(typst.query(folder / "paper.typ", selector, root=folder, ignore_system_fonts=True))


def texts(elements):
    """The text of each element, without its form."""

    def text(element):
        parts = element.get("children") or filter(None, [element.get("body", element.get("child"))])
        return " " if element["func"] == "space" else element.get("text", "") + "".join(map(text, parts))

    return list(map(text, elements))


def values_named_in(results):
    """The names of the values that the text uses, as often as it uses them."""
    return [element["value"]["name"] for element in queried(results, "<used>")]


def test_two_builds_have_the_same_bytes_also_if_a_method_was_added(made, copied, tmp_path, monkeypatch):
    project.add_method(tmp_path, monkeypatch)
    paper.paper(copied)
    for name in ("paper.pdf", "paper/values.json"):
        assert (copied / name).read_bytes() == (made / name).read_bytes()


def test_a_paper_that_does_not_follow_from_the_collected_files_is_found(copied):
    (copied / "paper.pdf").write_bytes(b"%PDF-1.7 of somebody else")
    (sentence,) = (sentence for sentence in problems_of_conclusions(copied) if "paper.pdf" in sentence)
    assert "is not what follows from the collected files: make it again with `thinwire paper" in sentence


def test_another_table_changes_the_paper(made, copied):
    table = copied / "tables/demo/summary.csv"
    before = values.collect(declarations.read(), copied).values["demo.dgc.saved"]
    rows = table.read_text().splitlines()
    place = rows[0].split(",").index("total_reduction_percent")
    line = int(before.origin.rpartition("-")[2])
    contents = rows[line - 1].split(",")
    contents[place] = "12.3"
    rows[line - 1] = ",".join(contents)
    table.write_text("\n".join(rows) + "\n")
    with pytest.raises(
        UserError, match=r"summary\.csv was changed .*: make it again with `thinwire report d"
    ):
        paper.paper(copied)
    report_files.write_digests(copied, "demo")
    paper.paper(copied)
    found = json.loads((copied / "paper/values.json").read_text())["values"]["demo.dgc.saved"]
    assert found["text"] == "12.3"
    assert (copied / "paper.pdf").read_bytes() != (made / "paper.pdf").read_bytes()


def test_every_value_of_the_text_leads_to_its_runs(made):
    content = json.loads((made / "paper/values.json").read_text())
    names = values_named_in(made)
    assert "demo.dgc.saved" in names
    assert {content["values"][name]["origin"] for name in names} <= content["origins"].keys()
    runs = content["origins"][content["values"]["demo.dgc.saved"]["origin"]]["runs"]
    expected = [c for c in cells("demo") if (c.method.label, c.workers) == ("dgc", 8)]
    assert [made / run["folder"] for run in runs] == [record_folder(made, cell) for cell in expected]
    assert [run["anchor"] for run in runs] == [values.anchor(cell) for cell in expected]
    assert f"index.html#{runs[0]['anchor']}".encode() in (made / "paper.pdf").read_bytes()
    # Where many runs are behind a value, their suites are named.
    assert not [each["note"] for each in content["origins"].values() if "None" in each["note"]]


def test_behind_a_value_are_only_the_runs_that_were_collected(made):
    """A table may be made of a part of its suite, for example of fewer repetitions."""
    file = declarations.read().files["demo"]
    table = pd.read_csv(made / "tables/demo/summary.csv")
    rows = table[(table.method == "dgc") & (table.workers == 8)]
    collected = {record_folder(made, cell) for cell in cells("demo") if cell.repetition < 2}
    found = values.runs_behind(file, rows, made, collected, values.grid)
    assert [cell.repetition for cell, _ in found] == [0, 1]


def test_other_lines_of_a_file_have_another_key(made):
    file = declarations.read().files["demo"]
    rows = pd.DataFrame({"method": range(60)})
    chosen = [[3, 4, 5], [3, 5], [3], [5], [*range(0, 60, 2)], [*range(0, 58, 2), 57, 58], [*range(59)]]
    assert len({values.key_of(file, rows.iloc[lines]) for lines in chosen}) == len(chosen)


# Comments, code, citations, links, layout and names are no text.
NO_TEXT = (
    r"//.*",
    r"`[^`]*`",
    r'"[^"]*"',
    r"@\w+",
    r"<\w+>",
    r"^#(set|show) .*$",
    r"\((1fr|auto|right),\) \* \d",
    r"\d[\d.]*(pt|mm|em|fr)\b",
    r"\b(colspan|rowspan|width|columns): \d+%?",
    r"slice\(0, 12\)",
    r"x == 0",
    r"\w*_\w*",
    r"\b(P3|SHA-256|A100|sha256)\b",
)


def typed_numbers(text):
    """Numbers of a text that are not allowed to be typed."""
    allowed = yaml.safe_load((ROOT / "paper/typed_numbers.yaml").read_text())
    for pattern in NO_TEXT:
        text = re.sub(pattern, " ", text, flags=re.MULTILINE)
    return [number for number in re.findall(r"\d+(?:\.\d+)?", text) if number not in allowed]


@pytest.mark.parametrize("path", TEXT, ids=lambda path: path.stem)
def test_no_number_is_typed(path):
    assert typed_numbers(path.read_text()) == []


@pytest.mark.parametrize("text", ["It saves 78.9 %.", "caption: [On 9 workers], width: 80%,", "- in 3 runs"])
def test_a_typed_number_is_found(text):
    assert len(typed_numbers(text)) == 1


def test_the_text_cites_every_source_of_a_method():
    references = (ROOT / "paper/references.yaml").read_text()
    for path in [*ROOT.glob("methods/*.py"), *ROOT.glob("methods/*/__init__.py")]:
        docstring = path.read_text().split('"""')[1]
        for number in re.findall(r"arXiv (\d{4}\.\d{5})", docstring):
            assert f"arxiv.org/abs/{number}" in references, f"{path.name} names {number}"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (-43.14, 1, f"{MINUS}43.1"),
        (-0.04, 1, "0.0"),
        (21386, 0, "21,386"),
        (float("nan"), 1, "n/a"),
        (float("inf"), 1, "not reached"),
        ("held", 0, "held"),
    ],
)
def test_a_value_as_the_paper_prints_it(value, digits, text):
    assert text_of(value, digits) == text


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("summary.csv", r"summary.csv is missing: run .*collect demo.* first"),
        ("tables/demo/summary.csv", r"demo/summary.csv is missing.* run `thinwire report demo` first"),
        ("runs/demo/digits/cnn/dgc/w8n2/seed0/run.json", r"dgc/w8n2/seed0/run.json is missing"),
    ],
)
def test_a_missing_file_is_named_with_its_command(copied, file, words):
    (copied / file).unlink()
    with pytest.raises(UserError, match=words):
        paper.paper(copied)


def test_an_unknown_value_in_the_text_is_one_sentence(copied):
    (copied / "paper/sections/limits.typ").write_text('#import "../lib.typ": *\n#value("demo.nobody.saved")')
    with pytest.raises(
        UserError, match=r"there is no value demo.nobody.saved: declare it in paper/values.yaml"
    ):
        paper.compile_typst(copied / "paper")


def test_rows_that_disagree_give_no_value(made):
    declared = declarations.read()
    wrong = declarations.Declared(file="runs", column="workers")
    with pytest.raises(UserError, match=r"\d+ rows disagree"):
        values.collect(declared.model_copy(update={"values": {"workers": wrong}}), made)


def test_a_suite_that_was_not_run_is_named_with_its_command(made):
    assert "snakemake --config suites=demo,claims/mp2_bytes" in texts(queried(made, "raw"))
    assert not list(made.glob("paper/figures/mp2_counted.*"))


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        (lambda cell: False, False),
        (lambda cell: cell.repetition > 0, False),
        (lambda cell: (cell.method.label, cell.workers) == ("dgc", 8), True),
    ],
    ids=["nothing", "repetitions", "a method"],
)
def test_a_suite_that_lacks_a_method_somewhere_counts_as_missing(made, monkeypatch, left_out, missing):
    """As after `snakemake --config suites=laptop workers=w4n2`: the text names its other workers, too."""
    collected = {record_folder(made, cell) for cell in cells("demo") if not left_out(cell)}
    monkeypatch.setattr(values, "collected_folders", lambda results: collected)
    declared = declarations.read()
    file = declared.files["demo"].model_copy(update={"required": False})
    of_demo = {name: own for name, own in declared.values.items() if own.file == "demo"}
    found = values.collect(
        declared.model_copy(update={"files": {**declared.files, "demo": file}, "values": of_demo}), made
    )
    assert ("demo" in found.missing) == missing
    assert ("demo.dgc.saved" in found.values) != missing


def test_the_paper_prints_the_options_that_the_suite_sets():
    options = paper.options_of(paper.STUDY)
    assert options["dgc"] == "density 0.01, warmup_densities 0.0625"
    assert options["local_sgd"] == ""
    # Tuned, and not to the same values in every place.
    assert options["diloco"] == "period 16, outer_lr 0.4487 or 0.7662, outer_momentum 0.7195 or 0.3603"


def test_bars_of_values_become_a_figure_of_the_paper(copied, monkeypatch):
    declared = declarations.read()
    counted = declarations.Bars(file="demo", axis="saved, %", bars={"total": "demo.dgc.saved"})
    monkeypatch.setattr(
        declarations, "read", lambda: declared.model_copy(update={"bars": {"counted": counted}})
    )
    paper.paper(copied)
    figure = json.loads((copied / "paper/values.json").read_text())["figures"]["counted"]
    assert figure == {"path": "figures/counted.pdf", "source": "results/tables/demo/summary.csv"}
    assert (copied / "paper" / figure["path"]).is_file()


VALUES = {"saved": Value("88.0", "a"), "with_preparation": Value(f"{MINUS}1,044.9", "b")}
COUNTED = Bars(file="demo", axis="saved, %", bars={"push": "saved", "push, preparation": "with_preparation"})


@pytest.fixture
def axes(draw):
    """Draw the bars of these values, and return the axes."""

    def write(values, folder):
        paper.draw_bars(COUNTED, values, folder / "counted")

    return lambda values: draw(write, values).axes[0]


def test_bars_are_as_long_as_their_numbers_and_negative_ones_go_to_the_left(axes):
    drawn = axes(VALUES)
    assert [label.get_text() for label in drawn.get_yticklabels()] == list(COUNTED.bars)
    assert [bar.get_width() for bar in drawn.patches] == [88.0, -1044.9]
    first, second = (bar.get_y() for bar in drawn.patches)
    assert first < second  # the axis points downwards, so the first is at the top
    assert drawn.yaxis_inverted()
    left, right = drawn.get_xlim()
    assert left < -1044.9 < 88.0 < right
    # A value that is no number has no bar.
    drawn = axes(VALUES | {"saved": Value("n/a", "a")})
    assert [bar.get_width() for bar in drawn.patches] == [0, -1044.9]
    assert "n/a" in [text.get_text() for text in drawn.texts]


def test_numbers_of_bars_stay_inside_the_frame(axes):
    drawn = axes({"saved": Value("94.49", "a"), "with_preparation": Value(f"{MINUS}300.00", "b")})
    frame = drawn.get_window_extent()
    for text in drawn.texts:
        box = text.get_window_extent()
        assert frame.x0 + 2 < box.x0 < box.x1 < frame.x1 - 2, text.get_text()


def test_letters_of_bars_have_6_points_in_a_column(tmp_path, printed_points):
    long = Bars(file="demo", axis="saved, %", bars={"push, pull, preparation": "with_preparation"})
    paper.draw_bars(long, VALUES, tmp_path / "counted")
    assert printed_points(tmp_path / "counted.pdf", 86 / 25.4) >= 6


def test_a_name_without_a_value_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"a bar in paper/values.yaml: there is no value 'saved'; declare it"):
        paper.draw_bars(COUNTED, {}, tmp_path / "counted")
