"""Each method's training losses, in double precision, equal the recorded ones.

They change with anything that a run depends on: initial weights, order of the data, augmentation, dropout,
schedule, the method's arithmetic. If a change is intended, raise `RULES_VERSION`, and let
`python -m tests.golden.test_trajectories [NAME ...]` record them again.
"""

import csv
import io
import sys
from pathlib import Path

import pytest

from tests import project, small
from thinwire import plugins

FILE = Path(__file__).with_name("trajectories.csv")


# SSGD on a text, under these optimizers.
TEXTS = {"text_adamw": "adamw", "text_muon": "muon"}


def losses(name: str) -> list[float]:
    """The mean training loss over the workers, at every step of a small run."""
    if name in TEXTS:
        recipe = {"name": TEXTS[name], "lr": 0.01, "weight_decay": 0.1}
        task = small.task(4, data=small.texts(60), build_model=small.gpt, batch=12, optimizer=recipe)
        run = small.trainer(task, "ssgd")
    else:
        class_ = plugins.get("method", name).load()
        model, recipe = small.model_for(class_, **class_.short), small.recipe_for(class_)
        task = small.task(workers=4, nodes=2, build_model=model, **recipe)
        run = small.trainer(task, class_, **class_.short)
    found = []
    run.train(after_step=lambda run: found.append(sum(w.run.loss.item() for w in run.workers) / 4))
    return found


# Few levels are averaged, and rounded to few levels again. So values lie exactly between two, where another
# processor may round otherwise; one has changed these losses by 2.6e-4 of themselves.
TOLERANCES = {"quantised_all_reduce": 1e-3}
GOLDEN = list(csv.DictReader(io.StringIO(FILE.read_text())))


def test_every_method_has_one():
    assert list(GOLDEN[0]) == [*project.METHODS, *TEXTS], "run `python -m tests.golden.test_trajectories`"


@pytest.mark.parametrize("name", GOLDEN[0])
def test_a_trajectory_is_the_one_that_was_written_down(name):
    expected = [float(row[name]) for row in GOLDEN]
    assert losses(name) == pytest.approx(expected, rel=TOLERANCES.get(name, 1e-9))


if __name__ == "__main__":
    # With names, only theirs are recorded.
    names = [*project.METHODS, *TEXTS]
    kept = {name: [row[name] for row in GOLDEN] for name in names if sys.argv[1:] and name in GOLDEN[0]}
    recorded = {name: [f"{loss:.15g}" for loss in losses(name)] for name in sys.argv[1:] or names}
    lines = [",".join(names), *map(",".join, zip(*((kept | recorded)[name] for name in names)))]
    FILE.write_text("\n".join(lines) + "\n")
