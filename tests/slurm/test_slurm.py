"""The Slurm that the tests have is a real one: it places, counts, signals, requeues and drains."""

import re

import pytest

from tests.slurm.cluster import until

ENVIRONMENT = (
    'srun --nodes=2 --ntasks=4 --ntasks-per-node=2 sh -c \'env | grep -E "{}" | sort | tr "\\n" " "; echo\''
)
LAYOUT = ("--nodes=2", "--ntasks=4", "--ntasks-per-node=2")
# Says that it has begun, and which signals it gets; USR1 ends it.
LISTENS = (
    "trap 'echo got TERM' TERM; trap 'echo got USR1; exit 0' USR1; echo began; while :; do sleep 0.1; done"
)


@pytest.fixture(autouse=True)
def _leaves_nothing(slurm):
    assert slurm.idle()
    yield
    slurm.clear()


def environments(text):
    """One dictionary for each task."""
    return [dict(pair.split("=", 1) for pair in line.split()) for line in text.splitlines()]


def test_tasks_know_their_place(slurm):
    job = slurm.submit(ENVIRONMENT.format("^SLURM_(PROCID|LOCALID|NODEID|NTASKS)="), *LAYOUT)
    slurm.wait(job, "COMPLETED")
    tasks = environments(slurm.output(job))
    places = sorted((task["SLURM_PROCID"], task["SLURM_NODEID"], task["SLURM_LOCALID"]) for task in tasks)
    assert places == [("0", "0", "0"), ("1", "0", "1"), ("2", "1", "0"), ("3", "1", "1")]
    assert {task["SLURM_NTASKS"] for task in tasks} == {"4"}


def test_gpus_are_counted_and_each_is_given_to_one_job(slurm):
    script = "echo $CUDA_VISIBLE_DEVICES; until [ -e done ]; do sleep 0.1; done"
    jobs = [
        slurm.submit(script, "--nodelist=node0", "--gres=gpu:2", f"--chdir={slurm.folder}") for _ in range(3)
    ]
    slurm.wait(jobs[0], "RUNNING")
    slurm.wait(jobs[1], "RUNNING")
    assert slurm.state(jobs[2]) == "PENDING"  # four GPUs are taken
    (slurm.folder / "done").touch()
    slurm.wait(jobs[2], "COMPLETED")
    first, second, _ = ({*slurm.output(job).strip().split(",")} for job in jobs)
    assert first | second == {"0", "1", "2", "3"}


def test_an_unknown_account_is_refused(slurm):
    with pytest.raises(RuntimeError, match="Invalid account"):
        slurm("sbatch", "--account=nobodys", "--wrap", "true")


def test_scancel_ends_a_job(slurm):
    job = slurm.submit("sleep 600")
    slurm.wait(job, "RUNNING")
    slurm("scancel", job)
    slurm.wait(job, "CANCELLED")


def test_before_the_time_limit_the_tasks_are_told_or_the_batch_shell(slurm):
    # Slurm may tell them up to a minute early, and looks every 30 seconds.
    limit = ("--time=1", *LAYOUT)
    tasks = slurm.submit(f'srun sh -c "{LISTENS}"', *limit, "--signal=USR1@60")
    script = f"trap 'echo shell told; exit 0' USR1; srun sh -c \"{LISTENS}\" & wait"
    shell = slurm.submit(script, *limit, "--signal=B:USR1@60")
    slurm.wait(tasks, "COMPLETED")
    slurm.wait(shell, "COMPLETED")
    assert slurm.output(tasks).count("got USR1") == 4
    assert "shell told" in slurm.output(shell)
    assert "got USR1" not in slurm.output(shell)


def test_a_preempted_job_is_told_and_starts_again(slurm):
    # Only what still runs at the end of the time of grace starts again. Slurm looks every 30 seconds.
    listens = f'[ -n "$SLURM_RESTART_COUNT" ] || srun sh -c "{LISTENS}"'
    whole = ("--nodes=2", "--ntasks=2", "--gres=gpu:4")
    script = f"echo restart ${{SLURM_RESTART_COUNT:-0}}; {listens}"
    job = slurm.submit(script, "--partition=low", "--open-mode=append", *whole)
    until("both tasks have begun", lambda: slurm.output(job).count("began") == 2)
    other = slurm.submit("true", "--partition=high", *whole)
    slurm.wait(other, "COMPLETED")
    slurm.wait(job, "COMPLETED")
    assert slurm.output(job).count("got TERM") >= 2
    assert re.findall("^restart.*", slurm.output(job), re.MULTILINE) == ["restart 0", "restart 1"]


def test_a_drained_node_takes_no_job_until_it_resumes(slurm):
    slurm("scontrol", "update", "nodename=node1", "state=drain", "reason=test")
    job = slurm.submit("true", "--nodes=2")
    until(
        "the job waits for it",
        lambda: "DRAINED" in slurm("squeue", "--noheader", "--format=%R", "--jobs", job),
    )
    slurm("scontrol", "update", "nodename=node1", "state=resume")
    slurm.wait(job, "COMPLETED")
