"""What jobs ask for: cores, nodes, ranks, GPUs and memory; and when none is sent to Slurm."""

import json
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from snakemake.resources import Resources

from thinwire.base import signals
from thinwire.base.errors import UserError
from thinwire.config.expand import cells
from thinwire.pipeline import resources
from thinwire.pipeline.resources import (
    COPIES_OF_WEIGHTS,
    PROCESS_MEGABYTES,
    data_bytes,
    megabytes_of_node,
    memory,
    weight_bytes,
)
from thinwire.pipeline.snakefile import Call, called
from thinwire.plugins import get

DEMO = cells("demo")
PAPER = cells("paper/time")
CELL = replace(DEMO[0], workers=8, nodes=2, transport="processes")
ON_CLUSTER = Call(defaults={"mem_mb": "0"})


def test_nothing_runs_beside_a_timed_block_and_other_blocks_share_the_cores_of_a_machine():
    timed = PAPER[:1]
    assert [resources.cores_of_block(timed, 6, number) for number in (2, 64)] == [2, 64]
    assert resources.cores_of_block(timed, 6, None) == timed[0].workers
    assert resources.runs_at_once(timed, 6, 64) == 1
    assert [resources.cores_of_preparation(block[0], 64) for block in (timed, DEMO)] == [64, 1]
    assert resources.cores_of_block(DEMO[:10], 33, 64) == 5  # three rounds of two runs each, not one of ten
    given = (None, 1, 2, 6, 13, 500)
    assert [resources.cores_of_block(DEMO[:10], 6, number) for number in given] == [1, 1, 1, 1, 2, 10]
    assert resources.cores_of_block([replace(DEMO[0], device="cuda")], 1, 64) == 1


def test_what_a_cell_asks_of_slurm():
    cell = replace(CELL, device="cuda")
    alone = replace(cell, transport="inprocess")
    assert (resources.nodes(cell), resources.ranks(cell)) == (2, 8)
    assert (resources.nodes(alone), resources.ranks(alone)) == (1, 1)
    assert resources.launcher(alone) == ""
    assert resources.cpus_per_rank(cell) > 1
    assert resources.cpus_per_rank(replace(cell, device="cpu")) == 1
    assert resources.launcher(cell) == "srun"
    assert resources.launcher(replace(cell, workers=1, nodes=1)) == ""
    signal = f"--signal=USR1@{signals.SAVING_SECONDS}"
    assert resources.more_options(Call(), cell) == f"--exclusive --ntasks-per-node=4 {signal}"
    assert resources.more_options(Call(), alone) == f"--ntasks-per-node=1 {signal}"
    shared = Call(defaults={"exclusive": "False"})
    assert resources.more_options(shared, cell) == f"--ntasks-per-node=4 {signal}"
    # Decoding needs little memory, and asks for it only if no user has set it.
    planned = Call(defaults={"mem_mb": "0"})
    memory = resources.memory_of_a_process(planned)["mem_mb"]
    factors = [memory(None, attempt=attempt) / resources.PROCESS_MEGABYTES for attempt in (1, 2, 3, 9)]
    assert factors == [1, 2, 3, 3]
    assert resources.memory_of_a_process(Call(defaults={"mem_mb": "500"})) == {}
    assert (resources.gres(Call(), 4), resources.gres(Call(), 0)) == ("gpu:4", "")
    for gpu_type, asked in (("a100", "gpu:a100:4"), ("", "gpu:4")):
        call = Call(defaults={"gpu_type": gpu_type, "runtime": "360"})
        assert resources.gres(call, 4) == asked


def test_cores_of_the_login_node_are_none_of_the_jobs():
    assert Call(machine_cores=64).cores == 64
    assert Call(machine_cores=64, defaults={"runtime": "360"}).cores is None


def test_a_job_of_one_task_is_a_step_so_that_signals_reach_it_and_one_of_many_starts_its_own():
    in_job, here = Call(in_job=True), Call()
    assert resources.step(in_job, DEMO[0]) == "srun --nodes=1 --ntasks=1"
    assert [resources.step(*given) for given in ((in_job, CELL), (here, DEMO[0]), (here, CELL))] == [""] * 3


def test_what_starts_the_tasks_of_an_array_has_no_mpi_with_which_each_would_be_the_first():
    assert resources.without_step(Call(in_job=True, starts_task=True), "srun") == {}
    assert resources.without_step(Call(in_job=True), "srun") == {"mpi": "srun"}


def test_slurm_conf_comes_back_in_a_job_that_has_lost_it():
    variables = {"SLURM_CONF": "/elsewhere/slurm.conf"}
    resources.hand_on_conf(variables)
    inherited = {name: value for name, value in variables.items() if not name.startswith("SLURM_")}
    resources.hand_on_conf(inherited)
    assert inherited["SLURM_CONF"] == "/elsewhere/slurm.conf"
    empty = {}
    resources.hand_on_conf(empty)
    assert empty == {}


@pytest.mark.parametrize(
    ("sbatch", "defaults", "folder", "words"),
    [
        (None, {}, "other", "no Slurm here"),
        ("/bin/sbatch", {"slurm_account": "", "runtime": "360"}, "other", "names no slurm_account"),
        ("/bin/sbatch", {"slurm_account": "mine"}, "other", None),
        ("/bin/sbatch", {"slurm_partition": ""}, "other", None),
        ("/bin/sbatch", {}, "left", "stop them with scancel 7, which loses nothing"),
    ],
)
def test_nothing_is_sent_without_slurm_or_an_account_or_beside_jobs_that_are_left_here(
    monkeypatch, tmp_path, sbatch, defaults, folder, words
):
    left = tmp_path / "left"
    listing = f"7 {left} rule_train_a\n8 {left}/other rule_train_b\n9 {left} mine\n"
    monkeypatch.setattr(shutil, "which", lambda name: sbatch)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, listing))
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    with pytest.raises(UserError, match=words) if words else nullcontext():
        resources.require_ready(defaults)


def test_a_list_of_jobs_that_cannot_be_had_is_no_empty_one(monkeypatch):
    failure = subprocess.CalledProcessError(1, "squeue", stderr="Unable to contact the controller\n")
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/sbatch")
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=failure))
    with pytest.raises(
        UserError, match=r"^squeue does not say whether .*: Unable to contact the controller$"
    ):
        resources.require_ready({})


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(
        json.dumps({"files": {"a.npy": {"bytes": 60_000_000_000}, "b.npy": {"bytes": 3_000_000}}})
    )
    return str(path)


def test_the_weights_are_counted_without_building_them():
    model = get("model", DEMO[0].model.use).load()
    built = model(model.Config(**DEMO[0].model.options), (1, 8, 8), 10)
    assert weight_bytes(DEMO[0].model, DEMO[0].data) == sum(4 * param.numel() for param in built.parameters())


def test_data_count_once_a_node_and_processes_and_replicas_as_many_as_are_there(monkeypatch):
    monkeypatch.setattr(resources, "weight_bytes", lambda model, data: 50_000_000)
    replica = COPIES_OF_WEIGHTS * 50
    data = 63_000_000_000
    assert megabytes_of_node(CELL, data) == 4 * PROCESS_MEGABYTES + 63_000 + 4 * replica
    in_one_process = PROCESS_MEGABYTES + 63_000 + 8 * replica
    assert megabytes_of_node(replace(CELL, transport="inprocess"), data) == in_one_process
    assert megabytes_of_node(CELL, data, one_process=True) == in_one_process
    # Only what is estimated grows with the attempt.
    twice = 2 * (4 * PROCESS_MEGABYTES + 4 * replica) + 63_000
    assert megabytes_of_node(CELL, data, attempt=2) == twice
    # Emulated nodes are all on one machine.
    assert (
        megabytes_of_node(replace(CELL, transport="emulated"), data)
        == 8 * PROCESS_MEGABYTES + 63_000 + 8 * replica
    )


def test_a_job_asks_for_its_largest_cell_and_for_more_with_each_attempt(manifest):
    small = replace(CELL, workers=4)
    mem_mb = memory(ON_CLUSTER, [small, CELL])["mem_mb"]
    first = megabytes_of_node(CELL, data_bytes([manifest]))
    for given in (manifest, [manifest]):
        assert mem_mb(None, SimpleNamespace(data=given), 1) == first
        later = [mem_mb(None, SimpleNamespace(data=given), attempt) for attempt in (2, 3, 9)]
        assert first < later[0] < later[1] == later[2]


def test_before_the_data_are_laid_out_snakemake_is_told_that_the_file_is_missing(tmp_path):
    missing = str(tmp_path / "manifest.json")
    mem_mb = memory(ON_CLUSTER, [CELL])["mem_mb"]
    with pytest.raises(FileNotFoundError) as error:
        mem_mb(None, SimpleNamespace(data=missing), 1)
    assert str(error.value.filename) == missing


@pytest.mark.parametrize(
    "call",
    [Call(defaults={"mem_mb": "64000 * attempt"}), Call(), Call(plans=False, defaults=ON_CLUSTER.defaults)],
)
def test_the_users_own_setting_wins_and_jobs_and_local_runs_ask_for_nothing(call):
    assert memory(call, [CELL]) == {}


@pytest.mark.parametrize("setting", ["gpu_type=a100", "gpu_type='a100'", 'gpu_type=" a100"'])
def test_what_a_profile_sets_is_read_with_and_without_quotes(setting):
    workflow = SimpleNamespace(
        is_main_process=True,
        cores=8,
        remote_exec=False,
        output_settings=SimpleNamespace(dryrun=True),
        deployment_settings=SimpleNamespace(deployment_method=frozenset()),
        resource_settings=SimpleNamespace(
            default_resources=Resources.parse([setting, "mem_mb=0"], allow_expressions=True)
        ),
    )
    call = called(workflow)
    assert call.defaults == {"gpu_type": "a100", "mem_mb": "0"}
    assert (call.plans, call.dry, call.in_job) == (True, True, False)
