"""Every method against an independent slow reference in float64, step by step.

The references in tests/reference were written by somebody who had not seen the modules. They use numpy, one
process and loops over workers. Each names the public code and the texts that it follows, line by line. Only
what they say of controls (Hylo's uniform compressions and its missing residual, HSGD's 16 bits) was added by
the author of these options.
"""

import functools

import pytest
import torch

from tests import small
from tests.golden.compared import compare, slow, task_of
from tests.reference import (
    adacomm,
    daso,
    demo_sgd,
    des_loc,
    dgc,
    diloco,
    dion,
    ef21,
    gossip,
    hsgd,
    hylo,
    local_sgd,
    multi_step_delay,
    one_bit_adam,
    power_sgd,
    quantised_all_reduce,
    sign_sgd,
    sparse_loco,
    ssgd,
    top_k,
)
from tests.reference.optimizers import AdamW, Lars, Muon
from thinwire.base import seeds
from thinwire.data.batches import Batches

DGC = {"density": 0.02, "warmup_densities": (), "selection": "exact"}
DASO = {"warmup_epochs": 1, "cooldown_epochs": 1, "blocking_dtype": "full", "patience": 0}
DELAY = {"warmup_steps": 4, "interval": 3}
# The small model has a convolution of 27 entries and a linear layer of 270.
HYLO = {"conv_threshold": 16, "linear_threshold": 100}
POWER = {"rank": 1, "min_gain": 0.0, "dense_steps": 0}

# Method, its reference, and options of the method.
CASES = [
    ("ssgd", ssgd, {}),
    ("ssgd", ssgd, {"overlap": False}),
    ("local_sgd", local_sgd, {"period": 1}),
    ("local_sgd", local_sgd, {"period": 5}),
    ("local_sgd", local_sgd, {"period": 4, "momentum": "reset"}),
    ("local_sgd", local_sgd, {"period": 7, "switch_epoch": 1}),
    ("local_sgd", adacomm, {"period": 5, "max_period": 7, "adaptive": True}),
    ("top_k", top_k, {"density": 0.03}),
    ("top_k", top_k, {"density": 0.1, "memory": "update", "indices": "bitmap"}),
    ("top_k", top_k, {"density": 0.1, "memory": "none", "indices": "run_length"}),
    ("dgc", dgc, DGC),
    ("dgc", dgc, {**DGC, "masking": False, "clip_norm": 0.3, "indices": "bitmap"}),
    ("dgc", dgc, {**DGC, "warmup_densities": (1.0, 0.5, 0.1), "clip_norm": 0.5}),
    ("des_loc", des_loc, {"period": 1, "first_period": 1, "second_period": 1}),
    ("des_loc", des_loc, {"period": 5, "first_period": 3, "second_period": 4}),
    ("sparse_loco", sparse_loco, {"period": 1, "k": 300, "bits": 32}),
    ("sparse_loco", sparse_loco, {"period": 5, "k": 4, "chunk": 9, "bits": 32}),
    ("sparse_loco", sparse_loco, {"period": 7, "k": 12}),
    ("sparse_loco", sparse_loco, {"period": 4, "k": 12, "decay": 0.7, "outer_lr": 0.8, "bits": 4}),
    ("sparse_loco", sparse_loco, {"period": 4, "k": 12, "average": "senders", "clip": True}),
    ("diloco", diloco, {"period": 1}),
    ("diloco", diloco, {"period": 5, "outer_lr": 0.9, "outer_momentum": 0.5}),
    ("diloco", diloco, {"period": 8, "fragments": 2, "delay": 3}),
    ("diloco", diloco, {"period": 9, "fragments": 3, "delay": 1, "mix": 0.25}),
    ("diloco", diloco, {"period": 7, "bits": 8, "block": 20}),
    ("diloco", diloco, {"period": 4, "fragments": 2, "delay": 1, "mix": 0.5, "bits": 8}),
    ("demo_sgd", demo_sgd, {"chunk": 8, "k": 5, "decay": 0.9, "sign": False}),
    ("demo_sgd", demo_sgd, {"chunk": 64, "k": 7, "sign": False}),
    ("ef21", ef21, {"density": 0.05, "eta": 0.1}),
    ("ef21", ef21, {"density": 0.03, "eta": 1.0, "indices": "bitmap"}),
    ("ef21", ef21, {"density": 0.3, "eta": 0.5, "indices": "run_length"}),
    ("gossip", gossip, {}),
    ("gossip", gossip, {"graph": "ring", "period": 4}),
    ("gossip", gossip, {"graph": "complete", "period": 5}),
    ("gossip", gossip, {"graph": "random_pairs", "period": 2}),
    ("hsgd", hsgd, {}),
    ("hsgd", hsgd, {"level_1": "weights"}),
    ("hsgd", hsgd, {"gradients": "bfloat16"}),
    ("hsgd", hsgd, {"gradients": "float16"}),
    ("daso", daso, {**DASO, "max_skips": 4}),
    ("daso", daso, {**DASO, "max_skips": 4, "plateau_threshold": 0.9}),
    ("daso", daso, {**DASO, "max_skips": 8, "plateau_threshold": 0.9, "warmup_epochs": 0}),
    ("daso", daso, {**DASO, "max_skips": 4, "plateau_threshold": 0.9, "control": "published"}),
    ("daso", daso, {**DASO, "max_skips": 2, "plateau_threshold": 0.9, "control": "published"}),
    ("daso", daso, {**DASO, "max_skips": 1, "blocking_dtype": "float16"}),
    ("daso", daso, {**DASO, "max_skips": 1, "blocking_dtype": "float16", "blocking_sends": "weights"}),
    ("daso", daso, {**DASO, "max_skips": 4, "fixed_skips": 4, "fixed_wait": 0}),
    ("daso", daso, {**DASO, "max_skips": 4, "fixed_skips": 3, "fixed_wait": 2, "match_progress": True}),
    ("daso", daso, {**DASO, "max_skips": 4, "plateau_threshold": 0.9, "match_progress": True}),
    ("ps_sgd", ssgd, {}),
    ("ps_sgd", ssgd, {"servers": "one"}),
    ("ps_sgd", ssgd, {"servers": "one", "pipelined": False}),
    ("hylo", hylo, {**HYLO, "warmup_steps": 3}),
    ("hylo", hylo, {**HYLO, "kappa": 0.5, "least_rate": 0.5}),
    ("hylo", hylo, {**HYLO, "kappa": 2.0, "importance": "l2", "exponent": 2.0, "least_rate": 0.01}),
    ("hylo", hylo, {**HYLO, "compression": "uniform_kernels", "least_rate": 0.3, "exponent": 1.0}),
    ("hylo", hylo, {**HYLO, "compression": "uniform_two_bits"}),
    ("hylo", hylo, {**HYLO, "residual": False, "least_rate": 0.3, "exponent": 1.0}),
    ("quantised_all_reduce", quantised_all_reduce, {"bits": 8}),
    ("quantised_all_reduce", quantised_all_reduce, {"bits": 8, "block": 20}),
    ("multi_step_delay", multi_step_delay, DELAY),
    ("multi_step_delay", multi_step_delay, {**DELAY, "delay": 1, "slice": 20, "credit": 50}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "at_sync": 0.7, "in_round": 0.4, "slice": 7}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "delay": 1, "at_sync": 0.5, "lr_term": False}),
    ("multi_step_delay", multi_step_delay, {"warmup_steps": 0, "interval": 5, "shrink": 0.5}),
    ("multi_step_delay", multi_step_delay, {"warmup_steps": 9, "interval": 4, "adapt_every_epochs": 2}),
    ("multi_step_delay", multi_step_delay, {"warmup_steps": 0, "interval": 7, "delay": 1}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "local_momentum": True, "order": "fifo", "slice": 20}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "local_momentum": True, "delay": 1, "at_sync": 0.5}),
    ("power_sgd", power_sgd, POWER),
    ("power_sgd", power_sgd, {"rank": 2, "min_gain": 2.0, "dense_steps": 5}),
    ("power_sgd", power_sgd, {**POWER, "alternate": True}),
    ("power_sgd", power_sgd, {"rank": 2, "min_gain": 0.0, "dense_steps": 3, "alternate": True}),
    ("sign_sgd", sign_sgd, {}),
    ("sign_sgd", sign_sgd, {"block": 7}),
    ("sign_sgd", sign_sgd, {"rule": "two_sided"}),
    ("sign_sgd", sign_sgd, {"rule": "two_sided", "block": 7}),
]
# Options that change how things are sent, but not the result.
SENDING = (
    *("indices", "selection", "slice", "credit", "order", "adaptive"),
    *("servers", "overlap", "pipelined"),
)
# Options that have another name in the reference, and what a reference needs beside them.
RENAMED = {
    (local_sgd, "momentum"): "momentum_policy",
    (hsgd, "gradients"): "precision",
    (power_sgd, "min_gain"): "least_rate",
    (sign_sgd, "rule"): "form",
}
KINDS = ["conv", "other", "other", "other", "linear", "other"]
LAYERS = [0, 0, 1, 1, 2, 2]


def label(case):
    name, _, options = case
    return "-".join([name, *(f"{k}={v}" for k, v in options.items())])


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(2, 1), (4, 2), slow(8, 1), slow(8, 4)])
@pytest.mark.parametrize("case", CASES, ids=label)
@pytest.mark.parametrize("nesterov", [slow(False), True], ids=["plain", "nesterov"])
def test_a_method_equals_its_reference(case, workers, nodes, nesterov):
    name, reference, options = case
    known = {RENAMED.get((reference, k), k): v for k, v in options.items() if k not in SENDING}
    if reference is hsgd:
        known["samples"] = lambda worker, step: 16 // workers
    if reference is hylo:
        known["kinds"] = KINDS
    if reference is diloco:
        fragments = known.pop("fragments", 1)
        known["fragment_of"] = [layer % fragments for layer in LAYERS]
    task = task_of(workers, nodes, nesterov=nesterov)
    if reference is power_sgd:
        known["first"] = first_factors(task, options)
    if options.get("graph") == "random_pairs":
        known["pairs"] = functools.partial(pairs, task, options["period"])
    compare(task, name, options, reference, nesterov, **known)


def pairs(task, period, exchange):
    """Who averages with whom: each place in a random order with its neighbour."""
    step = (exchange + 1) * period - 1
    generator = torch.Generator().manual_seed(seeds.of_shared_choices(task.seed).at(step))
    drawn = torch.randperm(task.cluster.workers, generator=generator).tolist()
    return list(zip(drawn[::2], drawn[1::2]))


def first_factors(task, options):
    """The factors that PowerSGD draws, by tensor."""
    method = small.trainer(task, "power_sgd", **options).workers[0].method
    drawn = dict(zip(method.compressed, method.memory["factors"], strict=True))

    def first(index, rows, columns):
        assert drawn[index].shape == (rows, columns)
        return drawn[index].numpy()

    return first


@pytest.fixture
def uneven(monkeypatch):
    """Give workers different numbers of images, which change with every step."""

    def samples(worker, step):
        return 1 + (worker * 3 + step * 2) % 4

    whole = Batches.at

    def at(self, step):
        return [(x[: samples(w, step)], y[: samples(w, step)]) for w, (x, y) in enumerate(whole(self, step))]

    monkeypatch.setattr(Batches, "at", at)
    return samples


@pytest.mark.parametrize("level_1", ["gradients", "weights"])
def test_hsgd_is_exact_with_unequal_batches(uneven, level_1):
    task = task_of(4, 2, batch=32)
    options = {"level_1": level_1}
    compare(task, "hsgd", options, hsgd, False, samples=uneven, **options)


def test_a_mean_of_means_is_not_exact_with_unequal_batches(uneven):
    task = task_of(4, 2, batch=32)
    with pytest.raises(AssertionError):
        compare(task, "hsgd", {}, hsgd, False, samples=lambda worker, step: 1)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("level_1", ["gradients", "weights"])
def test_hsgd_with_lars(inside, level_1):
    task = task_of(4, 2, name="lars", trust=0.1, lr_inside_momentum=inside)
    make = functools.partial(Lars, 0.9, 0.01, 0.1, inside)
    options = {"level_1": level_1}
    compare(task, "hsgd", options, hsgd, False, make, samples=lambda worker, step: 4, **options)


ADAMW = {"name": "adamw", "beta1": 0.8, "momentum": None}
# Three convolutions, and the linear layer that is the head; a weight and a bias of each.
HIDDEN = [True, False] * 3 + [False, False]
OPTIMIZERS = {
    "adamw": (ADAMW, functools.partial(AdamW, 0.8, 0.999, 0.01)),
    "muon": (ADAMW | {"name": "muon"}, functools.partial(Muon, HIDDEN, 0.95, 0.8, 0.999, 0.01)),
}


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(2, 1), (4, 2)])
@pytest.mark.parametrize(("name", "warmup"), [("adamw", 12), ("adam", 18)])
def test_one_bit_adam(workers, nodes, name, warmup):
    """Each tensor has one server; in the code all workers serve a part of it, with scales of their own."""
    recipe = ADAMW | {"name": name, "lr": 0.001}
    task = task_of(workers, nodes, build_model=functools.partial(small.Plain, dropout=0.0), **recipe)
    weights = [weight.detach().numpy() for weight in small.Plain().parameters()]
    known = {
        "beta1": 0.8,
        "decoupled": name == "adamw",
        "server_parts": one_bit_adam.tensors_as_parts(weights),
    }
    options = {"warmup_steps": warmup}
    compare(task, "one_bit_adam", options, one_bit_adam, False, **options, **known)


@pytest.mark.parametrize("optimizer", ["adamw", slow("muon")])
@pytest.mark.parametrize(
    ("name", "options", "reference"),
    [
        ("ssgd", {}, ssgd),
        ("ps_sgd", {}, ssgd),
        ("local_sgd", {"period": 5}, local_sgd),
        ("diloco", {"period": 5}, diloco),
        # With a first moment that is averaged without the second, weights jump: their last bits are large.
        ("des_loc", {"period": 3, "first_period": 4, "second_period": 2}, des_loc),
        ("sparse_loco", {"period": 5, "k": 12}, sparse_loco),
        ("top_k", {"density": 0.1}, top_k),
    ],
)
def test_a_method_with_adamw_or_muon(name, options, reference, optimizer):
    """On workers, on servers by tensor, with local steps, and after error feedback.

    The model has no batch norm: the bias before it has a gradient of rounding errors, which AdamW enlarges.
    """
    recipe, make = OPTIMIZERS[optimizer]
    task = task_of(4, 2, build_model=functools.partial(small.Plain, dropout=0.0), **recipe)
    compare(task, name, options, reference, False, make, **options)


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), (4, 2)])
@pytest.mark.parametrize("optimizer", ["sgd", slow("adamw"), "muon"])
@pytest.mark.parametrize(
    "options",
    [
        {"rank_fraction": 0.25, "min_gain": 0.0},
        {"rank_fraction": 0.5, "momentum": 0.8},
        {"rank_fraction": 0.5, "momentum": 0.0, "min_gain": 1000.0},
    ],
)
def test_dion(options, optimizer, workers, nodes):
    """Where gradients are sent instead of factors, the reference has factors: weights are the same."""
    recipe, make = OPTIMIZERS.get(optimizer, ({}, None))
    task = task_of(workers, nodes, build_model=functools.partial(small.Plain, dropout=0.0), **recipe)
    run = small.trainer(task, "dion", **options).workers[0]

    def first(index, rows, columns):
        drawn = run.method.memory["q"][run.run.params[index].name]
        assert drawn.shape == (rows, columns)
        return drawn.numpy()

    known = {"rank": options["rank_fraction"], "mu": options.get("momentum", 0.95)}
    compare(task, "dion", options, dion, False, make, hidden=HIDDEN, first=first, **known)
