"""How far described accelerators are from throughputs that others have published, and none of which was used.

    python benchmarks/accelerators.py [--record]

One GPU trains each network: NVIDIA, DeepLearningExamples, PyTorch/Classification, "Training performance
results" of a network. Their FP16 has the rate of BF16. A V100 has no BF16, so its FP16 is derived here, as
`a100_bf16` was, from 125 TFLOP/s and 900 GB/s. Their TF32 and FP32 are without channels_last.
"""

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

import record
import torch
from torch import nn
from torchvision import models
from torchvision.models.resnet import Bottleneck, ResNet

from thinwire.config.hardware import Accelerator, load_accelerator
from thinwire.optim.recipe import Recipe
from thinwire.simulation.device_clock import blank, pass_seconds
from thinwire.train.passes import Passes

MOST_ERROR = 0.25
# SGD with momentum reads and writes each weight, its gradient and its momentum, 8 times in all.
OPTIMIZER_BYTES_PER_WEIGHT = 8 * 4


class Network(NamedTuple):
    build: Callable[[], nn.Module]
    pixels: int
    batch: int
    images_per_second: dict[str, float]  # by accelerator


def resnext101() -> nn.Module:
    """ResNeXt-101 32x4d."""
    return ResNet(Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=4)


NETWORKS = {
    "resnet50": Network(models.resnet50, 224, 256, {"a100_bf16": 2470, "v100_fp16": 1200, "a100_tf32": 938}),
    "resnext101_32x4d": Network(
        resnext101, 224, 128, {"a100_bf16": 1211, "v100_fp16": 587, "a100_tf32": 456, "v100_fp32": 147}
    ),
    "efficientnet_b0": Network(
        models.efficientnet_b0, 224, 256, {"a100_bf16": 2489, "v100_fp16": 1301, "v100_fp32": 655}
    ),
    "efficientnet_b4": Network(
        models.efficientnet_b4, 380, 64, {"a100_bf16": 331, "v100_fp16": 204, "v100_fp32": 83}
    ),
}


def main(arguments: argparse.Namespace) -> int:
    """Print each published throughput beside ours, and whether their errors are small enough."""
    devices = {name: load_accelerator(name) for name in ("a100_bf16", "a100_tf32", "v100_fp32")}
    devices["v100_fp16"] = v100_fp16(load_accelerator("h100_bf16"))
    columns = "images a second of", "accelerator", "published", "described", "error of a step"
    print("{:18} {:12}{:>10}{:>11}{:>17}".format(*columns))
    within = 0
    for name, network in NETWORKS.items():
        for of, published in network.images_per_second.items():
            described = network.batch / step_seconds(network, devices[of])
            error = published / described - 1  # of the seconds
            within += abs(error) <= MOST_ERROR
            print(f"{name:18} {of:12}{published:10,.0f}{described:11,.0f}{error:+17.0%}")
    total = sum(len(network.images_per_second) for network in NETWORKS.values())
    print(f"{within} of {total} steps are within {MOST_ERROR:.0%}; at least 4 should be")
    return int(within < 4)


def step_seconds(network: Network, device: Accelerator) -> float:
    """Of a forward pass, a backward pass and the optimizer."""
    shape = (3, network.pixels, network.pixels)
    recipe = Recipe.model_validate(
        {
            "epochs": 1,
            "batch": network.batch,
            "batch_per": "worker",
            "optimizer": {"lr": 0.1, "momentum": 0.9},
            "schedule": {"name": "constant"},
            "precision": device.precision,
            "channels_last": device.precision != "fp32",
        }
    )
    passes = pass_seconds(
        network.build,
        lambda: blank(network.batch, shape, of_text=False),
        Passes(recipe, torch.device("cpu")),
        device,
    )
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in network.build().parameters())
    return sum(passes.values()) + device.seconds(0, False, OPTIMIZER_BYTES_PER_WEIGHT * weights)


def v100_fp16(h100: Accelerator) -> Accelerator:
    """The shares of its data sheet that an H100 reached (989 TFLOP/s, 3,350 GB/s), of that of a V100."""
    return h100.model_copy(
        update={
            "convolution_flops_per_second": h100.convolution_flops_per_second * 125 / 989,
            "product_flops_per_second": h100.product_flops_per_second * 125 / 989,
            "memory_gigabytes_per_second": h100.memory_gigabytes_per_second * 900 / 3350,
        }
    )


if __name__ == "__main__":
    sys.exit(record.run(main))
