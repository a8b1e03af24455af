"""The passes of a step: their precision, images in memory, parts of a batch, and clipped gradients."""

from contextlib import contextmanager

import pytest
import torch

import thinwire
from tests import small
from thinwire.train.passes import Passes
from thinwire.train.worker import clip

CPU = torch.device("cpu")
BF16 = {"precision": "bf16"}
# bfloat16 rounds by at most 2^-8. Each entry of a gradient is a sum of many products of rounded numbers.
OF_BF16 = 2.0**-8
# What the order of adding leaves of a run in float64.
TOLERANCE = 1e-9


def plain():
    """Without batch norm and dropout: one worker with all images, or parts of a batch, compute the same."""
    return small.Plain(dropout=0.0)


def run_of(method, workers=2, build_model=plain, **changes):
    task = small.task(workers, dtype=torch.float32, build_model=build_model, **changes)
    return small.trainer(task, method)


def shipped(run):
    return small.flat(run.shipped()[0])


class Watches(thinwire.Method):
    """Notes the types of gradients, losses and products that it sees, in every hook."""

    def setup(self):
        self.types, self.hooks = set(), set()

    def note(self, hook, *tensors):
        self.hooks.add(hook)
        self.types |= {tensor.dtype for tensor in tensors}
        self.types.add(torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)

    def forward_ready(self, param):
        self.note("forward_ready", param.tensor)

    def grad_ready(self, param):
        self.note("grad_ready", param.grad, self.run.loss)

    def sync_gradients(self):
        self.note("sync_gradients", *self.run.gradients, *self.run.weights, self.run.loss)
        self.run.world.mean(self.run.gradients).wait()


@contextmanager
def outputs_of_layers(model):
    """The outputs of its layers, each with the mode of the model."""
    found = []
    hooks = [
        layer.register_forward_hook(lambda layer, _, output: found.append((layer.training, output.detach())))
        for layer in model.children()
    ]
    yield found
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("changes", [{}, {"accumulate": 2, "clip_norm": 0.1}, {"mixup": 1.0}])
def test_methods_see_32_bits_under_bf16_also_in_the_middle_of_a_pass(monkeypatch, overlaps, changes):
    monkeypatch.setattr("thinwire.transport.inprocess.InProcess.overlaps", overlaps)
    run = run_of(Watches, workers=1, **BF16, **changes)
    run.train(until=2)
    method = run.workers[0].method
    assert method.hooks == {"forward_ready", "grad_ready", "sync_gradients"}
    assert method.types == {torch.float32}
    assert all(
        state["momentum_buffer"].dtype == torch.float32
        for state in run.workers[0].run.optimizer.state.values()
    )


def test_ssgd_on_four_workers_is_one_worker_with_their_images_up_to_the_rounding_of_bf16():
    alone, shared = (run_of("ssgd", workers, data=small.digits(), **BF16) for workers in (1, 4))
    whole = run_of("ssgd", 1, data=small.digits())
    start = shipped(whole)
    for run in (alone, shared, whole):
        run.train()
    moved = (shipped(whole) - start).abs().max()
    assert (shipped(alone) - shipped(shared)).abs().max() < OF_BF16 * moved
    assert 0 < (shipped(alone) - shipped(whole)).abs().max() < 8 * OF_BF16 * moved


def test_bf16_rounds_training_and_no_evaluation():
    run = run_of("ssgd", 1, epochs=1, **BF16)
    with outputs_of_layers(run.workers[0].model) as outputs:
        run.train()
    types = {
        training: {output.dtype for mode, output in outputs if mode is training} for training in (True, False)
    }
    assert torch.bfloat16 in types[True]
    assert types[False] == {torch.float32}


@pytest.mark.parametrize("method", ["ssgd", "top_k"])
def test_a_text_model_trains_under_bf16(method):
    changes = {"data": small.texts(), "build_model": small.gpt, "batch": 8, "epochs": 3}
    runs = [run_of(method, **changes, **precision) for precision in ({}, BF16)]
    for run in runs:
        run.train()
    exact, rounded = (run.curve[-1]["train_loss"] for run in runs)
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=OF_BF16)
    assert runs[1].workers[0].ledger.total() == runs[0].workers[0].ledger.total()


def test_with_channels_last_a_method_sees_contiguous_tensors_sends_the_same_and_learns_the_same():
    """The outputs of convolutions are not contiguous, and gradients are."""
    changes = {"build_model": plain, "prefetch": True}
    usual, last = (
        small.trainer(small.task(4, 2, **changes, channels_last=c), "top_k") for c in (False, True)
    )
    usual.train()
    with outputs_of_layers(last.workers[0].model) as outputs:
        last.train(until=last.total_steps - 1)
        gradients = last.workers[0].run.gradients
        last.train()
    images = [output for training, output in outputs if training and output.dim() == 4]
    assert all(image.is_contiguous(memory_format=torch.channels_last) for image in images)
    assert not any(image.is_contiguous() for image in images)
    assert all(tensor.is_contiguous() for tensor in (*gradients, *last.workers[0].run.weights))
    for mine, other in zip(last.workers, usual.workers):
        assert mine.ledger.rows == other.ledger.rows
    torch.testing.assert_close(shipped(last), shipped(usual), rtol=0, atol=TOLERANCE)


def test_the_record_has_what_torchs_settings_are_in_a_pass():
    found = [
        Passes(small.recipe(**changes), CPU).settings() for changes in ({}, BF16, {"channels_last": True})
    ]
    assert [settings["autocast"] for settings in found] == [None, "bfloat16", None]
    assert [settings["channels_last"] for settings in found] == [False, False, True]


@pytest.mark.parametrize(
    ("method", "changes"), [("ssgd", {}), ("local_sgd", {"mixup": 1.0}), ("ps_sgd", {"clip_norm": 0.05})]
)
def test_accumulated_gradients_are_those_of_the_whole_batch_up_to_rounding(method, changes):
    whole, parts = (
        small.trainer(small.task(2, build_model=plain, accumulate=k, **changes), method) for k in (1, 3)
    )
    for run in (whole, parts):
        run.train()
    torch.testing.assert_close(shipped(parts), shipped(whole), rtol=0, atol=1e-12)
    for mine, theirs in zip(parts.curve, whole.curve):
        assert mine["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-12)
    assert parts.workers[0].ledger.total() == whole.workers[0].ledger.total()


class Norms(thinwire.Method):
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
    run = small.trainer(small.task(1, build_model=plain, **changes), Norms)
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
