"""DeMo: each worker sends the largest cosine coefficients of its momentum, and keeps the others.

    d_i <- b d_i + lr g_i;  q_i = the k largest of DCT(d_i) in each chunk;  d_i <- d_i - iDCT(q_i)
    q = the mean of each coefficient over the workers that sent it
    g <- sign(iDCT(q));  w <- (1 - lr wd) w - lr g

Source: Peng, Quesnelle & Kingma, "DeMo: Decoupled Momentum Optimization" (arXiv 2411.19870), and the authors'
code (bloc97/DeMo at 0e48145, `demo.py`), which decides where the two differ.

d_i is the only momentum: the recipe's is left out, as in the code. The recipe's weight decay is the wd above.
Each entry moves by the learning rate, however large gradients are.

With `sign: false`, an ablation, g is iDCT(q) / lr, and the recipe's whole optimizer follows.

Deviations from the code:
- A weight with more than two dimensions is the matrix [C_out, all others]; the code fails with it.
- Positions inside a chunk are packed in as many bits as it needs, 12 for 64 x 64. The code sends 64.
- Where a whole chunk is sent, no positions are.
- Payloads are added in the order of the workers, so all workers have the same bits.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

import thinwire
from thinwire.codecs import chunks, dct


class Method(thinwire.Method):
    equals_ssgd = [
        {"chunk": 1, "k": 1, "decay": 0.0, "sign": False},
        {"chunk": 1, "k": 1, "decay": 0.0, "sign": False, "nodes": 2},
        {"chunk": 8, "k": 64, "decay": 0.0, "sign": False},
    ]
    needs = thinwire.Needs(optimizers=("sgd",))
    ablations = [{"sign": False}]
    tunes = {"decay": (0.9, 0.999)}

    provenance = (
        thinwire.Part("momentum stays on its worker, without what was sent", "certain", "Peng et al."),
        thinwire.Part("largest coefficients of a DCT of chunks", "certain", "Peng et al."),
        thinwire.Part("sides of chunks divide those of the matrix", "from code", "its TransformDCT"),
        thinwire.Part("learning rate inside the momentum", "from code", "its step"),
        thinwire.Part("mean over those that sent a coefficient", "from code", "its batch_decompress"),
        thinwire.Part("sign of the mean, then plain SGD", "certain", "Peng et al."),
        thinwire.Part("positions packed in few bits", "ours", "the code sends 64 bits; every byte counts"),
        thinwire.Part("weights of convolutions as matrices", "ours", "the code fails with them"),
        thinwire.Part("no sign, an ablation", "ours", "option sign"),
    )

    @dataclass
    class Config:
        chunk: Annotated[int, Field(ge=1)] = 64  # longest side of a chunk, in entries
        k: Annotated[int, Field(ge=1)] = 32  # coefficients of each chunk that are sent
        decay: Annotated[float, Field(ge=0, lt=1)] = 0.999  # what a step leaves of the momentum
        sign: bool = True  # whether weights step by the sign of the mean, or by the mean

    config: Config

    def optimizer(self, params: list[nn.Parameter]) -> torch.optim.Optimizer:
        return self.run.make_optimizer(params, momentum=0.0 if self.config.sign else None)

    def setup(self) -> None:
        config, weights = self.config, self.run.weights
        self.chunks = [dct.Chunks(weight, config.chunk, config.k) for weight in weights]
        self.memory["momentum"] = [torch.zeros_like(weight) for weight in weights]

    def sync_gradients(self) -> None:
        momentum, gradients = self.memory["momentum"], self.run.gradients
        torch._foreach_mul_(momentum, self.config.decay)
        torch._foreach_add_(momentum, gradients, alpha=self.run.lr)
        payloads = self.run.world.gather(chunks.take(momentum, self.chunks)).wait()
        received = [chunks.read(payload, self.chunks) for payload in payloads]
        for gradient, mean in zip(gradients, chunks.mean(received, self.chunks, of_senders=True)):
            gradient.copy_(mean.sign() if self.config.sign else mean / self.run.lr)
