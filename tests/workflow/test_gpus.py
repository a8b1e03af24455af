"""On a workstation the pipeline starts as many jobs at once as have GPUs, and each job sees its own."""

import os

import pytest

from tests.commands import succeeded
from tests.launch.test_gpu_claims import install

pytestmark = pytest.mark.slow

# Without a GPU here, the workers compute on the CPU; what the job sees of GPUs is as it would be.
ON_CPU = """

def device_of(cell, local_rank=0):
    return torch.device("cpu")
"""
# Each run notes when it begins and ends, and on which GPU. It ends when two have begun.
METHOD = '''"""Averages the gradients, and notes which GPU it uses."""

import os
import time

import thinwire

NOTES = "FOLDER/notes"


def note(event):
    with open(NOTES, "a") as file:
        file.write(f"{event} {os.environ['CUDA_VISIBLE_DEVICES']}\\n")


class Method(thinwire.Method):
    def sync_gradients(self):
        if self.run.world.rank == 0 and self.run.step == 0:
            note("begins")
            deadline = time.monotonic() + 600
            while open(NOTES).read().count("begins") < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
        self.run.world.mean(self.run.gradients).wait()

    def finish(self):
        if self.run.world.rank == 0:
            note("ends")
'''
NVIDIA_SMI = "#!/bin/sh\nprintf '0, GPU-aa\\n1, GPU-bb\\n'\n"


def test_jobs_run_side_by_side_on_gpus_of_their_own(project, monkeypatch):
    install(project.folder, NVIDIA_SMI)
    monkeypatch.setenv("PATH", f"{project.folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(project.folder))
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    tasks = project.folder / "thinwire/train/cell_task.py"
    tasks.write_text(tasks.read_text() + ON_CPU)
    project.write("methods/noting.py", METHOD.replace("FOLDER", str(project.folder)))
    # Three blocks, so three jobs.
    more = "baseline: noting\ndevice: cuda\n"
    project.suite("gpus", "{noting: }", epochs=1, workers="[1, 2, 4]", more=more)
    succeeded(project.snakemake("--cores", "4", suite="gpus"))
    active, most = [], 0
    for line in (project.folder / "notes").read_text().splitlines():
        event, gpu = line.split()
        active.append(gpu) if event == "begins" else active.remove(gpu)
        assert len(active) == len(set(active)), "two runs on one GPU"
        most = max(most, len(active))
    assert most == 2
    logs = [
        path.read_text()
        for path in (project.folder / "results/logs/train/gpus").glob("digits/cnn/w*/seed0.txt")
    ]
    assert len(logs) == 3
    assert not any("waits for" in log for log in logs), "no job is started without a GPU for it"
