"""Every method against an independent slow reference in float64, step by step.

The references in tests/reference were written by somebody who had not seen the modules. They use numpy, one
process and loops over workers. Each names the public code and the texts that it follows, line by line. Only
what they say of controls (Hylo's uniform compressions and its missing residual, HSGD's 16 bits) was added by
the author of these options.
"""

import functools
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests import small
from tests.reference import adacomm, daso, dgc, hsgd, hylo, local_sgd, mp2, multi_step_delay, ssgd, top_k, wnn
from tests.reference.adam import Adam
from tests.reference.lars import Lars
from tests.reference.sgd import Run
from thinwire import plugins
from thinwire.data.batches import Batches
from thinwire.optim.recipe import Optimizer
from thinwire.optim.schedule import learning_rate
from thinwire.options import resolve
from thinwire.task import initial_model

STEPS, STEPS_PER_EPOCH = 36, 6
DGC = {"density": 0.02, "warmup_densities": (), "selection": "exact"}
DASO = {"warmup_epochs": 1, "cooldown_epochs": 1, "blocking_dtype": "full", "patience": 0}
DELAY = {"warmup_steps": 4, "interval": 3}
# The small model has a convolution of 27 entries and a linear layer of 270.
HYLO = {"conv_threshold": 16, "linear_threshold": 100}

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
    ("multi_step_delay", multi_step_delay, DELAY),
    ("multi_step_delay", multi_step_delay, {**DELAY, "delay": 1, "slice": 20, "credit": 50}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "at_sync": 0.7, "in_round": 0.4, "slice": 1}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "delay": 1, "at_sync": 0.5, "lr_term": False}),
    ("multi_step_delay", multi_step_delay, {"warmup_steps": 0, "interval": 5, "shrink": 0.5}),
    ("multi_step_delay", multi_step_delay, {"warmup_steps": 9, "interval": 4, "adapt_every_epochs": 2}),
    ("multi_step_delay", multi_step_delay, {"warmup_steps": 0, "interval": 7, "delay": 1}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "local_momentum": True, "order": "fifo", "slice": 20}),
    ("multi_step_delay", multi_step_delay, {**DELAY, "local_momentum": True, "delay": 1, "at_sync": 0.5}),
]
# What a reference needs in addition to its method's options, and where it has another name for one of them.
KINDS = ["conv", "other", "other", "other", "linear", "other"]
RENAMED = {(local_sgd, "momentum"): "momentum_policy", (hsgd, "gradients"): "precision"}
# Options that change how things are sent or prepared, but not the result.
SENDING = (
    *("indices", "selection", "slice", "credit", "order", "adaptive"),
    *("servers", "overlap", "pipelined"),
)
MP2 = {"predictor_epochs": 1, "bsp_workers": 1}
WNN = {
    "interval_epochs": 0.34,
    "recorded_epochs": 5,
    "recorded_batch": 16,
    "windows": 500,
    "forecaster_steps": 20,
}
PREPARING = ("pushed_stages", "predictor", *MP2, *WNN)


def build():
    """A model with batch norm, but without dropout, because a reference has no random stream."""
    return small.Net(dropout=0.0)


class Replica:
    """The gradients and losses that the engine's workers see, as functions of the weights."""

    def __init__(self, task, run):
        self.model = initial_model(task)
        self.parameters = list(self.model.parameters())
        # All workers ask for their batches of a step one after the other.
        self.batches_at = functools.lru_cache(maxsize=2)(run.batches.at)

    def forward(self, worker, step, weights):
        for parameter, weight in zip(self.parameters, weights, strict=True):
            parameter.data, parameter.grad = torch.from_numpy(weight.copy()), None
        images, labels = self.batches_at(step)[worker]
        return nn.functional.cross_entropy(self.model(images), labels)

    def gradient(self, worker, step, weights):
        self.forward(worker, step, weights).backward()
        return [parameter.grad.numpy() for parameter in self.parameters]

    @torch.no_grad()
    def loss(self, worker, step, weights):
        return self.forward(worker, step, weights).item()


def compare(task, name, reference, options, nesterov, make_optimizer=None, **more):
    run = small.trainer(task, name, **options)
    assert (run.total_steps, run.steps_per_epoch) == (STEPS, STEPS_PER_EPOCH)
    replica = Replica(task, run)
    known = {RENAMED.get((reference, k), k): v for k, v in options.items() if k not in (*SENDING, *PREPARING)}
    of_reference = Run(
        weights=[p.detach().numpy() for p in replica.parameters],
        gradient=replica.gradient,
        loss=replica.loss,
        workers=task.cluster.workers,
        nodes=task.cluster.nodes,
        steps=STEPS,
        steps_per_epoch=STEPS_PER_EPOCH,
        learning_rate=lambda step: learning_rate(
            task.recipe, task.cluster.workers, step, run.steps_per_epoch
        ),
        momentum=0.9,
        weight_decay=0.01,
        nesterov=nesterov,
        make_optimizer=make_optimizer,
    )
    trajectory = [*reference.train(of_reference, **known, **more)]
    for step, expected in enumerate(trajectory, 1):
        run.train(until=step)
        for mine, theirs in zip(run.shipped()[0], expected):
            torch.testing.assert_close(mine, torch.from_numpy(theirs), rtol=0, atol=1e-9)


def task_of(workers, nodes, batch=16, build_model=build, **optimizer):
    return small.task(
        workers,
        nodes,
        build_model=build_model,
        batch=batch,
        epochs=6,
        optimizer={"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, **optimizer},
        data=small.digits(6 * batch + 4),
    )


def slow(*values):
    """A parameter that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)


def label(case):
    name, _, options = case
    return "-".join([name, *(f"{k}={v}" for k, v in options.items())])


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(2, 1), slow(4, 2), slow(8, 1), (8, 4)])
@pytest.mark.parametrize("case", CASES, ids=label)
@pytest.mark.parametrize("nesterov", [slow(False), True], ids=["plain", "nesterov"])
def test_a_method_equals_its_reference(case, workers, nodes, nesterov):
    name, reference, options = case
    more = {}
    if reference is hsgd:
        more["samples"] = lambda worker, step: 16 // workers
    if reference is hylo:
        more["kinds"] = KINDS
    compare(task_of(workers, nodes, nesterov=nesterov), name, reference, options, nesterov, **more)


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
    compare(task, "hsgd", hsgd, {"level_1": level_1}, False, samples=uneven)


def test_a_mean_of_means_is_not_exact_with_unequal_batches(uneven):
    task = task_of(4, 2, batch=32)
    with pytest.raises(AssertionError):
        compare(task, "hsgd", hsgd, {}, False, samples=lambda worker, step: 1)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("level_1", ["gradients", "weights"])
def test_hsgd_with_lars(inside, level_1):
    task = task_of(4, 2, name="lars", trust=0.1, lr_inside_momentum=inside)
    make = functools.partial(Lars, 0.9, 0.01, 0.1, inside)
    options = {"level_1": level_1}
    compare(task, "hsgd", hsgd, options, False, make, samples=lambda worker, step: 4)


def tensors_of(folder, stem):
    """What was prepared, in double precision."""
    return {name: value.numpy() for name, value in load_file(folder / f"{stem}.safetensors").items()}


def plain():
    return small.Plain(dropout=0.0)


def folded():
    """Its first stage has 320 values: five maps of 8x8."""
    model = small.Plain(dropout=0.0)
    model.first = nn.Conv2d(1, 32, 3, padding=1)
    model.second = nn.Conv2d(32, 6, 3, stride=2, bias=False)
    return model


def lenet():
    model = plugins.get("model", "lenet").load()
    return model(resolve(model, {"width": 3, "padding": 2}), (1, 8, 8), 10)


def rest_of(model, pushed):
    """For the parameters after the first `pushed`: each layer's kind, weight, and whether it has a bias."""
    layers = []
    for parameter in list(model.parameters())[pushed:]:
        if parameter.dim() > 1:
            kind = "conv" if parameter.dim() == 4 else "linear"
            layers.append((kind, tuple(parameter.shape), False))
        else:
            layers[-1] = (*layers[-1][:2], True)
    return layers


OPTIMIZERS = {
    "sgd": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
    "nesterov": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "adam": {"name": "adam", "lr": 0.01, "weight_decay": 0.01, "beta1": 0.8},
}


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(2, 1), (8, 4)])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("build_model", "stages", "pushed"),
    [(plain, 2, 4), (plain, 3, 6), (folded, 1, 2), (lenet, 2, 4), (plain, 9, 8)],
    ids=["mixed", "one linear layer", "folded", "linear layers", "everything"],
)
def test_mp2_equals_its_reference(build_model, stages, pushed, optimizer, workers, nodes):
    task = task_of(workers, nodes, build_model=build_model)
    task = replace(
        task, recipe=task.recipe.model_copy(update={"optimizer": Optimizer(**OPTIMIZERS[optimizer])})
    )
    options = {**MP2, "pushed_stages": stages}
    method = plugins.get("method", "mp2").load()
    folder = small.prepared(task, method, resolve(method, options))
    rest = rest_of(build_model(), pushed)
    more = {"pushed": pushed, "rest": rest, "predictor": tensors_of(folder, "predictor") if rest else {}}
    if optimizer == "adam":
        more["make_optimizer"] = functools.partial(Adam, 0.8, 0.999, 0.01)
    compare(task, "mp2", mp2, options, optimizer == "nesterov", **more)


@pytest.mark.parametrize(("build_model", "pushed"), [(plain, 4), (lenet, 4)])
def test_mp2_with_a_constant_predictor_equals_its_reference(build_model, pushed):
    task = task_of(2, 1, build_model=build_model)
    options = {**MP2, "predictor": "constant"}
    method = plugins.get("method", "mp2").load()
    folder = small.prepared(task, method, resolve(method, options))
    more = {"pushed": pushed, "rest": rest_of(build_model(), pushed)}
    more["predictor"] = tensors_of(folder, "predictor")
    more["constant_prefix"] = tensors_of(folder, "mean_prefix")["prefix"]
    compare(task, "mp2", mp2, options, False, **more)


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(2, 1), (8, 4)])
@pytest.mark.parametrize("options", [{}, {"bias_rule": "published"}], ids=["normalised", "published"])
def test_wnn_equals_its_reference(options, workers, nodes):
    task = task_of(workers, nodes)
    method = plugins.get("method", "wnn").load()
    folder = small.prepared(task, method, resolve(method, WNN | options))
    networks = {kind: tensors_of(folder, kind) for kind in ("conv", "linear", "bias")}
    kinds = ["conv", "bias", "norm", "norm", "linear", "bias"]
    compare(task, "wnn", wnn, WNN | options, False, kinds=kinds, networks=networks, period=2)


@pytest.mark.parametrize("name", ["ssgd", "ps_sgd"])
def test_adam_equals_its_reference(name):
    """On workers, and on servers by tensor. MP2 on one worker with everything pushed is plain Adam."""
    task = task_of(1, 1)
    task = replace(task, recipe=task.recipe.model_copy(update={"optimizer": Optimizer(**OPTIMIZERS["adam"])}))
    make = functools.partial(Adam, 0.8, 0.999, 0.01)
    compare(task, name, mp2, {}, False, pushed=6, rest=[], predictor={}, make_optimizer=make)
