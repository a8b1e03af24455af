"""What a method must not do, and which optimizers it can have."""

import pytest

import thinwire
from tests import small
from thinwire.base.errors import MethodError
from thinwire.records import checkpoint


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


def test_memory_that_cannot_be_saved_is_refused_by_name(tmp_path):
    class Hoards(thinwire.Method):
        def setup(self):
            self.memory["queue"] = {1, 2}

    run = small.trainer(small.task(2), Hoards)
    with pytest.raises(MethodError, match=r"/memory/queue is a set"):
        checkpoint.save(tmp_path, 0, run.state())


SGD = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}


@pytest.mark.parametrize(
    ("recipe", "changes", "left"),
    [
        (SGD, {}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        (SGD, {"momentum": 0}, {"momentum": 0, "nesterov": False, "weight_decay": 0.01}),
        (SGD, {"momentum": 0.5, "weight_decay": 0.0}, {"momentum": 0.5, "nesterov": True, "weight_decay": 0}),
        ({"name": "adam", "lr": 0.01, "weight_decay": 0.01}, {"weight_decay": 0}, {"weight_decay": 0}),
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
            "momentum belongs to sgd and lars, not to adam; .* `needs`",
        ),
        (SGD, {"weight_decay": -1}, "make_optimizer: weight_decay: input should be .* 0, not -1"),
    ],
)
def test_what_an_optimizer_cannot_have_is_refused(recipe, changes, message):
    class Changes(thinwire.Method):
        def optimizer(self, params):
            return self.run.make_optimizer(params, **changes)

    refuses(Changes, message, optimizer=recipe)
