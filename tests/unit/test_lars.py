"""LARS: a layer's step depends on the direction of its gradient, not on its length."""

import pytest
import torch
from torch import nn

from tests.reference.lars import Lars as Reference
from thinwire.optim.lars import Lars


def made(tensors, **changes):
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "trust": 0.02, "lr_inside_momentum": True}
    params = [nn.Parameter(tensor.clone()) for tensor in tensors]
    return params, Lars(params, **(options | changes))


def tensors(seed=0):
    stream = torch.Generator().manual_seed(seed)
    return [
        torch.randn(shape, generator=stream, dtype=torch.float64) for shape in [(3, 4), (2, 3, 2, 2), (5,)]
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_it_equals_its_reference_with_a_changing_rate(inside):
    params, optimizer = made(tensors(), lr_inside_momentum=inside)
    reference = Reference(0.9, 0.01, 0.02, inside)
    expected = [tensor.numpy() for tensor in tensors()]
    for step in range(30):
        rate = 0.5 / (step + 1)
        gradients = tensors(step + 1)
        if step == 7:
            gradients[0].zero_()
        for param, gradient in zip(params, gradients):
            param.grad = gradient.clone()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        expected = reference.step(expected, [gradient.numpy() for gradient in gradients], rate)
        for param, theirs in zip(params, expected):
            torch.testing.assert_close(param.data, torch.from_numpy(theirs), rtol=0, atol=1e-12)


def test_the_ratio_is_one_if_a_norm_is_zero():
    params, optimizer = made([torch.zeros(2, 2)])
    params[0].grad = torch.ones(2, 2)
    optimizer.step()
    torch.testing.assert_close(params[0].data, torch.full((2, 2), -0.1))
