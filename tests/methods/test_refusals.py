"""Options that a method refuses, and runs that it skips: each in one sentence, before anything is trained."""

import pytest
from torch import nn

from tests import small
from thinwire import plugins
from thinwire.base.errors import Problems
from thinwire.base.options import resolve

FIXED_WAIT = {"fixed_skips": 4, "fixed_wait": 5}
# The method, its options, and words of the sentence.
REFUSED = [
    ("daso", {"max_skips": 0}, "max_skips"),
    ("daso", {"max_skips": 17}, "max_skips"),
    ("daso", {"warmup_epochs": -1}, "warmup_epochs"),
    ("daso", {"control": "fixed"}, "control"),
    ("daso", {"fixed_skips": 4}, "give both or neither"),
    ("daso", FIXED_WAIT, "fixed_wait 5 is above fixed_skips 4"),
    ("daso", {"match_progress": True, "control": "published"}, "match_progress needs control: corrected"),
    ("demo_sgd", {"chunk": 0}, "chunk: input should be greater than or equal to 1"),
    ("demo_sgd", {"k": 0}, "k: input should be greater than or equal to 1"),
    ("demo_sgd", {"decay": 1}, "decay: input should be less than 1"),
    ("des_loc", {"period": 0}, "period: input should be greater than or equal to 1"),
    ("des_loc", {"first_period": 0}, "first_period: input should be greater than or equal to 1"),
    ("des_loc", {"second_period": 0}, "second_period: input should be greater than or equal to 1"),
    ("dgc", {"density": 0.0}, "density: input should be greater than 0"),
    ("dgc", {"density": 1.5}, "density: input should be less than or equal to 1"),
    ("dgc", {"warmup_densities": [0.1, 0.2]}, "must not rise"),
    ("dgc", {"warmup_densities": [0.1], "density": 0.5}, "must not rise"),
    ("dgc", {"warmup_densities": [0.1, 0]}, "warmup_densities.1: input should be greater than 0"),
    ("dgc", {"clip_norm": -1.0}, "clip_norm"),
    ("diloco", {"period": 0}, "period: input should be greater than or equal to 1"),
    ("diloco", {"period": 10, "fragments": 3}, "a period of 10 steps has no 3 equal turns"),
    ("diloco", {"period": 12, "fragments": 3, "delay": 4}, "delay 4 is not below the 4 steps between two"),
    ("diloco", {"outer_lr": 0}, "outer_lr: input should be greater than 0"),
    ("diloco", {"outer_momentum": 1}, "outer_momentum: input should be less than 1"),
    ("diloco", {"mix": 1}, "mix: input should be less than 1"),
    ("diloco", {"bits": 16}, "bits: input should be 32, 8 or 4"),
    ("diloco", {"block": 0}, "block: input should be greater than or equal to 1"),
    ("dion", {"rank_fraction": 0}, "rank_fraction: input should be greater than 0"),
    ("dion", {"rank_fraction": 2}, "rank_fraction: input should be less than or equal to 1"),
    ("dion", {"momentum": 1}, "momentum: input should be less than 1"),
    ("dion", {"min_gain": -1}, "min_gain: input should be greater than or equal to 0"),
    ("ef21", {"density": 0}, "density: input should be greater than 0"),
    ("ef21", {"eta": 0}, "eta: input should be greater than 0"),
    ("ef21", {"eta": 1.1}, "eta: input should be less than or equal to 1"),
    ("gossip", {"period": 0}, "period: input should be greater than or equal to 1"),
    ("gossip", {"graph": "torus"}, "graph: input should be 'exponential', 'ring', 'random_pairs' or"),
    ("hsgd", {"level_1": "weights", "gradients": "bfloat16"}, "bfloat16 needs level_1: gradients, because"),
    ("hylo", {"least_rate": 0.0}, "least_rate"),
    ("mp2", {"preset": "published", "predictor_epochs": 15}, "decides predictor_epochs: leave that out"),
    ("multi_step_delay", {"interval": 0}, "interval: input should be greater than or equal to 1"),
    ("multi_step_delay", {"delay": 2}, "delay: input should be 0 or 1"),
    ("multi_step_delay", {"order": "lifo"}, "order: input should be 'priority' or 'fifo'"),
    ("multi_step_delay", {"min_interval": 5, "max_interval": 4}, "min_interval 5 is above max_interval"),
    ("multi_step_delay", {"in_round": 1.5}, "in_round"),
    ("multi_step_delay", {"credit": 0}, "credit"),
    ("one_bit_adam", {"warmup_steps": 0}, "warmup_steps: input should be greater than or equal to 1"),
    ("one_bit_adam", {"block": 0}, "block: input should be greater than or equal to 1"),
    ("power_sgd", {"rank": 0}, "rank: input should be greater than or equal to 1"),
    ("power_sgd", {"dense_steps": -1}, "dense_steps: input should be greater than or equal to 0"),
    ("power_sgd", {"min_gain": -1.0}, "min_gain: input should be greater than or equal to 0"),
    ("power_sgd", {"alternate": True, "warm_start": False}, "alternate needs warm_start: true, for"),
    ("qsgd", {"bits": 1}, "bits: input should be greater than or equal to 2"),
    ("qsgd", {"bits": 9}, "bits: input should be less than or equal to 8"),
    ("qsgd", {"block": 0}, "block: input should be greater than or equal to 1"),
    ("qsgd", {"clip": 0}, "clip: input should be greater than 0"),
    ("qsgd", {"norm": "l1"}, "norm: input should be 'l2' or 'max'"),
    ("qsgd", {"levels": "ternary"}, "levels: input should be 'uniform' or 'exponential'"),
    ("quantised_all_reduce", {"bits": 5}, "bits: input should be 4 or 8"),
    ("quantised_all_reduce", {"block": 0}, "block: input should be greater than or equal to 1"),
    ("sign_sgd", {"block": 0}, "block: input should be greater than or equal to 1"),
    ("sign_sgd", {"rule": "vote"}, "rule: input should be 'error_feedback', 'two_sided' or 'majority'"),
    ("sign_sgd", {"rule": "majority", "block": 8}, "block belongs to the other rules, because"),
    ("sparse_loco", {"period": 0}, "period: input should be greater than or equal to 1"),
    ("sparse_loco", {"chunk": 0}, "chunk: input should be greater than or equal to 1"),
    ("sparse_loco", {"k": 0}, "k: input should be greater than or equal to 1"),
    ("sparse_loco", {"decay": 1.1}, "decay: input should be less than or equal to 1"),
    ("sparse_loco", {"outer_lr": 0}, "outer_lr: input should be greater than 0"),
    ("sparse_loco", {"bits": 8}, "bits: input should be 2, 4 or 32"),
    ("sparse_loco", {"average": "all"}, "average: input should be 'workers' or 'senders'"),
]


def head_alone():
    """A model without a hidden matrix."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def hidden_alone():
    """A model of which the head, the only matrix that is not hidden, is frozen."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8, bias=False), nn.Linear(8, 10, bias=False))
    model[2].requires_grad_(False)
    return model


TEXT = {"data": small.texts(), "build_model": small.gpt}
LARS, ADAMW, MUON = ({"optimizer": {"name": name, "lr": 0.1}} for name in ("lars", "adamw", "muon"))
LONGER = {"epochs": 5, "schedule": {"name": "constant"}}
AROUND = {"warmup_epochs": 1, "cooldown_epochs": 1}
# The method, its options, what the run is on, and words of the reason; None: it is not skipped.
SKIPPED = [
    ("daso", {}, (4, 2), {}, "leave none of the run's 3"),
    ("daso", AROUND, (4, 2), {}, None),
    ("daso", AROUND, (4, 2), {"data": small.digits(24), "epochs": 5}, "one step an epoch"),
    ("daso", AROUND, (4, 1), {}, "at least 2 nodes"),
    ("demo_sgd", {}, (2, 1), LARS, "the recipe's optimizer is lars"),
    ("dgc", {}, (2, 1), {}, "its warm-up of 4 epochs leaves none of the run's 3"),
    ("dgc", {}, (2, 1), LARS, "the recipe's optimizer is lars"),
    ("dgc", {}, (2, 1), MUON, "for sgd and adam and adamw, and the recipe's optimizer is muon"),
    ("diloco", {"fragments": 4}, (2, 1), {}, "it has 4 fragments for a model of 3 layers"),
    ("diloco", {"fragments": 2}, (2, 1), {}, None),
    ("dion", {}, (2, 1), {"build_model": head_alone}, "the model has no hidden matrix"),
    ("dion", {}, (2, 1), {"build_model": hidden_alone}, "the model has hidden matrices alone"),
    ("dion", {"orthonormal": False}, (2, 1), {"build_model": hidden_alone}, None),
    ("dion", {}, (2, 1), LARS, "the recipe's optimizer is lars"),
    ("dion", {}, (2, 1), MUON, None),
    ("gossip", {"period": 16}, (2, 1), {}, "its period of 16 steps is longer than the run of 15"),
    ("gossip", {"period": 15}, (2, 1), {}, None),
    ("local_sgd", {"switch_epoch": 3}, (2, 1), {}, "epoch 3 of a run of 3"),
    ("local_sgd", {"switch_epoch": 2}, (2, 1), {}, None),
    ("multi_step_delay", {}, (2, 1), {}, "warm-up of 500 steps"),
    ("multi_step_delay", {"warmup_steps": 3}, (2, 1), {}, None),
    (
        *("multi_step_delay", {"warmup_steps": 3, "interval": 13}, (2, 1), {}),
        "rounds of 13 steps are longer than the 12 after",
    ),
    ("multi_step_delay", {"warmup_steps": 3, "interval": 20, "max_interval": 4}, (2, 1), {}, None),
    ("multi_step_delay", {"warmup_steps": 3, "min_interval": 14}, (2, 1), {}, "rounds of 14 steps"),
    ("multi_step_delay", {"warmup_steps": 3}, (2, 1), LARS, "the recipe's optimizer is lars"),
    ("multi_step_delay", {"warmup_steps": 3}, (2, 1), ADAMW, "the recipe's optimizer is adamw"),
    ("one_bit_adam", {}, (2, 1), {}, "for adamw and adam, and the recipe's optimizer is sgd"),
    ("one_bit_adam", {}, (2, 1), MUON, "for adamw and adam, and the recipe's optimizer is muon"),
    ("one_bit_adam", {}, (2, 1), ADAMW, "its warm-up of 100 steps leaves none of the run's 15"),
    ("one_bit_adam", {"warmup_steps": 14}, (2, 1), ADAMW, None),
    ("power_sgd", {}, (2, 1), {}, "its 100 dense steps leave none of the run's 15"),
    ("power_sgd", {"dense_steps": 14}, (2, 1), {}, None),
    ("power_sgd", {"dense_steps": 0, "rank": 9}, (2, 1), {}, "becomes so much smaller at rank 9"),
    ("wnn", {}, (2, 1), {}, "its first forecast would come after 25 steps of a run of 15"),
    ("wnn", {}, (2, 1), LONGER, None),
    ("wnn", {"forecast": False}, (2, 1), {}, None),
    ("wnn", {"interval_epochs": 0.2}, (2, 1), TEXT, "learn from networks that classify images"),
]


@pytest.mark.parametrize(("method", "options", "words"), REFUSED)
def test_bad_options_are_one_sentence(method, options, words):
    with pytest.raises(Problems) as caught:
        resolve(plugins.get("method", method).load(), options)
    (sentence,) = caught.value.found
    assert words in sentence


@pytest.mark.parametrize(("method", "options", "place", "changes", "words"), SKIPPED)
def test_a_run_of_which_nothing_would_be_the_methods_is_skipped(method, options, place, changes, words):
    """It would be SSGD under another name."""
    reason = small.skip(small.task(*place, **changes), plugins.get("method", method).load(), **options)
    assert reason is None if words is None else words in reason
