"""A step in several parts, and a gradient that each worker shortens before it sends anything."""

import pytest
import torch

import thinwire
from tests import small
from thinwire.api.method import Method
from thinwire.train.worker import clip


def plain():
    """Without batch norm and dropout, which see the parts of a batch."""
    return small.Plain(dropout=0.0)


@pytest.mark.parametrize(
    ("method", "changes"), [("ssgd", {}), ("local_sgd", {"mixup": 1.0}), ("ps_sgd", {"clip_norm": 0.05})]
)
def test_accumulated_gradients_are_those_of_the_whole_batch_up_to_rounding(method, changes):
    whole, parts = (
        small.trainer(small.task(2, build_model=plain, accumulate=k, **changes), method) for k in (1, 3)
    )
    for run in (whole, parts):
        run.train()
    for mine, theirs in zip(parts.shipped()[0], whole.shipped()[0]):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    for mine, theirs in zip(parts.curve, whole.curve):
        assert mine["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-12)
    assert parts.workers[0].ledger.total() == whole.workers[0].ledger.total()


class Watches(Method):
    """Notes the loss, and at each call the norm of all gradients that are there."""

    def setup(self):
        self.norms, self.losses = [], []

    def grad_ready(self, param):
        self.norms.append(norm(self.run))
        self.losses.append(self.run.loss.item())

    def step(self):
        self.norms.append(norm(self.run))


def norm(run):
    """Of the gradients of a worker that are computed so far."""
    return float(small.flat(p.tensor.grad for p in run.params if p.tensor.grad is not None).norm())


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("clip_norm", [None, 0.01, 1e9])
def test_overlapping_hooks_see_gradients_that_are_final(accumulate, clip_norm, monkeypatch):
    """Each hook is called once in a step; those of clipped gradients when all gradients are there."""
    monkeypatch.setattr("thinwire.transport.inprocess.InProcess.overlaps", True)
    changes = {"accumulate": accumulate} | ({} if clip_norm is None else {"clip_norm": clip_norm})
    run = small.trainer(small.task(1, build_model=plain, **changes), Watches)
    run.train(until=1)
    norms, losses = run.workers[0].method.norms, run.workers[0].method.losses
    assert set(losses) == {run.workers[0].run.loss.item()}
    assert len(norms) == len(run.workers[0].run.params) + 1
    if clip_norm is not None:
        assert set(norms) == {norms[-1]}
        assert clip_norm == 1e9 or norms[-1] == pytest.approx(clip_norm)
    elif accumulate == 1:
        assert norms[0] < norms[-1]  # not all gradients are there


def test_short_gradients_and_zeros_stay_as_they_are():
    run = small.trainer(small.task(1, build_model=plain), thinwire.Method).workers[0].run
    for value in (0.0, 1e-3):
        for param in run.params:
            param.tensor.grad = torch.full_like(param.tensor, value)
        clip(run.params, 1.0)
        assert all(bool((gradient == value).all()) for gradient in run.gradients)
