"""Synchronous SGD on parameter servers: every worker pushes its gradient and pulls the new weights.

    on the server of a tensor: g <- 1/W sum_i g_i, w <- optimizer(w, g); every worker: w_i <- w

Source: Li et al., "Scaling Distributed Machine Learning with the Parameter Server" (OSDI 2014), its
synchronous form. It computes the same as SSGD; it is here as the basis of the methods with servers. The
optimizer runs on the servers, with its momentum and weight decay. The servers are spread over the workers
tensor by tensor, or are all on one worker.

All tensors are on their way at once, and the weights of a tensor come back as soon as its server has
stepped. `pipelined: false` is an ablation, a naive exchange. Each worker pushes one tensor after the other,
and waits each time until the server has stepped. Then it pulls the weights, one tensor after the other.
Results and bytes stay the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import thinwire
from thinwire.api.servers import OptimizerServer
from thinwire.traffic.payload import Payload


class Method(thinwire.Method):
    equals_ssgd = [
        {},
        {"nodes": 2},
        {"servers": "one"},
        {"servers": "one", "nodes": 2},
        {"pipelined": False},
        {"pipelined": False, "servers": "one", "nodes": 2},
    ]
    ablations = [{"pipelined": False}]
    tuned_as_ssgd = True

    provenance = (
        thinwire.Part("gradients pushed, weights pulled", "certain", "Li et al."),
        thinwire.Part("optimizer and its state on the servers", "related work", "MXNet's parameter server"),
        thinwire.Part("a server for each tensor, on all workers in turn", "ours", "it spreads the load"),
        thinwire.Part("one tensor after the other, an ablation", "ours", "option pipelined"),
    )

    @dataclass
    class Config:
        servers: Literal["spread", "one"] = "spread"  # spread over all workers, or all on the first one
        pipelined: bool = True  # whether all tensors are on their way at once, or one after the other

    config: Config

    def setup(self) -> None:
        self.steps, self.answers = [], []
        for param in self.run.params:
            memory = self.memory[str(param.index)] = {}
            server = OptimizerServer if self.config.pipelined else SilentServer
            self.steps.append(server(memory, self.run, param.tensor, decode=lambda push: push["values"]))
            self.answers.append(WeightServer(memory))

    def step(self) -> None:
        params = self.run.params
        pulls: Iterable[thinwire.Pending[Payload]]
        if self.config.pipelined:
            pulls = self.run.world.push_pulls(map(self.to_push, params))
        else:
            for param in params:
                self.run.world.push_pull(*self.to_push(param)).wait()
            pulls = map(self.pull, params)  # the next one when the last one has been waited for
        for weight, pull in zip(self.run.weights, pulls):
            weight.copy_(pull.wait()["weights"].view_as(weight))

    def to_push(self, param: thinwire.Param) -> tuple[int, Payload, thinwire.Server]:
        return self.key(param), {"values": param.grad.flatten()}, self.steps[param.index]

    def pull(self, param: thinwire.Param) -> thinwire.Pending[Payload]:
        return self.run.world.push_pull(self.key(param), {}, self.answers[param.index])

    def key(self, param: thinwire.Param) -> int:
        # Multiples of the number of workers are all on the first one.
        return param.index if self.config.servers == "spread" else param.index * self.run.world.size


class SilentServer(OptimizerServer):
    """Steps on the pushes, and answers nothing: the weights are pulled by a call of their own."""

    def update(self, pushes: list[Payload]) -> Payload:
        super().update(pushes)
        return {}


class WeightServer(thinwire.Server):
    """Answers with the weights that a `SilentServer` has put into the same memory."""

    def update(self, pushes: list[Payload]) -> Payload:
        return {"weights": self.memory["weight"].flatten()}
