"""How the process of a block and the tasks of its step talk; a program stands in for srun and its tasks.

The tests of Slurm and of faults have real tasks.
"""

import sys

import pytest

from thinwire.config.expand import cell
from thinwire.launch import placement, run_processes, slurm_step
from thinwire.launch.run_processes import How
from thinwire.launch.slurm_step import Order, RankEnd, SlurmStep, of_line, to_line

CELL = cell("demo", "digits/cnn/ssgd/w4/seed0")
# Notes that it was started and what it was told; then does as its last argument says.
SRUN = """
import json, os, signal, sys, time
how, notes = sys.argv[1:3]
note = lambda *words: print(*words, file=open(notes, "a"))
say = lambda *end: print(json.dumps({"RankEnd": end}), flush=True)
note("begins")
signal.signal(signal.SIGTERM, lambda *_: (note("is killed"), os._exit(137)))
for line in sys.stdin:
    launch, cell, _ = json.loads(line)["Order"]
    note("runs", launch, cell)
    print("a line of a plug-in that writes where it should not", flush=True)
    say(launch - 1, 0, 0, "exited", "0")
    for rank in range(4):
        if how == "a rank stays behind" and rank == 2:
            time.sleep(60)
        if how == "ends" and rank == 1:
            sys.exit(9)
        code = ("died", "SIGKILL") if how == "a rank is killed" and rank == 2 else ("exited", "0")
        say(launch, rank, 10 if how == "was asked to stop" else 0, *code)
    if how == "is asked to stop":
        sys.exit(138)
note("ends")
"""


@pytest.fixture
def step(tmp_path, monkeypatch):
    """Gives a function that makes a step whose srun behaves as a word says."""
    program, notes = tmp_path / "srun.py", tmp_path / "notes"
    program.write_text(SRUN)

    def make(how):
        command = [sys.executable, str(program), how, str(notes)]
        monkeypatch.setattr(slurm_step, "srun", lambda workers, nodes, on_gpus: command)
        made.append(SlurmStep(tmp_path / "results"))
        return made[-1]

    made = []
    yield make
    for each in made:
        each.close()


def run(step):
    return step.starter(CELL)(lambda: False)


def notes(tmp_path):
    return (tmp_path / "notes").read_text().splitlines()


def test_all_runs_are_in_one_step_which_ends_with_the_block(step, tmp_path):
    made = step("goes on")
    for _ in range(2):
        reports, stopped, ended = run(made)
        assert (len(reports), stopped, ended) == (4, 0, "")
    made._end(300)
    assert notes(tmp_path) == ["begins", f"runs 1 {CELL.path}", f"runs 2 {CELL.path}", "ends"]


def test_after_a_step_that_has_ended_another_one_begins(step, tmp_path):
    made = step("ends")
    for _ in range(2):
        assert run(made)[1:] == (0, " (srun ended with exit code 9)")
    assert notes(tmp_path) == ["begins", f"runs 1 {CELL.path}"] * 2


def test_a_step_in_which_a_rank_stays_behind_is_ended(step, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_step, "WAIT_SECONDS", 0.2)
    made = step("a rank stays behind")
    assert run(made)[1:] == (0, " (srun ended with exit code 137)")
    assert notes(tmp_path) == ["begins", f"runs 1 {CELL.path}", "is killed"]


def test_how_a_rank_ended_is_said_by_its_task_if_it_could_not_say_so(step, monkeypatch):
    def make_files(folder, ranks):
        made(folder, ranks)
        for status in run_processes.in_files(folder, ranks)[1:]:
            status.phase("n1", "runs")

    made = run_processes.make_files
    monkeypatch.setattr(run_processes, "make_files", make_files)
    reports, _, _ = run(step("a rank is killed"))
    assert [report.how for report in reports] == [How.ABSENT, How.EXITED, How.DIED, How.EXITED]
    assert reports[2].what == "SIGKILL"


@pytest.mark.parametrize("how", ["is asked to stop", "was asked to stop"])
def test_after_slurm_has_asked_for_a_stop_nothing_begins(step, tmp_path, how):
    made = step(how)
    first, second = run(made), run(made)
    assert first.asked_to_stop == (10 if how.startswith("was") else 0)
    assert second.asked_to_stop == 10
    assert notes(tmp_path)[:2] == ["begins", f"runs 1 {CELL.path}"]
    assert "begins" not in notes(tmp_path)[1:]


def test_ranks_on_gpus_keep_to_their_cores_and_see_all_gpus_of_their_node():
    on_cpus, on_gpus = placement.srun(8, 2), placement.srun(8, 2, on_gpus=True)
    assert set(on_gpus) - set(on_cpus) == {"--cpu-bind=cores", "--gpu-bind=none"}


def test_only_messages_are_read():
    order = Order(3, "digits/cnn/ssgd/w4/seed0", "ab12")
    assert of_line(to_line(order), Order) == order
    for line in ("", "3\n", "[1, 2, 3]\n", '{"RankEnd": [1]}\n', '{"RankEnd": 1}\n', to_line(order), "é\n"):
        assert of_line(line, RankEnd) is None


@pytest.mark.parametrize(
    ("job", "waits"),
    [
        ("JobId=7 Requeue=1 Restarts=0 PreemptEligibleTime=2026-11-28T10:00:00 PreemptTime=None", False),
        ("JobId=7 Requeue=1 Restarts=0 PreemptTime=2026-11-28T10:00:00", True),
        ("JobId=7 Requeue=0 Restarts=0 PreemptTime=2026-11-28T10:00:00", False),
        ("", False),
    ],
)
def test_only_a_preempted_job_that_slurm_will_start_again_is_waited_for(job, waits):
    assert slurm_step.will_be_requeued(job) is waits
