"""A process that has imported torch and the engine once, and forks a room for each case.

It is started in a copy of the project. It reads questions from stdin and writes answers to stdout, as lines
of JSON.
"""

import gc
import json
import os
import sys
import tempfile
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")

import pandas  # noqa: F401  as pyarrow does when it first writes a table
import torch
import torch._dynamo  # which optimizers import at their first step

import thinwire.cli.run
import thinwire.cli.slurm_task
import thinwire.launch.local_processes
import thinwire.records.provenance
from tests.faults import forks
from tests.faults.matrix import Case
from tests.faults.room import Room


def serve() -> None:
    """Answer until stdin is closed."""
    torch.set_num_threads(1)
    # It takes longer than a run, and says the same of every one.
    packages = thinwire.records.provenance.packages()
    thinwire.records.provenance.packages = lambda: packages
    folder = Path(tempfile.mkdtemp(prefix="thinwire-faults-", dir=os.getcwd()))
    data = folder / "laid_out"
    data.mkdir()

    def lay_out() -> None:
        os.dup2(2, 1)
        forks.thinwire(["data", "digits", "--results", str(data)])

    child = forks.fork(lay_out)
    assert os.waitpid(child, 0)[1] == 0
    # Forks do not look for garbage in what they share: that would copy it.
    gc.collect()
    gc.freeze()
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        here, there = os.pipe()

        def room(asked: Any = asked, number: int = number, there: int = there) -> None:
            os.dup2(2, 1)
            place = folder / str(number), data / "data"
            try:
                if "case" in asked:
                    answer: Any = Room(*place, Case(**asked["case"])).try_case()
                else:
                    answer = asdict(Room(*place).call(*asked["undisturbed"]))
            except Exception:
                answer = {"error": traceback.format_exc()}
            with os.fdopen(there, "w") as file:
                json.dump(answer, file)
            os._exit(0)

        child = forks.fork(room)
        os.close(there)
        with os.fdopen(here) as file:
            answer = file.read()
        os.waitpid(child, 0)
        print(answer, flush=True)


if __name__ == "__main__":
    forks.follow(serve)
