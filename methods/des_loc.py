"""DES-LOC: local steps; weights and each moment of the optimizer are averaged at periods of their own.

    w_i, u_i, v_i <- optimizer(w_i, u_i, v_i, g_i) at every step
    w_i <- 1/W sum_j w_j after every K = `period` steps;  u_i <- 1/W sum_j u_j after every K_u =
    `first_period`;  v_i <- 1/W sum_j v_j after every K_v = `second_period`

Source: Iacob et al., "DES-LOC" (arXiv 2505.22549). It has K_u = 3 K and K_v = 6 K, because v changes more
slowly than u, and u than w. The publication averages before a step what is averaged here after the step
before, as the first author's code does (its fork of torchft, `DESLoc`).

u is Adam's and AdamW's mean gradient, or the momentum of SGD, LARS and Muon. v is their mean square, which
only Adam and AdamW have: also inside Muon, for the parameters that are no hidden matrices.

Bytes for n entries, each way: 4 n whenever w is averaged, and 4 n or less for each moment.

With equal periods it is Local Adam, also if all are 1. Then it is no dense Adam: u is that of the mean
gradient, but v has the mean of the squares, which is larger by the variance over the workers. And w is the
mean of the workers' steps. With one worker, or for SGD's linear steps, it is the dense optimizer.

A pitfall, which the code has, too: where u is averaged and v is not, a worker whose own gradients of an entry
were all 0 divides the mean u by Adam's epsilon, and the weight jumps. That is avoided if K_v divides K_u.

Decisions: the recipe clips gradients, if it does; in the publication it is part of the method. Steps left
over at the end are averaged in w alone, because moments are not delivered. Batch-norm statistics stay local.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor

import thinwire

# The names of the moments in the optimizers' states.
FIRST, SECOND = ("momentum_buffer", "exp_avg"), ("exp_avg_sq",)


class Method(thinwire.Method):
    equals_ssgd = [
        {"period": 1, "first_period": 1, "second_period": 1, "linear": True},
        {"period": 1, "first_period": 1, "second_period": 1, "linear": True, "nodes": 2},
        {"period": 1, "first_period": 3, "second_period": 2, "linear": True},
    ]
    short = {"period": 3, "first_period": 4, "second_period": 6}

    provenance = (
        thinwire.Part("local steps, then a mean of the weights", "certain", "Iacob et al."),
        thinwire.Part("means of each moment at a period of its own", "certain", "Iacob et al."),
        thinwire.Part("after a step instead of before the next", "from code", "its DESLoc"),
        thinwire.Part("momentum of LARS and Muon as the first moment", "ours", "they have SGD and Adam"),
        thinwire.Part("one more mean of weights at the end", "ours", "what is delivered must be on a worker"),
        thinwire.Part("batch-norm statistics stay local", "ours", "their models have none"),
    )

    @dataclass
    class Config:
        period: Annotated[int, Field(ge=1)] = 16  # K: steps between two means of the weights
        first_period: Annotated[int, Field(ge=1)] = 48  # K_u: of the first moment, or momentum
        second_period: Annotated[int, Field(ge=1)] = 96  # K_v: of the second moment

    config: Config

    def sync_weights(self) -> None:
        config, mean, done = self.config, self.run.world.mean, self.run.step + 1
        answers = []
        if done % config.period == 0:
            answers.append(mean(self.run.weights, kind="weights"))
        if done % config.first_period == 0:
            answers.append(mean(self.moments(FIRST)))
        if done % config.second_period == 0:
            answers.append(mean(self.moments(SECOND)))
        for answer in answers:
            answer.wait()

    def moments(self, names: tuple[str, ...]) -> list[Tensor]:
        """The tensors of the optimizer's state with these names; SGD without momentum has none."""
        states = [self.run.optimizer.state[param.tensor] for param in self.run.params]
        found = [state.get(name) for state in states for name in names]
        return [moment for moment in found if moment is not None]

    def finish(self) -> None:
        if self.run.total_steps % self.config.period:
            self.run.world.mean(self.run.weights, kind="weights").wait()
