"""Synchronous SGD: average the gradients of all workers at every step.

    g <- 1/W sum_i g_i, then the recipe's optimizer on every worker

Source: Goyal et al., "Accurate, Large Minibatch SGD" (arXiv 1706.02677), which also gives the linear
learning-rate scaling and the warm-up that the recipes offer.

The gradients leave in buckets as the backward pass produces them, output side first, so that sending them
can hide behind it, as in torch's DistributedDataParallel. With 16-bit gradients (the second baseline) each
worker casts its gradient and the mean is made in 16 bits too, of gradients divided first, as torch does, so
that the sum does not overflow where the mean does not.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

import thinwire
from thinwire.codecs import half


class Method(thinwire.Method):
    equals_ssgd = [{}, {"bucket_mb": 0.001}, {"nodes": 2}]

    @dataclass
    class Config:
        bucket_mb: Annotated[float, Field(gt=0)] = 5.0  # most megabytes (2^20 bytes) of a bucket
        gradients: half.Precision = "full"  # precision in which gradients travel

    def setup(self):
        buckets = self.run.buckets(self.config.bucket_mb)
        self.bucket_of = {param: bucket for bucket in buckets for param in bucket.params}
        self.sent = []

    def grad_ready(self, param):
        bucket = self.bucket_of[param]
        if bucket.arrived():
            travelling = half.cast(bucket.gradients, self.config.gradients)
            self.sent.append((bucket, self.run.world.mean(travelling)))

    def sync_gradients(self):
        for bucket, mean in self.sent:
            arrived = mean.wait()
            if self.config.gradients != "full":
                torch._foreach_copy_(bucket.gradients, arrived)
        self.sent.clear()
