"""Ranks on this machine: their results, and how they end whatever happens to one of them."""

import json
import re
import signal

import pandas as pd
import pytest
import torch

from tests.waiting import SECONDS
from tests.workflow.conftest import HELD, HELD_EPOCHS, Project

FAULTY = '''"""Goes wrong in one rank, as its option says."""

import atexit
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

import torch

import thinwire


class Method(thinwire.Method):
    @dataclass
    class Config:
        how: str = "well"  # it goes

    def sync_gradients(self):
        run, how = self.run, self.config.how
        gradients = run.gradients
        first = Path(f"first-{how}")  # SIGKILL comes at every attempt, the others only once
        if run.step == 5 and how == "all raise":
            raise RuntimeError("out of luck")
        if run.step == 5 and how == "aborts at exit":
            atexit.register(os.abort)
        if run.step == 5 and run.world.rank == 2:
            if how == "raises":
                raise RuntimeError("out of luck")
            if how == "exits":
                raise SystemExit("enough")
            if how.startswith("SIG") and not first.exists():
                if how != "SIGKILL":
                    first.touch()
                os.kill(os.getpid(), getattr(signal, how))
            if how.startswith("code"):
                os._exit(int(how.removeprefix("code")))
            if how == "hangs":
                threading.Event().wait()
            if how == "other kind":
                run.world.mean(gradients, kind="weights").wait()
                return
            if how == "other shape":
                gradients = [torch.zeros(7)]
        run.world.mean(gradients).wait()
'''
# Ranks without a heartbeat are ended after the seconds that their suite allows; all others end by themselves.
PATIENCE = 8
IMPATIENT = ("SIGSTOP", "hangs")
# The failure, and what the record says about it.
FAULTS = {
    "well": ("done", None),
    "raises": ("failed", r"rank 2 on \S+: RuntimeError: out of luck \(methods/faulty.py, line \d+\)"),
    "all raise": ("failed", r"RuntimeError: out of luck \(methods/faulty.py, line \d+\)"),
    "exits": ("failed", r"rank 2 on \S+: SystemExit: enough"),
    "SIGKILL": ("failed", r"rank 2 on \S+ was killed by SIGKILL while it computes"),
    "SIGSEGV": ("done", None),
    "SIGSTOP": ("done", None),
    "code0": ("failed", r"rank 2 on \S+ ended with exit code 0, and thinwire did not end it"),
    "code143": ("failed", r"rank 2 on \S+ ended with exit code 143, and thinwire did not end it"),
    "hangs": (
        "failed",
        rf"nothing has moved for {PATIENCE} s: rank 2 on \S+ computes, and the others wait",
    ),
    "other kind": (
        "failed",
        r"do not agree on run.world: call 6: rank 0 calls .* and rank 2 calls .*weights",
    ),
    "other shape": (
        "failed",
        r"do not agree on run.world: call 6: rank 0 calls .* and rank 2 calls mean\(values, float32\[7\]\)",
    ),
}
# Ranks that leave their stacks if the ranks differ. A killed or stopped rank cannot.
STACKS = {"raises": 4, "exits": 4, "hangs": 4, "SIGKILL": 3 * 3, "SIGSTOP": 3, "code0": 3}
# Lost ranks are started again, and the reason is reported.
LOST = {
    "SIGKILL": "was killed by SIGKILL",
    "SIGSEGV": "was killed by SIGSEGV",
    "SIGSTOP": f"has not been heard of for {PATIENCE} s",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    copy = Project(tmp_path_factory.mktemp("project"))
    copy.write("methods/faulty.py", FAULTY)
    copy.write("methods/held.py", HELD)
    ways = (*FAULTS, "aborts at exit")
    methods = {how: f"\n  {name(how)}: {{use: faulty, options: {{how: {how}}}}}" for how in ways}
    sizes, transport = "[4, {workers: 4, nodes: 2}]", "transport: processes\n"
    copy.suite("faulty", "\n  ssgd:" + "".join(methods.values()), 1, sizes, transport)
    impatient = "".join(methods[how] for how in IMPATIENT)
    more = f"{transport}hang_seconds: {PATIENCE}\n"
    copy.suite("impatient", "\n  ssgd:" + impatient, 1, sizes, more)
    more = f"{transport}checkpoint_every_seconds: 0\n"
    copy.suite("long", "{ssgd: , top_k: , held: }", HELD_EPOCHS, sizes, more)
    assert copy.python("thinwire", "data", "digits").returncode == 0
    return copy


def name(how):
    return how.replace(" ", "_")


def run(project, suite, cell, *more, results="results"):
    return project.python("thinwire", "run", suite, cell, "--results", results, *more)


def record(project, suite, cell, results="results"):
    folder = project.folder / results / "runs" / suite / cell
    return json.loads((folder / "run.json").read_text()), (folder / "log.txt").read_text()


@pytest.mark.parametrize("how", FAULTS)
def test_a_run_ends_and_reports_whatever_happens_to_a_rank(project, how):
    status, expected = FAULTS[how]
    # On two nodes gloo carries the means; a rank that calls something else makes it abort.
    cell = f"digits/cnn/{name(how)}/w4n2/seed0"
    suite = "impatient" if how in IMPATIENT else "faulty"
    answer = run(project, suite, cell)
    made, log = record(project, suite, cell)
    assert (made["status"], made["kind"]) == (status, "measured")
    assert answer.returncode == (0 if status == "done" else 1), answer.stderr
    if expected is None:
        assert made["reason"] is None
    else:
        assert re.search(expected, made["reason"]), made["reason"]
        assert made["reason"] in answer.stdout
    if how in LOST:
        assert re.search(rf"rank 2 on \S+ {LOST[how]}.*: attempt 2 of 3", answer.stdout)
    if how in STACKS:
        assert log.count("stacks of rank") == STACKS[how]
    if how == "SIGSEGV":
        assert "Fatal Python error: Segmentation fault" in log
    assert project.processes() == []


def curve(project, suite, cell, results):
    frame = pd.read_parquet(project.folder / results / "runs" / suite / cell / "curve.parquet")
    return frame.drop(columns=[c for c in frame if c.endswith("_seconds")])


def ledgers(project, cell, results):
    folder = project.folder / results / "runs" / "long" / cell
    keys = ["step", "channel", "verb", "kind"]
    return pd.read_parquet(folder / "traffic.parquet").sort_values(keys).reset_index(drop=True)


def test_processes_give_what_one_process_gives(project):
    cell = "digits/cnn/top_k/w4n2/seed0"
    copy = project.folder / "alone/by_hand"
    assert project.python("thinwire", "data", "digits", "--results", "alone").returncode == 0
    for results, transport in (("results", "processes"), ("alone", "inprocess")):
        answer = run(project, "long", cell, "--transport", transport, results=results)
        assert answer.returncode == 0, answer.stderr
    assert json.loads((copy / "runs/long" / cell / "run.json").read_text())["kind"] == "inprocess"
    pd.testing.assert_frame_equal(ledgers(project, cell, "results"), ledgers(project, cell, "alone/by_hand"))
    mine, theirs = (curve(project, "long", cell, results) for results in ("results", "alone/by_hand"))
    # In single precision gloo adds in another order.
    pd.testing.assert_frame_equal(mine, theirs, rtol=0.02, atol=1.0)


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGKILL]
)
def test_an_interrupted_run_resumes_to_the_same_bits(project, how):
    cell, results = "digits/cnn/held/w4/seed0", f"broken-{how.name}"
    if not (project.folder / "results/runs/long" / cell / "run.json").exists():
        assert run(project, "long", cell).returncode == 0
    assert project.python("thinwire", "data", "digits", "--results", results).returncode == 0
    with project.run_held("long", cell, results) as process:
        # To the process that was started, and not to its ranks.
        process.send_signal(how)
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == (-how if how == signal.SIGKILL else 128 + how), errors
        project.until_nobody_is_left()
    assert not list((project.folder / results).rglob("run.json"))

    again = run(project, "long", cell, results=results)
    assert again.returncode == 0, again.stderr
    made, log = record(project, "long", cell, results)
    assert made["interruptions"] == 1
    assert "goes on after step" in log
    pd.testing.assert_frame_equal(
        curve(project, "long", cell, "results"), curve(project, "long", cell, results), check_exact=True
    )


def test_a_wrong_number_of_workers_is_refused(project):
    answer = run(project, "faulty", "digits/cnn/ssgd/w4/seed0", "--workers", "3")
    assert answer.returncode == 2
    assert "there are 3 ranks, but the cell has 4 workers on 1 nodes" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_missing_gpu_is_reported_once(project):
    project.suite("gpu", "{ssgd: }", workers="[4]", more="transport: processes\ndevice: cuda\n")
    answer = run(project, "gpu", "digits/cnn/ssgd/w4/seed0")
    assert answer.returncode == 2
    assert answer.stderr.count("torch finds none here") == 1
    assert "Traceback" not in answer.stderr


def test_two_runs_of_one_cell_do_not_connect(project):
    cell, results = "digits/cnn/held/w4/seed0", "twice"
    assert project.python("thinwire", "data", "digits", "--results", results).returncode == 0
    with project.run_held("long", cell, results) as first:
        second = run(project, "long", cell, results=results)
        assert second.returncode == 2
        assert second.stderr.count("another process is at work on long/digits/cnn/held/w4/seed0") == 1
        project.gate.open()
        _, errors = first.communicate(timeout=SECONDS)
        assert first.returncode == 0, errors


def test_a_missing_data_set_is_reported_once(project):
    answer = run(project, "faulty", "digits/cnn/ssgd/w4/seed0", results="empty")
    assert answer.returncode == 2
    assert answer.stderr.count("there is no data set") == 1
    assert "Traceback" not in answer.stderr


def test_torchrun_starts_the_ranks_too(project):
    # The clean-up of the interpreter would abort; it is left out.
    cell = "digits/cnn/aborts_at_exit/w4/seed0"
    command = ["torch.distributed.run", "--nproc-per-node=4", "--standalone", "-m", "thinwire"]
    answer = project.python(*command, "run", "faulty", cell)
    assert answer.returncode == 0, answer.stderr
    made, _ = record(project, "faulty", cell)
    assert made["kind"] == "measured"
    # Described are two nodes, and torchrun has one.
    answer = project.python(*command, "run", "faulty", "digits/cnn/ssgd/w4n2/seed0")
    assert answer.returncode != 0
    assert "the cell describes 2 nodes with 2 workers each" in answer.stderr


def test_all_methods_of_a_cell_are_measured_in_a_block(project):
    project.suite("block", "{ssgd: , top_k: , faulty: {options: {how: raises}}}", epochs=1, workers="[4]",
                  more="transport: processes\n")  # fmt: skip
    answer = project.snakemake(suite="block")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    summary = pd.read_csv(project.folder / "results/summary.csv")
    summary = summary[summary.suite == "block"].set_index("method")
    assert dict(summary.status) == {"ssgd": "done", "top_k": "done", "faulty": "failed"}
    assert set(summary.kind) == {"measured"}
    assert "rank 2 on" in summary.reason["faulty"]
    # Nothing is left to do; and what is deleted is made again, with all that is measured beside it.
    assert not project.is_planned("block")
    (project.folder / "results/runs/block/digits/cnn/top_k/w4/seed0/run.json").unlink()
    assert project.is_planned("block")
