"""Synchronous SGD: average the gradients of all workers at every step.

    g <- 1/W sum_i g_i, then the recipe's optimizer on every worker

Source: Goyal et al., "Accurate, Large Minibatch SGD" (arXiv 1706.02677), which also has the linear scaling of
the learning rate and the warm-up that recipes offer.

The gradients are sent in buckets as the backward pass produces them, output side first. So communication
overlaps with the backward pass, as in torch's DistributedDataParallel.

With 16-bit gradients (the second baseline), each worker casts its gradient, and the mean is computed in 16
bits too. As in torch, gradients are divided before they are summed, so the sum overflows only where the mean
would.

`overlap: false` is an ablation: all buckets are sent after the backward pass, and nothing overlaps with it.
Results and bytes stay the same.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

import thinwire
from thinwire.codecs import precision


class Method(thinwire.Method):
    equals_ssgd = [
        {},
        {"bucket_mb": 0.001},
        {"nodes": 2},
        {"overlap": False, "bucket_mb": 0.001},
        thinwire.InTheLimit({"gradients": "bfloat16"}, tolerance=0.005, reason="gradients have 16 bits"),
        thinwire.InTheLimit({"gradients": "float16"}, tolerance=0.005, reason="gradients have 16 bits"),
    ]
    tuned_as_ssgd = True
    ablations = [{"overlap": False}]

    provenance = (
        thinwire.Part("mean of all gradients at every step", "certain", "Goyal et al."),
        thinwire.Part("buckets, sent in the backward pass", "related work", "torch's data parallelism"),
        thinwire.Part("gradients in 16 bits, divided before the sum", "related work", "torch's hooks"),
        thinwire.Part("no overlap, an ablation", "ours", "option overlap"),
    )

    @dataclass
    class Config:
        bucket_mb: Annotated[float, Field(gt=0)] = 5.0  # largest size of a bucket in megabytes (2^20 bytes)
        gradients: precision.Precision = "full"  # precision in which gradients are sent
        overlap: bool = True  # whether buckets are sent during the backward pass, or all of them after it

    config: Config

    def setup(self) -> None:
        self.buckets = self.run.buckets(self.config.bucket_mb)
        self.bucket_of = {param: bucket for bucket in self.buckets for param in bucket.params}
        self.sent: list[tuple[thinwire.Bucket, thinwire.Pending[list[Tensor]]]] = []

    def grad_ready(self, param: thinwire.Param) -> None:
        bucket = self.bucket_of[param]
        if bucket.arrived() and self.config.overlap:
            self.send(bucket)

    def send(self, bucket: thinwire.Bucket) -> None:
        cast = precision.cast(bucket.gradients, self.config.gradients)
        self.sent.append((bucket, self.run.world.mean(cast)))

    def sync_gradients(self) -> None:
        if not self.config.overlap:
            for bucket in self.buckets:
                self.send(bucket)
        for bucket, mean in self.sent:
            averaged = mean.wait()
            if self.config.gradients != "full":
                torch._foreach_copy_(bucket.gradients, averaged)
        self.sent.clear()
