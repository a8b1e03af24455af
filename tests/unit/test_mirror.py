"""One worker without its mates, which are taken to do what it does."""

import gc

import pytest
import torch

import thinwire
from tests import small
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.config import expand
from thinwire.config.expand import cell
from thinwire.simulation.mirrored import MirroredCell, MirroredTrainer
from thinwire.simulation.program import Post, steps_of
from thinwire.trace.recorder import SERVER
from thinwire.train.run_cell import Attempt
from thinwire.train.tracing import record_spans
from thinwire.transport.mirror import CannotMirror, Mirror


def mirrored(task, method, rank, steps=None, **options):
    """A run of one worker."""
    trainer = MirroredTrainer(task, method, resolve(method, options), Mirror(task.cluster.workers, rank))
    trainer.setup()
    (recorder,) = record_spans(trainer)
    trainer.train(until=steps)
    return trainer, recorder


def exchange(sizes, sources):
    """A method whose workers send messages of these sizes, by receiver, and receive from these sources."""

    class Exchange(thinwire.Method):
        def sync_gradients(self):
            world = self.run.world
            coming = [world.receive(source) for source in sources(world.rank)]
            for to, size in sizes(world.rank).items():
                world.send({"values": torch.zeros(size)}, to=to).wait()
            self.got = [len(message.wait()["values"]) for message in coming]

    return Exchange


# On a ring, much to the right and little to the left; the receivers are there first.
BOTH_WAYS = exchange(
    lambda rank: {(rank + 1) % 4: 70, (rank - 1) % 4: 3}, lambda rank: [(rank + 1) % 4, (rank - 1) % 4]
)
# Neighbours swap messages, and each sends itself another one.
SWAP = exchange(lambda rank: {rank: 8, rank ^ 1: 5}, lambda rank: [rank ^ 1, rank])
LINE = exchange(lambda rank: {rank + 1: 5} if rank < 3 else {}, lambda rank: [rank - 1] if rank else [])


@pytest.mark.parametrize("method", [BOTH_WAYS, SWAP])
def test_a_message_is_like_what_the_worker_sends_as_far_or_to_the_same_mate(method):
    task = small.task(4, 2)
    together = small.trainer(task, method)
    together.train()
    for rank, worker in enumerate(together.workers):
        (alone,) = mirrored(task, method, rank)[0].workers
        assert alone.ledger.state() == worker.ledger.state()
        assert alone.method.got == worker.method.got


def test_a_message_that_does_not_follow_from_what_the_worker_does_is_refused():
    with pytest.raises(CannotMirror) as caught:
        mirrored(small.task(4), LINE, 3)
    assert str(caught.value).startswith(
        "worker 3 waits on run.world for a message from worker 2 before it sends one itself"
    )


class Counting(thinwire.Server):
    def update(self, pushes):
        self.memory["pushes"] = [push["values"].sum().item() for push in pushes]
        return {"values": torch.zeros(7)}


class Asking(thinwire.Method):
    def setup(self):
        self.server = Counting(self.memory)

    def sync_gradients(self):
        ones = torch.ones(3, dtype=torch.float32)
        self.gathered = self.run.world.gather({"values": ones}).wait()
        self.answer = self.run.world.push_pull(2, {"values": ones}, self.server).wait()


def test_everybody_hands_over_what_the_worker_does():
    trainer, recorder = mirrored(small.task(4), Asking, 0)
    method = trainer.workers[0].method
    assert [payload["values"].tolist() for payload in method.gathered] == [[1.0] * 3] * 4
    assert method.memory["pushes"] == [3.0] * 4
    assert len(method.answer["values"]) == 7
    gather, push_pull = (op for op in steps_of(recorder)[0] if isinstance(op, Post))
    assert (gather.sent_bytes, gather.received_bytes) == (12, 36)
    assert (push_pull.partner, push_pull.sent_bytes, push_pull.received_bytes) == (2, 12, 28)
    assert push_pull.server_seconds > 0
    assert any(activity.kind == SERVER for _, activity, _, _ in recorder.spans)


def test_what_is_still_in_flight_after_the_last_step_has_its_size():
    class Late(thinwire.Method):
        def sync_gradients(self):
            pending = self.run.world.gather({"values": torch.ones(5, dtype=torch.float32)})
            self.flight.launch(pending, self.run.step + 10**6)

        def finish(self):
            list(self.flight.landed(10**9))

    _, recorder = mirrored(small.task(3, batch=24), Late, 1, steps=1)
    assert recorder.calls[0].received_bytes == {"values": 40}


def test_it_has_no_record(tmp_path):
    (cell, *_) = expand.cells("demo")
    with pytest.raises(ValueError, match="no record"):
        Attempt(cell, tmp_path, 60.0, transport=Mirror(cell.workers, 0))


class Deciding(thinwire.Method):
    """Calls as often as a loss says, which differs between workers that train alone."""

    def sync_gradients(self):
        told = torch.tensor([float(self.run.cluster.workers + self.own)])
        self.run.world.mean([told], kind="control").wait()
        self.told = told.item()

    own = 0


def test_a_worker_gets_the_controls_of_another_one():
    task = small.task(3)
    told = []
    controls = []
    for rank, own in ((0, 1), (2, 5)):
        mirror = Mirror(3, rank, controls)
        trainer = MirroredTrainer(task, Deciding, Deciding.Config(), mirror)
        trainer.setup()
        trainer.workers[0].method.own = own
        trainer.train(until=2)
        told.append(trainer.workers[0].method.told)
        controls = mirror.controls
    assert told == [4.0, 4.0]


def test_garbage_is_not_collected_within_its_steps(laid_out, monkeypatch):
    """A collection takes far longer than a small step."""
    collected = []
    step = MirroredTrainer.train

    def train(self, until):
        collected.append(gc.isenabled())
        step(self, until)

    monkeypatch.setattr(MirroredTrainer, "train", train)
    mirrored = MirroredCell(cell("demo", "digits/cnn/ssgd/w8n2/seed0"), laid_out, Cluster(8, 2))
    assert len(mirrored.run(0, 2).steps) == 2
    assert collected == [False]
    assert gc.isenabled()
