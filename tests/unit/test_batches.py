"""Batches: which images each worker sees at each step, augmented and mixed, and what a GPU does for them."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests import small
from thinwire.base.errors import UserError
from thinwire.config import expand
from thinwire.data import augmentation
from thinwire.data import batches as batches_module
from thinwire.data.augmentation import _beta, augmented, mixup
from thinwire.data.batches import Batches
from thinwire.data.dataset import Augment
from thinwire.train.cell_task import task_with

CPU = torch.device("cpu")


def batches(workers, batch, **changes):
    return Batches(small.digits(), workers, batch, 3, CPU, torch.float64, **changes)


def test_an_epoch_shows_every_image_once_and_has_a_batch_at_least():
    run = batches(4, 5)
    seen = torch.cat([images for step in range(6) for images, _ in run.at(step)])
    assert run.steps_per_epoch == 6
    of_all, found = (torch.unique(x.flatten(1), dim=0) for x in (small.digits().train_inputs, seen))
    assert len(found) == len(of_all)
    with pytest.raises(UserError, match="digits has 120"):
        batches(4, 31)


def test_an_epoch_may_end_after_fewer_steps_and_the_next_one_has_another_order():
    short, whole = batches(4, 5, epoch_steps=2), batches(4, 5)
    assert short.steps_per_epoch == 2
    assert torch.equal(short.at(1)[0][0], whole.at(1)[0][0])
    assert torch.equal(short.at(2)[0][0], whole.at(6)[0][0])
    with pytest.raises(UserError, match="epoch_steps: a pass over digits has only 6 steps, not 7"):
        batches(4, 5, epoch_steps=7)


def test_workers_share_the_batch_that_one_worker_would_see_at_any_step():
    alone, shared = batches(1, 20), batches(4, 5)
    for step in (0, 5, 6, 13):
        whole = alone.at(step)[0][0]
        assert torch.equal(whole, torch.cat([images for images, _ in shared.at(step)]))
    # Epochs have different orders.
    first, second = alone.at(0)[0][0], alone.at(6)[0][0]
    assert not torch.equal(first, second)
    assert torch.equal(alone.at(0)[0][0], first)


def test_a_crop_is_a_shift_with_zeros_at_the_border():
    image = torch.arange(1, 17, dtype=torch.uint8).view(1, 1, 4, 4)
    seen = set()
    for seed in range(200):
        out = augmented(image, Augment(pad=1), [torch.Generator().manual_seed(seed)])
        padded = functional.pad(image, [1] * 4)
        windows = [padded[:, :, y : y + 4, x : x + 4] for y in range(3) for x in range(3)]
        (place,) = [i for i, window in enumerate(windows) if torch.equal(out, window)]
        seen.add(place)
    assert seen == set(range(9))


def test_a_flip_mirrors_half_of_the_images():
    images = torch.arange(4, dtype=torch.uint8).view(1, 1, 1, 4).repeat(2000, 1, 1, 1)
    out = augmented(images, Augment(flip=True), [torch.Generator().manual_seed(0)])
    mirrored = (out == images.flip(-1)).all(dim=(1, 2, 3)).sum()
    assert 900 < int(mirrored) < 1100


def test_a_crop_that_is_resized_is_a_window_stretched_to_the_whole():
    """A ramp stays a ramp: what it spans is the window's size, where it begins is its place."""
    ramp = torch.arange(0, 240, 4, dtype=torch.uint8).repeat(60, 1)[None, None].repeat(400, 1, 1, 1)
    both = torch.cat([ramp, ramp.transpose(2, 3)], dim=1)
    out = augmented(both, Augment(least_area=0.2), [torch.Generator().manual_seed(1)])
    assert (out.shape, out.dtype) == (both.shape, torch.uint8)
    out = out.float()
    across = (out[:, 0, 0, -1] - out[:, 0, 0, 0]) / (59 * 4)
    down = (out[:, 1, -1, 0] - out[:, 1, 0, 0]) / (59 * 4)
    area = across * down
    assert 0.15 < float(area.min()) < 0.25
    assert float(area.max()) > 0.9
    ratio = across / down
    assert 0.7 < float(ratio.min()) < 0.8
    assert 1.25 < float(ratio.max()) < 1.4
    assert float(out[:, 0].std(dim=1).max()) <= 1.0  # columns stay columns
    assert bool((out[:, 0].diff(dim=2) >= 0).all())
    begins = out[:, 0, 0, 0]
    assert float(begins.min()) == 0
    assert float(begins.max()) > 80


@pytest.mark.parametrize(("height", "width"), [(97, 60), (1, 31)])
def test_windows_stretched_in_one_call_are_those_that_torch_stretches_one_by_one(height, width):
    """From whole images to single pixels."""
    images = torch.randint(256, (40, 3, height, width), generator=torch.Generator().manual_seed(1))
    drawn = torch.rand(4, 40, generator=torch.Generator().manual_seed(2))
    drawn[:, :3] = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]).T
    top, left = (drawn[0] * (height - 1)).round(), (drawn[1] * (width - 1)).round()
    bottom, right = top + 1 + drawn[2] * (height - 1 - top), left + 1 + drawn[3] * (width - 1 - left)
    windows = torch.stack([top, bottom, left, right]).int()
    expected = [
        functional.interpolate(image[None, :, y0:y1, x0:x1].float(), (height, width), mode="bilinear")
        for image, (y0, y1, x0, x1) in zip(images, windows.T.tolist())
    ]
    found = augmentation.stretched(images.to(torch.uint8), windows)
    torch.testing.assert_close(found, torch.cat(expected), rtol=0, atol=0.004)


def test_a_gpu_crops_the_windows_that_a_cpu_crops(monkeypatch):
    images = torch.randint(256, (64, 3, 60, 80), generator=torch.Generator().manual_seed(1)).to(torch.uint8)

    def cropped():
        return augmented(images, Augment(least_area=0.1), [torch.Generator().manual_seed(5)])

    expected = cropped()
    monkeypatch.setattr(augmentation, "on_gpu", lambda device: True)
    assert cropped().dtype == torch.uint8
    # torch's kernel for bytes rounds its weights, too.
    assert int((cropped().int() - expected.int()).abs().max()) <= 1


class OnDevice(TorchDispatchMode):
    """Counts operations on a device without memory, `meta`, and finds those for which the host would wait."""

    def __init__(self):
        super().__init__()
        self.operations, self.sent, self.waits = 0, 0, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        places = {leaf.device.type for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        if any(leaf.is_meta for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)):
            self.operations += 1
            if "cpu" in places:
                self.sent += 1
                copied = function is torch.ops.aten._to_copy.default and kwargs["non_blocking"]
                self.waits += [] if copied else [function]
        return result


@pytest.mark.parametrize("share", [3, 30])
@pytest.mark.parametrize(
    ("augment", "alpha", "drawn"), [(Augment(least_area=0.3, flip=True), 0, 3), (Augment(pad=2), 0.5, 3)]
)
@pytest.mark.parametrize("fits", [True, False])
def test_a_batch_is_few_operations_of_a_gpu_and_no_wait(monkeypatch, fits, augment, alpha, drawn, share):
    """In a step, what was drawn is copied, and inputs that stay on the host; once an epoch, their order.

    Drawn are both sides of the windows and the flips; or offsets, and each worker's partners of mixup.
    """
    monkeypatch.setattr(augmentation, "on_gpu", lambda device: device.type == "meta")
    monkeypatch.setattr(batches_module, "fit_on", lambda device, data: fits)
    data = replace(small.digits(240), augment=augment)
    run = Batches(data, 2, share, 3, torch.device("meta"), torch.float32, mixup_alpha=alpha)
    run.at(0)
    for step, order in ((1, 0), (run.steps_per_epoch, 1)):
        with OnDevice() as device:
            made = run.at(step)
        assert (device.sent, device.waits) == (drawn + order + (not fits), [])
        assert device.operations < 40
        assert [images.shape for images, _ in made] == 2 * [(share, 1, 8, 8)]


def test_two_ways_to_crop_at_once_are_refused():
    with pytest.raises(ValueError, match="choose one"):
        Augment(pad=2, least_area=0.5)


def test_mixup_mixes_an_image_and_its_label_alike_in_one_share_for_the_batch():
    """Image i is the i-th unit vector and has label i, so mixed images and mixed labels must agree."""
    unit_vectors = torch.eye(6, dtype=torch.float64).view(6, 1, 2, 3)
    for seed in range(20):
        stream = torch.Generator().manual_seed(seed)
        images, labels = mixup(unit_vectors, torch.arange(6), 6, 1.0, stream)
        assert torch.equal(images.flatten(1), labels)
        torch.testing.assert_close(labels.sum(1), torch.ones(6, dtype=torch.float64))
        own = labels.diagonal()
        alone = own == 1  # images that were their own partners
        assert len(own[~alone].unique()) <= 1
        assert bool(((labels > 0).sum(1) <= 2).all())


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_the_share_is_drawn_from_beta(alpha):
    shares = torch.tensor([_beta(alpha, torch.Generator().manual_seed(seed)) for seed in range(4000)])
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(shares.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.08)


def test_mixup_is_drawn_anew_every_step_and_for_every_worker():
    def batch(step):
        return batches(4, 6, mixup_alpha=1.0).at(step)

    for (images, labels), (again, same) in zip(batch(7), batch(7)):
        assert torch.equal(images, again)
        assert torch.equal(labels, same)
        assert labels.shape == (6, 10)
    shares = {round(float(labels.max(1).values.min()), 9) for step in range(4) for _, labels in batch(step)}
    assert len(shares) > 12


def test_a_recipe_can_leave_the_augmentation_out():
    """Crops and flips belong to the data set; the recipe says whether they are used."""
    cell, data = expand.cells("demo")[0], small.digits(pad=1)
    assert task_with(cell, data, CPU).data.augment == Augment(pad=1, flip=True)
    without = replace(cell, recipe=cell.recipe.model_copy(update={"augment": False}))
    assert task_with(without, data, CPU).data.augment == Augment()
