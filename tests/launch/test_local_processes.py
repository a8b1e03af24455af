"""Ranks on this machine, in real processes: their results, and how they end whatever happens to one of them.

What is made of exit codes and last words is tested without processes, in `test_run_processes` and
`test_retry`; `tests/faults` tries every fault in every phase.
"""

import json
import re

import pandas as pd
import pytest

from tests.commands import succeeded
from tests.faults import suites
from tests.workflow.conftest import Project

# The suite allows a rank so many seconds without progress. All other ranks move far more often.
PATIENCE = 15
# The fault -> how the run ends, what its record says, and how many ranks leave their stacks.
FAULTS = {
    "killed": ("failed", r"rank 1 on \S+ was killed by SIGKILL\b.* while it computes", 3 * 3),
    "crashes once": ("done", "^none$", 3),
    "other kind": (
        "failed",
        r"the workers do not agree on run.world: by rank they made .* calls, .*thinwire check --processes",
        0,
    ),
}
SIGNALS = {"killed": "SIGKILL", "crashes once": "SIGSEGV"}
HANG = rf"nothing has moved for {PATIENCE} s: rank 1 on \S+ computes, and the others wait"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    copy = Project(tmp_path_factory.mktemp("project"))
    copy.write("methods/faulty.py", suites.FAULTY)
    # On two nodes gloo carries the means.
    suite(copy, "faulty", FAULTS, "[{workers: 4, nodes: 2}]")
    suite(copy, "slow", ("hangs", "aborts at exit"), "[4]", f"hang_seconds: {PATIENCE}\n")
    assert copy.python("thinwire", "data", "digits").returncode == 0
    return copy


def suite(project, name, ways, sizes, more=""):
    methods = [
        f"{folder(how)}: {{use: faulty, options: {{how: {how}, where: sync_gradients}}}}" for how in ways
    ]
    transport = "transport: processes\n"
    project.suite(name, f"{{ssgd: , {', '.join(methods)}}}", 1, sizes, transport + more)


def folder(how):
    return how.replace(" ", "_")


def record(project, suite, cell):
    """The record of a cell, and its log."""
    path = project.folder / "results/runs" / suite / cell
    return json.loads((path / "run.json").read_text()), (path / "log.txt").read_text()


@pytest.fixture(scope="module")
def block(project: Project) -> str:
    """What is said of a block in which a rank of each run has a fault."""
    answer = succeeded(project.python("thinwire", "train", "faulty", "digits/cnn/w4n2/seed0"))
    assert project.processes() == []
    return answer.stdout


@pytest.mark.parametrize("how", FAULTS)
def test_a_run_ends_and_reports_whatever_happens_to_a_rank(project, block, how):
    status, expected, stacks = FAULTS[how]
    cell = f"digits/cnn/{folder(how)}/w4n2/seed0"
    made, log = record(project, "faulty", cell)
    assert (made["status"], made["kind"]) == (status, "measured")
    reason = made["reason"]
    assert re.search(expected, reason or "none"), reason
    about = f": {re.escape(reason)}; log: " if reason else "$"
    assert re.search(f"^{cell}: {status} after \\d+ s{about}", block, re.MULTILINE), block
    if how in SIGNALS:
        said = (project.folder / "results/logs/train/faulty" / f"{cell}.txt").read_text()
        assert re.search(rf"rank 1 on \S+ was killed by {SIGNALS[how]}.*: attempt 2 of 3", said)
    assert log.count("stacks of rank") == stacks
    assert ("Fatal Python error: Segmentation fault" in log) == (how == "crashes once")


@pytest.mark.slow
def test_a_rank_that_hangs_is_named(project):
    cell = "digits/cnn/hangs/w4/seed0"
    answer = project.python("thinwire", "run", "slow", cell)
    made, log = record(project, "slow", cell)
    assert (answer.returncode, made["status"]) == (1, "failed"), answer.stderr
    assert re.search(HANG, made["reason"]), made["reason"]
    assert made["reason"] in answer.stdout
    assert log.count("stacks of rank") == 4
    assert project.processes() == []


@pytest.mark.slow
def test_torchrun_starts_the_ranks_too(project):
    # The clean-up of the interpreter would abort; it is left out.
    cell = "digits/cnn/aborts_at_exit/w4/seed0"
    command = ["torch.distributed.run", "--nproc-per-node=4", "--standalone", "-m", "thinwire"]
    succeeded(project.python(*command, "run", "slow", cell))
    made, _ = record(project, "slow", cell)
    assert made["kind"] == "measured"


@pytest.mark.slow
def test_all_methods_of_a_cell_are_measured_in_a_block(project):
    methods = "{ssgd: , top_k: , faulty: {options: {how: raises, where: sync_gradients}}}"
    project.suite("block", methods, epochs=1, workers="[4]", more="transport: processes\n")
    succeeded(project.snakemake(suite="block"))
    summary = pd.read_csv(project.folder / "results/summary.csv")
    summary = summary[summary.suite == "block"].set_index("method")
    assert dict(summary.status) == {"ssgd": "done", "top_k": "done", "faulty": "failed"}
    assert set(summary.kind) == {"measured"}
    assert "rank 1 on" in summary.reason["faulty"]
    # Nothing is left to do; and what is deleted is made again, with all that is measured beside it.
    assert not project.is_planned("block")
    (project.folder / "results/runs/block/digits/cnn/top_k/w4/seed0/run.json").unlink()
    assert project.is_planned("block")
