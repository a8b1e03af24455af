"""Methods whose last bits can decide, against their references: signs, levels, and levels drawn at random.

Options, models and numbers of workers are such that no rounding error decides between two of them.
"""

import functools

import pytest
import torch

from tests import small
from tests.golden.compared import build, compare, slow, task_of
from tests.reference import demo_sgd, diloco, qsgd, quantised_all_reduce, sign_sgd
from thinwire.base import seeds


@pytest.mark.parametrize("workers", [3, 4])
def test_the_majority_of_signs(workers):
    """The model has no batch norm: the bias before it has a gradient of rounding errors, which have signs."""
    task = task_of(workers, 1, batch=24, build_model=functools.partial(small.Plain, dropout=0.0), lr=0.001)
    compare(task, "sign_sgd", {"rule": "majority"}, sign_sgd, False, form="majority")


@pytest.mark.parametrize(("workers", "nodes"), [slow(2, 1), (4, 2)])
@pytest.mark.parametrize("options", [{"chunk": 8, "k": 3, "decay": 0.9}, {"chunk": 64, "k": 3}])
def test_demo_with_signs(options, workers, nodes):
    """The sign of a rounding error is arbitrary, and these options have none.

    There is no batch norm, where the bias before it has a gradient of rounding errors. No chunk is sent as a
    whole, which would leave them where a gradient is zero.
    """
    task = task_of(workers, nodes, build_model=functools.partial(small.Plain, dropout=0.0))
    compare(task, "demo_sgd", options, demo_sgd, False, **options)


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), (8, 1)])
@pytest.mark.parametrize("block", [16, 128])
def test_a_quantised_all_reduce_with_four_bits(block, workers, nodes):
    """On one node. What two nodes quantise again has few values, often half of the largest one.

    That is level 3.5, so a last bit decides between 3 and 4. With eight bits it hardly happens.
    """
    options = {"block": block}
    task = task_of(workers, nodes)
    compare(task, "quantised_all_reduce", options, quantised_all_reduce, False, **options)


@pytest.mark.parametrize("workers", [slow(1), 8])
def test_diloco_with_four_bits(workers):
    """A last bit decides for a mean of few workers, which is often half of the largest one, too."""
    options = {"period": 5, "outer_momentum": 0.5, "bits": 4, "block": 16}
    compare(task_of(workers, 1), "diloco", options, diloco, False, **options)


@pytest.mark.parametrize(("workers", "nodes"), [slow(1, 1), slow(4, 2), (3, 1)])
@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"bits": 3, "block": 7}, {"s": 3, "block": 7}),
        ({"levels": "exponential", "block": None}, {"kind": "exponential", "s": 7}),
        ({"bits": 2, "norm": "max", "block": None, "clip": 2.5}, {"kind": "ternary", "sigmas": 2.5}),
    ],
)
def test_qsgd_with_the_numbers_that_its_workers_draw(workers, nodes, options, known):
    task = task_of(workers, nodes, batch=24)
    sizes = [weight.numel() for weight in build().parameters()]

    def draws(worker, step):
        generator = torch.Generator().manual_seed(seeds.of_method(task.seed, worker).at(step))
        return [torch.rand(n, generator=generator, dtype=torch.float64).numpy() for n in sizes]

    compare(task, "qsgd", options, qsgd, False, draws=draws, **known)
