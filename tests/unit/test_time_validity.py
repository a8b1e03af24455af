"""When the times of a run count, and what else follows from a record without a run."""

import io
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import torch.distributed as dist

from tests import project, sound
from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.config.cell import cell_of
from thinwire.config.expand import cells
from thinwire.config.hardware import load_cluster as load_cluster
from thinwire.optim.recipe import learning_rate
from thinwire.optim.schedule import Schedule
from thinwire.records import invariants_of_tables, provenance
from thinwire.records.invariants import broken_in_run
from thinwire.records.provenance import no_time_because
from thinwire.report.rows.collected_rows import Rows
from thinwire.traffic.wire_bytes import Ledger, Wire, payload_rate
from thinwire.train import run_setup
from thinwire.train.record_check import SoundRecord


def about_rank(host, cores, device="cpu", **more):
    return {"host": host, "cores": cores, "device": device, **more}


RESUMED = "it was interrupted, and its clocks add the seconds of several attempts"
NOT_OVER_NCCL = "its messages went through the memory of the hosts, and its other calls over NCCL"


@pytest.mark.parametrize(
    ("ranks", "nodes", "diagnosis"),
    [
        ([about_rank("a", [0, 1]), about_rank("a", [0, 1])], 1, None),
        ([about_rank("a", [0]), about_rank("a", [1]), about_rank("b", [0]), about_rank("b", [1])], 2, None),
        ([about_rank("a", [0, 1])] * 4, 1, "4 workers shared 2 cores of a"),
        ([about_rank("a", [0, 1])] * 2, 2, "its 2 nodes were 1 machine"),
        ([about_rank(host, [0]) for host in "abb"], 3, "its 3 nodes were 2 machines"),
        ([about_rank("a", [0], "gpu-1"), about_rank("a", [0], "gpu-2")], 1, None),
        ([about_rank("a", [0], "gpu-1"), about_rank("a", [0], "gpu-1")], 1, "2 workers shared 1 GPU of a"),
        ([about_rank("a", [0], "gpu-1", other_processes=0)], 1, None),
        ([about_rank("a", [0], "gpu-1", other_processes=1)], 1, "1 other process used a GPU of a"),
        (
            [about_rank(host, [0], "gpu-1", other_processes=n) for host, n in (("a", 0), ("b", 2))],
            2,
            "2 other processes used a GPU of b",
        ),
        (
            [about_rank(host, [0], host, gpu=gpu) for host, gpu in (("a", "A100"), ("b", "V100"))],
            2,
            "its GPUs were of 2 kinds: A100, V100",
        ),
        ([about_rank(host, [0], host, gpu="A100") for host in "ab"], 2, None),
        ([about_rank("a", [0], "gpu-1", messages_through_host=False)], 1, None),
        ([about_rank("a", [0], f"gpu-{i}", messages_through_host=i > 1) for i in (1, 2)], 1, NOT_OVER_NCCL),
    ],
)
def test_times_that_say_nothing_about_the_method_are_not_valid(ranks, nodes, diagnosis):
    assert no_time_because(ranks, Cluster(len(ranks), nodes)) == diagnosis


@pytest.fixture
def setup_of(monkeypatch):
    """The set-up of the first of two ranks, as if it had loaded a trainer with this ledger."""
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)

    def about_rank(device):
        return {"host": "a", "cores": [0, 1], "device": "gpu-1" if device.type == "cuda" else "cpu"}

    monkeypatch.setattr(run_setup, "about_this_process", about_rank)

    def make(ledger, device="cuda", backend=None):
        def share(own):
            return [*own, own[0] | {"device": "cpu" if device == "cpu" else "gpu-2"}]

        cell = replace(cells("demo")[0], workers=2, nodes=1, device=device, backend=backend)
        transport = SimpleNamespace(kind="measured", share=share)
        made = run_setup.RunSetup(cell, Path("results"), transport)
        worker = SimpleNamespace(ledger=ledger)
        task = SimpleNamespace(device=torch.device(device))
        made.trainer = SimpleNamespace(task=task, workers=[worker])
        return made

    return make


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_that_was_resumed_has_no_time(setup_of, device):
    """Its clocks add those of all attempts, which may have had other machines."""
    setup = setup_of(ledger_of("mean"), device)
    setup.note_ranks()
    assert setup.no_time_because is None
    setup.note_resume(1)
    setup.note_ranks_again()
    assert setup.no_time_because == RESUMED


def ledger_of(*verbs):
    ledger = Ledger()
    for verb in verbs:
        ledger.add("world", verb, "weights", 8, 8, Wire(8, 8, 0))
    return ledger


def test_the_reason_is_recorded_when_training_has_sent_a_message(setup_of):
    """Also if it was sent before an interruption: the ledger is in the checkpoints."""
    ledger = ledger_of("mean")
    setup = setup_of(ledger)
    setup.note_ranks()
    assert setup.no_time_because is None
    ledger.add("world", "send", "weights", 8, 0, Wire(8, 0, 0))
    setup.note_ranks_again()
    assert setup.no_time_because == NOT_OVER_NCCL
    assert [rank["messages_through_host"] for rank in setup.provenance["ranks"]] == [True, True]


@pytest.mark.parametrize(
    ("verbs", "where"),
    [
        (("mean", "send"), {"device": "cpu"}),
        (("mean", "send"), {"backend": "gloo"}),
        (("mean", "gather", "broadcast", "push", "pull"), {}),
    ],
)
def test_without_messages_or_where_all_calls_use_gloo_there_is_a_time(setup_of, verbs, where):
    setup = setup_of(ledger_of(*verbs), **where)
    setup.note_ranks()
    assert setup.no_time_because is None


def test_a_clock_that_is_set_back_does_not_change_how_long_a_run_took(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    span = provenance.Span()
    monkeypatch.setattr(provenance, "now", lambda: "2020-01-01T00:00:00+00:00")
    monkeypatch.setattr("time.monotonic", lambda: 1100.0)
    passed = datetime.fromisoformat(span.ended()) - datetime.fromisoformat(span.started)
    assert passed.total_seconds() == pytest.approx(100)


def test_the_rate_of_a_plateau_falls_by_whole_factors_and_never_rises():
    schedule = Schedule(name="plateau", factor=0.5)
    cell = replace(CELL, recipe=CELL.recipe.model_copy(update={"schedule": schedule}))
    peak = learning_rate(cell.recipe, cell.workers, 9, 10)

    def broken(*scales):
        rows = {"step": 10 * (1 + np.arange(len(scales))), "lr": peak * np.array(scales)}
        return invariants_of_tables.rates(SimpleNamespace(steps_per_epoch=10), cell, rows)

    assert broken(1, 1, 0.5, 0.125, 0.125) is None
    for scales in ((1, 0.5, 1), (2,), (1, 0.7)):
        assert "and the recipe gives" in broken(*scales)


CELL = sound.cells("demo")[0]
SHARED = "4 workers shared 1 cores of h"


@pytest.mark.parametrize(
    ("cores", "reason", "interruptions", "holds"),
    [
        (4, None, 0, True),
        (1, SHARED, 0, True),
        (1, None, 0, False),
        (4, SHARED, 0, False),
        (1, "it was slow", 0, False),
        (4, RESUMED, 1, True),
        (4, None, 1, False),
    ],
)
def test_whether_measured_times_count_follows_from_the_ranks(cores, reason, interruptions, holds):
    """The easiest cheat: a run on shared cores, or a resumed one, that gives no reason would have times."""
    ranks = [{"host": "h", "node": "h", "cores": [rank % cores], "device": "cpu"} for rank in range(4)]
    found = broken_of("processes", "measured", reason, {"ranks": ranks}, interruptions)
    assert found == ([] if holds else ["times"])


def rows_of_a_block(kind, **changes):
    """The collected rows of five methods of one block, all made on the hosts a and c; `changes` by method."""
    found = Rows()
    for cell in sound.cells("demo"):
        label = cell.method.label
        if (cell.repetition, cell.workers) != (0, 4) or label not in LABELS:
            continue
        about = {"hosts": "ac", "environment": {}, "processor": "one", "why": None} | changes.get(label, {})
        run = sound.made(
            cell,
            sound.curve(cell),
            kind=kind,
            no_time_because=about["why"],
            provenance={
                "ranks": [about_rank(host, [rank]) for rank, host in enumerate(about["hosts"])],
                "environment": about["environment"],
                "hardware": {"processor": about["processor"], "cores": 2},
            },
        )
        curve = pa.Table.from_pylist(sound.curve(cell))
        found.add(SoundRecord(cell, run, curve, pa.Table.from_pylist(sound.traffic(sound.curve(cell)))))
    return found


LABELS = ("ssgd", "dgc", "top_k", "daso", "local_sgd")
OTHERS = {
    "dgc": {"hosts": "ab"},
    "daso": {"environment": {"NCCL_ALGO": "Tree"}},
    "top_k": {"processor": "two"},
}


@pytest.mark.parametrize("kind", ["measured", "emulated"])
def test_a_method_that_ran_under_other_conditions_than_its_baseline_is_not_compared_in_time(kind):
    """A job that ends early may get other machines, or other settings of NCCL, for the rest of its block."""
    found = rows_of_a_block(kind, **OTHERS)
    summary = pd.read_csv(io.StringIO(found.summary())).set_index("method")
    assert summary.no_time_because.dropna().to_dict() == {
        "dgc": "its machines were not those of ssgd",
        "top_k": "its machines were not those of ssgd",
        "daso": "its settings of NCCL were not those of ssgd",
    }
    untimed = {"ssgd": False, "dgc": True, "top_k": True, "daso": True, "local_sgd": False}
    assert summary.train_seconds.isna().to_dict() == untimed
    timed = found.curves().groupby("method").train_seconds.count()
    assert timed.to_dict() == {"daso": 0, "dgc": 0, "local_sgd": 3, "ssgd": 3, "top_k": 0}


def test_where_the_baseline_has_no_time_methods_are_still_compared_under_one_condition_only():
    found = rows_of_a_block("measured", ssgd={"why": "it was resumed"}, dgc={"hosts": "ab"})
    summary = pd.read_csv(io.StringIO(found.summary())).set_index("method")
    reasons = {"ssgd": "it was resumed", "dgc": "its machines were not those of daso"}
    assert summary.no_time_because.dropna().to_dict() == reasons


@pytest.mark.parametrize(
    ("name", "rate", "trip", "shorter", "reason", "holds"),
    [
        ("emulated_100m", 0.96, 0.1, 0.01, None, True),
        ("emulated_100m", 0.90, 0.1, 0.01, "the link of node 0 was slow", True),
        ("emulated_100m", 0.90, 0.1, 0.01, None, False),
        ("emulated_100m", 0.96, 0.1, 0.20, None, False),
        ("emulated_100m", 0.96, 0.1, None, "it was slow", False),
        ("wan_200m_50ms", 0.96, 0.051, 0.01, None, True),
        ("wan_200m_50ms", 0.96, 0.049, 0.01, None, False),
        ("wan_200m_50ms", 0.96, 0.056, 0.01, None, False),
    ],
)
def test_whether_emulated_times_count_follows_from_the_links(name, rate, trip, shorter, reason, holds):
    cluster = load_cluster(name)
    carried = payload_rate(cluster.link.rate_bytes_per_second) * rate
    calibration = {
        "message_bytes": 4,
        "payload_bytes_per_second": [carried, carried],
        "round_trip_seconds": [trip, trip],
        "all_reduce": [],
    }
    emulation = {"calibration": calibration, "crowding": {"shorter_by_at_most": shorter}}
    found = broken_of("emulated", "emulated", reason, {"emulation": emulation}, cluster=cluster)
    assert found == ([] if holds else ["times"])


def broken_of(transport, kind, reason, provenance, interruptions=0, **cell_changes):
    """The invariants that an invented run.json breaks."""
    cell = replace(CELL, transport=transport, **cell_changes)
    about = {"kind": kind, "no_time_because": reason, "provenance": provenance, "method_options": {}}
    run = sound.made(cell, sound.curve(cell), **about, interruptions=interruptions)
    return [each.invariant for each in broken_in_run(run, cell)]


@pytest.mark.parametrize("suite", project.SUITES)
def test_every_cell_is_known_again_from_its_record(suite):
    for cell in cells(suite)[:40]:
        content = json.loads(json.dumps(cell.identity()))
        assert cell_of(content) == cell


def test_what_no_suite_can_have_is_no_cell():
    with pytest.raises(UserError, match="its cell is none that a suite can have"):
        cell_of(CELL.identity() | {"workers": "4"} | {"recipe": {}})
