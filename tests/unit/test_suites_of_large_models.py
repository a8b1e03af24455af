"""On the large models of the suites for GPUs, the thresholds, slices, densities and buckets take effect.

Only the shapes of the tensors count here, so the models are built without memory for their numbers. What runs
in small suites is counted branch by branch: tests/unit/test_suites_exercise.py.
"""

import math
from functools import cache

import pytest
import torch
from torch import nn

from methods.hylo.options import COMPRESSED
from tests import project
from thinwire import plugins
from thinwire.api.parameters import in_buckets, parameters
from thinwire.base.options import resolve
from thinwire.codecs import select
from thinwire.config.expand import cells
from thinwire.config.suite import load

SUITES = [name for name in project.SUITES if load(name).device == "cuda"]


NETWORKS = {}


def network(cell):
    """Built once for each model and data set: only shapes count."""
    key = str((cell.data, cell.model))
    if key not in NETWORKS:
        dataset = plugins.get("dataset", cell.data.use).load()
        model = plugins.get("model", cell.model.use).load()
        data = dataset(resolve(dataset, cell.data.options))
        with torch.device("meta"):
            NETWORKS[key] = model(resolve(model, cell.model.options), data.shape, data.classes)
    return NETWORKS[key]


@cache
def entries(use):
    """Of each entry of a method in a suite: its options, and one model for each data set and model."""
    found = {}
    for suite in SUITES:
        for cell in cells(suite):
            if cell.method.use == use:
                key = suite, cell.method.label
                models = found.setdefault(key, ({}, cell.method.options))[0]
                models.setdefault((cell.dataset, cell.model.label), cell)
    method = plugins.get("method", use).load()
    return {
        key: (resolve(method, options), [network(cell) for cell in models.values()])
        for key, (models, options) in found.items()
    }


def weights(network, kind):
    return [layer.weight.numel() for layer in network.modules() if isinstance(layer, kind)]


@pytest.mark.parametrize(
    ("kind", "threshold"), [(nn.Conv2d, "conv_threshold"), (nn.Linear, "linear_threshold")]
)
def test_hylo_compresses_large_layers_of_both_kinds_and_leaves_small_ones(kind, threshold):
    found = entries("hylo")
    assert len(found) > 1
    for place, (options, networks) in found.items():
        sizes = [size for network in networks for size in weights(network, kind)]
        assert min(sizes) <= getattr(options, threshold) < max(sizes), place


def pushed_bytes(options, parameters):
    """What a worker pushes in a step, without the scales and numbers of kernels, which are few."""
    total = 0
    for parameter in parameters:
        kind = "conv" if parameter.dim() > 2 else "linear"
        size = parameter.numel()
        if parameter.dim() == 1 or size <= getattr(options, f"{kind}_threshold"):
            total += 4 * size
        elif COMPRESSED[options.compression][kind] == "two bits":
            total += size / 4
        else:
            total += 4 * size / len(parameter) * math.ceil(options.least_rate * len(parameter))
    return total


def test_the_ways_that_are_compared_at_equal_bytes_push_equally_much():
    found = entries("hylo")
    labels = ["hylo_16th", "uniform_kernels_16th", "uniform_two_bits"]
    (claim,) = [claim for claim in load("claims/hylo").claim if claim.at_equal]
    assert {claim.method, *claim.against} == set(labels)
    for networks in zip(*(found["claims/hylo", label][1] for label in labels)):
        options = [found["claims/hylo", label][0] for label in labels]
        pushed = [pushed_bytes(own, network.parameters()) for own, network in zip(options, networks)]
        assert max(pushed) / min(pushed) - 1 < claim.at_equal.within_percent / 100


def test_multi_step_delay_splits_the_largest_tensor_and_waits_for_its_credit():
    found = entries("multi_step_delay")
    assert len(found) > 1
    for place, (options, networks) in found.items():
        for network in networks:
            sizes = [parameter.numel() for parameter in network.parameters()]
            assert max(sizes) > options.slice, place
            assert sum(sizes) > options.credit, place


@pytest.mark.parametrize("use", ["top_k", "dgc"])
def test_every_density_sends_several_entries_but_not_all(use):
    for place, (options, networks) in entries(use).items():
        for density in (options.density, *getattr(options, "warmup_densities", ())):
            for network in networks:
                largest = max(parameter.numel() for parameter in network.parameters())
                assert 1 < select.count(density, largest) < largest, place


def test_ssgd_sends_several_buckets():
    for place, (options, networks) in entries("ssgd").items():
        for network in networks:
            assert len(in_buckets(parameters(network), options.bucket_mb)) > 1, place
