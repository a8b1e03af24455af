"""The figures of a suite: those that the pipeline expects, and the same bytes every time."""

import math

import pandas as pd

from tests import frames
from thinwire.config.expand import cells
from thinwire.pipeline import outputs
from thinwire.report import report
from thinwire.report.report_files import FORMATS, of_runs

RUNS = pd.DataFrame(
    [
        {**frames.CELL, "workers": workers, "kind": "measured", "repetition": seed}
        for workers in (2, 4, 8)
        for seed in range(2)
    ]
)


def everything():
    """Frames of a suite that has every figure, with a value that is missing and one that is infinite."""
    curves = frames.curves().assign(train_seconds=lambda rows: rows.epoch * 1.5, kind="measured")
    curves.loc[curves.index[4:6], "test_accuracy_percent"] = [math.nan, math.inf]
    needed = {"ssgd": [4.0, 5.0, 6.0], "thin": [1.0, 2.0, frames.MISS]}
    tables = frames.traffic(), frames.comparisons(), frames.to_target(needed)
    return report.Frames(RUNS, curves, *tables)


def nothing():
    """Frames of a suite in which no run came to a result."""
    full = everything()
    return full._replace(
        curves=full.curves[:0], traffic=full.traffic[:0], comparisons=pd.DataFrame(), to_target=pd.DataFrame()
    )


def test_the_same_frames_give_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        assert report.write_figures(everything(), tmp_path / folder, frames.BASELINES) == []
    written = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert written == sorted(
        f"{name}.{end}" for name in of_runs(3, timed=True, repetitions=2) for end in FORMATS
    )
    for name in written:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_what_is_written_is_what_the_pipeline_expects(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    demo = cells("demo")
    columns = ("dataset", "workers", "nodes", "kind", "repetition")
    runs = [{name: getattr(cell, name) for name in columns} | {"model": cell.model.label} for cell in demo]
    report.write_figures(nothing()._replace(runs=pd.DataFrame(runs)), tmp_path / "results/figures/demo")
    expected = [path for path in outputs.report("demo", demo, None) if "/figures/" in path]
    assert sorted(expected) == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*"))


def test_it_says_which_figures_are_not_drawn_and_why(tmp_path):
    two = RUNS[:4].assign(kind="inprocess")
    sentences = report.write_figures(nothing()._replace(runs=two), tmp_path)
    assert sentences == [
        "accuracy_over_time is not drawn: runs in one process have no times.",
        "performance_profile is not drawn: it needs 3 combinations of data set, model and workers, "
        "and there are 2.",
    ]


def test_one_repetition_has_no_figure_of_accuracy_not_even_one_of_an_earlier_report(tmp_path):
    (tmp_path / "paired_differences.png").touch()
    sentences = report.write_figures(everything()._replace(runs=RUNS[RUNS.repetition == 0]), tmp_path)
    assert sentences == [
        "Figures of accuracy are not drawn: with one repetition, they would show no comparison."
    ]
    assert {path.stem for path in tmp_path.iterdir()} == {"traffic"}
