"""What the Snakefile decides: jobs, what they depend on, what they ask of Slurm, and when they are sent."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.resources import Resources

from thinwire import plugins, slurm_time_limit
from thinwire.config.block import blocks
from thinwire.config.cell_sources import PluginDigests
from thinwire.config.expand_suite import cells
from thinwire.config.types import Module
from thinwire.errors import UserError
from thinwire.pipeline import (
    cores,
    inputs,
    local_gpus,
    outputs,
    report_entries,
    slurm_conf,
    slurm_preflight,
    slurm_resources,
    wildcard_patterns,
)
from thinwire.pipeline.check_options import check_options
from thinwire.pipeline.command_line_choices import Chosen, chosen
from thinwire.pipeline.exit_on_error import exit_on_error
from thinwire.pipeline.job_grid import Grid, read
from thinwire.pipeline.simulation_inputs import simulations

DEMO = cells("demo")
PAPER = cells("paper")


def test_without_a_choice_it_is_the_demo():
    assert chosen({}) == Chosen(["demo"])


def test_suites_stand_between_commas_and_count_once():
    assert chosen({"suites": "laptop, demo,laptop"}).suites == ["laptop", "demo"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"suite": "demo"}, "--config suite: there is no such key; there are suites, tune, data, "),
        ({"suites": "demo", "tune": "demo"}, "--config suites=... tune=...: give one of them"),
        ({"suites": "tuning/demo"}, "--config suites=tuning/demo: give tune=demo instead"),
        ({"data": "/no/such"}, "--config data=/no/such: there is no such folder"),
    ],
)
def test_a_wrong_choice_is_one_sentence(config, words):
    with pytest.raises(UserError, match=re.escape(words)):
        chosen(config)


def test_tunings_are_the_suites_of_their_trials():
    given = chosen({"tune": "demo,claims/mp2"})
    assert (given.suites, given.tuned) == (["tuning/demo", "tuning/claims/mp2"], ["demo", "claims/mp2"])
    assert chosen({}).tuned == []


def test_a_data_set_has_the_folder_of_its_label_or_else_of_its_module(tmp_path):
    data = Module("small images", "images", {})
    assert Chosen([]).place_of(data) == ""
    given = chosen({"data": tmp_path})
    assert given.place_of(data) == ""
    (tmp_path / "images").mkdir()
    assert given.place_of(data) == f"--from {tmp_path}/images"
    (tmp_path / "small images").mkdir()
    assert given.place_of(data) == f"--from '{tmp_path}/small images'"


def test_a_grid_has_every_cell_of_its_suites_in_their_order():
    grid = read(["demo", "paper"], with_options=False)
    assert list(grid.cells.values()) == DEMO + PAPER
    assert grid.records("run.json")[0] == f"results/runs/demo/{DEMO[0].path}/run.json"
    assert grid.records("a", "b", suite="paper")[:2] == [
        f"results/runs/paper/{PAPER[0].path}/{name}" for name in "ab"
    ]
    assert len(grid.records("a")) == len(DEMO) + len(PAPER)


def test_a_block_has_all_methods_on_one_data_set_model_size_and_seed():
    grid = Grid(DEMO + PAPER)
    assert grid.suites == ["demo", "paper"]
    for path, block in grid.blocks.items():
        assert {f"{cell.suite}/{cell.block}" for cell in block} == {path}
    block = grid.blocks[f"paper/{PAPER[0].block}"]
    assert [cell.method.label for cell in block] == grid.methods_of("paper")


def test_the_order_of_a_block_rotates_with_the_repetition():
    first, second = (blocks(c for c in PAPER if c.repetition == number) for number in (0, 1))
    before, after = ([cell.method.label for cell in next(iter(b.values()))] for b in (first, second))
    assert after == before[1:] + before[:1]


def test_nothing_runs_beside_a_timed_block():
    timed = PAPER[:1]
    assert [cores.of_block(timed, 6, number) for number in (2, 64)] == [2, 64]
    assert cores.of_block(timed, 6, None) == timed[0].workers
    assert cores.runs_at_once(timed, 6, 64) == 1
    assert [cores.of_preparation(block[0], 64) for block in (timed, DEMO)] == [64, 1]


def test_blocks_share_the_cores_of_a_machine_so_that_all_end_early():
    assert cores.of_block(DEMO[:10], 33, 64) == 5  # three rounds of two runs each, not one of ten
    assert [cores.of_block(DEMO[:10], 6, number) for number in (None, 1, 2, 6, 13, 500)] == [
        1,
        1,
        1,
        1,
        2,
        10,
    ]
    assert cores.of_block([replace(DEMO[0], device="cuda")], 1, 64) == 1


def test_a_rule_finds_its_cell_its_block_and_its_data_set_by_wildcards():
    grid, cell = Grid(PAPER), PAPER[-1]
    dataset, model, size, seed = cell.block.split("/")
    wildcards = SimpleNamespace(
        suite="paper",
        cell=cell.path,
        preparation=cell.preparation,
        dataset=dataset,
        model=model,
        size=size,
        seed=seed,
    )
    assert grid.of_preparation(lambda found: found.preparation)(wildcards) == cell.preparation
    assert cell in grid.of_block("paper", list)(wildcards)
    assert grid.of_first("paper", lambda found: found.block)(wildcards) == cell.block
    assert grid.of_dataset(lambda found: found)(wildcards) == cell.data


def test_every_record_and_preparation_of_a_grid_is_one_that_the_rules_may_make():
    for cell in DEMO + PAPER:
        assert re.fullmatch(wildcard_patterns.PREPARATION, cell.preparation)
        parts = (wildcard_patterns.ANY,) * 2 + (wildcard_patterns.SIZE, wildcard_patterns.SEED)
        assert re.fullmatch("/".join(parts), cell.block)


def test_two_meanings_of_one_data_set_are_refused():
    other = replace(DEMO[0], data=replace(DEMO[0].data, options={"size": 24}))
    with pytest.raises(UserError, match="different things by the data set digits: give one another label"):
        Grid([DEMO[0], other])
    other = replace(DEMO[0], data=replace(DEMO[0].data, label="Digits"))
    with pytest.raises(UserError, match="digits and Digits differ in upper and lower case only"):
        Grid([DEMO[0], other])


def test_names_with_odd_characters_are_taken_as_they_are():
    assert re.fullmatch(wildcard_patterns.one_of(["a+b", "a.b"]), "a+b")
    assert not re.fullmatch(wildcard_patterns.one_of(["a+b", "a.b"]), "aab")
    assert not re.fullmatch(wildcard_patterns.one_of([]), "")


def test_a_job_depends_on_every_file_of_its_plug_ins():
    cell = next(cell for cell in DEMO if cell.method.use == "daso")
    files = inputs.method_files(cell)
    assert files == sorted(plugins.show(path) for path in (plugins.ROOT / "methods/daso").glob("*.py"))
    together = inputs.files_of_block([cell, DEMO[0]])
    assert set(together) == {*files, *inputs.method_files(DEMO[0]), *inputs.model_files(cell)}
    assert len(together) == len(set(together))


def test_only_a_method_that_prepares_something_waits_for_it():
    cell = cells("claims/mp2_digits")[0]
    of = {found.method.use: found for found in cells("claims/mp2_digits")}
    prepared = f"results/prepared/claims/mp2_digits/{of['wnn'].preparation}/prepared.json"
    assert inputs.prepared_for_block([cell, of["wnn"], of["wnn"]]) == [prepared]
    assert "models/alexnet.py" in inputs.files_of_other_models(of["wnn"])


def test_a_change_of_a_plug_in_changes_the_digests_of_its_jobs(monkeypatch):
    def digests():
        return [inputs.digest_of_preparation(DEMO[0]), inputs.digest_of_block(DEMO[:2])]

    before = digests()
    assert digests() == before
    monkeypatch.setattr(inputs, "digests_of_plugin", lambda kind, name: PluginDigests("another", "another"))
    assert all(a != b for a, b in zip(before, digests()))


def a_snakemake(remote_exec=False, default_resources=None):
    return SimpleNamespace(
        remote_exec=remote_exec, resource_settings=SimpleNamespace(default_resources=default_resources)
    )


def test_what_a_cell_asks_of_slurm():
    cell = replace(DEMO[0], workers=8, nodes=2, device="cuda", transport="processes")
    alone = replace(cell, transport="inprocess")
    assert (slurm_resources.nodes(cell), slurm_resources.ranks(cell)) == (2, 8)
    assert (slurm_resources.nodes(alone), slurm_resources.ranks(alone)) == (1, 1)
    assert slurm_resources.launcher(alone) == ""
    assert slurm_resources.cpus_per_rank(cell) > 1
    assert slurm_resources.cpus_per_rank(replace(cell, device="cpu")) == 1
    assert slurm_resources.launcher(cell) == "srun"
    assert slurm_resources.launcher(replace(cell, workers=1, nodes=1)) == ""
    signal = f"--signal=USR1@{slurm_time_limit.SAVING_SECONDS}"
    assert slurm_resources.more_options(cell) == f"--ntasks-per-node=4 {signal}"


def test_a_run_asks_for_a_gpu_for_each_process_and_a_preparation_for_one():
    cell = replace(DEMO[0], workers=8, nodes=2, device="cuda", transport="processes")
    of_run = slurm_resources.gres(a_snakemake(), local_gpus.of_cell)
    of_preparation = slurm_resources.gres(a_snakemake(), local_gpus.of_preparation)
    assert (of_run(cell), of_preparation(cell)) == ("gpu:4", "gpu:1")
    assert of_run(replace(cell, transport="inprocess")) == "gpu:1"
    on_cpus = replace(cell, device="cpu")
    assert (of_run(on_cpus), of_preparation(on_cpus)) == ("", "")


@pytest.mark.parametrize(
    ("setting", "asked"),
    [("gpu_type=a100", "gpu:a100:1"), ("gpu_type='a100'", "gpu:a100:1"), ("gpu_type=", "gpu:1")],
)
def test_the_type_of_the_gpus_is_one_setting(setting, asked):
    defaults = Resources.parse([setting, "runtime=360"], allow_expressions=True)
    of_cell = slurm_resources.gres(a_snakemake(default_resources=defaults), local_gpus.of_cell)
    assert of_cell(replace(DEMO[0], device="cuda")) == asked


def test_a_job_of_one_task_is_a_step_so_that_signals_reach_it_and_one_of_many_starts_its_own():
    one, several = DEMO[0], replace(DEMO[0], workers=8, nodes=2, transport="processes")
    in_job, here = slurm_resources.step(a_snakemake(remote_exec=True)), slurm_resources.step(a_snakemake())
    assert in_job(one) == "srun --nodes=1 --ntasks=1"
    assert in_job(several) == here(one) == here(several) == ""


def test_slurm_conf_comes_back_in_a_job_that_has_lost_it():
    variables = {"SLURM_CONF": "/elsewhere/slurm.conf"}
    slurm_conf.hand_on(variables)
    inherited = {name: value for name, value in variables.items() if not name.startswith("SLURM_")}
    slurm_conf.hand_on(inherited)
    assert inherited["SLURM_CONF"] == "/elsewhere/slurm.conf"
    empty = {}
    slurm_conf.hand_on(empty)
    assert empty == {}


@pytest.mark.parametrize(
    ("sbatch", "defaults", "words"),
    [
        (None, [], "no Slurm here"),
        ("/bin/sbatch", ["slurm_account=''", "runtime=360"], "names no slurm_account"),
        ("/bin/sbatch", ["slurm_account="], "names no slurm_account"),
    ],
)
def test_nothing_is_sent_without_slurm_and_an_account(monkeypatch, sbatch, defaults, words):
    monkeypatch.setattr(shutil, "which", lambda name: sbatch)
    with pytest.raises(UserError, match=words):
        slurm_preflight.require_slurm(defaults)


@pytest.mark.parametrize("defaults", [[], ["slurm_account=mine"], ["slurm_partition="]])
def test_an_account_or_none_at_all_is_enough(monkeypatch, defaults):
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/sbatch")
    slurm_preflight.require_slurm(defaults)


def test_jobs_that_an_earlier_snakemake_has_left_here_are_named(monkeypatch, tmp_path):
    listing = f"7 {tmp_path} rule_train_a\n8 {tmp_path}/other rule_train_b\n9 {tmp_path} mine\n"
    answer = subprocess.CompletedProcess([], 0, stdout=listing)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(UserError, match="stop them with scancel 7, which loses nothing"):
        slurm_preflight.require_no_jobs(tmp_path)
    slurm_preflight.require_no_jobs(tmp_path / "elsewhere")


def names_of(paths):
    return {path.rsplit("/", 1)[1].partition(".")[0] for path in paths}


def test_a_suite_has_a_table_and_figures_in_three_forms_each():
    made = outputs.report("b/c", DEMO, None)
    assert made[:2] == [f"results/tables/b/c/summary.{end}" for end in ("csv", "md")]
    assert "results/figures/b/c/accuracy_over_epochs.svg" in made
    assert made[-1] == "results/tables/b/c/digests.json"
    figures = {"accuracy_over_epochs", "accuracy_against_bytes", "traffic", "paired_differences"}
    assert names_of(made) == {"summary", "digests", *outputs.COMPARED, *figures}
    tables = ("csv", "md", "tex", "typ")
    assert len(made) == len(tables) + 2 + len(outputs.COMPARED) + 3 * len(figures)


def test_only_suites_with_processes_have_a_figure_over_time_and_only_large_ones_a_profile():
    small, large = (names_of(outputs.report("a", cells, None)) for cells in (DEMO, PAPER))
    assert large - small == {"accuracy_over_time", "performance_profile"}
    one_place = [cell for cell in PAPER if cell.block == PAPER[0].block]
    assert "performance_profile" not in names_of(outputs.report("a", one_place, None))


def test_one_repetition_has_no_figure_of_accuracy():
    one_seed = [cell for cell in DEMO if cell.repetition == 0]
    assert names_of(outputs.report("a", one_seed, None)) == {
        "summary",
        "traffic",
        "digests",
        *outputs.COMPARED,
    }


def test_a_suite_that_is_simulated_has_a_table_of_times_and_figures():
    (demo,) = simulations(Grid(DEMO)).values()
    more = set(outputs.report("demo", DEMO, demo)) - set(outputs.report("demo", DEMO, None))
    assert names_of(more) == {"times", "step_breakdown", "speed_up_simulated", "bandwidth"}
    assert len(more) == 2 + 3 * 3
    assert not simulations(Grid(PAPER))


def test_a_suite_with_a_ladder_has_its_table_and_its_figure():
    more = set(outputs.report("a", DEMO, None, ladder=True)) - set(outputs.report("a", DEMO, None))
    assert names_of(more) == {"ladder"}
    assert len(more) == 2 + 3
    assert outputs.has_ladder("claims/hsgd_ladder")
    assert not outputs.has_ladder("demo")


def test_what_is_simulated_without_data_waits_for_its_descriptions():
    for sources, made in (
        (outputs.required_rate_sources(), outputs.required_rate()),
        (outputs.hsgd_ratio_sources(), outputs.hsgd_ratio()),
    ):
        assert all((plugins.ROOT / path).is_file() for path in sources)
        assert [path.rpartition(".")[2] for path in made] == ["csv", "pdf", "svg", "png"]


def test_the_page_waits_for_every_table_of_the_chosen_suites():
    grid = Grid(DEMO)
    shown = outputs.shown_on_page(Chosen(["demo"]), grid, simulations(grid))
    tables = {"results/tables/demo/summary.csv", "results/tables/demo/times.csv"}
    assert tables | {"results/summary.csv", "results/curves.parquet"} <= set(shown)
    assert outputs.PAGE in outputs.made_from_records(Chosen(["demo"]), grid, {})
    assert outputs.PAGE not in shown


def test_a_report_shows_each_figure_and_table_once_with_a_caption_that_is_there():
    paths = [
        "results/figures/a/b/bandwidth.png",
        "results/figures/a/b/bandwidth.pdf",
        "results/tables/a/new.csv",
    ]
    flags = [getattr(entry, "flags", {}).get("report") for entry in report_entries.entries(paths)]
    assert flags[1] is None
    assert [(flag.category, flag.subcategory) for flag in flags if flag] == [
        ("Figures", "a/b"),
        ("Tables", "a"),
    ]
    captions = [Path(flag.caption) for flag in flags if flag]
    assert [caption.name for caption in captions] == ["bandwidth.rst", "tables.rst"]
    assert all(caption.is_file() for caption in captions)
    (page,) = report_entries.entries([outputs.PAGE])
    assert Path(page.flags["report"].caption).is_file()


def test_a_simulation_depends_on_its_cells_its_settings_and_the_descriptions(monkeypatch):
    (demo,) = simulations(Grid(DEMO)).values()
    assert {cell.repetition for cell in demo.cells} == {0}
    assert str(demo.described[0]) == "config/clusters/ethernet_1g.yaml"
    assert str(demo.described[-1]) == "config/profiles/a100_tf32.yaml"
    fewer = replace(demo, settings=demo.settings.model_copy(update={"steps": 5}))
    assert len({demo.fingerprint, fewer.fingerprint, replace(demo, cells=demo.cells[1:]).fingerprint}) == 3
    before = demo.fingerprint
    monkeypatch.setattr(inputs, "digests_of_plugin", lambda kind, name: PluginDigests("another", "another"))
    assert demo.fingerprint != before


def test_a_tuning_has_a_choice_with_its_record_and_a_figure():
    assert outputs.choices("b/c") == ["config/tuned/b/c.yaml", "config/tuned/b/c.csv"]
    assert outputs.best_so_far("a")[-1] == "results/figures/tuning/a/best_so_far.png"


def test_bad_input_ends_it_with_a_sentence():
    with pytest.raises(SystemExit, match="thinwire: a sentence"), exit_on_error():
        raise UserError("a sentence")
    with pytest.raises(ValueError, match="a fault"), exit_on_error():
        raise ValueError("a fault")


def test_options_are_checked_once_for_each_state_of_suite_and_plug_ins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checks = []

    def check(command, **how):
        checks.append(command[-1])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", check)
    check_options(["demo"], DEMO)
    check_options(["demo"], DEMO)
    assert checks == ["demo"]
    other = replace(DEMO[0], method=replace(DEMO[0].method, options={"gradients": "float16"}))
    check_options(["demo"], [other, *DEMO[1:]])
    monkeypatch.setattr("thinwire.pipeline.check_options.plugin_digest", lambda kind, name: "another")
    check_options(["demo"], DEMO)
    assert checks == ["demo"] * 3


def test_an_option_that_no_plug_in_has_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        subprocess, "run", lambda command, **how: subprocess.CompletedProcess(command, 1, "", "no such\n")
    )
    for _ in range(2):
        with pytest.raises(UserError, match=r"^no such$"):
            check_options(["demo"], DEMO)


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


def test_planning_imports_nothing_that_only_jobs_need(tmp_path):
    """Every call of snakemake plans, and so does every job on Slurm."""
    program = (
        "import atexit, sys\n"
        "from snakemake.cli import main\n"
        "atexit.register(lambda: print(*sorted(sys.modules)))\n"
        f"main(['-n', '--quiet', 'all', '--snakefile', {str(plugins.ROOT / 'Snakefile')!r}])\n"
    )
    planned = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f"{len(DEMO)} cells: {len(DEMO)} missing" in planned.stderr
    loaded = set(planned.stdout.split())
    assert "thinwire.pipeline.outputs" in loaded
    assert not loaded & {"torch", "scipy", "statsmodels", "matplotlib", "seaborn", "typst", "wandb"}
