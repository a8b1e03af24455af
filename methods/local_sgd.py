"""Local SGD: step alone, average the weights every `period` steps.

    w_i <- optimizer(w_i, g_i) at every step; w_i <- 1/W sum_j w_j after steps H, 2H, 3H, ...

Sources: Stich, "Local SGD Converges Fast and Communicates Little" (arXiv 1805.09767); with a
`switch_epoch`, post-local SGD of Lin et al. (arXiv 1808.07217): SSGD first, local steps from there on.

Decisions where public codes differ: the first average comes after H whole steps (PyTorch and EPFL average
after the first), each worker keeps its own momentum, and batch-norm statistics stay local. Steps that are
left over at the end are averaged too, and counted.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

import thinwire


class Method(thinwire.Method):
    equals_ssgd = [{"period": 1}, {"period": 1, "nodes": 2}, {"switch_epoch": 1000}]

    @dataclass
    class Config:
        period: Annotated[int, Field(ge=1)] = 16  # steps between two averages of the weights
        switch_epoch: Annotated[int, Field(ge=0)] = 0  # SSGD before this epoch, local steps from it on
        momentum: Literal["keep", "reset"] = "keep"  # each worker's momentum when weights are averaged

    def local_steps(self) -> int:
        """Steps since the workers last could have been equal by SSGD, this one included."""
        return self.run.step + 1 - self.config.switch_epoch * self.run.steps_per_epoch

    def sync_gradients(self):
        if self.local_steps() <= 0:
            self.run.world.mean(self.run.gradients).wait()

    def sync_weights(self):
        steps = self.local_steps()
        if steps > 0 and steps % self.config.period == 0:
            self.average()

    def average(self):
        self.run.world.mean(self.run.weights, kind="weights").wait()
        if self.config.momentum == "reset":
            for state in self.run.optimizer.state.values():
                if state.get("momentum_buffer") is not None:
                    state["momentum_buffer"].zero_()

    def finish(self):
        steps = self.local_steps()
        if steps > 0 and steps % self.config.period != 0:
            self.average()
