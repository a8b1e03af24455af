"""EF21-SGDM: each worker sends the largest entries of the change of its momentum, and all keep the sum.

    v_i <- (1 - eta) v_i + eta g_i;  c_i = the k largest of |v_i - h_i|;  h_i <- h_i + c_i
    g <- g + 1/W sum_i c_i, which the optimizer takes as its gradient

Source: Fatkhullin, Tyurin & Richtarik, "Momentum Provably Improves Error Feedback!" (arXiv 2305.15155). With
`eta: 1` there is no momentum, and the method is EF21 of Richtarik, Sokolov & Fatkhullin (arXiv 2106.05203).

h_i is what all workers together know of v_i, so g is always the mean of the h_i. What is not sent is kept by
nobody: it is a part of the next difference. In the first step v_i = h_i = g_i, and g is a dense mean.

Decisions: g is kept by every worker, and added in the order of the workers, so there is no server. Each
tensor has its own k, as in `top_k`; the authors' code has one for all tensors. The recipe's optimizer
follows, with its own momentum and weight decay, where the publication has plain steps. With two momenta,
0.9 in the recipe and 0.9 here, training diverged on digits at a density of 0.01. So give it a recipe without
momentum, or `eta: 1`.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

import thinwire
from thinwire.codecs import sparse
from thinwire.codecs.select import exact
from thinwire.codecs.sparse import Encoding


class Method(thinwire.Method):
    equals_ssgd = [
        {"density": 1.0, "eta": 1.0},
        {"density": 1.0, "eta": 1.0, "nodes": 2},
        {"density": 1.0, "eta": 1.0, "indices": "bitmap"},
        {"density": 1.0, "eta": 1.0, "indices": "run_length"},
    ]
    tunes = {"eta": (0.05, 1.0)}

    provenance = (
        thinwire.Part("largest entries of the difference are sent", "certain", "Richtarik et al."),
        thinwire.Part("all workers add up what was sent", "certain", "Richtarik et al.; on their server"),
        thinwire.Part("momentum before the difference", "certain", "Fatkhullin et al."),
        thinwire.Part("the first step is dense", "certain", "Fatkhullin et al."),
        thinwire.Part("each tensor has its own k, rounded up", "ours", "as in top_k; their code has one k"),
        thinwire.Part("values and positions are gathered", "ours", "as in top_k; they have a server"),
        thinwire.Part("recipe's momentum and weight decay follow", "ours", "they have plain steps"),
    )

    @dataclass
    class Config:
        density: Annotated[float, Field(gt=0, le=1)] = 0.05  # share of each tensor's entries that is sent
        eta: Annotated[float, Field(gt=0, le=1)] = 0.1  # weight of the new gradient; 1 is without momentum
        indices: Encoding = "int32"  # how positions are encoded: int32, bitmap or run_length

    config: Config

    def setup(self) -> None:
        for name in ("momentum", "known", "mean"):  # v_i, h_i and g
            self.memory[name] = [torch.zeros_like(weight) for weight in self.run.weights]

    def sync_gradients(self) -> None:
        if self.run.step == 0:
            self.start()
        else:
            self.send_differences()
        torch._foreach_copy_(self.run.gradients, self.memory["mean"])

    def start(self) -> None:
        gradients = self.run.gradients
        torch._foreach_copy_(self.memory["momentum"], gradients)
        torch._foreach_copy_(self.memory["known"], gradients)
        torch._foreach_copy_(self.memory["mean"], self.run.world.mean(gradients).wait())

    def send_differences(self) -> None:
        config, run = self.config, self.run
        momentum, known, mean = (self.memory[name] for name in ("momentum", "known", "mean"))
        torch._foreach_lerp_(momentum, run.gradients, config.eta)
        difference = list(torch._foreach_sub(momentum, known))
        chosen = sparse.choose(difference, config.density, exact, run.generator)
        taken = sparse.take(difference, chosen, config.indices)
        change = sparse.mean([taken], known, config.indices)
        answer = run.world.gather(taken, ragged=sparse.varies("exact", config.indices))
        torch._foreach_add_(known, change)
        torch._foreach_add_(mean, sparse.mean(answer.wait(), mean, config.indices))
