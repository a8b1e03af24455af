"""A failure in one cell is a result of that cell: the other cells continue, and the tables show it."""

import os
import signal

import pandas as pd
import pytest

from tests.commands import succeeded
from tests.waiting import SECONDS
from tests.workflow.conftest import HEAD, HELD, HELD_EPOCHS

pytestmark = pytest.mark.slow

BROKEN = {
    "raises": HEAD + "    def step(self):\n        raise RuntimeError('out of luck')\n",
    "exits": HEAD + "    def step(self):\n        raise SystemExit('enough')\n",
    "refuses": HEAD + "    def step(self):\n        raise thinwire.UserError('not today')\n",
    "syntax": HEAD + "    def step(self:\n",
    "dies": HEAD + "    def step(self):\n        os.kill(os.getpid(), signal.SIGKILL)\n",
    "leaves": HEAD + "    def step(self):\n        os._exit(0)\n",
    "interrupts": HEAD + "    def step(self):\n        raise KeyboardInterrupt\n",
    "explodes": HEAD + "    def step(self):\n        self.run.weights[0].fill_(float('nan'))\n",
    "skips": HEAD + "    def skip(self):\n        return 'it wants more'\n",
    # It changes the folder, and closes stdout and stderr, so that nothing can be printed.
    "wanders": HEAD
    + "    def setup(self):\n        os.chdir('/')\n"
    + "    def finish(self):\n        import sys\n        sys.stdout.close()\n        sys.stderr.close()\n",
}
EXPECTED = {
    "ssgd": ("done", ""),
    "raises": ("failed", "RuntimeError: out of luck (methods/raises.py, line 7)"),
    "exits": ("failed", "SystemExit: enough (methods/exits.py, line 7)"),
    "refuses": ("failed", "UserError: not today (methods/refuses.py, line 7)"),
    "syntax": ("failed", "methods/syntax.py, line 6: SyntaxError"),
    "dies": ("failed", "the process was killed by SIGKILL"),
    "leaves": ("failed", "the process ended with exit code 0, and thinwire did not end it"),
    "interrupts": ("failed", "the process was killed by SIGINT"),
    "explodes": ("diverged", "not finite after step"),
    "skips": ("skipped", "it wants more"),
    "wanders": ("done", ""),
}


@pytest.fixture(scope="module")
def summary(project):
    for name, text in BROKEN.items():
        project.write(f"methods/{name}.py", text)
    project.suite("tiny", f"{{{': , '.join(EXPECTED)}: }}")
    succeeded(project.snakemake())
    runs = pd.read_csv(project.folder / "results/summary.csv")
    return runs[runs.suite == "tiny"].set_index("method")


@pytest.mark.parametrize("method", EXPECTED)
def test_every_outcome_is_a_result_with_its_reason(summary, method):
    status, reason = EXPECTED[method]
    assert summary.status[method] == status
    assert reason in str(summary.reason[method])


def test_the_table_shows_them(project, summary):
    text = (project.folder / "results/tables/tiny/summary.md").read_text()
    for part in ("1 failed", "1 diverged", "1 skipped", "raises: RuntimeError: out of luck (methods/raises"):
        assert part in text


def test_a_suite_without_any_result_still_has_its_table(project, summary):
    project.suite("nothing", "{raises: , skips: }", more="baseline: raises\n")
    succeeded(project.snakemake(suite="nothing"))
    text = (project.folder / "results/tables/nothing/summary.md").read_text()
    assert "1 failed" in text
    assert "1 skipped" in text


@pytest.fixture
def held(project):
    """The suite `held`, whose runs wait at the gate where it is closed."""
    project.write("methods/held.py", HELD)
    more = "baseline: held\ncheckpoint_every_seconds: 0\n"
    project.suite("held", "{held: }", HELD_EPOCHS, more=more)
    return "digits/cnn/held/w2/seed0"


def run(project, results, suite="held", method="held"):
    return project.python("thinwire", "run", suite, f"digits/cnn/{method}/w2/seed0", "--results", results)


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_a_pipeline_that_has_been_stopped_can_be_started_again(project, held, how):
    project.suite(how, "{ssgd: , held: }", HELD_EPOCHS, more="checkpoint_every_seconds: 0\n")
    if how == "killed":
        project.killed(how)
    else:
        with project.held("snakemake", "--config", f"suites={how}") as process:
            os.killpg(process.pid, signal.SIGINT)
            project.gate.open()
            _, said = process.communicate()
        assert process.returncode != 0
        assert "interrupted: start the same command again" in said
        assert "Traceback" not in said
        assert "WorkflowError" not in said
    succeeded(project.snakemake(suite=how))
    (log,) = (project.folder / f"results/runs/{how}/digits/cnn/held").rglob("log.txt")
    assert "goes on after step" in log.read_text()
    runs = pd.read_csv(project.folder / "results/summary.csv")
    assert set(runs.status[runs.suite == how]) == {"done"}


def test_a_method_that_is_edited_while_it_runs_is_not_published(project, held):
    assert project.python("thinwire", "data", "digits", "--results", "edited").returncode == 0
    with project.run_held("held", held, "edited") as process:
        project.write("methods/held.py", HELD + "# another version\n")
        project.gate.open()
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert "the file of the method was changed while" in errors
    assert not list((project.folder / "edited").rglob("run.json"))


def test_two_runs_of_one_cell_do_not_disturb_each_other(project, held):
    assert project.python("thinwire", "data", "digits", "--results", "twice").returncode == 0
    with project.run_held("held", held, "twice") as process:
        second = run(project, results="twice")
        assert second.returncode == 2
        assert "another process is at work on held/digits/cnn/held/w2/seed0" in second.stderr
        project.gate.open()
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors
    assert len(list((project.folder / "twice/runs").rglob("run.json"))) == 1


def test_a_checkpoint_of_other_data_is_not_used(project, held):
    assert project.python("thinwire", "data", "digits", "--results", "moved").returncode == 0
    with project.run_held("held", held, "moved") as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 143, errors
    dataset = (project.folder / "datasets/digits.py").read_text()
    changed = dataset.replace(
        "    classes = 10\n", "    classes = 10\n    augment = thinwire.Augment(pad=1)\n"
    )
    assert changed != dataset
    project.write("datasets/digits.py", changed)
    stale = run(project, results="moved")
    assert stale.returncode == 2
    assert "laid out with the augmentation" in stale.stderr
    assert project.python("thinwire", "data", "digits", "--results", "moved").returncode == 0
    assert run(project, results="moved").returncode == 0
    project.write("datasets/digits.py", dataset)
    (log,) = (project.folder / "moved/runs").rglob("log.txt")
    assert "training from the beginning" in log.read_text()
