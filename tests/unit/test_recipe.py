"""Learning rates, batches, LARS, seeds and initial weights."""

import math
import warnings

import pytest
import torch
from torch import nn

from tests import small
from tests.reference.optimizers import Lars as Reference
from thinwire.api.run import initial_model
from thinwire.base import seeds
from thinwire.optim.optimizers import Lars
from thinwire.optim.recipe import Recipe, learning_rate
from thinwire.optim.schedule import Plateau, Schedule


def rates(workers=4, steps_per_epoch=10, **changes):
    made = small.recipe(**changes)
    return [learning_rate(made, workers, s, steps_per_epoch) for s in range(made.epochs * steps_per_epoch)]


def test_the_warm_up_is_linear_and_never_zero_and_cosine_falls_from_the_peak_towards_zero():
    lr = rates(schedule={"name": "constant", "warmup_epochs": 1}, optimizer={"lr": 0.5})
    assert lr[:10] == pytest.approx([0.05 * (i + 1) for i in range(10)])
    assert set(lr[10:]) == {0.5}
    lr = rates(schedule={"name": "cosine", "warmup_epochs": 1}, optimizer={"lr": 1.0})
    assert lr[10] == 1.0
    assert lr[20] == pytest.approx(0.5)
    assert lr[-1] == pytest.approx((1 + math.cos(math.pi * 19 / 20)) / 2)
    assert all(rate > 0 for rate in lr)


def test_steps_drop_at_the_beginning_of_their_epoch_and_exponential_falls_once_an_epoch():
    lr = rates(schedule={"name": "step", "milestones": [1, 2], "factor": 0.5}, optimizer={"lr": 8.0})
    assert (lr[9], lr[10], lr[19], lr[20]) == (8, 4, 4, 2)
    lr = rates(schedule={"name": "exponential", "factor": 0.5}, optimizer={"lr": 8.0})
    assert lr == [8.0] * 10 + [4.0] * 10 + [2.0] * 10


@pytest.mark.parametrize("options", [{}, {"patience": 0}, {"factor": 0.5, "patience": 2, "threshold": 0.05}])
@pytest.mark.parametrize("seed", range(5))
def test_a_plateau_lowers_the_rate_as_torch_does(options, seed):
    """On losses that fall, stay and rise; the run is continued from a saved state in the middle."""
    generator = torch.Generator().manual_seed(seed)
    losses = (2 * torch.rand(80, generator=generator) + 10 / torch.arange(1, 81)).tolist()
    losses[40:60] = [losses[40]] * 20
    schedule = Schedule(name="plateau", **options)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=schedule.factor, patience=schedule.patience, threshold=schedule.threshold, eps=0
    )
    ours = Plateau(schedule)
    for epoch, loss in enumerate(losses):
        if epoch == 45:
            saved, ours = ours.state(), Plateau(schedule)
            ours.load(saved)
        ours.end_epoch(loss)
        theirs.step(loss)
        assert ours.scale == optimizer.param_groups[0]["lr"]
    assert ours.scale < 1


# What recipes had not at first, each with its default and another value.
LATER = {
    "prefetch": (False, True),
    "clip_norm": (None, 1.0),
    "accumulate": (1, 2),
    "partition": ("iid", {"dirichlet": 0.1}),
    "precision": ("fp32", "bf16"),
    "channels_last": (False, True),
    "epoch_steps": (None, 3),
}


def test_recipes_without_what_came_later_keep_their_digest():
    """So their cells keep the fingerprints that they had."""
    defaults = {name: default for name, (default, _) in LATER.items()}
    dump = small.recipe().model_dump()
    assert small.recipe(**defaults).model_dump() == dump
    assert not LATER.keys() & dump.keys()
    assert not {"patience", "threshold"} & dump["schedule"].keys()
    changes = {name: value for name, (_, value) in LATER.items()}
    made = small.recipe(**changes, schedule={"name": "plateau", "patience": 3})
    dump = made.model_dump(mode="json")
    assert {name: dump[name] for name in LATER} == changes
    assert {"patience", "threshold"} <= dump["schedule"].keys()
    assert Recipe.of_dump(dump) == made


def test_the_rate_is_scaled_to_the_batch():
    optimizer = {"lr": 0.1, "lr_reference_batch": 256}
    constant = {"name": "constant"}
    per_worker = {"batch": 64, "batch_per": "worker", "optimizer": optimizer, "schedule": constant}
    assert rates(workers=8, **per_worker)[0] == pytest.approx(0.2)
    per_run = per_worker | {"batch_per": "run"}
    assert rates(workers=8, **per_run)[0] == pytest.approx(0.025)


def test_streams_differ_in_every_part_of_their_name():
    names = [("a", 1), ("a", "1"), ("a1",), ("a", 1, 0), ("b", 1)]
    assert len({seeds.derive(*name) for name in names}) == len(names)
    assert len({seeds.at_step(seed, step) for seed in range(30) for step in range(30)}) == 900
    assert all(0 <= seeds.derive("x", i) < 2**63 for i in range(100))


def test_no_gpu_is_touched_where_there_are_several(monkeypatch):
    """torch warns where it would initialise all of them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        initial_model(small.task(1))


def test_the_random_state_of_the_process_stays_as_it_is():
    before = torch.get_rng_state()
    first, second = (initial_model(small.task(1)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, first.parameters(), second.parameters()))


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
