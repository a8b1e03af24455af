"""A run resumes only from its own checkpoint, and never fails because of what it finds there."""

from types import SimpleNamespace

import pytest

from thinwire import checkpoint
from thinwire.train.run_checkpoints import RunCheckpoints
from thinwire.transport.inprocess import InProcess

IDENTITY = {"fingerprint": "0123"}


class Trainer:
    """Keeps the state from which it should resume."""

    transport = InProcess(2)
    loaded = None
    step = 3
    status = SimpleNamespace(elapsed_seconds=1.0)

    def load(self, state):
        self.loaded = state

    def state(self):
        return {"step": self.step}


@pytest.fixture
def folder(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, {"identity": IDENTITY, "interruptions": 4, "trainer": {"step": step}})
    return tmp_path


def resumed(folder):
    """What the trainer was given, and the lines of the log."""
    log = []
    checkpoints = RunCheckpoints(folder, 60, IDENTITY, log.append)
    trainer = Trainer()
    assert checkpoints.resume(trainer) == (trainer.loaded is not None)
    assert checkpoints.interruptions == (5 if trainer.loaded else 0)
    return trainer.loaded, "\n".join(log)


def test_it_resumes_from_the_newest(folder):
    loaded, log = resumed(folder)
    assert loaded == {"step": 2}
    assert log == ""


@pytest.mark.parametrize("state", [None, [1, 2], {}, {"identity": {"fingerprint": "4567"}}, {"identity": 3}])
def test_a_checkpoint_of_something_else_is_not_used(folder, state):
    checkpoint.save(folder, 3, state)
    loaded, log = resumed(folder)
    assert loaded is None
    assert "training from the beginning" in log


def test_what_waits_for_the_disk_says_so(folder):
    done = []
    checkpoints = RunCheckpoints(folder, 60, IDENTITY, print, done.append)
    checkpoints.resume(Trainer())
    checkpoints.save(Trainer())
    assert done == ["reads its checkpoints"] * 2 + ["saves a checkpoint", "computes"]
