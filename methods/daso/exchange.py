"""What the nodes exchange: a group sends its weights, and merges their mean later or takes it at once.

A group has one worker of every node. `memory["group"]` is the place on its node of the worker whose turn it
is.
"""

from typing import Any

import torch
from torch import Tensor

from thinwire import Flight, Pending, Run
from thinwire.api.flight import Landing
from thinwire.codecs import precision

from .options import Options


class Exchange:
    def __init__(self, run: Run, config: Options, memory: dict[str, Any], flight: Flight) -> None:
        self.run, self.config, self.memory, self.flight = run, config, memory, flight

    def send(self) -> Pending[list[Tensor]] | None:
        """Send this worker's weights to its group, if it is the group's turn; None for other workers."""
        if self.run.node.rank != self.memory["group"]:
            return None
        weights = [weight.clone() for weight in self.run.weights]
        if self._casts():
            if self.config.blocking_sends == "delta":
                torch._foreach_sub_(weights, self.memory["common"])
            weights = precision.cast(weights, self.config.blocking_dtype)
        return self.run.across.mean(weights, kind="weights")

    def launch(self, sent: Pending[list[Tensor]] | None, wait: int) -> None:
        """Put the message in flight for `wait` steps.

        Workers that sent nothing keep its note, because they copy from their node's sender when it lands.
        """
        note = {"group": self.memory["group"], "sent": self.run.step, "wait": wait}
        self.flight.launch(sent, self.run.step + wait, **note)

    def merge(self, landing: Landing, staleness: int) -> None:
        """Members of the group that sent take x <- (2 S x + P mean) / (2 S + P), where S is the staleness."""
        if landing.answer is None:
            return
        # Published: S can be below 1.
        nodes, weight = self.run.across.size, 2 * staleness if staleness > 0 else 1
        for own, mean in zip(self.run.weights, landing.answer):
            own.mul_(weight).add_(mean, alpha=nodes).div_(weight + nodes)

    def blocking_mean(self, sent: Pending[list[Tensor]] | None) -> None:
        """All workers take the mean of what the group has just sent."""
        if sent is not None:
            delta = self._casts() and self.config.blocking_sends == "delta"
            for i, mean in enumerate(sent.wait()):
                self.run.weights[i].copy_(mean)
                if delta:
                    self.run.weights[i].add_(self.memory["common"][i])
        self.copy_inside_nodes(self.memory["group"])
        torch._foreach_copy_(self.memory["common"], self.run.weights)

    def copy_inside_nodes(self, place: int) -> None:
        """Every worker takes the weights of the worker at this place of its node."""
        self.run.node.broadcast(self.run.weights, source=place).wait()

    def pass_turn(self, last: bool) -> None:
        """The next group has the next turn; every epoch begins with group 0."""
        self.memory["group"] = 0 if last else (self.memory["group"] + 1) % self.run.node.size

    def _casts(self) -> bool:
        """Do weights travel in 16 bits now? They do in warm-up and cool-down, where B is 0."""
        return self.memory["skips"] == 0 and self.config.blocking_dtype != "full"
