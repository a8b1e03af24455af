"""A parameter server that keeps one tensor's weights and steps them with the recipe's optimizer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from thinwire.api.run import Run
from thinwire.traffic.payload import Payload
from thinwire.transport.call import Server


class OptimizerServer(Server):
    """Averages the pushes, steps the optimizer, and answers with the new weights.

    The weight is copied at the first push, so only the worker on which the server lives has a copy.
    """

    def __init__(
        self, memory: dict[str, Any], run: Run, weight: nn.Parameter, decode: Callable[[Payload], Tensor]
    ) -> None:
        """Create the server.

        Args:
            memory: for the weight and the optimizer's state, so that both are saved with the run.
            run: of this worker.
            weight: the parameter of the model with which the server begins.
            decode: turns a push into a gradient, of the weight's shape or flat.
        """
        super().__init__(memory)
        self._run = run
        self._weight = weight
        self._decode = decode
        self._param: nn.Parameter | None = None

    def update(self, pushes: list[Payload]) -> Payload:
        """Return the weights after one step with the mean of the pushes as the gradient."""
        param, optimizer = self._ready()
        total = self._decode(pushes[0]).clone()
        for push in pushes[1:]:
            total += self._decode(push)
        param.grad = total.div_(len(pushes)).view_as(param)
        for group in optimizer.param_groups:
            group["lr"] = self._run.lr
        optimizer.step()
        param.grad = None
        return {"weights": param.data.flatten()}

    def _ready(self) -> tuple[nn.Parameter, torch.optim.Optimizer]:
        """Return the weight and its optimizer; the first time, create them from `memory` if it has them."""
        if self._param is None:
            weight = self.memory.setdefault("weight", self._weight.detach().clone())
            self._param = nn.Parameter(weight)
            self._optimizer = self._run.make_optimizer([self._param], copies_of=[self._weight])
            # The optimizer writes its state into the memory.
            self._optimizer.state[self._param] = self.memory.setdefault("state", {})
        return self._param, self._optimizer
