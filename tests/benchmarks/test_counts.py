"""What benchmarks measure in seconds, counted: a test can hold what is the same on every machine."""

import importlib

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests import small
from thinwire.codecs import select
from thinwire.plugins import ROOT

VIEWS = (
    "view",
    "slice",
    "select.",
    "t.",
    "transpose",
    "as_strided",
    "unsqueeze",
    "expand",
    "detach",
    "alias",
)


class Counted(TorchDispatchMode):
    """Inside it, the operations on tensors are counted, and the entries that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = str(function).removeprefix("aten.")
        if not name.startswith(VIEWS):
            # Of the tensor that an index selects from, no more is read than what is found.
            read = () if name.startswith("index") else (args, kwargs)
            tensors = [leaf for leaf in tree_leaves((read, result)) if isinstance(leaf, torch.Tensor)]
            self.operations += 1
            self.entries += sum(tensor.numel() for tensor in tensors)
        return result


def test_the_engine_does_no_more_on_tensors_than_a_loop_by_hand(monkeypatch):
    """benchmarks/engine.py measures the seconds of both."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("engine")
    monkeypatch.setattr(benchmark, "WORKERS", 4)
    task = small.task(workers=4, epochs=9, evaluate_every_epochs=9)
    engine, hand = benchmark.a_trainer(task), benchmark.HandWritten(task)
    engine.train(until=2)
    hand.train(2)
    with Counted() as by_engine:
        engine.train(until=4)
    with Counted() as by_hand:
        hand.train(2)
    assert by_engine.operations <= 1.02 * by_hand.operations
    assert by_engine.entries <= 1.02 * by_hand.entries


@pytest.mark.parametrize(
    ("name", "density", "passes"), [("exact", 0.01, 5.0), ("sampled", 0.001, 4.0), ("random", 0.001, 1.1)]
)
def test_a_selection_reads_a_long_row_a_few_times(name, density, passes):
    """benchmarks/codecs.py measures the seconds of a pass."""
    numel = 1_000_000
    row = torch.randn(numel, generator=torch.Generator().manual_seed(1))
    with Counted() as counted:
        select.SELECT[name]([row], [int(density * numel)], torch.Generator().manual_seed(1))
    assert counted.entries <= passes * numel
