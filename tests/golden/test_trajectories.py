"""Each method's training losses, in double precision, equal the recorded ones.

They change with anything that a run depends on: initial weights, order of the data, augmentation, dropout,
schedule, the method's arithmetic. If a change is intended, raise `RULES_VERSION`, and let
`python -m tests.golden.test_trajectories` record them again.
"""

import csv
import io
from pathlib import Path

import pytest

from tests import project, small
from thinwire import plugins

FILE = Path(__file__).with_name("trajectories.csv")


def losses(method: str) -> list[float]:
    """The mean training loss over the workers, at every step of a small run."""
    class_ = plugins.get("method", method).load()
    task = small.task(workers=4, nodes=2, build_model=small.model_for(class_, **class_.short))
    run = small.trainer(task, class_, **class_.short)
    found = []
    run.train(after_step=lambda run: found.append(sum(w.run.loss.item() for w in run.workers) / 4))
    return found


GOLDEN = list(csv.DictReader(io.StringIO(FILE.read_text())))


def test_every_method_has_one():
    assert list(GOLDEN[0]) == list(project.METHODS), "run `python -m tests.golden.test_trajectories`"


@pytest.mark.parametrize("method", GOLDEN[0])
def test_a_trajectory_is_the_one_that_was_written_down(method):
    assert losses(method) == pytest.approx([float(row[method]) for row in GOLDEN], rel=1e-9)


if __name__ == "__main__":
    rows = zip(*(losses(method) for method in project.METHODS))
    lines = [",".join(project.METHODS), *(",".join(f"{loss:.15g}" for loss in row) for row in rows)]
    FILE.write_text("\n".join(lines) + "\n")
