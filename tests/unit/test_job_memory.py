"""How much memory jobs on a cluster ask for."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from snakemake.resources import Resources

from thinwire.config.cell import Module
from thinwire.config.expand_suite import cells
from thinwire.pipeline import job_memory
from thinwire.pipeline.job_memory import (
    COPIES_OF_WEIGHTS,
    PROCESS_MEGABYTES,
    data_bytes,
    of_node,
    weight_bytes,
)
from thinwire.plugins import get

DEMO = cells("demo")[0]
CELL = replace(DEMO, workers=8, nodes=2, transport="processes")


def a_snakemake(*settings, main=True):
    defaults = Resources.parse(list(settings), allow_expressions=True)
    return SimpleNamespace(
        is_main_process=main, resource_settings=SimpleNamespace(default_resources=defaults)
    )


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(
        json.dumps({"files": {"a.npy": {"bytes": 60_000_000_000}, "b.npy": {"bytes": 3_000_000}}})
    )
    return str(path)


def test_the_weights_are_counted_without_building_them():
    model = get("model", DEMO.model.use).load()
    built = model(model.Config(**DEMO.model.options), (1, 8, 8), 10)
    assert weight_bytes(DEMO.model, DEMO.data) == sum(4 * param.numel() for param in built.parameters())


def test_data_count_once_a_node_and_processes_and_replicas_as_many_as_are_there(monkeypatch):
    monkeypatch.setattr(job_memory, "weight_bytes", lambda model, data: 50_000_000)
    replica = COPIES_OF_WEIGHTS * 50
    data = 63_000_000_000
    assert of_node(CELL, data) == 4 * PROCESS_MEGABYTES + 63_000 + 4 * replica
    in_one_process = PROCESS_MEGABYTES + 63_000 + 8 * replica
    assert of_node(replace(CELL, transport="inprocess"), data) == in_one_process
    assert of_node(CELL, data, one_process=True) == in_one_process
    # Emulated nodes are all on one machine.
    assert of_node(replace(CELL, transport="emulated"), data) == 8 * PROCESS_MEGABYTES + 63_000 + 8 * replica


def test_a_larger_data_set_or_model_asks_for_more():
    large = Module("alexnet", "alexnet", {})
    assert of_node(CELL, 10**9) == of_node(CELL, 0) + 1000
    assert of_node(replace(CELL, model=large), 0) > of_node(CELL, 0) + 4 * COPIES_OF_WEIGHTS


def test_a_job_asks_for_its_largest_cell_and_for_more_with_each_attempt(manifest):
    small = replace(CELL, workers=4)
    mem_mb = job_memory.resource(a_snakemake("mem_mb=0"), lambda wildcards: [small, CELL])["mem_mb"]
    first = of_node(CELL, data_bytes([manifest]))
    for given in (manifest, [manifest]):
        assert mem_mb(None, SimpleNamespace(data=given), 1) == first
        assert mem_mb(None, SimpleNamespace(data=given), 3) == 3 * first


def test_before_the_data_are_laid_out_snakemake_is_told_that_the_file_is_missing(tmp_path):
    missing = str(tmp_path / "manifest.json")
    mem_mb = job_memory.resource(a_snakemake("mem_mb=0"), lambda wildcards: [CELL])["mem_mb"]
    with pytest.raises(FileNotFoundError) as error:
        mem_mb(None, SimpleNamespace(data=missing), 1)
    assert str(error.value.filename) == missing


@pytest.mark.parametrize(
    "snakemake", [a_snakemake("mem_mb=64000 * attempt"), a_snakemake(), a_snakemake("mem_mb=0", main=False)]
)
def test_the_users_own_setting_wins_and_jobs_and_local_runs_ask_for_nothing(snakemake):
    assert job_memory.resource(snakemake, lambda wildcards: [CELL]) == {}
