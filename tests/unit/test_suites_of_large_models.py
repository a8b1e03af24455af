"""On the large models of the shipped suites, the default thresholds and slices of a method take effect.

Only the shapes of the tensors count here, so the models are built without memory for their numbers. What runs
in small suites is counted line by line: tests/unit/test_suites_exercise.py.
"""

import pytest
import torch
from torch import nn

from thinwire import plugins
from thinwire.config.expand_suite import cells
from thinwire.options import resolve

SUITES = ("claims/multi_step_delay", "claims/hylo", "paper")


def network(cell):
    dataset = plugins.get("dataset", cell.data.use).load()
    model = plugins.get("model", cell.model.use).load()
    data = dataset(resolve(dataset, cell.data.options))
    with torch.device("meta"):
        return model(resolve(model, cell.model.options), data.shape, data.classes)


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


def test_multi_step_delay_splits_the_largest_tensor_and_waits_for_its_credit():
    found = entries("multi_step_delay")
    assert len(found) > 1
    for place, (options, networks) in found.items():
        for network in networks:
            sizes = [parameter.numel() for parameter in network.parameters()]
            assert max(sizes) > options.slice, place
            assert sum(sizes) > options.credit, place
