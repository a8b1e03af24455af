"""NAME: each worker steps alone, and all average their weights every `period` steps.

    w_i <- optimizer(w_i, g_i) at every step; w_i <- 1/W sum_j w_j after steps H, 2H, 3H, ..., with H =
    `period`

Source: the publication, with its number at arXiv if it has one.
Decisions: each deviation from the publication, and why.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

import thinwire


class Method(thinwire.Method):
    # Options with which it is synchronous SGD. The checks compare the weights after every step. `linear` says
    # that this holds only for SGD, whose steps are linear in the gradient, and not for AdamW or Muon.
    equals_ssgd = [{"period": 1, "linear": True}]
    # Who says so: "certain" (the publication), "from code" (its authors'), "related work" or "ours".
    provenance = (
        thinwire.Part("local steps, then a mean of the weights", "ours", "an example to begin with"),
    )

    @dataclass
    class Config:
        # Each option has a type with its limits, a default, and a comment that says what it is.
        period: Annotated[int, Field(ge=1)] = 16  # steps between two averages of the weights

    config: Config

    def setup(self) -> None:
        # What is kept from step to step is in self.memory, which checkpoints save; never in other attributes.
        self.memory["since"] = 0  # steps since the last average

    def sync_gradients(self) -> None:
        # Before the optimizer's step. This is where SSGD does self.run.world.mean(self.run.gradients).wait().
        pass

    def sync_weights(self) -> None:
        # After the optimizer's step.
        self.memory["since"] += 1
        if self.memory["since"] == self.config.period:
            self.average()

    def finish(self) -> None:
        # After the last step: what is delivered must be on a worker.
        if self.memory["since"] > 0:
            self.average()

    def average(self) -> None:
        # Workers exchange data through channels only, which count every byte. `kind` is what the bytes are.
        self.memory["since"] = 0
        self.run.world.mean(self.run.weights, kind="weights").wait()
