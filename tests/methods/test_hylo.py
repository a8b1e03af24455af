"""Hylo: its two codecs, random kernels, and the bytes of whole networks."""

import math

import pytest
import torch
import torchvision
from torch import nn

from tests import small
from tests.reference import hylo as reference
from thinwire.api.parameters import parameters
from thinwire.codecs import kernels, precision


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("numel", [0, 1, 15, 16, 17, 1000])
def test_two_bits_come_back_in_words_of_sixteen(numel):
    codes = torch.randint(-1, 2, (numel,), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    packed = precision.pack(codes)
    assert packed.numel() == 4 * math.ceil(numel / 16)
    assert torch.equal(precision.unpack(packed, numel), codes)
    assert bytes(packed.tolist()) == reference.pack(codes.numpy())


def test_the_layout_is_that_of_mxnet():
    packed = precision.pack(torch.tensor([1, -1, 0, 1], dtype=torch.int8))
    assert packed.tolist() == [0xE3, 0, 0, 0]
    # The code 01, which is never written, is nothing.
    assert precision.unpack(torch.tensor([0b01_11_01_10], dtype=torch.uint8), 4).tolist() == [0, 1, 0, -1]


def test_the_threshold_itself_is_sent_and_a_threshold_of_zero_sends_nothing():
    values = torch.tensor([0.5, -0.5, 0.499, -0.501, 0.0])
    assert precision.quantise(values, torch.tensor(0.5)).tolist() == [1, -1, 0, -1, 0]
    assert precision.quantise(torch.zeros(3), torch.tensor(0.0)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("count", "of", "numbers", "dtype"),
    [
        (1, 512, 1, torch.int32),
        (2, 512, 2, torch.int32),
        (100, 512, 64, torch.uint8),
        (1, 25, 1, torch.int32),  # as long as a bitmap
    ],
)
def test_places_are_written_the_shorter_way(count, of, numbers, dtype):
    written = kernels.take(random(of, 4), count, "l1")["indices"]
    assert (written.numel(), written.dtype) == (numbers, dtype)
    assert "indices" not in kernels.take(random(of, 4), of, "l1")


def test_random_kernels_do_not_depend_on_the_values():
    places = []
    for values in (random(12, 4), torch.arange(48.0).view(12, 4)):
        before = values.clone()
        payload = kernels.take(values, 3, "random", torch.Generator().manual_seed(1))
        assert torch.equal(kernels.give(payload, like=before) + values, before)
        places.append((before != values).any(1))
    assert int(places[0].sum()) == 3
    assert torch.equal(*places)


def test_workers_draw_different_kernels_which_change_from_step_to_step(monkeypatch):
    drawn = {}
    task = small.task(4)
    run = small.trainer(task, "hylo", conv_threshold=1, importance="random", least_rate=0.3, exponent=9.0)
    for rank, worker in enumerate(run.workers):

        def encode(param, rank=rank, worker=worker, inner=worker.method.encode):
            push = inner(param)
            if worker.method.kind(param) == "kernels":
                sent = worker.method.decode(push, param).flatten(1).any(1)
                drawn[rank, worker.run.step] = tuple(sent.tolist())
            return push

        monkeypatch.setattr(worker.method, "encode", encode)
    run.train()
    assert any(len({drawn[rank, step] for rank in range(4)}) > 1 for step in range(run.total_steps))
    assert all(len({drawn[rank, step] for step in range(run.total_steps)}) > 1 for rank in range(4))


def resnet_18():
    """The form for small images."""
    model = torchvision.models.resnet18(num_classes=100)
    model.conv1 = nn.Conv2d(3, 64, 3, bias=False)
    return model


NETWORKS = {"resnet_18": resnet_18, "vgg_16": torchvision.models.vgg16, "alexnet": torchvision.models.alexnet}


@pytest.mark.parametrize(
    ("network", "compression", "push_megabytes", "share_percent"),
    [
        ("resnet_18", "hybrid", 8.34, 18.6),
        ("resnet_18", "uniform_kernels", 8.49, 18.9),
        ("resnet_18", "uniform_two_bits", 3.00, 6.7),
        ("vgg_16", "hybrid", 39.5, 7.1),
        ("vgg_16", "uniform_kernels", 58.1, 10.5),
        ("vgg_16", "uniform_two_bits", 34.6, 6.25),
        ("alexnet", "hybrid", 17.0, 7.0),
        ("alexnet", "uniform_kernels", 25.9, 10.6),
        ("alexnet", "uniform_two_bits", 15.4, 6.3),
    ],
)
def test_the_bytes_of_whole_networks(network, compression, push_megabytes, share_percent):
    """What a worker pushes in a step by the method's own rules; only shapes count."""
    hylo = small.trainer(small.task(2), "hylo", compression=compression).workers[0].method
    with torch.device("meta"):
        params = parameters(NETWORKS[network]())
    pushed = dense = 0
    for param in params:
        numel, (rows, *_) = param.tensor.numel(), param.tensor.shape
        what, m = hylo.kind(param), hylo.kernels_of(param)
        if what == "two bits":
            pushed += 4 * math.ceil(numel / 16) + 4
        elif what == "kernels" and m < rows:
            pushed += 4 + min(4 * m, math.ceil(rows / 8)) + 4 * m * numel // rows
        else:
            pushed += 4 * numel
        dense += 4 * numel
    assert pushed / 1e6 == pytest.approx(push_megabytes, rel=5e-3)
    assert 100 * pushed / dense == pytest.approx(share_percent, abs=0.06)
