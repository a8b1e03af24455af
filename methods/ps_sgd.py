"""Synchronous SGD on parameter servers: every worker pushes its gradient and pulls the new weights.

    on the server of a tensor: g <- 1/W sum_i g_i, w <- optimizer(w, g); every worker: w_i <- w

Source: Li et al., "Scaling Distributed Machine Learning with the Parameter Server" (OSDI 2014), its
synchronous form. It computes the same as SSGD; it is here as the basis of the methods with servers. The
optimizer runs on the servers, with its momentum and weight decay. The servers are spread over the workers
tensor by tensor, or are all on one worker.
"""

from dataclasses import dataclass
from typing import Literal

import thinwire
from thinwire.optimizer_parameter_server import OptimizerServer


class Method(thinwire.Method):
    equals_ssgd = [{}, {"nodes": 2}, {"servers": "one"}, {"servers": "one", "nodes": 2}]

    provenance = (
        thinwire.Part("gradients pushed, weights pulled", "certain", "Li et al."),
        thinwire.Part("optimizer and its state on the servers", "related work", "MXNet's parameter server"),
        thinwire.Part("a server for each tensor, on all workers in turn", "ours", "it spreads the load"),
    )

    @dataclass
    class Config:
        servers: Literal["spread", "one"] = "spread"  # spread over all workers, or all on the first one

    def setup(self):
        self.servers = []
        for param in self.run.params:
            memory = self.memory[str(param.index)] = {}
            server = OptimizerServer(memory, self.run, param.tensor, decode=lambda push: push["values"])
            self.servers.append(server)

    def step(self):
        spread = self.config.servers == "spread"
        pulls = [
            self.run.world.push_pull(param.index if spread else 0, {"values": param.grad.flatten()}, server)
            for param, server in zip(self.run.params, self.servers)
        ]
        for weight, pull in zip(self.run.weights, pulls):
            weight.copy_(pull.wait()["weights"].view_as(weight))
