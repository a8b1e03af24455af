"""Times of a mirrored worker have nothing in them that is not its own."""

import gc

import pytest

from thinwire.cli import data
from thinwire.cli.main import _parser
from thinwire.config.expand_suite import cell
from thinwire.schedule.mirrored import MirroredCell, MirroredTrainer
from thinwire.worker_placement import Cluster


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    data.main(_parser().parse_args(["data", "digits", "--results", str(folder)]))
    return folder


def test_garbage_is_not_collected_within_its_steps(results, monkeypatch):
    """A collection takes far longer than a small step."""
    collected = []
    step = MirroredTrainer.train

    def train(self, until):
        collected.append(gc.isenabled())
        step(self, until)

    monkeypatch.setattr(MirroredTrainer, "train", train)
    mirrored = MirroredCell(cell("demo", "digits/cnn/ssgd/w8n2/seed0"), results, Cluster(8, 2))
    assert len(mirrored.run(0, 2).steps) == 2
    assert collected == [False]
    assert gc.isenabled()
