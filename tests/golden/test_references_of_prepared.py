"""MP2 and WNN against their references, with what they have prepared; and Adam, on which MP2 may run."""

import functools
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests import small
from tests.golden.compared import compare, slow, task_of
from tests.reference import mp2, wnn
from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.optim.recipe import Optimizer

MP2 = {"predictor_epochs": 1, "bsp_workers": 1}
WNN = {
    "interval_epochs": 0.34,
    "recorded_epochs": 5,
    "recorded_batch": 16,
    "windows": 500,
    "forecaster_steps": 20,
}


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


class Adam:
    """PyTorch's, for a reference: used like its SGD, and checked nowhere, because it is not ours."""

    def __init__(self, beta1, beta2, weight_decay):
        self.how = {"betas": (beta1, beta2), "weight_decay": weight_decay, "foreach": False}
        self.optimizer = None

    def step(self, weights, gradient, learning_rate):
        """The weights after one step, as new arrays."""
        if self.optimizer is None:
            self.tensors = [nn.Parameter(torch.tensor(weight)) for weight in weights]
            self.optimizer = torch.optim.Adam(self.tensors, **self.how)
        for tensor, weight, its in zip(self.tensors, weights, gradient, strict=True):
            tensor.data, tensor.grad = torch.tensor(weight), torch.tensor(its)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.step()
        return [tensor.detach().numpy().copy() for tensor in self.tensors]


# The model, its stages that are pushed, and their tensors.
STAGED = {
    "mixed": (plain, 2, 4),
    "one linear layer": (plain, 3, 6),
    "folded": (folded, 1, 2),
    "linear layers": (lenet, 2, 4),
    "everything": (plain, 9, 8),
}


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(2, 1), (8, 4)])
@pytest.mark.parametrize(
    ("staged", "optimizer"),
    [
        (staged, optimizer) if optimizer == "nesterov" or staged == "mixed" else slow(staged, optimizer)
        for staged in STAGED
        for optimizer in OPTIMIZERS
    ],
)
def test_mp2_equals_its_reference(staged, optimizer, workers, nodes):
    build_model, stages, pushed = STAGED[staged]
    task = task_of(workers, nodes, build_model=build_model)
    task = replace(
        task, recipe=task.recipe.model_copy(update={"optimizer": Optimizer(**OPTIMIZERS[optimizer])})
    )
    options = {**MP2, "pushed_stages": stages}
    method = plugins.get("method", "mp2").load()
    folder = small.prepared(task, method, resolve(method, options))
    rest = rest_of(build_model(), pushed)
    more = {"pushed": pushed, "rest": rest, "predictor": tensors_of(folder, "predictor") if rest else {}}
    make = functools.partial(Adam, 0.8, 0.999, 0.01) if optimizer == "adam" else None
    compare(task, "mp2", options, mp2, optimizer == "nesterov", make, **more)


@pytest.mark.parametrize(("build_model", "pushed"), [(plain, 4), (lenet, 4)])
def test_mp2_with_a_constant_predictor_equals_its_reference(build_model, pushed):
    task = task_of(2, 1, build_model=build_model)
    options = {**MP2, "predictor": "constant"}
    method = plugins.get("method", "mp2").load()
    folder = small.prepared(task, method, resolve(method, options))
    more = {"pushed": pushed, "rest": rest_of(build_model(), pushed)}
    more["predictor"] = tensors_of(folder, "predictor")
    more["constant_prefix"] = tensors_of(folder, "mean_prefix")["prefix"]
    compare(task, "mp2", options, mp2, False, **more)


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(2, 1), (8, 4)])
@pytest.mark.parametrize("options", [{}, {"bias_rule": "published"}], ids=["normalised", "published"])
def test_wnn_equals_its_reference(options, workers, nodes):
    task = task_of(workers, nodes)
    method = plugins.get("method", "wnn").load()
    folder = small.prepared(task, method, resolve(method, WNN | options))
    networks = {kind: tensors_of(folder, kind) for kind in ("conv", "linear", "bias")}
    kinds = ["conv", "bias", "norm", "norm", "linear", "bias"]
    known = {"kinds": kinds, "networks": networks, "period": 2, **options}
    compare(task, "wnn", WNN | options, wnn, False, **known)


@pytest.mark.parametrize("name", ["ssgd", "ps_sgd"])
def test_adam_equals_its_reference(name):
    """On workers, and on servers by tensor. MP2 on one worker with everything pushed is plain Adam."""
    task = task_of(1, 1)
    task = replace(task, recipe=task.recipe.model_copy(update={"optimizer": Optimizer(**OPTIMIZERS["adam"])}))
    make = functools.partial(Adam, 0.8, 0.999, 0.01)
    compare(task, name, {}, mp2, False, make, pushed=6, rest=[], predictor={})
