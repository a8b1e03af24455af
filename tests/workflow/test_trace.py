"""`thinwire trace`: it writes a trace of a cell, and leaves records and checkpoints as they are."""

import json
import re

import pytest

from tests.commands import succeeded
from tests.workflow.conftest import HEAD
from thinwire.trace import trace_file

pytestmark = pytest.mark.slow

FAILS = HEAD + "    def step(self):\n        if self.run.step == 1:\n            raise ValueError('no')\n"
SKIPS = HEAD + "    def skip(self):\n        return 'it never runs'\n"


@pytest.fixture(scope="module")
def ready(project):
    project.write("methods/fails.py", FAILS)
    project.write("methods/skips.py", SKIPS)
    project.suite("tiny", "{ssgd: , ps_sgd: , fails: , skips: }")
    succeeded(project.python("thinwire", "data", "digits"))
    return project


def cell(method):
    return f"digits/cnn/{method}/w2/seed0"


def trace(project, method, *options):
    return project.python("thinwire", "trace", "tiny", cell(method), *options)


def files_of_runs(project):
    """All files in the folder of results except traces, data and locks."""
    results = project.folder / "results"
    found = (path.relative_to(results) for path in results.rglob("*") if path.is_file())
    return sorted(str(p) for p in found if p.parts[0] not in ("traces", "data") and p.suffix != ".lock")


@pytest.mark.parametrize("transport", ["inprocess", "processes"])
def test_a_trace_leaves_nothing_else(ready, transport):
    before = files_of_runs(ready)
    answer = succeeded(trace(ready, "ps_sgd", "--steps", "3", "--transport", transport))
    folder = ready.folder / "results/traces/tiny" / cell("ps_sgd")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["calls.parquet", "spans.parquet", "trace.perfetto.json"]
    found = trace_file.read(folder)
    assert set(found.spans["worker"].to_pylist()) == {0, 1}
    assert set(found.spans["step"].to_pylist()) == {-1, 0, 1, 2}
    measured = found.calls["ended_seconds"].null_count == 0
    assert measured == (transport == "processes")
    assert json.loads((folder / "trace.perfetto.json").read_text())["traceEvents"]
    assert files_of_runs(ready) == before

    lines = answer.stdout.splitlines()
    assert lines[0] == "seconds a step by activity, mean over the workers, median over the steps"
    seconds = dict(re.findall(r"^  (\w+) +(\d+\.\d{6})$", answer.stdout, re.MULTILINE))
    assert {"harness", "forward", "backward", "method", "wait", "together"} <= seconds.keys()
    assert lines[-len(names) :] == [str(folder / name) for name in names]


@pytest.mark.parametrize(("steps", "traced"), [(3, 3), (2, 2), (1000, 38)])
def test_a_later_trace_replaces_an_earlier_one_and_ends_with_the_run(ready, steps, traced):
    succeeded(trace(ready, "ssgd", "--steps", str(steps)))
    found = trace_file.read(ready.folder / "results/traces/tiny" / cell("ssgd"))
    assert set(found.spans["step"].to_pylist()) == {-1, *range(traced)}


@pytest.mark.parametrize("transport", ["inprocess", "processes"])
@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("fails", "because it fails: ValueError: no (methods/fails.py, line 8)"),
        ("skips", "because it is skipped: it never runs"),
    ],
)
def test_a_cell_that_fails_or_is_skipped_is_one_sentence(ready, method, why, transport):
    answer = trace(ready, method, "--transport", transport)
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1].endswith(f"{cell(method)} cannot be traced, {why}")
    assert "Traceback" not in answer.stderr
    assert not (ready.folder / "results/traces/tiny" / cell(method)).exists()


def test_bad_input_is_one_sentence(ready):
    answer = trace(ready, "ssgd", "--steps", "0")
    assert (answer.returncode, answer.stderr) == (2, "thinwire: --steps 0: it must be at least 1\n")
    answer = trace(ready, "sgd")
    assert answer.returncode == 2
    assert "the nearest is" in answer.stderr
    answer = trace(ready, "ssgd", "--results", "elsewhere")
    assert answer.returncode == 2
    assert "thinwire data digits" in answer.stderr
    assert not (ready.folder / "elsewhere/traces").exists()
