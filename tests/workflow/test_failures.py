"""What goes wrong in one cell is a result of that cell: the others go on, and the tables show it."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

HEAD = "import os, signal\nimport thinwire\n\n\nclass Method(thinwire.Method):\n"
BROKEN = {
    "raises": HEAD + "    def step(self):\n        raise RuntimeError('out of luck')\n",
    "syntax": HEAD + "    def step(self:\n",
    "dies": HEAD + "    def step(self):\n        os.kill(os.getpid(), signal.SIGKILL)\n",
    "explodes": HEAD + "    def step(self):\n        self.run.weights[0].fill_(float('nan'))\n",
    "skips": HEAD + "    def skip(self):\n        return 'it wants more'\n",
}
EXPECTED = {
    "ssgd": ("done", ""),
    "raises": ("failed", "RuntimeError: out of luck"),
    "syntax": ("failed", "methods/syntax.py, line 6: SyntaxError"),
    "dies": ("failed", "killed by SIGKILL"),
    "explodes": ("diverged", "not finite after step"),
    "skips": ("skipped", "it wants more"),
}


@pytest.fixture(scope="module")
def summary(project):
    for name, text in BROKEN.items():
        project.write(f"methods/{name}.py", text)
    answer = project.snakemake()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return pd.read_csv(project.folder / "results/summary.csv").set_index("method")


@pytest.mark.parametrize("method", EXPECTED)
def test_every_end_is_a_result_with_its_reason(summary, method):
    status, reason = EXPECTED[method]
    assert summary.status[method] == status
    assert reason in str(summary.reason[method])


def test_the_table_shows_them(project, summary):
    text = (project.folder / "results/tables/tiny/summary.md").read_text()
    for part in ("1 failed", "1 diverged", "1 skipped", "raises: RuntimeError: out of luck"):
        assert part in text


def curve(project, results):
    (path,) = (project.folder / results).rglob("curve.parquet")
    frame = pd.read_parquet(path)
    return frame.drop(columns=[c for c in frame if c.endswith("_seconds")])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on_to_the_same_curve(project, how):
    suite = (project.folder / "config/tiny.yaml").read_text().replace("epochs: 2", "epochs: 40")
    project.write("config/long.yaml", suite + "checkpoint_every_seconds: 0\n")
    cell = "digits/cnn/top_k/w2/seed0"
    whole, broken = f"whole-{how.name}", f"broken-{how.name}"
    for results in (whole, broken):
        assert project.python("thinwire", "data", "digits", "--results", results).returncode == 0
    assert project.python("thinwire", "run", "long", cell, "--results", whole).returncode == 0

    command = [sys.executable, "-m", "thinwire", "run", "long", cell, "--results", broken]
    run = subprocess.Popen(
        command, cwd=project.folder, env=project.environment(), stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline().startswith("epoch")
    os.kill(run.pid, how)
    run.stdout.read()
    run.stdout.close()
    assert run.wait(timeout=60) == (143 if how == signal.SIGTERM else -signal.SIGKILL)
    assert not list((project.folder / broken).rglob("run.json"))

    again = project.python("thinwire", "run", "long", cell, "--results", broken)
    assert again.returncode == 0, again.stderr
    (log,) = (project.folder / broken).rglob("log.txt")
    assert "goes on after step" in log.read_text()
    pd.testing.assert_frame_equal(curve(project, whole), curve(project, broken), check_exact=True)


def test_a_pipeline_that_was_killed_is_started_again(project):
    suite = (project.folder / "config/tiny.yaml").read_text().replace('{"*": }', "{ssgd: , top_k: }")
    project.write("config/killed.yaml", suite.replace("epochs: 2", "epochs: 6"))
    command = [sys.executable, "-m", "snakemake", "--config", "suites=killed"]
    pipeline = subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not list((project.folder / "results/partial").glob("killed/**/log.txt")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(pipeline.pid, signal.SIGKILL)
    pipeline.wait()
    # What the README says: the dead pipeline's lock is removed first.
    assert project.snakemake("--unlock", suite="killed").returncode == 0
    again = project.snakemake(suite="killed")
    assert again.returncode == 0, again.stderr
    assert set(pd.read_csv(project.folder / "results/summary.csv").status) == {"done"}
