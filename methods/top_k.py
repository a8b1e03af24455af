"""Top-k with error feedback: send the largest entries of each tensor, and keep the rest for later steps.

    r_i <- r_i + g_i;  s_i = the k largest of |r_i|;  r_i <- r_i - s_i;  g <- 1/W sum_i s_i

Sources: Aji & Heafield, "Sparse Communication for Distributed Gradient Descent" (arXiv 1704.05021), in a
synchronous form, and Stich et al., "Sparsified SGD with Memory" (arXiv 1809.07599).

Decisions: each tensor has its own k, the share `density` of its entries, rounded up. Every tensor is
compressed, even a small one. Each worker gathers the entries of all workers, each entry a value and a
position, so a worker receives more with more workers. The recipe's momentum and weight decay are applied
after the average. As a control, `selection: random` sends the same number of entries, chosen at random.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field

import thinwire
from thinwire.codecs import sparse
from thinwire.codecs.select import SELECT
from thinwire.codecs.sparse import Encoding


class Method(thinwire.Method):
    equals_ssgd = [
        {"density": 1.0},
        {"density": 1.0, "nodes": 2},
        {"density": 1.0, "memory": "update"},
        {"density": 1.0, "memory": "none"},
        {"density": 1.0, "selection": "sampled"},
        {"density": 1.0, "selection": "random"},
        {"density": 1.0, "indices": "bitmap"},
        {"density": 1.0, "indices": "run_length"},
    ]

    provenance = (
        thinwire.Part("largest entries are sent", "certain", "Aji & Heafield; Stich et al."),
        thinwire.Part("the rest is kept and added later", "certain", "Aji & Heafield; Stich et al."),
        thinwire.Part(
            "synchronous, with a mean over the workers", "related work", "GRACE; Aji & Heafield have servers"
        ),
        thinwire.Part("each tensor has its own k, small ones too", "related work", "GRACE"),
        thinwire.Part("k is rounded up", "related work", "the code of Deep Gradient Compression"),
        thinwire.Part("values and positions are gathered", "related work", "GRACE"),
        thinwire.Part("momentum and weight decay after the mean", "related work", "an example of GRACE"),
        thinwire.Part("memory of updates instead of gradients", "certain", "Stich et al."),
        thinwire.Part("random entries as a control", "certain", "Stich et al. study them, too"),
    )

    @dataclass
    class Config:
        density: Annotated[float, Field(gt=0, le=1)] = 0.01  # share of each tensor's entries that is sent
        selection: Literal["exact", "sampled", "random"] = "exact"  # how the entries are found
        indices: Encoding = "int32"  # how positions are encoded: int32, bitmap or run_length
        # What the residual holds. `gradient`: gradients, to which the learning rate of the step that sends
        # them applies. `update`: learning rate times gradient (Stich et al.), with the rate of the step that
        # computed it. `none`: nothing, so what is not sent is lost; a control.
        memory: Literal["gradient", "update", "none"] = "gradient"

    config: Config

    def setup(self) -> None:
        self.memory["residual"] = [torch.zeros_like(weight) for weight in self.run.weights]

    def sync_gradients(self) -> None:
        config, residual, gradients = self.config, self.memory["residual"], self.run.gradients
        scale = self.run.lr if config.memory == "update" else 1.0
        torch._foreach_add_(residual, gradients, alpha=scale)
        chosen = sparse.choose(residual, config.density, SELECT[config.selection], self.run.generator)
        taken = sparse.take(residual, chosen, config.indices)
        ragged = sparse.varies(config.selection, config.indices)
        payloads = self.run.world.gather(taken, ragged=ragged).wait()
        for gradient, mean in zip(gradients, sparse.mean(payloads, gradients, config.indices)):
            gradient.copy_(mean / scale)
        if config.memory == "none":
            torch._foreach_zero_(residual)
