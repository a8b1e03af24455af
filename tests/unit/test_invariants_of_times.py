"""Whether times count, how a rate falls, and which cell a record is of: what follows without a run."""

import json
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest

from tests import project, sound
from thinwire.base.errors import UserError
from thinwire.config.cell import cell_of
from thinwire.config.clusters import load_cluster as load_cluster
from thinwire.config.expand import cells
from thinwire.optim.recipe import Schedule, learning_rate
from thinwire.records import invariants_of_tables, provenance
from thinwire.records.invariants import broken_in_run
from thinwire.traffic.wire_bytes import payload_rate


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
    ("cores", "reason", "holds"),
    [(4, None, True), (1, SHARED, True), (1, None, False), (4, SHARED, False), (1, "it was slow", False)],
)
def test_whether_measured_times_count_follows_from_the_ranks(cores, reason, holds):
    """The easiest cheat: a run on shared cores that gives no reason would have times in the tables."""
    ranks = [{"host": "h", "node": "h", "cores": [rank % cores], "device": "cpu"} for rank in range(4)]
    found = broken_of("processes", "measured", reason, {"ranks": ranks})
    assert found == ([] if holds else ["times"])


@pytest.mark.parametrize(
    ("rate", "shorter", "reason", "holds"),
    [
        (0.96, 0.01, None, True),
        (0.90, 0.01, "the link of node 0 was slow", True),
        (0.90, 0.01, None, False),
        (0.96, 0.20, None, False),
        (0.96, None, "it was slow", False),
    ],
)
def test_whether_emulated_times_count_follows_from_the_links(rate, shorter, reason, holds):
    cluster = load_cluster("emulated_100m")
    carried = payload_rate(cluster.link.rate_bytes_per_second) * rate
    calibration = {
        "message_bytes": 4,
        "payload_bytes_per_second": [carried, carried],
        "round_trip_seconds": [0.1, 0.1],
        "all_reduce": [],
    }
    emulation = {"calibration": calibration, "crowding": {"shorter_by_at_most": shorter}}
    found = broken_of("emulated", "emulated", reason, {"emulation": emulation}, cluster=cluster)
    assert found == ([] if holds else ["times"])


def broken_of(transport, kind, reason, provenance, **cell_changes):
    """The invariants that an invented run.json breaks."""
    cell = replace(CELL, transport=transport, **cell_changes)
    about = {"kind": kind, "no_time_because": reason, "provenance": provenance, "method_options": {}}
    run = sound.made(cell, sound.curve(cell), **about)
    return [each.invariant for each in broken_in_run(run, cell)]


@pytest.mark.parametrize("suite", [name for name in project.SUITES if name != "paper"])
def test_every_cell_is_known_again_from_its_record(suite):
    for cell in cells(suite)[:40]:
        content = json.loads(json.dumps(cell.identity()))
        assert cell_of(content) == cell


def test_what_no_suite_can_have_is_no_cell():
    with pytest.raises(UserError, match="its cell is none that a suite can have"):
        cell_of(CELL.identity() | {"workers": "4"} | {"recipe": {}})
