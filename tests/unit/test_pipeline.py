"""What the Snakefile decides: which jobs there are, what they depend on, and what they make."""

import re
import subprocess
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.io import report

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.config import suite as suite_file
from thinwire.config import tuning_space
from thinwire.config.configuration import Configuration
from thinwire.config.entry_schema import Entry
from thinwire.config.expand import blocks, cells
from thinwire.config.suite import load
from thinwire.config.yaml_file import Module
from thinwire.launch.placement import gpus_of, gpus_of_preparation
from thinwire.pipeline import inputs, outputs, resources, snakefile
from thinwire.pipeline.grid import Grid, read, require_valid_options
from thinwire.pipeline.outputs import simulations
from thinwire.pipeline.snakefile import Chosen, chosen
from thinwire.report import report_files

DEMO = cells("demo")
PAPER = cells("paper/time")
# Suites with several numbers of workers, on CPUs and on GPUs, with preparations and without.
MIXED = ("demo", "claims/mp2_digits", "paper/accuracy", "paper/time")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"suite": "demo"}, "suite: there is no such key (known are suites, tune, data, datasets, "),
        ({"suites": "demo", "tune": "demo"}, "it has suites and tune: give one of them"),
        ({"suites": ["demo"]}, "suites: write names with commas between them"),
        ({"repetitions": 0}, "repetitions: input should be greater than or equal to 1, not 0"),
        ({"suites": "tuning/demo"}, "suites=tuning/demo: give tune=demo instead"),
        ({"data": "/no/such"}, "data=/no/such: there is no such folder"),
    ],
)
def test_a_wrong_choice_is_one_sentence_that_says_where_it_is(config, words):
    for in_file, where in ((), "--config "), (config, "config/config.yaml: "):
        with pytest.raises(UserError, match=f"^{re.escape(where + words)}"):
            chosen(config, in_file)


def test_an_empty_value_of_the_command_line_stands_for_nothing():
    """As of `tune=$UNSET`. In a file it is as if the key were not there."""
    given = {"suites": "laptop", "tune": None}
    with pytest.raises(UserError, match=r"^--config tune=: it is empty"):
        chosen(given, {"suites"})
    assert chosen(given, {"suites", "tune"}).suites == ["laptop"]


@pytest.mark.parametrize("key", [key for key in Configuration.model_fields if key not in ("tune", "data")])
def test_each_key_of_the_configuration_chooses_something(key):
    given = {"suites": "text_demo", "repetitions": 2}.get(key, "a, 4")
    assert chosen({key: given}) != chosen({})


def test_tunings_are_the_suites_of_their_trials():
    given = chosen({"tune": "demo,claims/mp2"})
    assert (given.suites, given.tuned) == (["tuning/demo", "tuning/claims/mp2"], ["demo", "claims/mp2"])
    assert chosen({}).tuned == []
    assert chosen({"suites": "laptop, demo,laptop"}).suites == ["laptop", "demo"]
    assert outputs.choices("b/c") == ["config/tuned/b/c.yaml", "config/tuned/b/c.csv"]
    assert outputs.best_so_far("a")[-1] == "results/figures/tuning/a/best_so_far.png"


def test_a_data_set_has_the_folder_of_its_label_or_else_of_its_module(tmp_path):
    data = Module("small images", "images", {})
    assert Chosen([]).place_of(data) == ""
    given = chosen({"data": str(tmp_path)})
    assert given.place_of(data) == ""
    (tmp_path / "images").mkdir()
    assert given.place_of(data) == f"--from {tmp_path}/images"
    (tmp_path / "small images").mkdir()
    assert given.place_of(data) == f"--from '{tmp_path}/small images'"


def test_a_grid_has_every_cell_of_its_suites_in_their_order():
    grid = read(["demo", "paper/time"], with_options=False)
    assert list(grid.cells.values()) == DEMO + PAPER
    assert grid.records("run.json")[0] == f"results/runs/demo/{DEMO[0].path}/run.json"
    assert grid.records("a", "b", suite="paper/time")[:2] == [
        f"results/runs/paper/time/{PAPER[0].path}/{name}" for name in "ab"
    ]
    assert len(grid.records("a")) == len(DEMO) + len(PAPER)


def test_the_order_of_a_block_rotates_with_the_repetition():
    first, second = (blocks(c for c in PAPER if c.repetition == number) for number in (0, 1))
    before, after = ([cell.method.label for cell in next(iter(b.values()))] for b in (first, second))
    assert after == before[1:] + before[:1]
    assert Grid(PAPER).methods_of("paper/time") == before


def test_a_rule_finds_its_cell_its_block_and_its_data_set_by_wildcards():
    grid, cell = Grid(PAPER), PAPER[-1]
    place = dict(zip(("dataset", "model", "size", "seed"), cell.block.split("/")))
    wildcards = SimpleNamespace(suite="paper/time", preparation=cell.preparation, **place)
    assert grid.of_preparation(lambda found: found.preparation)(wildcards) == cell.preparation
    assert cell in grid.of_block("paper/time", list)(wildcards)
    assert grid.of_dataset(lambda found: found)(wildcards) == cell.data


def test_blocks_that_share_a_rule_ask_for_the_same_nodes():
    """In an array, Slurm's plug-in gives all of them the resources of the first."""
    grid = read(MIXED, with_options=False)

    def asked(cell):
        return resources.nodes(cell), resources.ranks(cell), resources.cpus_per_rank(cell), gpus_of(cell)

    shapes = grid.shapes
    assert [{*map(asked, shape.cells)} for shape in shapes] == [{asked(shape.cells[0])} for shape in shapes]
    assert len({shape.name for shape in shapes}) == len(shapes)
    prepared = grid.shapes_of_preparations
    assert all(len({*map(gpus_of_preparation, shape.cells)}) == 1 for shape in prepared)
    assert {"paper-time-imagenet_mini-w8n2"} <= {shape.name for shape in shapes}
    assert "claims-mp2_digits-digits" in {shape.name for shape in prepared}


def test_two_meanings_of_one_data_set_are_refused():
    other = replace(DEMO[0], data=replace(DEMO[0].data, options={"size": 24}))
    with pytest.raises(UserError, match="different things by the data set digits: give one another label"):
        Grid([DEMO[0], other])
    other = replace(DEMO[0], data=replace(DEMO[0].data, label="Digits"))
    with pytest.raises(UserError, match="digits and Digits differ in upper and lower case only"):
        Grid([DEMO[0], other])


def test_a_job_depends_on_every_file_of_its_plug_ins_and_waits_for_what_is_prepared_for_it():
    cell = next(cell for cell in DEMO if cell.method.use == "daso")
    files = inputs.plugin_files("method", "daso")
    assert files == sorted(plugins.show(path) for path in (plugins.ROOT / "methods/daso").glob("*.py"))
    together = inputs.files_of_block([cell, DEMO[0]])
    assert set(together) == {*files, "methods/ssgd.py", "models/cnn.py"}
    assert len(together) == len(set(together))
    cell = cells("claims/mp2_digits")[0]
    of = {found.method.use: found for found in cells("claims/mp2_digits")}
    prepared = f"results/prepared/claims/mp2_digits/{of['wnn'].preparation}/prepared.json"
    assert inputs.prepared_for_block([cell, of["wnn"], of["wnn"]]) == [prepared]
    assert "models/alexnet.py" in inputs.files_of_preparation(of["wnn"])


def test_a_change_of_a_plug_in_changes_the_digests_of_its_jobs(monkeypatch):
    def digests():
        return [inputs.digest_of_preparation(DEMO[0]), inputs.digest_of_block(DEMO[:2])]

    before = digests()
    assert digests() == before
    monkeypatch.setattr(inputs, "digests_of_plugin", lambda kind, name: ("another", "another"))
    assert all(a != b for a, b in zip(before, digests()))


def names_of(paths):
    return {path.rsplit("/", 1)[1].partition(".")[0] for path in paths}


def test_a_suite_has_its_tables_and_figures():
    made = outputs.report("demo", DEMO, None)
    assert made[:2] == [f"results/tables/demo/summary.{end}" for end in ("csv", "md")]
    assert made[-1] == "results/tables/demo/digests.json"
    of_scores = {"accuracy_over_epochs", "accuracy_against_bytes", "paired_differences", "trade_off"}
    figures = {*of_scores, "traffic"}
    assert names_of(made) == {"summary", "digests", *outputs.COMPARED, *figures}
    tables = ("csv", "md", "tex", "typ")
    assert len(made) == len(tables) + 2 + len(outputs.COMPARED) + 2 * len(figures)
    one_seed = names_of(outputs.report("demo", [cell for cell in DEMO if cell.repetition == 0], None))
    assert one_seed == names_of(made) - of_scores
    timed = names_of(outputs.report("paper/time", PAPER, None))
    assert timed - names_of(made) == {"accuracy_over_time", "performance_profile"}
    one_place = [cell for cell in PAPER if cell.block == PAPER[0].block]
    assert "performance_profile" not in names_of(outputs.report("paper/time", one_place, None))


def test_a_suite_that_is_simulated_or_has_a_ladder_or_a_track_has_more_tables_and_figures():
    (demo,) = simulations(Grid(DEMO)).values()
    made, simulated, of_track = (
        set(outputs.report("demo", DEMO, each)) for each in (None, demo, replace(demo, of_track=True))
    )
    more = simulated - made
    assert names_of(more) == {"times", "step_breakdown", "speed_up_simulated", "bandwidth"}
    assert len(more) == 2 + 3 * 2
    assert of_track - simulated == {f"results/tables/demo/scores.{end}" for end in ("csv", "md")}
    ladder = outputs.report("claims/hsgd_ladder", cells("claims/hsgd_ladder"), None)
    assert sum("/ladder." in path for path in ladder) == 4
    assert names_of(more) | {"ladder"} <= {*report_files.SOME_TABLES, *report_files.SOME_FIGURES}
    assert not simulations(Grid(PAPER))


def test_what_is_simulated_without_data_waits_for_its_descriptions():
    sources = outputs.hsgd_ratio_sources()
    assert all((plugins.ROOT / path).is_file() for path in sources)
    assert {"methods/hsgd.py", "methods/ps_sgd.py", "models/resnet.py"} <= set(sources)
    assert [path.rpartition(".")[2] for path in outputs.hsgd_ratio()] == ["csv", "pdf", "png"]


def test_the_page_waits_for_every_table_of_the_chosen_suites():
    grid = Grid(DEMO)
    shown = outputs.shown_on_page(Chosen(["demo"]), grid, simulations(grid))
    tables = {"results/tables/demo/summary.csv", "results/tables/demo/times.csv"}
    assert tables | {"results/summary.csv", "results/curves.parquet"} <= set(shown)
    assert outputs.PAGE in outputs.made_from_records(Chosen(["demo"]), grid, {})
    assert outputs.PAGE not in shown


@pytest.mark.parametrize(
    ("followed", "path"),
    [
        (outputs.times_without_data, "results/times/mine/large.csv"),
        (outputs.quoted_by_paper, "results/tables/regimes.csv"),
    ],
)
def test_page_and_paper_follow_what_is_there_whoever_made_it(tmp_path, monkeypatch, followed, path):
    monkeypatch.chdir(tmp_path)
    before = followed()
    Path(path).parent.mkdir(parents=True)
    Path(path).touch()
    assert {*followed()} - {*before} == {path}


def test_the_paper_follows_the_records_of_benchmarks_that_it_quotes():
    assert "benchmarks/records/validation.csv" in outputs.quoted_by_paper()


def test_what_is_made_of_records_is_made_again_when_its_code_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "PACKAGE", tmp_path)
    for name in ("report/a.py", "report/page.html", "report/__pycache__/a.pyc", "train/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    found = []
    for name in ("report/a.py", "report/page.html", "report/__pycache__/a.pyc", "train/b.py"):
        (tmp_path / name).write_text("")
        found.append(inputs.digest_of_code.__wrapped__("report"))
    assert [found.index(each) for each in found] == [0, 1, 1, 1]


ANOTHER = {"methods": {**load("demo").methods, "another": Entry(use="ssgd")}}


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        (outputs.settings_of_report, [({"title": "Another"}, {}), ({"ladder": ["ssgd", "dgc"]}, {})]),
        (outputs.settings_of_tuning, [(ANOTHER, {}), ({}, {"choose": "pooled"})]),
    ],
)
def test_reports_and_choices_are_made_again_when_their_settings_change_but_not_for_a_claim(
    monkeypatch, settings, changes
):
    suite, tuning = suite_file.read(suite_file.path_of("demo")), tuning_space.read("demo")
    found = []
    for of_suite, of_tuning in [({}, {}), ({"claim": []}, {}), *changes]:
        changed = suite.model_copy(update=of_suite)
        monkeypatch.setattr(outputs, "read", lambda path, changed=changed: changed)
        monkeypatch.setattr(outputs, "load", lambda name, changed=changed: changed)
        other = tuning.model_copy(update=of_tuning)
        monkeypatch.setattr(tuning_space, "read", lambda name, other=other: other)
        found.append(settings("demo"))
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_a_data_set_that_cannot_be_downloaded_is_asked_for_before_any_job():
    data = {"photos": Module("photos", "imagenet1k", {}), "digits": Module("digits", "digits", {})}
    planned = {inputs.laid_out(label) for label in data}
    with pytest.raises(
        UserError, match=r"data set photos is missing\. ImageNet-1K cannot .* into FOLDER/photos,"
    ):
        inputs.require_data(data, lambda dataset: "", planned)
    inputs.require_data(data, lambda dataset: "--from there", planned)
    inputs.require_data(data, lambda dataset: "", {inputs.laid_out("digits")})


def test_a_track_is_scored_again_when_there_is_another_submission(tmp_path, monkeypatch):
    (demo,) = simulations(Grid(DEMO)).values()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folders, "every", lambda *_: [tmp_path, plugins.ROOT])
    Path("submissions/mine").mkdir(parents=True)
    Path("submissions/mine/submission.yaml").touch()
    assert "submissions/mine/submission.yaml" in outputs.submitted(replace(demo, of_track=True))
    assert outputs.submitted(demo) == outputs.submitted(None) == []


def test_a_report_shows_each_figure_and_table_once_with_a_caption_that_is_there():
    paths = [
        "results/figures/a/b/bandwidth.png",
        "results/figures/a/b/bandwidth.pdf",
        "results/tables/a/new.csv",
    ]
    flags = [getattr(entry, "flags", {}).get("report") for entry in outputs.entries(report, paths)]
    assert flags[1] is None
    assert [(flag.category, flag.subcategory) for flag in flags if flag] == [
        ("Figures", "a/b"),
        ("Tables", "a"),
    ]
    captions = [Path(flag.caption) for flag in flags if flag]
    assert [caption.name for caption in captions] == ["bandwidth.rst", "tables.rst"]
    assert all(caption.is_file() for caption in captions)
    (page,) = outputs.entries(report, [outputs.PAGE])
    assert Path(page.flags["report"].caption).is_file()


def test_a_simulation_depends_on_its_cells_its_settings_and_the_descriptions(monkeypatch):
    (demo,) = simulations(Grid(DEMO)).values()
    assert {cell.repetition for cell in demo.cells} == {0}
    assert demo.described[0] == "config/clusters/ethernet_1g.yaml"
    track = replace(demo, settings=demo.settings.model_copy(update={"accelerator": "a100_fp32"}))
    assert track.described[-1] == "config/accelerators/a100_fp32.yaml"
    fewer = replace(demo, settings=demo.settings.model_copy(update={"steps": 5}))
    assert len({demo.fingerprint, fewer.fingerprint, replace(demo, cells=demo.cells[1:]).fingerprint}) == 3
    before = demo.fingerprint
    monkeypatch.setattr(inputs, "digests_of_plugin", lambda kind, name: ("another", "another"))
    assert demo.fingerprint != before


def test_snakemake_is_the_version_with_which_its_inside_was_checked():
    assert version("snakemake") == snakefile.CHECKED_WITH, (
        "Snakemake is another version: check what the docstring of thinwire/pipeline/snakefile.py lists, and "
        "write the version into CHECKED_WITH"
    )


def test_names_with_odd_characters_and_commands_with_braces_are_taken_as_they_are():
    call = snakefile.Call(engine="'/a {b}/python' -m thinwire")
    assert call.thinwire("show {name}").format(name="ssgd") == "'/a {b}/python' -m thinwire show ssgd"
    assert re.fullmatch(snakefile.one_of(["a+b", "a.b"]), "a+b")
    assert not re.fullmatch(snakefile.one_of(["a+b", "a.b"]), "aab")
    assert not re.fullmatch(snakefile.one_of([]), "")


def test_bad_input_ends_it_with_a_sentence():
    with pytest.raises(SystemExit, match="thinwire: a sentence"), snakefile.exit_on_error():
        raise UserError("a sentence")
    with pytest.raises(ValueError, match="a fault"), snakefile.exit_on_error():
        raise ValueError("a fault")


def test_options_are_checked_once_for_each_state_of_suite_and_plug_ins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checks = []

    def check(command, **how):
        checks.append(command[-1])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", check)
    require_valid_options(["demo"], DEMO)
    require_valid_options(["demo"], DEMO)
    assert checks == ["demo"]
    other = replace(DEMO[0], method=replace(DEMO[0].method, options={"gradients": "float16"}))
    require_valid_options(["demo"], [other, *DEMO[1:]])
    monkeypatch.setattr("thinwire.pipeline.inputs.plugin_digest", lambda kind, name: "another")
    require_valid_options(["demo"], DEMO)
    assert checks == ["demo"] * 3
    # A refusal is one sentence, and is no state that is valid.
    monkeypatch.setattr("thinwire.pipeline.inputs.plugin_digest", lambda kind, name: "a third")
    refused = subprocess.CompletedProcess([], 1, "", "no such\n")
    monkeypatch.setattr(subprocess, "run", lambda command, **how: refused)
    for _ in range(2):
        with pytest.raises(UserError, match=r"^no such$"):
            require_valid_options(["demo"], DEMO)


@pytest.mark.parametrize(
    ("config", "there"),
    [
        ({}, True),
        ({"suites": "demo,claims/mp2_digits", "repetitions": 3}, True),
        ({"suites": "laptop"}, False),
        ({"suites": "demo", "repetitions": 2}, False),
        ({"suites": "demo,claims/mp2_digits", "methods": "ssgd"}, False),
    ],
)
def test_the_paper_is_made_where_no_cell_of_the_demo_is_missing(config, there):
    given = chosen(config)
    grid = read(given.suites, with_options=False, subset=given.subset)
    assert outputs.paper(grid) == ["results/paper.pdf"] * there
