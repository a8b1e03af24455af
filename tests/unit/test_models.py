"""The architectures: their published sizes, their stages, what they take."""

import pytest
import torch
import torchvision
from torch.nn import functional

from tests import project
from tests.reference import gpt
from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.options import resolve


def build(name, shape=(3, 32, 32), classes=10, **options):
    model = plugins.get("model", name).load()
    return model(resolve(model, options), shape, classes)


def size(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "options", "parameters"),
    [
        # He et al., table 6: 0.27, 0.46, 0.85 and 1.7 million; exact counts of the option A form
        ("resnet", {"depth": 20}, 269_722),
        ("resnet", {"depth": 32}, 464_154),
        ("resnet", {"depth": 56}, 853_018),
        ("resnet", {"depth": 110}, 1_727_962),
        # convolutions of VGG-16 with bias (14,714,688) and a head of 512-512-10 (530,442)
        ("vgg", {"depth": 16, "batch_norm": False}, 15_245_130),
        ("vgg", {"depth": 11, "batch_norm": False}, 9_750_922),
        # MP2's targets, from the authors' code
        ("mp2_vgg", {}, 4_722_698),
        ("mp2_resnet", {"depth": 18}, 3_139_274),
        ("mp2_resnet", {"depth": 34}, 5_666_314),
        ("mp2_resnet", {"depth": 50}, 5_885_770),
        ("mp2_alexnet", {}, 3_751_754),
        ("mp2_vgg", {"classes": 100}, 4_731_788),
        ("lenet", {"shape": (1, 28, 28)}, 44_426),
    ],
)
def test_sizes_are_the_published_ones(name, options, parameters):
    assert size(build(name, **options)) == parameters


@pytest.mark.parametrize(
    ("name", "options", "theirs", "parameters", "side"),
    [
        ("resnet", {"depth": 18}, torchvision.models.resnet18, 11_689_512, 64),
        ("resnet", {"depth": 50}, torchvision.models.resnet50, 25_557_032, 64),
        ("alexnet", {"form": "imagenet"}, torchvision.models.alexnet, 61_100_840, 224),
    ],
)
def test_models_for_imagenet_are_torchvisions(name, options, theirs, parameters, side):
    model, other = build(name, (3, 224, 224), 1000, **options).eval(), theirs().eval()
    assert size(model) == parameters
    other.load_state_dict(dict(zip(other.state_dict(), model.state_dict().values())))
    images = torch.randn(1, 3, side, side)
    torch.testing.assert_close(model(images), other(images))


def mp2s_alexnet_by_hand(images, weights):
    """What the authors' mp2_alexnet_worker.py (commit 4a782c9) does with a batch."""
    maps = images
    for layer, pool in enumerate((2, 2, None, None, 8)):
        weight, bias = weights[2 * layer : 2 * layer + 2]
        maps = functional.conv2d(maps, weight, bias, padding="same").relu()
        if pool:
            maps = functional.max_pool2d(maps, pool, pool)
    values = maps.flatten(1)
    for layer in (5, 6, 7):
        weight, bias = weights[2 * layer : 2 * layer + 2]
        values = functional.linear(values, weight, bias)
    return values


def test_mp2s_alexnet_is_its_authors():
    model = build("mp2_alexnet").double()
    weights = [parameter.detach() for parameter in model.parameters()]
    convolutions = [(96, 3, 3, 3), (256, 96, 5, 5), (384, 256, 3, 3), (384, 384, 3, 3), (256, 384, 3, 3)]
    shapes = [*convolutions, (100, 256), (100, 100), (10, 100)]
    assert [tuple(weight.shape) for weight in weights[::2]] == shapes
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(model(images), mp2s_alexnet_by_hand(images, weights))


EVERY = [
    ("cnn", {}),
    ("cnn", {"batch_norm": True}),
    ("resnet", {"depth": 8}),
    ("resnet", {"depth": 18}),
    ("vgg", {"depth": 11, "width": 8}),
    ("vgg", {"depth": 16, "width": 8, "batch_norm": False}),
    ("alexnet", {"width": 8}),
    ("lenet", {"padding": 2}),
    ("mp2_vgg", {"width": 8}),
    ("mp2_resnet", {"depth": 18, "width": 4}),
    ("mp2_resnet", {"depth": 50, "width": 4}),
    ("mp2_alexnet", {"width": 12}),
]

IMAGES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]
ON_TEXT = ("gpt", {"width": 12, "heads": 3}, (7,))


@pytest.mark.parametrize(
    ("name", "options", "shape"), [ON_TEXT, *((*model, shape) for model in EVERY for shape in IMAGES)]
)
def test_a_model_takes_its_inputs_and_every_parameter_learns_and_is_in_one_stage(name, options, shape):
    model = build(name, shape, 11, **options)
    logits = model(torch.randint(11, (4, *shape)) if name == "gpt" else torch.randn(4, *shape))
    assert logits.shape == ((4, 7, 11) if name == "gpt" else (4, 11))
    logits.square().sum().backward()
    # Methods send dense gradients, also of characters that a batch does not have.
    assert all(p.grad is not None and not p.grad.is_sparse for p in model.parameters())
    staged = [p for stage in model.stages() for layer in stage for p in layer.parameters()]
    assert [id(p) for p in staged] == [id(p) for p in model.parameters()]
    assert name == "gpt" or len(model.stages()) >= 3


@pytest.mark.parametrize("name", project.MODELS)
def test_every_model_has_a_width(name):
    slim, wide = build(name, width=4), build(name, width=8)
    assert size(slim) < size(wide)


def test_the_stem_for_small_images_keeps_their_size():
    # 11,173,962 is the size of the ResNet-18 that is usual on CIFAR-10.
    small = build("resnet", depth=18, stem="small")
    assert size(small) == 11_173_962
    assert small.stem(torch.zeros(1, 3, 32, 32)).shape == (1, 64, 32, 32)
    for side, stem in ((32, "small"), (63, "small"), (64, "imagenet")):
        chosen = build("resnet", (3, side, side), depth=18, stem="by_size")
        assert str(chosen.stem) == str(build("resnet", depth=18, stem=stem).stem)


def test_models_refuse_images_that_are_too_small_and_widths_that_they_do_not_have():
    build("lenet", (1, 16, 16))
    with pytest.raises(UserError, match="needs larger images than 15x16"):
        build("lenet", (1, 15, 16))
    with pytest.raises(UserError, match="width 64 only, not 16"):
        build("resnet", depth=18, width=16)
    with pytest.raises(UserError, match="stem of CIFAR's form: leave the stem out"):
        build("resnet", depth=20, stem="small")
    with pytest.raises(UserError, match="width"):
        build("resnet", depth=20, width=0)
    with pytest.raises(UserError, match="3x224x224"):
        build("alexnet", form="imagenet")
    with pytest.raises(UserError, match="3 heads cannot share a width of 64 evenly"):
        build("gpt", (7,), 11, heads=3)


def test_a_vocabulary_gives_gpt_the_size_of_gpt_2_and_has_room_for_the_text():
    options = {"width": 768, "depth": 12, "heads": 12, "vocabulary": 50_257}
    with torch.device("meta"):
        # GPT-2 small has 124,439,808 weights, and 102,144 of them are biases.
        assert size(build("gpt", (1024,), 84, **options)) == 124_439_808 - 102_144
    with pytest.raises(UserError, match="vocabulary of 83 has no room for the 84 characters"):
        build("gpt", (7,), 84, vocabulary=83)


def small_gpt(**options):
    torch.manual_seed(1)
    model = build("gpt", (7,), 11, **{"width": 12, "heads": 3, **options}).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight)  # far from the initial weights, so that every part counts
    return model, torch.randint(11, (2, 7))


def test_gpt_is_its_formula():
    model, windows = small_gpt()
    weights = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    for window, found in zip(windows, model(windows).detach().numpy()):
        assert found == pytest.approx(
            gpt.logits(weights, window.tolist(), depth=2, heads=3), rel=1e-12, abs=1e-12
        )


def test_gpt_sees_no_later_character():
    model, windows = small_gpt()
    changed = windows.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    before, after = model(windows), model(changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert (before[:, 4:] != after[:, 4:]).all(-1).all()
    # A shorter window is the beginning of a longer one.
    torch.testing.assert_close(model(windows[:, :4]), before[:, :4])
