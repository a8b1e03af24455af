"""The loop: streams, gradients that are wanted, hooks, and the rate of a plateau."""

import gc
import itertools
import weakref

import pytest
import torch

import thinwire
from tests import small
from thinwire.traffic.wire_bytes import Wire
from thinwire.train.clock import CLOCKS
from thinwire.train.trainer import Trainer
from thinwire.transport.mirror import Mirror


def test_without_a_method_workers_train_alone_with_streams_of_their_own():
    run = small.trainer(small.task(2), thinwire.Method)
    run.train(until=2)
    first, second = (worker.run.weights[0] for worker in run.workers)
    assert not torch.equal(first, second)
    assert run.workers[0].ledger.rows == {}
    # Two workers with the same images: dropout makes their gradients differ.
    run = small.trainer(small.task(2), thinwire.Method)
    for worker in run.workers:
        first_passes(run, worker)
    first, second = (worker.run.gradients[0] for worker in run.workers)
    assert not torch.equal(first, second)


def first_passes(run, worker):
    """Let the worker compute the gradients of the first images."""
    images, labels = run.batches.at(0)[0]
    worker.begin(0, 0.1, len(images), 2 * len(images))
    worker.compute_gradients(images, labels)


class WithSpare(small.Plain):
    """Has a weight that the loss does not depend on."""

    def __init__(self) -> None:
        super().__init__(dropout=0.0)
        self.spare = torch.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("method", "options"), [("local_sgd", {"period": 1}), ("gossip", {"graph": "complete"})]
)
def test_a_weight_without_a_gradient_decays_alike_whether_a_method_looks_at_gradients_or_not(method, options):
    task = small.task(2, build_model=WithSpare, optimizer={"lr": 0.1, "weight_decay": 0.1})
    spare = []
    for run in (small.trainer(task, "ssgd"), small.trainer(task, method, **options)):
        before = run.workers[0].model.spare.weight.clone()
        run.train(until=2)
        spare.append(run.workers[0].model.spare.weight)
        assert spare[-1].abs().sum() < before.abs().sum()
    assert torch.equal(*spare)


@pytest.mark.parametrize("wanted", ["linear", "nothing"])
def test_gradients_that_a_method_does_not_want_are_not_computed_and_read_as_zeros(wanted):
    class Wants(thinwire.Method):
        def wants_gradient(self, param):
            return param.name.startswith(wanted)

    run, every = (small.trainer(small.task(2), method) for method in (Wants, thinwire.Method))
    for one in (run, every):
        first_passes(one, one.workers[0])
    for mine, theirs in zip(run.workers[0].run.params, every.workers[0].run.params, strict=True):
        assert theirs.grad.count_nonzero() > 0
        if mine.name.startswith(wanted):
            assert torch.equal(mine.grad, theirs.grad)
        else:
            assert mine.tensor.grad is None
            assert mine.grad.count_nonzero() == 0


class WantsAllButTheNorm(thinwire.Method):
    """Keeps the names whose gradients it hears of while the backward pass runs."""

    def setup(self):
        self.heard = []

    def wants_gradient(self, param):
        return not param.name.startswith("norm")

    def grad_ready(self, param):
        if torch._C._current_graph_task_id() != -1:
            self.heard.append(param.name)


def test_a_gradient_that_a_method_does_not_want_holds_no_other_back():
    run = mirrored()
    names = [param.name for param in run.workers[0].run.params]
    assert run.workers[0].method.heard == names[::-1]


def mirrored():
    """One of two workers, after its first passes."""
    run = Trainer(small.task(2), WantsAllButTheNorm, WantsAllButTheNorm.Config(), Mirror(2, 0))
    run.setup(None)
    first_passes(run, run.workers[0])
    return run


def test_what_a_run_has_used_is_free_after_it():
    """Also what hooks on gradients know, which Python's garbage collector does not see."""
    worker = weakref.ref(mirrored().workers[0])
    gc.collect()
    assert worker() is None


class Draws(thinwire.Method):
    """Keeps what it draws in setup and in every step, from its own generator and from the shared one."""

    def setup(self):
        self.memory["drawn"] = [self.draw()]

    def sync_weights(self):
        self.memory["drawn"].append(self.draw())

    def draw(self):
        run = self.run
        return [torch.rand(2, generator=each).tolist() for each in (run.generator, run.shared_generator)]


def test_the_shared_generator_is_the_same_on_all_workers_and_another_at_every_step(tmp_path):
    """It is continued by a run that continues from a checkpoint."""
    run = small.resumed(lambda: small.trainer(small.task(3), Draws), 7, tmp_path)
    drawn = [worker.method.memory["drawn"] for worker in run.workers]
    own, shared = ([[pair[i] for pair in worker] for worker in drawn] for i in (0, 1))
    assert shared[0] == shared[1] == shared[2]
    everything = [repr(draw) for stream in (*own, shared[0]) for draw in stream]
    assert len(set(everything)) == len(everything) == 4 * (run.total_steps + 1)


class Records(thinwire.Method):
    def setup(self):
        self.events = []

    def forward_ready(self, param):
        self.events.append(("forward", param.index))

    def grad_ready(self, param):
        assert param.grad.shape == param.tensor.shape
        self.events.append(("gradient", param.index))

    def sync_gradients(self):
        self.events.append(("sync gradients", self.run.step))

    def sync_weights(self):
        self.events.append(("sync weights", self.run.step))

    def epoch_end(self, loss):
        self.events.append(("epoch", self.run.epoch, loss))

    def finish(self):
        self.events.append(("finish",))


def test_the_hooks_come_in_their_order():
    run = small.trainer(small.task(2, epochs=1, batch=60, schedule={"name": "constant"}), Records)
    run.train()
    events = run.workers[0].method.events
    indices = [param.index for param in run.workers[0].run.params]
    step = [*(("forward", i) for i in indices), *(("gradient", i) for i in reversed(indices))]
    assert events[: len(step)] == step
    assert events[len(step) : len(step) + 2] == [("sync gradients", 0), ("sync weights", 0)]
    assert [entry[0] for entry in events[-2:]] == ["epoch", "finish"]


def test_the_epochs_loss_is_everybodys_mean_and_its_bytes_are_metered():
    run = small.trainer(small.task(4), Records)
    run.train()
    losses = [[entry for entry in w.method.events if entry[0] == "epoch"] for w in run.workers]
    assert losses[0] == losses[3]
    assert losses[0][0][2] == pytest.approx(run.curve[0]["train_loss"], rel=1e-6)


# A loss must fall by nine tenths to count, so the rate falls after epochs 3, 5 and 7.
PLATEAU = {"name": "plateau", "factor": 0.5, "patience": 1, "threshold": 0.9}


@pytest.mark.parametrize("method", [thinwire.Method, Records])
def test_a_plateau_lowers_the_rate_of_all_workers_and_its_bytes_are_metered_once(method):
    """Also if the method asks for the loss, too."""
    run = small.trainer(small.task(4, epochs=6, schedule=PLATEAU), method)
    run.train()
    assert [row["lr"] for row in run.curve] == [0.05] * 3 + [0.025] * 2 + [0.0125]
    assert {worker.run.lr for worker in run.workers} == {0.0125}
    (row,) = run.workers[0].ledger.rows.items()
    assert row[0] == ("world", "mean", "control")
    assert row[1].payload_push == 6 * 4


def test_a_plateau_resumes_to_the_same_bits(tmp_path):
    task = small.task(2, epochs=6, schedule=PLATEAU)
    run = small.resumed(lambda: small.trainer(task, "ssgd"), 22, tmp_path)
    assert run.curve[-1]["lr"] < 0.05


def test_a_resumed_run_goes_on_from_its_seconds():
    run, before = small.trainer(small.task(2), "ssgd"), {"train": 1e6, "eval": 2e6, "harness": 3e6}
    run.load({**run.state(), "seconds": before})
    run.train()
    assert all(run.curve[0][f"{name}_seconds"] > before[name] for name in CLOCKS)


def test_the_seconds_are_those_of_the_slowest_process(monkeypatch):
    run = small.trainer(small.task(2), "ssgd")
    clocks = itertools.cycle(dict.fromkeys(CLOCKS, seconds) for seconds in (1.0, 2.0))
    monkeypatch.setattr(run.clock, "read", lambda: next(clocks))
    run.train()
    assert [run.curve[0][f"{name}_seconds"] for name in CLOCKS] == [2.0, 2.0, 2.0]


def test_the_parameters_know_their_kinds():
    params = small.trainer(small.task(1), thinwire.Method).workers[0].run.params
    assert [param.kind for param in params] == ["conv", "bias", "norm", "norm", "linear", "bias"]
    assert [param.name for param in params] == [name for name, _ in small.Net().named_parameters()]


@pytest.mark.parametrize("cap", [1e-6, 0.0005, 1.0])
def test_buckets_hold_every_parameter_once_and_keep_their_size(cap):
    run = small.trainer(small.task(1), thinwire.Method).workers[0].run
    buckets = run.buckets(cap)
    indices = [param.index for bucket in buckets for param in bucket.params]
    assert indices == list(reversed(range(len(run.params))))
    for bucket in buckets:
        size = sum(p.tensor.numel() * p.tensor.element_size() for p in bucket.params)
        assert size <= cap * 2**20 or len(bucket.params) == 1


def test_the_ledger_of_a_checkpoint_has_the_bytes_of_its_messages_in_flight(monkeypatch):
    """Between processes, their bytes are counted when the checkpoint waits for them."""
    worker = small.trainer(small.task(2), "ssgd").workers[0]
    monkeypatch.setattr(
        worker.method.flight, "state", lambda: worker.run.world.meter("mean", "values", 8, 8, Wire(8, 8, 0))
    )
    assert worker.state()["ledger"] == worker.ledger.state() != {}


def test_each_worker_has_options_of_its_own():
    """Other workers do not see a worker's changes to them."""
    run = small.trainer(small.task(), "local_sgd", period=2)
    run.workers[0].method.config.period = 3
    assert [worker.method.config.period for worker in run.workers] == [3, 2, 2, 2]
