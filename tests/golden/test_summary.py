"""The tables of an invented suite with every case are, to the byte, those in `summary/`.

LaTeX and Typst say what Markdown says, so theirs has only what they write in another way.

`python -m tests.golden.test_summary` writes them again. Read the difference before you commit it.
"""

import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import typst

from tests.simulated import row as simulated
from tests.summary import prepared, run, table_of
from thinwire.base.learning import CLASSIFICATION
from thinwire.plugins import ROOT
from thinwire.report.tables.about import About
from thinwire.report.tables.write import summary, write

FOLDER = Path(__file__).parent / "summary"
FILES = ("summary.csv", "summary.md", "summary.tex", "summary.typ", "traffic.md")
BASELINES = ("ssgd", "ssgd_bf16")
SCATTER = (0.0, 0.3, -0.2, 0.1, -0.1, 0.2, -0.3, 0.15, -0.15, 0.05)
MEGA = 1_000_000


def runs_of(method, accuracies, megabytes, status="done", **more):
    """Runs of a method; push and pull are equal."""
    sent = (megabytes * MEGA / 2,) * 2 + (megabytes * MEGA, 0)
    return [run(method, i, status, a, sent, **more) for i, a in enumerate(accuracies)]


def scattered(mean, by=1.0):
    return [mean + by * each for each in SCATTER]


def of_ten_runs():
    """Every verdict, on 8 workers of 2 nodes, with a method of every fate."""
    place = {"workers": 8, "nodes": 2}
    lost = {"status": "failed", "reason": "rank 3 on node1 died by SIGKILL"}
    return [
        *runs_of("dear", scattered(98.9), 60, **place),
        *runs_of("guesses", scattered(10.0), 5, **place),
        *runs_of("alike", scattered(98.01, 1.1), 20, **place),
        *runs_of("ssgd", scattered(98.0), 40, **place),
        *runs_of("ssgd_bf16", scattered(97.98, 0.9), 20, **place),
        *runs_of("unclear", [98.5, 96.0, 99.0, 97.0, 98.9, 96.4, 98.8, 97.2, 97.5, 98.0], 10, **place),
        *runs_of("lost", [None] * 2, 0, **place | lost),
        *runs_of("diverges", [11.0], 1, "diverged", reason="the loss is not finite after step 7", **place),
    ]


def of_few_runs():
    """Three runs on 4 workers; one with a preparation, one that skips epochs, one that cannot run."""
    place = {"workers": 4, "nodes": 1}
    skipped = {"status": "skipped", "reason": "it needs at least 2 nodes"}
    return [
        *runs_of("ssgd", scattered(98.0)[:3], 40, **place),
        *runs_of("prepares", scattered(97.0)[:3], 4, **place | prepared(push=30 * MEGA, pull=20 * MEGA)),
        *runs_of("jumps", scattered(96.0)[:3], 8, **place | {"method/virtual_epochs": 24.0}),
        *runs_of("nodes_only", [None], 0, **place | skipped),
    ]


def of_emulated_runs():
    """Times of the runs themselves, on 2 emulated nodes."""
    place = {"workers": 2, "nodes": 2, "kind": "emulated"}
    return [
        *runs_of("ssgd", scattered(95.0)[:2], 40, **place | {"train_seconds": 30.0}),
        *runs_of("thin", scattered(95.0)[:2], 4, **place | {"train_seconds": 12.0}),
    ]


def alone():
    """A single worker sends nothing, and a suite may have no baseline there."""
    place = {"workers": 1, "nodes": 1}
    return [*runs_of("ssgd", [99.0], 0, **place), *runs_of("other", [98.0], 0, model="a|b", **place)]


def times():
    """Two simulated clusters; of the first, 8 workers fill 8 nodes."""
    about = {"target_score": 97.02, "rate_gbit_per_second": 1.0}
    two = [
        simulated(method, ms, speed_up=speed_up, seconds_to_target=seconds, **about)
        for method, ms, speed_up, seconds in (
            ("ssgd", 20.0, 0.5, 12.0),
            ("ssgd_bf16", 10.0, 1.0, 6.5),
            ("alike", 8.0, 1.25, 4.0),
            ("unclear", 4.0, 2.5, float("inf")),
        )
    ]
    eight = [simulated("ssgd", 1.0, nodes=8, cluster="ethernet_10g", seconds_to_target=1.0)]
    emulated = {"kind": "emulated", "cluster": "emulated_100m", "workers": 2, "nodes": 2}
    own = [
        simulated(method, 1.0, speed_up=speed_up, seconds_to_target=seconds, **emulated)
        for method, speed_up, seconds in (("ssgd", 1.0, 20.0), ("thin", 2.5, 8.0))
    ]
    return pd.DataFrame([*eight, *two, *own])


def in_other_forms():
    """Both marks, a minus, a remark and an odd name."""
    methods = [("ssgd", 40), ("dear", 60), ("half", 20), ("thin", 4)]
    odd = [each for name, mb in methods for each in runs_of(name, [98.0, 98.0], mb, model="a|b")]
    return [*odd, *runs_of("ssgd", [98.0], 40)]


def write_into(folder):
    everything = [*of_ten_runs(), *of_few_runs(), *of_emulated_runs(), *alone()]
    recipes = {"alike": "lr 0.02"}
    about = About(
        "A_title with 100 % & more",
        "test",
        BASELINES,
        CLASSIFICATION,
        recipes,
        "Recipes: ours.",
        "emulated_100m",
        prepared_from={"prepares": "seed0"},
    )
    write(table_of(everything, BASELINES, times()), about, folder)
    for end, text in summary(table_of(in_other_forms()), about).items():
        if end != "md":
            (folder / f"summary.{end}").write_text(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    write_into(folder)
    return folder


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_as_it_was(made, name):
    assert (made / name).read_text() == (FOLDER / name).read_text()


def test_the_typst_form_compiles(made):
    assert typst.compile(made / "summary.typ", format="pdf").startswith(b"%PDF")


DOCUMENT = r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{summary}\end{document}"


def test_the_latex_form_compiles(made):
    (made / "main.tex").write_text(DOCUMENT)
    command = ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    try:
        ended = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no latexmk")
    assert ended.returncode == 0, ended.stdout[-2000:]


if __name__ == "__main__":
    os.chdir(ROOT)
    FOLDER.mkdir(exist_ok=True)
    write_into(FOLDER)
