"""A preparation is made once, shared by the method's runs, counted, and resumed after a kill."""

import json
import os

import pandas as pd
import pytest

from tests.commands import succeeded
from tests.workflow.conftest import HEAD
from thinwire.base import digests
from thinwire.records import record

pytestmark = pytest.mark.slow

# Prepares from two runs, and waits at the gate in the middle of the second one. Every run starts from its
# weights.
PREPARES = '''"""Starts from weights that two runs of SSGD have prepared."""

from dataclasses import dataclass, replace

import gate
import thinwire
from safetensors.torch import load_file, save_file
from thinwire import plugins
from thinwire.base.placement import Cluster


class Method(thinwire.Method):
    prepares_from_models = ("lenet",)
    prepares_for_any_epochs = True

    @dataclass
    class Config:
        colour: str = "red"  # says nothing

    @classmethod
    def prepare(cls, config, job, folder):
        ssgd = plugins.get("method", "ssgd").load()
        task = replace(job.task, cluster=Cluster(2))

        def after_epoch(run):
            with (job.scratch / "epochs.txt").open("a") as file:
                file.write(f"{run.step // run.steps_per_epoch}\\n")
            if run.step == 2 * run.steps_per_epoch:
                gate.wait()

        job.scratch.mkdir(exist_ok=True)
        job.train(task, ssgd, ssgd.Config(), job.scratch / "first")
        run = job.train(task, ssgd, ssgd.Config(), job.scratch / "second", after_epoch)
        weights, _ = run.shipped()
        save_file({str(i): w.clone() for i, w in enumerate(weights)}, folder / "weights.safetensors")
        (folder / "epochs.txt").write_text((job.scratch / "epochs.txt").read_text())

    def setup(self):
        saved = load_file(self.prepared / "weights.safetensors")
        for i, weight in enumerate(self.run.weights):
            weight.copy_(saved[str(i)])
'''
HOOK = "    @classmethod\n    def prepare(cls, config, job, folder):\n        "


@pytest.fixture(scope="module")
def suite(project):
    project.suite("unprepared", "{ssgd: }")
    methods = "{prepares: , shorter: {use: prepares, epochs: 1}, refuses: , dies: , leaves: }"
    more = "baseline: prepares\ncheckpoint_every_seconds: 0\n"
    project.suite("prepared", methods, epochs=3, workers="[2, 4]", more=more)
    project.write("methods/prepares.py", PREPARES)
    project.write("methods/refuses.py", HEAD + HOOK + "raise RuntimeError('out of luck')\n")
    project.write("methods/dies.py", HEAD + HOOK + "os.kill(os.getpid(), signal.SIGKILL)\n")
    project.write("methods/leaves.py", HEAD + HOOK + "os._exit(0)\n")
    return project


def test_a_pipeline_killed_during_a_preparation_resumes(suite):
    suite.killed("prepared")
    results = suite.folder / "results"
    succeeded(suite.snakemake(suite="prepared"))
    folder = results / "prepared/prepared/digits/cnn/prepares/seed0"
    # The second epoch's checkpoint had not been written.
    assert (folder / "epochs.txt").read_text().split() == ["1", "2", "2", "3"]
    assert not (folder / "scratch").exists()
    assert not (results / "prepared/prepared/digits/cnn/shorter").exists()
    runs = pd.read_csv(results / "summary.csv").set_index(["method", "workers"])
    assert list(runs.status["prepares"]) == list(runs.status["shorter"]) == ["done", "done"]
    assert list(runs.epochs["shorter"]) == [1, 1]
    assert (runs.test_accuracy_percent["prepares"] > 0).all()
    reasons = {
        "refuses": "RuntimeError: out of luck",
        "dies": "the process was killed by SIGKILL",
        "leaves": "the process ended with exit code 0",
    }
    for method, reason in reasons.items():
        assert list(runs.status[method]) == ["failed", "failed"]
        assert runs.reason[method].str.contains("its preparation failed").all()
        assert runs.reason[method].str.contains(reason).all()


def test_every_run_that_uses_a_preparation_has_its_cost(suite):
    results = suite.folder / "results"
    prepared = json.loads((results / "prepared/prepared/digits/cnn/prepares/seed0/prepared.json").read_text())
    sent = prepared["cost"]["traffic"]["payload_push_bytes"]
    for label in ("prepares", "shorter"):
        for size in ("w2", "w4"):
            run = record.read(results / f"runs/prepared/digits/cnn/{label}/{size}/seed0" / record.RUN)
            # SSGD pushes every gradient, in single precision, at every step of both runs, which lasted for
            # the three epochs of the first label, on nine tenths of the images; nothing counts twice.
            steps = round(0.9 * 1258) // 64
            assert run.preparation.traffic.payload_push_bytes == sent == 2 * 3 * steps * 4 * run.parameters
            assert run.preparation.seconds > 0
            assert run.result.traffic.payload_push_bytes == 0


def test_only_what_changed_is_prepared_again(suite):
    assert not suite.is_planned("prepared")
    os.utime(suite.folder / "methods/prepares.py")
    assert not suite.is_planned("prepared")
    text = (suite.folder / "methods/prepares.py").read_text()
    suite.write("methods/prepares.py", text + "# another version\n")
    assert suite.is_planned("prepared")
    suite.write("methods/prepares.py", text)
    model = (suite.folder / "models/lenet.py").read_text()
    suite.write("models/lenet.py", model + "# another version\n")
    assert suite.is_planned("prepared")
    refused = suite.python("thinwire", "run", "prepared", "digits/cnn/prepares/w2/seed0")
    assert "was prepared for another file of the model lenet" in refused.stderr
    suite.write("models/lenet.py", model)


def test_a_finished_preparation_is_not_repeated(suite):
    path = suite.folder / "results/prepared/prepared/digits/cnn/prepares/seed0/prepared.json"
    before = path.read_text()
    succeeded(suite.python("thinwire", "prepare", "prepared", "digits/cnn/prepares/seed0"))
    assert path.read_text() == before


def test_a_preparation_that_lacked_only_the_rename_is_published(suite):
    """Its process died after the last write and before the rename."""
    results = suite.folder / "results"
    target = results / "prepared/prepared/digits/cnn/prepares/seed0"
    preparing = results / "preparing/prepared/digits/cnn/prepares/seed0"
    before = (target / "prepared.json").read_text()
    target.rename(preparing)
    (preparing / "scratch").mkdir()
    (preparing / ".progress.json.123").touch()
    succeeded(suite.python("thinwire", "prepare", "prepared", "digits/cnn/prepares/seed0"))
    assert (target / "prepared.json").read_text() == before
    assert sorted(p.name for p in target.iterdir()) == ["epochs.txt", "prepared.json", "weights.safetensors"]


def test_entries_with_other_epochs_share_only_where_the_method_says_so(suite):
    text = (suite.folder / "methods/prepares.py").read_text()
    suite.write("methods/prepares.py", text.replace("    prepares_for_any_epochs = True\n", ""))
    listed = suite.python("snakemake", "--config", "suites=prepared", "-n", "--quiet", "host").stdout
    assert "prepared/prepared/digits/cnn/shorter/seed0/prepared.json" in listed
    suite.write("methods/prepares.py", text)


def test_bad_input_is_one_sentence(suite):
    def refused(*arguments):
        answer = suite.python("thinwire", *arguments)
        assert answer.returncode == 2
        assert answer.stderr.count("\n") == 1
        return answer.stderr

    assert "has no preparation" in refused("prepare", "prepared", "digits/cnn/nothing/seed0")
    assert "none of its methods prepares" in refused("prepare", "unprepared", "digits/cnn/ssgd/seed0")
    path = suite.folder / "results/prepared/prepared/digits/cnn/prepares/seed0/prepared.json"
    sound = path.read_text()
    path.unlink()
    again = refused("run", "prepared", "digits/cnn/prepares/w2/seed0", "--again")
    assert "prepared.json is missing" in again
    path.write_text(sound)


def test_the_preparation_of_another_cell_is_made_once_and_used(suite):
    """Only `reused` is wanted, on one data set. Its preparation is that of another one, which is made too."""
    methods = "{prepares: , reused: {use: prepares, prepare_from: {seed: 0, dataset: other}}}"
    suite.suite("shared", methods, epochs=1, more="baseline: prepares\n")
    text = (suite.folder / "config/shared.yaml").read_text()
    text = text.replace("repetitions: 1", "repetitions: 2")
    suite.write(
        "config/shared.yaml", text.replace("datasets: [digits]", "datasets: {digits: , other: {use: digits}}")
    )
    made = suite.python(
        "snakemake",
        "--config",
        "suites=shared",
        "datasets=digits",
        "methods=reused",
        "--until",
        "train_shared-digits-w2",
    )
    assert made.returncode == 0, made.stdout + made.stderr
    results = suite.folder / "results"
    prepared = sorted((results / "prepared/shared").rglob("prepared.json"))
    assert prepared == [results / "prepared/shared/other/cnn/prepares/seed0/prepared.json"]
    for seed in ("seed0", "seed1"):
        run = record.read(results / f"runs/shared/digits/cnn/reused/w2/{seed}" / record.RUN)
        assert run.status == "done"
        assert run.provenance["prepared_sha256"] == digests.of_file(prepared[0])
        assert run.cell["prepare_from"]["repetition"] == 0
        assert run.cell["prepare_from"]["data"]["label"] == "other"
        cost = json.loads(prepared[0].read_text())["cost"]
        assert run.preparation.model_dump(mode="json") == cost


def test_a_skipped_cell_prepares_nothing(suite):
    suite.suite("normed", "{ssgd: , mp2: }")
    text = (suite.folder / "config/normed.yaml").read_text()
    model = "models: {resnet: {options: {depth: 8, width: 2}}}"
    suite.write("config/normed.yaml", text.replace("models: {cnn: {options: {width: 2}}}", model))
    answer = succeeded(suite.python("thinwire", "run", "normed", "digits/resnet/mp2/w2/seed0"))
    assert "skipped: the model has batch norm, which it cannot predict" in answer.stdout
    assert suite.snakemake(suite="normed").returncode == 0
    table = (suite.folder / "results/tables/normed/summary.md").read_text()
    assert "mp2: the model has batch norm, which it cannot predict: take one without" in table
