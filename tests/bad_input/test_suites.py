"""What is wrong in a suite, or in options, is one sentence with the path of each value."""

import pytest

from tests.bad_input.suites import cases, message, require
from thinwire.config import expand, suite


def test_the_good_suite_is_good(write_suite):
    write_suite({})
    expand.require_valid("bad")
    assert len(expand.cells("bad")) == 1


WRONG = """
colour: 1 => colour: there is no such key
recipe.optimizer.rate: 1 => recipe.optimizer.rate: there is no such key
seed: one => seed: | integer | not 'one'
seed: -1 => seed: | not -1
repetitions: true => repetitions: | integer
workers: [0] => workers.0.workers: | not 0
workers: [{workers: 6, nodes: 4}] => workers.0: | 6 workers | 4 nodes
workers: [3], recipe.batch_per: run => batch of 8 | 3 workers
device: tpu => device: | not 'tpu'
transport: pigeons => transport: | not 'pigeons'
transport: processes, backend: nccl => nccl carries nothing between CPUs
recipe.precision: fp16 => recipe.precision: | 'fp32', 'tf32' or 'bf16', not 'fp16'
recipe.precision: tf32 => recipe.precision: CPUs have no tf32: take fp32 or bf16, or device: cuda
methods.ssgd: {precision: bf16} => methods.ssgd: precision belongs to the recipe: a method and its baseline
methods.ssgd: {channels_last: true} => methods.ssgd: channels_last belongs to the recipe: | alike
recipe.channels_last: "yes" => recipe.channels_last: | boolean
backend: gloo => backend: | transport: processes
transport: processes, nccl: timing => nccl: timing | goes with device: cuda and transport: processes
device: cuda, nccl: timing => nccl: timing | goes with device: cuda and transport: processes
device: cuda, transport: processes, backend: gloo, nccl: timing => nccl: timing | without backend: gloo
transport: processes, hang_seconds: 0 => hang_seconds:
recipe.optimizer.lr: 0 => recipe.optimizer.lr: | not 0
recipe.optimizer: {lr: 0.1, momentum: 0.0, nesterov: true} => recipe.optimizer: | nesterov | momentum
recipe.schedule: {name: step, milestones: [4, 2]} => recipe.schedule: | milestones must rise
recipe.schedule: {name: step} => recipe.schedule: | milestones
recipe.schedule: {name: cosine, milestones: [2]} => recipe.schedule: | milestones
methods: {a/b: null} => methods: | 'a/b' cannot be a label
models: {small one: {use: cnn}} => models: | 'small one' cannot be a label
workers: [2, {workers: 2}] => workers: | w2 is listed twice
datasets: [digits, digits] => datasets: | digits is listed twice
recipe.epochs: 2, recipe.schedule: {name: step, milestones: [1, 7]} => recipe: | milestones [1, 7] | 2 epochs
recipe.optimizer: {lr: 0.1, trust: 0.1} => recipe.optimizer: | trust | lars
recipe.optimizer: {name: lars, lr: 0.1, trust: -0.1} => optimizer.trust: | not -0.1
recipe.optimizer: {name: lars, lr: 0.1, nesterov: true} => recipe.optimizer: | nesterov belongs to sgd
recipe.optimizer: {name: adam, lr: 0.1, momentum: 0.9}
    => recipe.optimizer: | momentum belongs to sgd and lars and muon, not to adam
recipe.optimizer: {name: adamw, lr: 0.1, weight_decay: -0.1} => optimizer.weight_decay: | not -0.1
recipe.optimizer: {name: adamw, lr: 0.1, beta2: 1.0} => optimizer.beta2: | not 1
recipe.optimizer: {name: adamw, lr: 0.1, momentum: 0.9}
    => recipe.optimizer: | momentum belongs to sgd and lars and muon, not to adamw
recipe.optimizer: {lr: 0.1, beta1: 0.9}
    => recipe.optimizer: | beta1 belongs to adam and adamw and muon, not to sgd
recipe.clip_norm: 0.0 => recipe.clip_norm: | not 0
recipe.accumulate: 0 => recipe.accumulate: | not 0
recipe.accumulate: 3 => a worker's batch of 8 cannot be divided into 3 equal parts (accumulate)
recipe.accumulate: 2, methods.ssgd: {batch: 9}
    => methods.ssgd.batch: a worker's batch of 9 cannot be divided into 2 equal parts
recipe.partition: {dirichlet: 0} => recipe.partition: dirichlet needs a number above 0 | not 0
recipe.partition: {dirichlet: -0.5} => recipe.partition: dirichlet needs a number above 0 | not -0.5
recipe.partition: {dirichlet: true} => recipe.partition: dirichlet needs a number above 0 | not True
recipe.partition: dirichlet
    => recipe.partition: a partition is iid, natural or {dirichlet: alpha}, not 'dirichlet'
recipe.partition: {alpha: 1} => recipe.partition: a partition is iid, natural or | not {'alpha': 1}
recipe.partition: natural, recipe.reading: strided
    => recipe: | partition: natural needs the reading random: with strided, workers take turns
recipe.partition: natural, methods.ssgd: {reading: contiguous}
    => methods.ssgd.reading: partition: natural needs the reading random
datasets: {digits: {partition: natural}}, recipe.reading: strided
    => datasets.digits.partition: partition: natural needs the reading random
methods.ssgd: {partition: natural} => methods.ssgd: a partition belongs to a data set
models.cnn: {partition: natural} => models.cnn: a partition belongs to a data set
datasets: {digits: {partition: iit}} => datasets.digits.partition: a partition is iid, natural or
recipe.mixup: -1.0 => recipe.mixup: | not -1.0
recipe.schedule: {name: exponential} => recipe.schedule: | exponential needs a factor
recipe.schedule: {name: cosine, factor: 0.5}
    => recipe.schedule: | factor belongs to step and exponential and plateau, not to cosine
recipe.schedule: {patience: 3} => recipe.schedule: | patience belongs to plateau, not to cosine
recipe.schedule: {name: plateau, patience: -1} => recipe.schedule.patience: | not -1
recipe.schedule: {name: plateau, threshold: 1} => recipe.schedule.threshold: | not 1
recipe.schedule: {name: plateau, factor: 1.5} => recipe.schedule.factor: | not 1.5
recipe.schedule: {power: 3.0} => recipe.schedule: | power belongs to polynomial
methods.ssgd: {epochs: 0} => methods.ssgd.epochs: | not 0
models.cnn: {epochs: 2} => models.cnn: epochs belong to a method
methods.ssgd: {reading: contigous}
    => methods.ssgd.reading: there is no reading 'contigous' | the nearest is contiguous
recipe.reading: stride => recipe.reading: | the nearest is strided
models.cnn: {reading: random} => models.cnn: a reading belongs to a method
recipe.epochs: 3, recipe.schedule: {name: step, milestones: [1]}, methods.ssgd: {epochs: 1}
    => methods.ssgd.epochs: milestones [1] | 1 epochs
methods.ssgd: {recipe: {optimizer: {nesterov: true}}}
    => methods.ssgd.recipe.optimizer.nesterov: there is no such key
methods.ssgd: {recipe: {epochs: 2}} => methods.ssgd.recipe.epochs: there is no such key
methods.ssgd: {recipe: {optimizer: {lr: 0}}} => methods.ssgd.recipe.optimizer.lr: | not 0
recipe.optimizer: {name: adam, lr: 0.1}, methods.ssgd: {recipe: {optimizer: {momentum: 0.5}}}
    => methods.ssgd.recipe: | momentum belongs to sgd and lars and muon, not to adam
methods.ssgd: {batch: 0} => methods.ssgd.batch: | not 0
recipe.batch_per: run, methods.ssgd: {batch: 9}
    => methods.ssgd.batch: a batch of 9 for the run cannot be shared evenly by 2 workers
methods.ssgd: {optimizer: {lr: 0.1, trust: 0.1}}
    => methods.ssgd.optimizer: | trust belongs to lars, not to sgd
methods.ssgd: {optimizer: {name: adam, lr: 0.1}, recipe: {optimizer: {momentum: 0.5}}}
    => methods.ssgd.recipe: | momentum belongs to sgd and lars and muon, not to adam
methods.ssgd: {prefetch: 1} => methods.ssgd.prefetch: | boolean, not 1
models.cnn: {prefetch: true} => models.cnn: prefetch belongs to a method
models.cnn: {batch: 2} => models.cnn: a batch belongs to a method
datasets: {digits: {optimizer: {lr: 1.0}}} => datasets.digits: an optimizer belongs to
models.cnn: {recipe: {}} => models.cnn: a recipe belongs to a method
models.cnn: {prepare_from: {seed: 0}} => models.cnn: prepare_from belongs to a method
methods.mp2: {prepare_from: {}} => methods.mp2.prepare_from: it names no cell
methods.mp2: {prepare_from: {seed: -1}} => methods.mp2.prepare_from.seed: | not -1
methods.mp2: {prepare_from: {model: cnn}} => methods.mp2.prepare_from.model: there is no such key
tuned: a b => tuned: | 'a b' cannot be the name of a suite
simulate: {} => simulate.clusters: it is missing
simulate: {clusters: []} => simulate.clusters:
track: {cluster: wan_100m, target: 0, seeds: 5} => track.target: | greater than 0 | track.sigma: it is missing
simulate: {clusters: [wan_100m], rates_gbit_per_second: [0]} => simulate.rates_gbit_per_second.0: | not 0
simulate: {clusters: [wan_100m], workers: [2, 3]}, recipe.batch_per: run
    => simulate.workers: a batch of 8 | 3 workers
leave_out: [dgc, dgc] => leave_out: | dgc is listed twice
seed: 100000000000000000000 => seed: input should be less than 9223372036854775808
workers: [1000000000] => workers.0.workers: input should be less than or equal to 100000
workers: [{workers: 1, nodes: 1000000000}] => cannot be spread evenly
recipe.epochs: 1000000000 => recipe.epochs: input should be less than or equal to 1000000
methods.ssgd: {epochs: 1000000000} => methods.ssgd.epochs: input should be less
hang_seconds: 1.0e+300 => hang_seconds: input should be less
hang_seconds: .inf => hang_seconds: input should be a finite number, not inf
checkpoint_every_seconds: 1.0e+300 => checkpoint_every_seconds: input should be less
recipe.optimizer.lr: .nan => recipe.optimizer.lr: input should be a finite | not nan
datasets: [[digits]] => datasets: a list here holds names
methods: {1: null} => methods.1
colour: 1, seed: one, recipe.epochs: 0, workers: [{workers: 3, nodes: 2}]
    => colour: | seed: | recipe.epochs: | workers.0:
"""
LARGE = [
    ({"seed": "x" * 5000}, ["seed: input should be a valid integer, not 'xxx"]),
    ({"models": {f"m{i}": {"use": "cnn"} for i in range(1001)}}, ["models: dictionary should have at"]),
    ({"title": "two\nlines"}, ["title: it must be one line"]),
    ({"models": {"cnn": {"use": "x" * 5000}}}, ["cannot be a label"]),
    ({"methods": {"x" * 101: {"use": "ssgd"}}}, ["cannot be a label: take at most 100 letters"]),
]


@pytest.mark.parametrize(("changes", "words"), [*cases(WRONG), *LARGE])
def test_invalid_suite(write_suite, changes, words):
    path = write_suite(changes)
    refusal = message(suite.read, path)
    assert refusal.startswith(f"{path}: ")
    require(refusal, words)


UNKNOWN = """
methods.nothing: null => methods.nothing: | no method 'nothing' | ssgd
methods.label: {use: nothing} => methods.label: | no method 'nothing'
models.nothing: null => models.nothing: | no model 'nothing' | cnn
datasets: [nothing] => datasets.nothing: | no dataset 'nothing' | digits
baseline: top_k => baseline: | 'top_k' | not one of the methods
methods.late: {use: ssgd, options: {overlap: false}}, baseline: late
    => baseline: 'late' is an ablation of its method (overlap) | label without this option
methods.SSGD: {use: ssgd} => methods: ssgd and SSGD differ in upper and
repetitions: 1000000000 => 1,000,000,000 repetitions x 1 data sets x 1 models x 1 methods x 1 num
repetitions: 1000000000000000000000000000000 => cells: share them among suites of at most 20,000
methods.*: {options: {density: 0.1}} => methods.*: | takes no keys
methods.*: {epochs: 2} => methods.*: | takes no keys
recipe.accumulate: 2, simulate: {clusters: [wan_100m]} => simulate: recipe.accumulate: | leave it out
simulate: {clusters: [wan_100m], accelerator: a100_bf16} => simulate.accelerator: a100_bf16 is of bf16
simulate: {clusters: [wan_100m], accelerator: abacus} => simulate.accelerator: | 'abacus'
simulate: {clusters: [wan_100n]} => simulate.clusters: there is no cluster | the nearest is wan_100m
simulate: {clusters: [infiniband_100g_4gpus], workers: [6]}
    => simulate.clusters: 6 workers cannot be spread over nodes of infiniband_100g_4gpus
methods.large: {use: ssgd, batch: 512}, simulate: {clusters: [wan_100m]}
    => simulate: large has a batch of its own; move it to a suite without simulated times
leave_out: [dgc] => leave_out: | no '*'
methods.*: null, leave_out: [nothing] => leave_out: | no method 'nothing' | ssgd
datasets: [digits, shakespeare] => datasets.shakespeare: it is for next_character, and digits for
datasets: [shakespeare] => models.cnn: it is for classification, and the data set shakespeare for
models: {gpt: null} => models.gpt: it is for next_character, and the data set digits for class
datasets: [shakespeare], models: {gpt: null}, recipe.mixup: 0.2, recipe.channels_last: true
    => recipe.mixup: it mixes images, and shakespeare | recipe.channels_last: shakespeare has windows
methods.bad: {use: mp2, prepare_from: {dataset: digit}}
    => methods.bad.prepare_from.dataset: 'digit' is no data set of this suite: the nearest is digits
methods.bad: {use: dgc, prepare_from: {seed: 0}}
    => methods.bad.prepare_from: the method dgc has no preparation: remove this key
methods.bad: {use: wnn, prepare_from: {seed: 1}}
    => methods.bad.prepare_from.seed: 1 is no repetition of this suite: the last is 0
ladder: [sgd] => ladder: the suite has no method 'sgd'; the nearest is ssgd | ladder: it needs times
methods.nothing: null, models.none: null, datasets: ["no"], baseline: nobody
    => methods.nothing: | models.none: | datasets.no: | baseline:
"""


TRACK = {"cluster": "other", "target": 3, "seeds": 2, "sigma": 0.1, "threshold": 3}
TIMED = {"clusters": ["wan_100m"], "accelerator": "a100_fp32"}
BELONG_TOGETHER: list[tuple[dict[str, object], list[str]]] = [
    ({"workers": list(range(1, 101)), "repetitions": 201}, ["20,100 cells"]),
    (
        {"track": TRACK, "simulate": TIMED},
        ["track.cluster: other is not among", "track.seeds: 2 are not the 1"],
    ),
    (
        {"track": TRACK, "workers": [2, 4]},
        ["track: it needs the key simulate", "one data set, model and number"],
    ),
]


@pytest.mark.parametrize(("changes", "words"), [*cases(UNKNOWN), *BELONG_TOGETHER])
def test_unknown_plugin_in_a_suite(write_suite, changes, words):
    path = write_suite(changes)
    refusal = message(expand.cells, "bad")
    assert refusal.startswith(f"{path}: ")
    require(refusal, words)


OPTIONS = """
methods.top_k: {density: 0} => density: | greater than 0 | not 0
methods.top_k: {density: 1.5} => density: | less than or equal to 1 | not 1.5
methods.top_k: {density: much} => density: | number | not 'much'
methods.top_k: {memory: long} => memory: | 'gradient' | not 'long'
methods.top_k: {densty: 0.1} => densty: there is no such key | density | memory
methods.local_sgd: {period: 0} => period: | not 0
methods.local_sgd: {period: 2.5} => period: | integer | not 2.5
methods.local_sgd: {period: true} => period: | integer
methods.hylo: {kappa: .inf} => kappa: | finite number, not inf
models.cnn: {width: wide} => width: | integer | not 'wide'
models.lenet: {padding: 3} => padding: | not 3
models.cnn: {colour: 1} => colour: there is no such key | width
"""


@pytest.mark.parametrize(("changes", "words"), cases(OPTIONS))
def test_invalid_option(write_suite, changes, words):
    ((entry, options),) = changes.items()
    path = write_suite({entry: {"options": options}})
    refusal = message(expand.require_valid, "bad")
    assert refusal.startswith(f"{path}: {entry}.options.{words[0]}")
    assert refusal.count(f"{entry}.options.") == 1
    require(refusal, words)


def test_a_rule_that_joins_options_is_said_of_all_of_them(write_suite):
    write_suite({"methods.late": {"use": "diloco", "options": {"period": 10, "fragments": 3}}})
    refusal = message(expand.require_valid, "bad")
    assert "methods.late.options: a period of 10 steps has no 3 equal turns" in refusal


def test_invalid_options_come_in_one_message(write_suite):
    often = {"use": "local_sgd", "options": {"period": 0}}
    write_suite({"methods.often": often, "models.cnn": {"options": {"width": "wide", "wdth": 1}}})
    paths = ["methods.often.options.period:", "models.cnn.options.width:", "models.cnn.options.wdth:"]
    require(message(expand.require_valid, "bad"), paths)
