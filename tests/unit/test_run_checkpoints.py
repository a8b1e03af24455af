"""A run goes on from a checkpoint of its own, and from no other: what lies there is never its failure."""

import pytest

from thinwire import checkpoint
from thinwire.train.run_checkpoints import RunCheckpoints
from thinwire.transport.inprocess import InProcess

IDENTITY = {"fingerprint": "0123"}


class Trainer:
    """Takes what it is to go on with."""

    transport = InProcess(2)
    loaded = None

    def load(self, state):
        self.loaded = state


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


def test_it_goes_on_from_the_newest(folder):
    loaded, log = resumed(folder)
    assert loaded == {"step": 2}
    assert log == ""


def test_a_damaged_one_is_left_out_with_a_warning(folder):
    tree = folder / "000000002/tree.json"
    tree.write_bytes(tree.read_bytes().replace(b'"step"', b'"stop"'))
    loaded, log = resumed(folder)
    assert loaded == {"step": 1}
    assert "000000002 is damaged and left out" in log


@pytest.mark.parametrize("state", [None, [1, 2], {}, {"identity": {"fingerprint": "4567"}}, {"identity": 3}])
def test_one_of_something_else_is_not_gone_on_with(folder, state):
    checkpoint.save(folder, 3, state)
    loaded, log = resumed(folder)
    assert loaded is None
    assert "training from the beginning" in log
