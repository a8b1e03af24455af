"""The figures of a suite, and those of accuracy: every mean is drawn, and few lines of a panel stand out."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest

from tests import frames
from tests.frames import BASELINES, METHODS, curves
from thinwire.base.learning import CLASSIFICATION
from thinwire.config.expand import cells
from thinwire.pipeline import outputs
from thinwire.report import report
from thinwire.report.figures import scores
from thinwire.report.figures.looks import MOST_LINES
from thinwire.report.figures.scores import pareto

EPOCHS, BYTES, TIME = (
    partial(scores.write, axis, CLASSIFICATION) for axis in (scores.EPOCHS, scores.BYTES, scores.TIME)
)
ALL = pytest.mark.parametrize("write", [EPOCHS, BYTES, TIME], ids=["epochs", "bytes", "time"])


@pytest.fixture
def drawn(draw):
    return lambda write, frame: draw(write, frame, BASELINES)


def timed(frame):
    return frame.assign(train_seconds=2.0 * frame.epoch, kind="measured")


def lines(figure):
    """The points of each line, by panel and method."""
    return {
        (number, line.get_label()): line.get_xydata().tolist()
        for number, axes in enumerate(figure.axes)
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def note(figure):
    return figure.texts[-1].get_text().replace("\n", " ")


def test_lines_are_the_means_over_the_seeds_and_bands_are_a_standard_deviation_wide(drawn):
    over_epochs = lines(drawn(EPOCHS, curves()))
    assert over_epochs[0, "ssgd"] == [[1, 61], [2, 71], [3, 81]]
    against_bytes = lines(drawn(BYTES, curves()))
    assert against_bytes[0, "ssgd"] == [[20, 61], [40, 71], [60, 81]]  # push and pull, in MB
    assert against_bytes[0, "thin"] == [[2, 60.875], [4, 70.875], [6, 80.875]]
    over_time = lines(drawn(TIME, timed(curves())))
    assert over_time[0, "ssgd"] == [[2, 61], [4, 71], [6, 81]]
    # By hand: seeds at 60, 61 and 62 have a standard deviation of 1.
    band = drawn(EPOCHS, curves(["ssgd"])).axes[0].collections[0]
    edges = band.get_paths()[0].vertices
    assert set(edges[edges[:, 0] == 1][:, 1]) == {60, 62}


def test_in_a_crowded_panel_only_baselines_and_pareto_optimal_methods_have_colours(drawn):
    """Every method is Pareto-optimal here, and the most accurate of them stand out."""
    figure = drawn(BYTES, curves(METHODS))
    strong = [line.get_label() for line in figure.axes[0].get_lines() if line.get_alpha() is None]
    assert [name for name in strong if not name.startswith("_")] == METHODS[:MOST_LINES]
    assert "not faint: baselines and Pareto-optimal methods (bytes, accuracy), 8 at most" in note(figure)
    assert "faint" not in note(drawn(BYTES, curves(METHODS[:8])))


@pytest.mark.parametrize("write", [EPOCHS, BYTES], ids=["epochs", "bytes"])
def test_a_panel_in_which_faint_lines_have_no_label_says_so(drawn, write):
    figure = drawn(write, curves([f"method_{i}" for i in range(30)]))
    assert len([text for text in figure.axes[0].texts if text.get_text()]) == MOST_LINES
    assert "up to 22 faint lines of a panel have no label" in note(figure)


def test_the_pareto_front_has_the_methods_that_none_surpasses():
    ends = pd.DataFrame(
        {"bytes": [1, 2, 2, 3, 4], "score": [90.0, 95, 95, 94, 96]}, index=["a", "b", "b2", "worse", "c"]
    )
    assert pareto(ends, "bytes", CLASSIFICATION) == ["a", "b", "b2", "c"]


@ALL
def test_kinds_are_never_joined(drawn, write):
    frame = timed(curves())
    figure = drawn(write, pd.concat([frame, frame.assign(kind="emulated")]))
    kinds = [axes.get_title(loc="left").rpartition(", ")[2] for axes in figure.axes]
    assert kinds == ["emulated", "measured"]


def test_runs_without_times_are_in_no_line_over_time(drawn):
    frame = timed(curves())
    frame.loc[frame.method == "thin", "train_seconds"] = math.nan
    assert {method for _, method in lines(drawn(TIME, frame))} == {"ssgd"}
    for untimed in (curves(), frame.assign(train_seconds=math.nan)):
        assert "No run that is done has a time" in drawn(TIME, untimed).texts[0].get_text()


@ALL
@pytest.mark.parametrize("frame", [curves()[:0], curves(status="failed")], ids=["none", "failed"])
def test_no_curve_at_all_is_a_figure_that_says_so(drawn, write, frame):
    assert "No run that is done has" in drawn(write, frame).texts[0].get_text()


@ALL
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_left_out_and_the_figure_says_so(drawn, write, value):
    frame = timed(curves())
    frame.loc[(frame.method == "thin") & (frame.epoch == 2), "score"] = value
    figure = drawn(write, frame)
    assert len(lines(figure)[0, "thin"]) == 2
    assert np.isfinite(np.concatenate(list(lines(figure).values()))).all()
    assert "3 evaluations without a number are left out" in note(figure)


def test_bytes_of_a_preparation_count_where_bytes_are_shown(drawn):
    """Otherwise a method that trains beforehand would seem to learn without traffic."""
    frame = curves()
    frame.loc[frame.method == "thin", "preparation_payload_bytes"] = 30e6
    figure = drawn(BYTES, frame)
    assert [x for x, _ in lines(figure)[0, "thin"]] == [32, 34, 36]
    for each in (figure, drawn(EPOCHS, frame)):
        assert "the preparation of thin is counted in bytes, but not in epochs" in note(each)


def test_a_figure_says_what_it_shows_and_how_it_came_about(drawn):
    figure = drawn(EPOCHS, curves(evaluated_on="held_out"))
    assert figure.axes[0].get_ylabel() == "held-out accuracy, %"
    assert figure.axes[0].get_title(loc="left") == "digits, cnn, 4 workers, in process"
    assert "lines: means over the seeds; bands: ± one standard deviation" in note(figure)
    assert "bands" not in note(drawn(BYTES, curves()))


def test_a_seed_that_did_not_end_is_in_no_line_and_the_figure_says_so(drawn):
    frame = curves()
    broken = (frame.method == "thin") & (frame.repetition == 2)
    frame.loc[broken, ["status", "score"]] = ["diverged", 10.0]
    figure = drawn(EPOCHS, frame)
    assert lines(figure)[0, "thin"] == [[1, 60.375], [2, 70.375], [3, 80.375]]
    assert "1 run that did not end is left out" in note(figure)


def test_a_single_worker_sends_nothing_and_has_no_panel(drawn):
    alone = curves(workers=1, payload_push_bytes=0.0, payload_pull_bytes=0.0)
    figure = drawn(BYTES, pd.concat([curves(), alone]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["digits, cnn, 4 workers, in process"]
    assert "6 points before the first byte are left out" in note(figure)


RUNS = pd.DataFrame(
    [frames.CELL | {"workers": w, "kind": "measured", "repetition": r} for w in (2, 4, 8) for r in range(2)]
)


def everything():
    """Frames of a suite that has every figure, with a value that is missing and one that is infinite."""
    rows = timed(curves())
    rows.loc[rows.index[4:6], "score"] = [math.nan, math.inf]
    needed = frames.to_target({"ssgd": [4.0, 5.0, 6.0], "thin": [1.0, 2.0, frames.MISS]})
    tables = frames.traffic(), frames.comparisons(), needed, frames.summary()
    return report.Frames(RUNS, rows, *tables, CLASSIFICATION)


def nothing(runs):
    """Frames of a suite in which no run came to a result."""
    none = pd.DataFrame()
    return report.Frames(
        runs, curves()[:0], frames.traffic()[:0], none, none, frames.summary()[:0], CLASSIFICATION
    )


def test_what_is_written_is_what_the_pipeline_expects(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    demo = cells("demo")
    columns = ("dataset", "workers", "nodes", "kind", "repetition")
    runs = [{name: getattr(cell, name) for name in columns} | {"model": cell.model.label} for cell in demo]
    report.write_figures(nothing(pd.DataFrame(runs)), tmp_path / "results/figures/demo")
    expected = [path for path in outputs.report("demo", demo, None) if "/figures/" in path]
    assert sorted(expected) == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*"))


def test_it_says_which_figures_are_not_drawn_and_why(tmp_path):
    assert report.write_figures(nothing(RUNS[:4].assign(kind="inprocess")), tmp_path) == [
        "accuracy_over_time is not drawn: runs in one process have no times.",
        "performance_profile is not drawn: it needs 3 combinations of data set, model and workers, "
        "and there are 2.",
    ]


def both_sizes(frame):
    return pd.concat([frame, frame.assign(workers=8)])


def test_places_in_which_the_baseline_is_at_chance_level_are_in_no_figure_of_accuracy(draw_all):
    full, said = everything(), []
    frames_of_both = full._replace(
        curves=both_sizes(full.curves),
        comparisons=both_sizes(full.comparisons).assign(kind="measured"),
        summary=both_sizes(full.summary),
        runs=RUNS[RUNS.workers > 2],
        untrained={("digits", "cnn", 4, 1, "measured")},
    )

    def figures(made):
        return draw_all(lambda f, folder: said.extend(report.write_figures(f, folder, BASELINES)), made)

    found = figures(frames_of_both)
    places = {"accuracy_over_epochs": "left", "accuracy_over_time": "left", "paired_differences": "center"}
    for name, place in places.items():
        assert [axes.get_title(place) for axes in found[name].axes] == ["digits, cnn, 8 workers, measured"]
    assert said[0] == (
        "Figures of accuracy do not show digits, cnn, 4 workers, measured: "
        "the runs of the baseline are at chance level."
    )
    found = figures(full._replace(runs=RUNS[RUNS.workers == 4], untrained=frames_of_both.untrained))
    assert found["accuracy_over_time"].texts[0].get_text() == (
        "There is no accuracy to show: the runs of the baseline are\nat chance level."
    )
    assert found["traffic"].axes


def test_one_repetition_has_no_figure_of_accuracy_not_even_one_of_an_earlier_report(tmp_path):
    (tmp_path / "paired_differences.png").touch()
    (sentence,) = report.write_figures(everything()._replace(runs=RUNS[RUNS.repetition == 0]), tmp_path)
    assert sentence.startswith("Figures of accuracy are not drawn: with one repetition, they would show no")
    assert {path.stem for path in tmp_path.iterdir()} == {"traffic"}
