"""Options that a method refuses, and runs that it skips: each in one sentence, before anything is trained."""

import re

import pytest
import yaml
from torch import nn

from tests import small
from tests.bad_input.suites import cases, require
from thinwire import plugins
from thinwire.base.errors import Problems
from thinwire.base.options import resolve

# The method, its options, and words of the sentence.
REFUSED = """
daso: {fixed_skips: 4} => give both or neither
daso: {fixed_skips: 4, fixed_wait: 5} => fixed_wait 5 is above fixed_skips 4
daso: {match_progress: true, control: published} => match_progress needs control: corrected
dgc: {warmup_densities: [0.1, 0.2]} => must not rise
dgc: {warmup_densities: [0.1], density: 0.5} => must not rise
diloco: {period: 10, fragments: 3} => a period of 10 steps has no 3 equal turns
diloco: {period: 12, fragments: 3, delay: 4} => delay 4 is not below the 4 steps between two
hsgd: {level_1: weights, gradients: bfloat16} => bfloat16 needs level_1: gradients, because
mp2: {preset: published, predictor_epochs: 15} => decides predictor_epochs: leave that out
multi_step_delay: {min_interval: 5, max_interval: 4} => min_interval 5 is above max_interval
power_sgd: {alternate: true, warm_start: false} => alternate needs warm_start: true, for
sign_sgd: {rule: majority, block: 8} => block belongs to the other rules, because
"""
# Values of single options that are out of range.
OUT_OF_RANGE = """
daso: {max_skips: [0, 17], warmup_epochs: [-1], control: [fixed]}
demo_sgd: {chunk: [0], k: [0], decay: [1]}
des_loc: {period: [0], first_period: [0], second_period: [0]}
dgc: {density: [0.0, 1.5], warmup_densities: [[0.1, 0]], clip_norm: [-1.0]}
diloco: {period: [0], outer_lr: [0], outer_momentum: [1], mix: [1], bits: [16], block: [0]}
dion: {rank_fraction: [0, 2], momentum: [1], min_gain: [-1]}
ef21: {density: [0], eta: [0, 1.1]}
gossip: {period: [0], graph: [torus]}
hylo: {least_rate: [0.0, 1.1], kappa: [0.0], conv_threshold: [0], linear_threshold: [-5], exponent: [-0.5]}
mp2: {pushed_stages: [0], images_share: [1.5]}
multi_step_delay: {interval: [0], delay: [2], order: [lifo], in_round: [1.5], credit: [0]}
one_bit_adam: {warmup_steps: [0], block: [0]}
power_sgd: {rank: [0], dense_steps: [-1], min_gain: [-1.0]}
qsgd: {bits: [1, 9], block: [0], clip: [0], norm: [l1], levels: [ternary]}
quantised_all_reduce: {bits: [5], block: [0]}
sign_sgd: {block: [0], rule: [vote]}
sparse_loco: {period: [0], chunk: [0], k: [0], decay: [1.1], outer_lr: [0], bits: [8], average: [all]}
wnn: {windows: [5], interval_epochs: [0.0], bias_rule: [none]}
"""


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


def refusal(method, options):
    with pytest.raises(Problems) as caught:
        resolve(plugins.get("method", method).load(), options)
    (sentence,) = caught.value.found
    return sentence


@pytest.mark.parametrize(("options", "words"), cases(REFUSED))
def test_options_that_do_not_go_together_are_one_sentence(options, words):
    ((method, given),) = options.items()
    require(refusal(method, given), words)


@pytest.mark.parametrize("row", OUT_OF_RANGE.strip().splitlines())
def test_values_out_of_range_are_one_sentence(row):
    ((method, options),) = yaml.safe_load(row).items()
    for name, values in options.items():
        for value in values:
            assert re.match(rf"{name}(\.1)?: input should be ", refusal(method, {name: value}))


@pytest.mark.parametrize(("method", "options", "place", "changes", "words"), SKIPPED)
def test_a_run_of_which_nothing_would_be_the_methods_is_skipped(method, options, place, changes, words):
    """It would be SSGD under another name."""
    reason = small.skip(small.task(*place, **changes), plugins.get("method", method).load(), **options)
    assert reason is None if words is None else words in reason
