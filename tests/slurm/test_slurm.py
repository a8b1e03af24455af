"""thinwire on a real Slurm: grids succeed whatever happens to their jobs.

All grids are started at once and run beside the tests, which wait for what they need.
"""

import re
import socket
import subprocess
import sys
from functools import partial

import pandas as pd
import pytest

from tests.slurm.cluster import Slurm
from tests.slurm.pipeline import Pipeline
from tests.waiting import SECONDS, until
from tests.workflow.conftest import HEAD, HELD_EPOCHS

pytestmark = pytest.mark.slow

IN_RANK_1 = (
    "    def sync_weights(self):\n        if self.run.world.rank == 1 and self.run.step == 5:\n            "
)
BROKEN = {
    "raises": HEAD + IN_RANK_1 + "raise RuntimeError('out of luck')\n",
    # On one host and then on the other: if all losses were on one, that host would be to blame.
    "dies": HEAD.replace(
        "class", "DEATHS = sum(name.startswith('died') for name in os.listdir())\n\n\nclass", 1
    )
    + IN_RANK_1.replace("rank == 1", "rank == (DEATHS + 1) % 2")
    + "open(f'died{DEATHS}', 'w')\n            os.kill(os.getpid(), signal.SIGKILL)\n",
    # Only the first time.
    "stops": HEAD
    + IN_RANK_1
    + "if not os.path.exists('stopped'):\n                open('stopped', 'w')\n"
    + "                os.kill(os.getpid(), signal.SIGSTOP)\n",
}
METHODS = ["ssgd", "top_k", "hsgd"]
MUCH_MEMORY = 120_000  # of a node: two jobs that want so much cannot be there together


@pytest.fixture(scope="module")
def pipelines(slurm, tmp_path_factory):
    """All grids; as they are sent, a node is drained, so that their jobs have to wait."""
    folder = partial(tmp_path_factory.mktemp, numbered=False)

    grid = Pipeline(folder("grid"), *METHODS, size="{workers: 4, nodes: 2}", repetitions=2)
    grid.edit("slurm/config.yaml", "jobs: 100", "jobs: 100\nslurm-array-jobs: all")
    failing = Pipeline(folder("failing"), *BROKEN, "ssgd", size="{workers: 2, nodes: 2}, 1")
    for name, text in BROKEN.items():
        failing.write(f"methods/{name}.py", text)
    limited = Pipeline(folder("limited"), "held", epochs=HELD_EPOCHS, size="{workers: 2, nodes: 2}, 1")
    limited.edit("slurm/config.yaml", "runtime: 50", "runtime: attempt + 2")
    # Of three minutes; Slurm's signal may come half a minute earlier, and ranks must have begun by then.
    limited.edit("thinwire/base/signals.py", "SAVING_SECONDS = 120", "SAVING_SECONDS = 40")
    preempted = Pipeline(folder("preempted"), "held", epochs=HELD_EPOCHS)
    preempted.edit("slurm/config.yaml", "slurm_partition: gpu", "slurm_partition: low")
    preempted.edit("slurm/config.yaml", "mem_mb: 1000", f"mem_mb: {MUCH_MEMORY}")
    cancelled = Pipeline(folder("cancelled"), "ssgd", "held", epochs=HELD_EPOCHS)
    crashed = Pipeline(folder("crashed"), "held", epochs=HELD_EPOCHS)
    made = {each.folder.name: each for each in (grid, failing, limited, preempted, cancelled, crashed)}
    slurm("scontrol", "update", "nodename=node1", "state=drain", "reason=test")
    try:
        for each in made.values():
            each.start()
        yield made
    finally:
        for each in made.values():
            each.kill()
        slurm.clear()


def test_jobs_wait_for_a_drained_node(pipelines, slurm):
    """The tests of each grid check that its jobs succeed when the node is back."""
    until("both blocks are sent", lambda: len(pipelines["grid"].jobs(slurm)) == 2)
    until("they wait for it", lambda: "DRAINED" in slurm("squeue", "--noheader", "--format=%R"))
    states = [slurm.state(job) for job in pipelines["grid"].jobs(slurm)]
    slurm("scontrol", "update", "nodename=node1", "state=resume")
    assert states == ["PENDING", "PENDING"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The curve of an uninterrupted run of `held`, without Slurm."""
    project = Pipeline(tmp_path_factory.mktemp("whole"), "held", epochs=HELD_EPOCHS)
    project.gate.open()
    project.alone("digits/cnn/held/w2n2/seed0", "results")
    return project.curve("held")


def test_a_snakemake_that_was_killed_does_not_send_jobs_twice(pipelines, slurm, whole):
    crashed = pipelines["crashed"]
    crashed.until_it_is_held()
    crashed.kill()
    (job,) = crashed.jobs(slurm)
    profile = ("snakemake", "--profile", "slurm", "--config", "suites=grid")
    assert crashed.python(*profile, "--unlock").returncode == 0
    again = crashed.python(*profile)
    assert again.returncode == 1
    assert (
        f"thinwire: an earlier snakemake has left jobs here: let them end, or stop them with scancel {job},"
        in (again.stderr)
    )
    beside = crashed.python("thinwire", "train", "grid", "digits/cnn/w2n2/seed0")
    assert beside.returncode == 2
    assert "another process is at work on grid/digits/cnn/held/w2n2/seed0" in beside.stderr
    crashed.gate.open()
    slurm.wait(job, "COMPLETED")
    made = crashed.record("held")
    crashed.start()
    crashed.until_it_ends()
    assert crashed.record("held") == made  # it was not run again
    pd.testing.assert_frame_equal(crashed.curve("held"), whole, check_exact=True)


def test_a_cancelled_job_continues_in_the_next_attempt(pipelines, slurm, whole):
    cancelled = pipelines["cancelled"]
    cancelled.until_it_is_held()
    (job,) = cancelled.jobs(slurm)
    slurm("scancel", job)
    cancelled.until_log("goes on after step")
    cancelled.gate.open()
    cancelled.until_published()
    assert "Trying to restart job" in cancelled.output
    assert "1 of 2 runs were made before" in cancelled.log
    assert job_of(cancelled.record("ssgd")) == job
    assert job_of(cancelled.record("held")) != job
    pd.testing.assert_frame_equal(cancelled.curve("held"), whole, check_exact=True)


def test_a_preempted_job_continues_when_slurm_starts_it_again(pipelines, slurm, whole):
    preempted = pipelines["preempted"]
    preempted.until_it_is_held()
    (job,) = preempted.jobs(slurm)
    other = slurm.submit("true", "--partition=high", "--nodes=2", f"--mem={MUCH_MEMORY}")
    slurm.wait(other, "COMPLETED")
    preempted.until_log("goes on after step")
    preempted.gate.open()
    preempted.until_published()
    assert "interrupted after step" in preempted.log_of("held")
    # The same job: snakemake has noticed nothing.
    assert "Trying to restart job" not in preempted.output
    assert job_of(preempted.record("held")) == job
    assert "Restarts=1" in slurm("scontrol", "show", "job", job)
    pd.testing.assert_frame_equal(preempted.curve("held"), whole, check_exact=True)


def test_a_job_that_reaches_its_time_limit_continues_with_more_time(pipelines, whole):
    """Whether the job starts its ranks in a step, or has a single task."""
    limited = pipelines["limited"]
    sizes = ("w2n2", "w1")
    # At least once: on a slow machine, their second jobs may also have reached their limit by now.
    until(
        "both are interrupted",
        lambda: all("interrupted after step" in limited.log_of("held", size) for size in sizes),
    )
    limited.gate.open()
    limited.until_published()
    for size in sizes:
        goes_on = f"`thinwire train .*/{size}/.*` goes on from here"
        assert re.search(f"interrupted by SIGUSR1 .*; {goes_on}", limited.failed_jobs)
        assert limited.record("held", size=size).interruptions >= 1
    assert limited.log_of("held").count("goes on after step") >= 2
    pd.testing.assert_frame_equal(limited.curve("held"), whole, check_exact=True)


@pytest.fixture(scope="module")
def grid(pipelines):
    pipelines["grid"].until_published()
    return pipelines["grid"]


def job_of(record):
    return record.provenance["environment"]["SLURM_JOB_ID"]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_block_is_measured_in_one_job_of_an_array_on_both_nodes(grid, seed):
    made = [grid.record(method, seed) for method in METHODS]
    assert {(record.kind, record.status, record.reason) for record in made} == {("measured", "done", None)}
    assert {record.no_time_because for record in made} == {"its 2 nodes were 1 machine"}
    assert len({job_of(record) for record in made}) == 1
    for record in made:
        assert [rank["node"] for rank in record.provenance["ranks"]] == ["node0", "node0", "node1", "node1"]


def test_each_repetition_begins_with_another_method(grid):
    def order(seed):
        return re.findall(rf"digits/cnn/(\w+)/w4n2/seed{seed}: done after ", grid.log)

    assert order(0) == ["ssgd", "top_k", "hsgd"]
    assert order(1) == ["top_k", "hsgd", "ssgd"]
    assert job_of(grid.record("ssgd", 0)) != job_of(grid.record("ssgd", 1))


@pytest.mark.parametrize("method", METHODS)
def test_a_measured_cell_learns_and_sends_the_same_as_in_process(grid, method):
    grid.alone(f"digits/cnn/{method}/w4n2/seed0", "alone", "--transport", "inprocess")
    pd.testing.assert_frame_equal(
        grid.traffic(method), grid.traffic(method, results="alone/by_hand"), check_exact=True
    )
    alone = grid.curve(method, results="alone/by_hand")
    pd.testing.assert_frame_equal(grid.curve(method), alone, check_exact=False, rtol=1e-3, atol=0.3)


@pytest.fixture(scope="module")
def failing(pipelines):
    pipelines["failing"].until_published()
    return pipelines["failing"]


def test_runs_of_one_worker_are_a_job_of_one_task(failing):
    alone = [failing.record(method, size="w1") for method in (*BROKEN, "ssgd")]
    assert {made.status for made in alone} == {"done"}
    assert {job_of(made) for made in alone} != {job_of(failing.record("ssgd"))}


def test_what_a_rank_raises_is_the_reason_of_its_run_and_the_others_go_on(failing):
    made = failing.record("raises")
    assert (made.kind, made.status) == ("measured", "failed")
    assert made.reason == "rank 1 on node1: RuntimeError: out of luck (methods/raises.py, line 8)"
    assert failing.record("ssgd").status == "done"


def test_a_rank_that_dies_is_retried_from_its_checkpoint_and_then_is_the_reason(failing):
    made = failing.record("dies")
    assert made.status == "failed"
    assert made.reason is not None
    assert made.reason.startswith("rank 1 on node1 was killed by SIGKILL while it ")
    assert re.findall(r"/dies/.*: attempt (\d) of 3", failing.log) == ["2", "3"]
    assert failing.log_of("dies").count("goes on after step") == 2
    assert "stacks of rank 0 on node0" in failing.log_of("dies")


def test_a_rank_that_hangs_is_ended_and_tried_again(failing):
    made = failing.record("stops")
    assert (made.status, made.interruptions) == ("done", 1)
    assert "rank 1 on node1 has not been heard of for 15 s" in failing.log


def srun(project, *arguments, suite="grid", method="ssgd", size="w4n2", script="", **variables):
    """Start the ranks of a cell by hand, with their own results folder. Returns the process."""
    cell = (suite, f"digits/cnn/{method}/{size}/seed0")
    run = [sys.executable, "-m", "thinwire", "run", *cell, "--results", "by_hand"]
    shell = ["sh", "-c", f'{script} exec "$@"', "-"]
    return subprocess.Popen(
        ["srun", f"--account={Slurm.account}", "--nodes=2", *arguments, *shell, *run],
        cwd=project.folder,
        env={**project.environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_cell_started_by_hand_and_its_errors_are_one_sentence(grid):
    assert grid.python("thinwire", "data", "digits", "--results", "by_hand").returncode == 0
    suite = (grid.folder / "config/grid.yaml").read_text()
    pair = suite.replace("{workers: 4, nodes: 2}", "{workers: 2, nodes: 2}")
    grid.write("config/pair.yaml", pair.replace("hang_seconds: 3600", "hang_seconds: 5"))
    layout = ("--ntasks=4", "--ntasks-per-node=2")
    of_pair = {"suite": "pair", "size": "w2n2"}
    with socket.create_server(("", 0)) as taken, socket.socket() as silent:
        port = taken.getsockname()[1]
        # Nobody listens there, and nobody else can take it.
        silent.bind(("127.0.0.1", 0))
        nobody = silent.getsockname()[1]
        right = srun(grid, *layout)
        three = srun(grid, "--ntasks=3")
        cyclic = srun(grid, *layout, "--distribution=cyclic", method="top_k")
        no_port = srun(grid, "--ntasks=2", "--wait=1", method="hsgd", MASTER_PORT=str(port), **of_pair)
        at_nobody = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(nobody)}
        no_host = srun(grid, "--ntasks=2", script="[ $SLURM_PROCID != 0 ] || exit 0;", **at_nobody, **of_pair)
        for process, sentence in (
            (three, "srun: there are 3 ranks, but the cell has 4 workers on 2 nodes: srun --nodes=2 "),
            (cyclic, "but the ranks are on node0, node1, node0, node1: srun --nodes=2 "),
            (no_port, f"cannot listen at port {port} of {socket.gethostname()} (Address already in use): "),
            (no_host, f"rank 1 on node1 could not reach rank 0 at 127.0.0.1:{nobody} within 5 s: see that "),
        ):
            _, errors = process.communicate(timeout=SECONDS)
            assert process.returncode != 0
            assert re.search(f"^thinwire: .*{re.escape(sentence)}", errors, re.MULTILINE), errors
            assert "Traceback" not in errors
            assert "frame #" not in errors
        answer, errors = right.communicate(timeout=SECONDS)
    assert right.returncode == 0, errors
    assert answer.count("done: accuracy") == 1
    pd.testing.assert_frame_equal(grid.curve("ssgd", results="by_hand"), grid.curve("ssgd"), check_exact=True)


def test_every_snakemake_ends_well_and_has_its_tables(pipelines):
    for pipeline in pipelines.values():
        pipeline.until_it_ends()
        assert (pipeline.folder / "results/tables/grid/summary.md").exists()
