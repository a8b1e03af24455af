"""Hylo, reconstructed: convolutions push their important kernels, large linear layers two bits an entry.

    u_i = r_i + g_i, with the residual r_i of worker i: what it has not pushed yet
    convolution: the m kernels of largest |u_i| are pushed, r_i keeps the others
    linear: T = kappa mean |u_i|; +T, -T or 0 is pushed for each entry, r_i <- u_i - what was pushed
    server: w <- optimizer(w, 1/W sum_i push_i); every worker pulls the weights, dense

Sources: J. Peng's thesis (HUST, 2020) and the conference paper "Hylo: Hybrid Layer-Based Optimization to
Reduce Communication in Distributed Deep Learning". Only their abstracts could be read. The two-bit layout is
MXNet's.

Reconstructed are four things: which layers are large; the share of the kernels, (threshold / size)^exponent;
their importance; and the threshold T, the mean magnitude. A kernel's importance is the norm of its residual
and gradient together, so it grows while the kernel waits. Biases, normalisation and small layers are pushed
dense. The optimizer runs on the servers, with its momentum. The servers are spread over the workers tensor by
tensor.

Some options are controls. A uniform `compression` treats all large layers alike; the kernels of a linear
layer are its rows, one for each output. With `importance: random`, each worker draws as many kernels anew at
each step. Without the `residual`, what is not pushed is lost.
"""

import math

import torch
from torch import Tensor

import thinwire
from thinwire.api.servers import OptimizerServer
from thinwire.codecs import kernels, precision
from thinwire.traffic.payload import Payload

from .options import COMPRESSED, Options
from .provenance import PROVENANCE

EVERYTHING_DENSE = {"conv_threshold": 10**9, "linear_threshold": 10**9}
SMALL = {"conv_threshold": 16, "linear_threshold": 100}
ALL_KERNELS = {**SMALL, "compression": "uniform_kernels", "least_rate": 1.0}


class Method(thinwire.Method):
    Config = Options
    config: Options
    equals_ssgd = [
        EVERYTHING_DENSE,
        {**EVERYTHING_DENSE, "nodes": 2},
        {"warmup_steps": 1000},
        ALL_KERNELS,
        {**ALL_KERNELS, "importance": "random", "residual": False},
    ]
    short = {**SMALL, "warmup_steps": 2}
    ablations = [
        {"compression": "uniform_kernels"},
        {"compression": "uniform_two_bits"},
        {"importance": "random"},
        {"residual": False},
    ]

    provenance = PROVENANCE

    def setup(self) -> None:
        self.servers = []
        for param in self.run.params:
            memory = self.memory[str(param.index)] = {"server": {}}
            if self.kind(param) != "dense" and self.config.residual:
                memory["residual"] = torch.zeros_like(param.tensor)
            decode = lambda push, param=param: self.decode(push, param)  # noqa: E731
            self.servers.append(OptimizerServer(memory["server"], self.run, param.tensor, decode))

    def kind(self, param: thinwire.Param) -> str:
        if param.tensor.dim() == 1 or param.tensor.numel() <= self.threshold(param):
            return "dense"
        return COMPRESSED[self.config.compression][param.kind]

    def threshold(self, param: thinwire.Param) -> float:
        of_kind = {"conv": self.config.conv_threshold, "linear": self.config.linear_threshold}
        return of_kind.get(param.kind, math.inf)

    def kernels_of(self, param: thinwire.Param) -> int:
        """The number of kernels that a large layer pushes."""
        rate = (self.threshold(param) / param.tensor.numel()) ** self.config.exponent
        share = min(1.0, max(self.config.least_rate, rate))
        return max(1, math.ceil(round(share * param.tensor.shape[0], 9)))

    def step(self) -> None:
        pulls = self.run.world.push_pulls(
            (param.index, self.encode(param), server) for param, server in zip(self.run.params, self.servers)
        )
        for weight, pull in zip(self.run.weights, pulls):
            weight.copy_(pull.wait()["weights"].view_as(weight))

    def encode(self, param: thinwire.Param) -> Payload:
        if self.kind(param) == "dense" or self.run.step < self.config.warmup_steps:
            return {"values": param.grad.flatten()}
        unsent = self.unsent(param)
        if self.kind(param) == "kernels":
            count, importance = self.kernels_of(param), self.config.importance
            return kernels.take(unsent, count, importance, self.run.generator)
        threshold = self.config.kappa * unsent.abs().mean()
        codes = precision.quantise(unsent, threshold)
        unsent -= threshold * codes
        return {"values": precision.pack(codes), "scales": threshold.view(1)}

    def unsent(self, param: thinwire.Param) -> Tensor:
        """The residual with the gradient added; without residuals, a copy of the gradient."""
        if not self.config.residual:
            return param.grad.clone()
        return self.memory[str(param.index)]["residual"].add_(param.grad)

    def decode(self, push: Payload, param: thinwire.Param) -> Tensor:
        if "scales" in push:
            codes = precision.unpack(push["values"], param.tensor.numel())
            return push["scales"] * codes.view(param.tensor.shape)
        return kernels.give(push, like=param.tensor)
