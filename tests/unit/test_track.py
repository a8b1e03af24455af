"""The scores of a track: steps to the target, ranks, what is significantly better, and what has no score."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from thinwire.base.errors import UserError
from thinwire.base.learning import NEXT_CHARACTER
from thinwire.base.placement import Cluster
from thinwire.config import expand
from thinwire.config.hardware import load_accelerator
from thinwire.config.suite import load
from thinwire.config.suite_schema import Track
from thinwire.report import track_scores
from thinwire.simulation.device_clock import passes_of
from thinwire.simulation.simulate import SimulatedCell
from thinwire.train.record_check import SoundRecord

TRACK = Track(cluster="wan_200m_50ms", target=3.5, seeds=4, sigma=0.1, threshold=3.0)
SECONDS = {"ssgd": 0.2, "ssgd_bf16": 0.1, "thin": 0.01, "late": 0.01}


def record(method, *bits, use=None, status="done", ended="2026-11-26T10:00:00+00:00", revision="0123456789"):
    """A record with an evaluation every 10 steps."""
    cell = SimpleNamespace(method=SimpleNamespace(label=method, use=use or method))
    provenance = {"ended": ended, "git": {"revision": revision}}
    run = SimpleNamespace(status=status, learns=NEXT_CHARACTER, provenance=provenance)
    curve = pa.table({"step": [10 * (i + 1) for i in range(len(bits))], NEXT_CHARACTER.test_column: bits})
    return SoundRecord(cell, run, curve, pa.table({}))


def scores(*records):
    return {score.method: score for score in track_scores.scores(TRACK, records, SECONDS)}


def test_a_score_is_the_median_of_the_first_steps_at_the_target_times_the_seconds_of_a_step():
    found = scores(
        record("thin", 4.0, 3.6, 3.4, 3.6),
        record("thin", 3.5, 3.6, 3.4, 3.6, ended="2026-11-27T01:00:00+00:00"),
        record("thin", 4.0, 3.4, 3.4, 3.4, revision="9876543210"),
    )["thin"]
    assert (found.runs, found.reached, found.steps_to_target_median) == (3, 3, 20)
    assert found.score_seconds == pytest.approx(0.2)
    assert (found.date, found.commit) == ("2026-11-27", "01234567, 98765432")


def test_a_method_that_half_of_its_runs_keep_from_the_target_has_no_score_and_is_last():
    late = [record("late", 4.0, 3.4), record("late", 3.4, 4.0, status="diverged"), record("late", 4.0, 3.6)]
    ranked = track_scores.scores(TRACK, [*late, record("ssgd", 4.0, 3.4)], SECONDS)
    assert [score.method for score in ranked] == ["ssgd", "late"]
    assert ranked[1].reached == 1
    assert math.isinf(ranked[1].score_seconds)
    shown = track_scores.markdown(track_scores.table(ranked), load("tracks/v1"))
    assert f"| late     | {track_scores.NO_SCORE} |" in shown
    assert "| 1      | ssgd     | 4.00 " in shown


def test_a_score_is_compared_with_the_best_ssgd_and_the_threshold_is_enough():
    ssgd = record("ssgd", 3.4)
    bf16 = record("ssgd_bf16", 3.4, use="ssgd")
    found = scores(ssgd, bf16, record("thin", *[3.6] * 4, 3.4))
    assert found["thin"].better_than == "ssgd_bf16"
    assert found["ssgd_bf16"].better_than is None
    just = math.exp(-TRACK.threshold * TRACK.sigma / math.sqrt(TRACK.seeds))
    assert track_scores.is_better(TRACK, just * 0.999, 1.0)
    assert not track_scores.is_better(TRACK, just * 1.001, 1.0)
    assert track_scores.is_better(TRACK, 1.0, math.inf)
    assert not track_scores.is_better(TRACK, math.inf, math.inf)


def test_without_times_there_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"no simulated times on wan_200m_50ms: run .* simulate tracks/v1"):
        track_scores.simulated_steps(TRACK, "tracks/v1", tmp_path)


def test_without_records_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(track_scores, "simulated_steps", lambda *_: SECONDS)
    monkeypatch.setattr(track_scores.submission, "every", list)
    with pytest.raises(
        UserError, match="no record of tracks/v1: start `snakemake --config suites=tracks/v1`"
    ):
        track_scores.write("tracks/v1", tmp_path)


@pytest.mark.slow
def test_with_an_accelerator_seconds_do_not_depend_on_this_machine(tmp_path):
    (cell,) = [c for c in expand.cells("tracks/v1") if c.path.endswith("ssgd/w4n4/seed0")]
    small = replace(cell, recipe=cell.recipe.model_copy(update={"batch": 2, "epoch_steps": 2, "epochs": 1}))

    def computed():
        made = SimulatedCell(small, tmp_path, Cluster(2, 2), steps=2, accelerator="a100_fp32")
        return [sum(o.seconds for o in step if hasattr(o, "seconds")) for step in made.steps[0]]

    assert computed() == computed()
    passes = sum(passes_of(small, small.workers, load_accelerator("a100_fp32")).values())
    assert passes < computed()[1] < 3 * passes
