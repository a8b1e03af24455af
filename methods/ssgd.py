"""Synchronous SGD: average the gradients of all workers at every step.

    g <- 1/W sum_i g_i, then the recipe's optimizer on every worker

Source: Goyal et al., "Accurate, Large Minibatch SGD" (arXiv 1706.02677), which also gives the linear
learning-rate scaling and the warm-up that the recipes offer.

The gradients leave in buckets as the backward pass produces them, output side first, so that sending them
can hide behind it, as in torch's DistributedDataParallel.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

import thinwire


class Method(thinwire.Method):
    equals_ssgd = [{}, {"bucket_mb": 0.001}, {"nodes": 2}]

    @dataclass
    class Config:
        bucket_mb: Annotated[float, Field(gt=0)] = 25.0  # most megabytes (2^20 bytes) of a bucket

    def setup(self):
        buckets = self.run.buckets(self.config.bucket_mb)
        self.bucket_of = {param: bucket for bucket in buckets for param in bucket.params}
        self.sent = []

    def grad_ready(self, param):
        bucket = self.bucket_of[param]
        if bucket.arrived():
            self.sent.append(self.run.world.mean(bucket.gradients))

    def sync_gradients(self):
        for bucket in self.sent:
            bucket.wait()
        self.sent.clear()
