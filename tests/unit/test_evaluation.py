"""What a run is worth, its end where weights are not finite, and what a method must not do."""

import pickle
import time

import pytest
import torch

import thinwire
from tests import small
from thinwire.base.errors import MethodError
from thinwire.train.evaluation import Diverged


def refuses(method, message, **changes):
    with pytest.raises(MethodError, match=message):
        small.trainer(small.task(2, **changes), method).train()


class Forgets(thinwire.Method):
    def sync_gradients(self):
        self.run.world.mean(self.run.gradients)


class Leaves(thinwire.Method):
    def sync_gradients(self):
        if self.run.world.rank == 0:
            self.pending = self.run.world.mean(self.run.gradients)


class Loses(thinwire.Method):
    def sync_gradients(self):
        copy = [gradient.clone() for gradient in self.run.gradients]
        self.flight.launch(self.run.world.mean(copy), lands=10**9)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Forgets, r"worker 0 neither waited for mean\(values"),
        (Leaves, "a step ended with unfinished calls"),
        (Loses, "still in flight"),
    ],
)
def test_a_call_that_some_do_not_make_or_nobody_waits_for_is_refused(method, message):
    refuses(method, message)


SGD = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}


@pytest.mark.parametrize(
    ("recipe", "changes", "left"),
    [
        (SGD, {}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        (SGD, {"momentum": 0}, {"momentum": 0, "nesterov": False, "weight_decay": 0.01}),
        (SGD, {"momentum": 0.5, "weight_decay": 0.0}, {"momentum": 0.5, "nesterov": True, "weight_decay": 0}),
        ({"name": "adam", "lr": 0.01, "weight_decay": 0.01}, {"weight_decay": 0}, {"weight_decay": 0}),
        ({"name": "adamw", "lr": 0.01, "weight_decay": 0.01}, {"weight_decay": 0}, {"weight_decay": 0}),
        ({"name": "muon", "lr": 0.01}, {}, {"momentum": 0.95, "weight_decay": 0}),
        ({"name": "muon", "lr": 0.01}, {"momentum": 0}, {"momentum": 0}),
        ({"name": "lars", "lr": 1.0}, {"momentum": 0}, {"momentum": 0, "trust": 0.001}),
    ],
)
def test_momentum_and_weight_decay_can_be_taken_out_of_the_optimizer(recipe, changes, left):
    run = small.trainer(small.task(1, optimizer=recipe), thinwire.Method).workers[0].run
    (group,) = run.make_optimizer([run.params[0].tensor], **changes).param_groups
    assert {name: group[name] for name in left} == left
    assert all(getattr(run.recipe.optimizer, name) == value for name, value in recipe.items())


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        (
            {"name": "adam", "lr": 0.01},
            {"momentum": 0},
            "momentum belongs to sgd and lars and muon, not to adam; .* `needs`",
        ),
        (SGD, {"weight_decay": -1}, "make_optimizer: weight_decay: input should be .* 0, not -1"),
    ],
)
def test_what_an_optimizer_cannot_have_is_refused(recipe, changes, message):
    class Changes(thinwire.Method):
        def optimizer(self, params):
            return self.run.make_optimizer(params, **changes)

    refuses(Changes, message, optimizer=recipe)


def test_an_evaluation_gives_a_sign_of_life_for_each_of_its_batches():
    done = []
    run = small.trainer(small.task(1, data=small.digits(120, 539), epochs=1), "ssgd")
    run.doing = done.append
    run.train()
    assert done == ["evaluates"] * 2


class Explodes(thinwire.Method):
    def sync_weights(self):
        if self.run.step == 4:
            self.run.weights[0].fill_(float("nan"))


class ShipsHalf(thinwire.Method):
    """Half of the mean of the workers' weights."""

    def evaluated(self, unmetered):
        return [mean / 2 for mean in unmetered.mean(self.run.weights).wait()]


def test_the_score_is_what_the_shipped_weights_earn():
    """Accuracy and loss equal a second computation by hand: evaluation mode, mean of the statistics."""
    data = small.digits(200, 77)
    run = small.trainer(small.task(2, data=data, epochs=2, batch=20), ShipsHalf)
    run.train()
    one, other = (worker.model for worker in run.workers)
    model = small.Net().double()
    for parameter, mine, theirs in zip(model.parameters(), one.parameters(), other.parameters()):
        parameter.data = (mine + theirs) / 4
    assert not torch.equal(one.norm.running_mean, other.norm.running_mean)
    model.norm.running_mean = (one.norm.running_mean + other.norm.running_mean) / 2
    model.norm.running_var = (one.norm.running_var + other.norm.running_var) / 2
    model.eval()
    images = (data.test_inputs[:].double() - data.mean[0]) / data.std[0]
    logits = model(images)
    hits = sum(int(logits[i].argmax()) == int(data.test_labels[i]) for i in range(len(images)))
    loss = -logits.log_softmax(1)[range(len(images)), data.test_labels].mean()
    last = run.curve[-1]
    assert last["test_accuracy_percent"] == pytest.approx(100 * hits / len(images))
    assert last["test_loss"] == pytest.approx(float(loss.detach()))
    assert one.training


def test_slow_steps_are_each_looked_at_though_a_checkpoint_comes_between(monkeypatch):
    """Signals are handled at these times."""

    class Slow(thinwire.Method):
        def sync_weights(self):
            time.sleep(0.005)

    monkeypatch.setattr("thinwire.train.status.SECONDS_BETWEEN", 0.001)
    run = small.trainer(small.task(2, epochs=1), Slow)
    looked = []

    def after_step(trainer):
        looked.append(trainer.status_is_new)
        trainer.state()

    run.train(after_step=after_step)
    assert all(looked)


@pytest.mark.parametrize(("batch", "step"), [(12, 6), (24, 5)])
def test_divergence_names_the_step_whose_loss_or_evaluation_shows_it(batch, step):
    """The weights are bad after the fifth step, with which an epoch of batches of 24 ends."""
    with pytest.raises(Diverged) as caught:
        small.trainer(small.task(2, batch=batch), Explodes).train()
    assert caught.value.step == step
    again = pickle.loads(pickle.dumps(caught.value))  # as it comes from another process
    assert str(again) == f"the loss or a weight is not finite after step {step}"


def test_a_method_that_raises_on_a_nan_has_diverged_not_failed():
    class Chokes(Explodes):
        def sync_gradients(self):
            if self.run.step > 4:
                raise RuntimeError("cannot work with NaN")

    run = small.trainer(small.task(2, evaluate_every_epochs=3), Chokes)
    with pytest.raises(Diverged):
        run.train()
