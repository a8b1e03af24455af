"""What a method prepares is made once, shared by its runs, counted, and gone on with after a kill."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from thinwire import record

# Prepares in two halves of which the first is kept, and starts every run from what it prepared.
PREPARES = '''"""Starts from weights that a run of SSGD has prepared."""

import time

import thinwire
from safetensors.torch import load_file, save_file
from thinwire import plugins


class Method(thinwire.Method):
    @classmethod
    def prepare(cls, config, job, folder):
        with (folder / "attempts.txt").open("a") as file:
            file.write("attempt\\n")
        ssgd = plugins.get("method", "ssgd").load()
        if not (folder / "first_half.txt").exists():
            job.trainer(ssgd, ssgd.Config(), workers=2).train()
            job.trainer(ssgd, ssgd.Config(), workers=2)
            (folder / "first_half.txt").touch()
            time.sleep(WAIT)
        run = job.trainer(ssgd, ssgd.Config(), workers=2)
        run.train()
        weights, _ = run.shipped()
        save_file({str(i): w.clone() for i, w in enumerate(weights)}, folder / "weights.safetensors")

    def setup(self):
        saved = load_file(self.prepared / "weights.safetensors")
        for i, weight in enumerate(self.run.weights):
            weight.copy_(saved[str(i)])
'''
HEAD = '"""Bad."""\n\nimport os, signal\nimport thinwire\n\n\nclass Method(thinwire.Method):\n'
HOOK = "    @classmethod\n    def prepare(cls, config, job, folder):\n        "


@pytest.fixture(scope="module")
def suite(project):
    project.suite("unprepared", "{ssgd: }")
    methods = "{prepares: , refuses: , dies: }"
    project.suite("prepared", methods, workers="[2, 4]", more="baseline: prepares\n")
    project.write("methods/prepares.py", PREPARES.replace("WAIT", "60"))
    project.write("methods/refuses.py", HEAD + HOOK + "raise RuntimeError('out of luck')\n")
    project.write("methods/dies.py", HEAD + HOOK + "os.kill(os.getpid(), signal.SIGKILL)\n")
    return project


def test_a_pipeline_killed_while_it_prepares_goes_on(suite):
    command = [sys.executable, "-m", "snakemake", "--config", "suites=prepared"]
    pipeline = subprocess.Popen(
        command,
        cwd=suite.folder,
        env=suite.environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    results = suite.folder / "results"
    deadline = time.monotonic() + 120
    while not (results / "preparing/prepared/digits/cnn/prepares/seed0/first_half.txt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(pipeline.pid, signal.SIGKILL)
    pipeline.wait()
    assert suite.snakemake("--unlock", suite="prepared").returncode == 0
    again = suite.snakemake(suite="prepared")
    assert again.returncode == 0, again.stdout + again.stderr
    folder = results / "prepared/prepared/digits/cnn/prepares/seed0"
    assert (folder / "attempts.txt").read_text().count("attempt") == 2
    runs = pd.read_csv(results / "summary.csv").set_index(["method", "workers"])
    assert list(runs.status["prepares"]) == ["done", "done"]
    assert (runs.test_accuracy_percent["prepares"] > 0).all()
    for method, reason in (("refuses", "RuntimeError: out of luck"), ("dies", "was killed by SIGKILL")):
        assert list(runs.status[method]) == ["failed", "failed"]
        assert runs.reason[method].str.contains("its preparation failed").all()
        assert runs.reason[method].str.contains(reason).all()


def test_its_cost_stands_in_every_run_that_uses_it(suite):
    results = suite.folder / "results"
    prepared = json.loads((results / "prepared/prepared/digits/cnn/prepares/seed0/prepared.json").read_text())
    sent = prepared["cost"]["traffic"]["payload_push_bytes"]
    for size in ("w2", "w4"):
        run = record.read(results / f"runs/prepared/digits/cnn/prepares/{size}/seed0" / record.RUN)
        # SSGD pushes every gradient, in single precision, at every step; the run before the kill counts too.
        once = 4 * run.parameters * run.total_steps
        assert run.preparation.traffic.payload_push_bytes == sent == 2 * once
        assert run.result.traffic.payload_push_bytes == 0


def test_only_what_changed_is_prepared_again(suite):
    assert suite.planned("prepared") == []
    os.utime(suite.folder / "methods/prepares.py")
    assert suite.planned("prepared") == []
    text = (suite.folder / "methods/prepares.py").read_text()
    suite.write("methods/prepares.py", text + "# another version\n")
    runs = [f"digits/cnn/prepares/{size}/seed0" for size in ("w2", "w4")]
    assert suite.planned("prepared") == runs
    suite.write("methods/prepares.py", text)


def test_bad_input_is_one_sentence(suite):
    def refused(*arguments):
        answer = suite.python("thinwire", *arguments)
        assert answer.returncode == 2
        assert answer.stderr.count("\n") == 1
        return answer.stderr

    assert "has no preparation" in refused("prepare", "prepared", "digits/cnn/nothing/seed0")
    assert "none of its methods prepares" in refused("prepare", "unprepared", "digits/cnn/ssgd/seed0")
    cell = "digits/cnn/prepares/w2/seed0"
    folder = suite.folder / "results/prepared/prepared/digits/cnn/prepares/seed0"
    sound = (folder / "prepared.json").read_text()
    for what in ("options", "data", "method", "model"):
        foreign = json.loads(sound)
        foreign["identity"][what] = "0"
        (folder / "prepared.json").write_text(json.dumps(foreign))
        assert f"for another version of the {what}" in refused("run", "prepared", cell)
    (folder / "prepared.json").unlink()
    assert "prepared.json is missing" in refused("run", "prepared", cell)
    (folder / "prepared.json").write_text(sound)
