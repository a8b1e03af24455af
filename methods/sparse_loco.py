"""SparseLoCo: after some local steps, workers send the largest entries of their change, and keep the rest.

    theta_i <- optimizer(theta_i, g_i) at every step; after every H = `period` steps:
    e_i <- b e_i + theta - theta_i;  c_i = the k largest of |e_i| in each chunk, in few bits
    e_i <- e_i - c_i;  theta <- theta - a/W sum_i c_i;  theta_i <- theta

Source: Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo" (arXiv 2508.15706). What the
formulas leave open is as in the authors' code (tplr-ai/templar at c2397ac, `src/tplr/compress.py` and
`neurons.py`). What is delivered is theta. e_i takes the place of an outer momentum, so the recipe's local
optimizer is the only one; its state stays on its worker.

A chunk has at most 64 x 64 entries, and a tensor's values are numbers of 4 bins with a table of their means.
Bytes of a full chunk in a round: k (12 + 2) / 8; and a table of 16 bytes for each tensor. The payloads are
gathered, and added in the order of the workers.

Options for what the code does otherwise: `average: senders` divides each entry by the number of workers that
sent it. `clip` shortens what a worker sent of a tensor to the median norm over the workers.

Deviations: the code sends a byte for each number of a bin, and 12 bits for positions in any chunk; here both
have the bits that they need. It keeps k even, and applies the outer rate to the change and to the step. A
weight with more than two dimensions is the matrix [C_out, all others]; the code fails with it. At the end,
steps left over have a shorter round. Batch-norm statistics stay local.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

import thinwire
from thinwire.api.channel import Channel, UnmeteredChannel
from thinwire.codecs import chunks

SSGD = {"period": 1, "k": 4096, "bits": 32, "linear": True}


class Method(thinwire.Method):
    equals_ssgd = [
        SSGD,
        SSGD | {"nodes": 2},
        SSGD | {"chunk": 3, "k": 9, "average": "senders"},
    ]
    short = {"period": 4, "k": 16}
    tunes = {"decay": (0.5, 0.99), "outer_lr": (0.3, 1.0)}

    provenance = (
        thinwire.Part("local steps, whose change is compressed", "certain", "Sarfi et al."),
        thinwire.Part("error feedback with a decay instead of outer momentum", "certain", "Sarfi et al."),
        thinwire.Part("largest entries of each chunk", "certain", "Sarfi et al."),
        thinwire.Part("sides of chunks divide those of the matrix", "from code", "its ChunkingTransformer"),
        thinwire.Part("numbers of bins and a table of means", "from code", "its TopKCompressor"),
        thinwire.Part("mean over all workers", "certain", "Sarfi et al."),
        thinwire.Part("mean over those that sent an entry", "from code", "option average"),
        thinwire.Part("clipping to the median norm", "from code", "option clip"),
        thinwire.Part("numbers and positions in as few bits as they need", "ours", "every byte counts"),
        thinwire.Part("weights of convolutions as matrices", "ours", "the code fails with them"),
        thinwire.Part("one more round at the end", "ours", "what is delivered must be on a worker"),
    )

    @dataclass
    class Config:
        period: Annotated[int, Field(ge=1)] = 30  # H: steps of a round
        chunk: Annotated[int, Field(ge=1)] = 64  # longest side of a chunk, in entries
        k: Annotated[int, Field(ge=1)] = 64  # entries of each chunk that are sent
        decay: Annotated[float, Field(ge=0, le=1)] = 0.95  # b: what a round leaves of the error
        outer_lr: Annotated[float, Field(gt=0)] = 1.0  # a: learning rate of the outer step
        bits: Literal[2, 4, 32] = 2  # of each value; a table has 4 or 16 bins
        average: Literal["workers", "senders"] = "workers"  # of an entry: over all, or those that sent it
        clip: bool = False  # whether what a worker sent is shortened to the median norm

    config: Config

    def setup(self) -> None:
        weights = self.run.weights
        self.chunks = [chunks.Chunks(weight, self.config.chunk, self.config.k) for weight in weights]
        self.memory["theta"] = [weight.clone() for weight in weights]
        self.memory["error"] = [torch.zeros_like(weight) for weight in weights]
        self.memory["since"] = 0  # steps since the last round

    def sync_weights(self) -> None:
        self.memory["since"] += 1
        if self.memory["since"] == self.config.period:
            self.end_round()

    def end_round(self) -> None:
        theta, error = self.memory["theta"], self.memory["error"]
        torch._foreach_sub_(theta, self.change(error, self.run.world), alpha=self.config.outer_lr)
        torch._foreach_copy_(self.run.weights, theta)
        self.memory["since"] = 0

    def change(self, error: list[Tensor], channel: Channel) -> list[Tensor]:
        """Add this worker's change to its error, move the largest entries out, and return their mean."""
        config = self.config
        torch._foreach_mul_(error, config.decay)
        torch._foreach_add_(error, torch._foreach_sub(self.memory["theta"], self.run.weights))
        payloads = channel.gather(chunks.take(error, self.chunks, config.bits)).wait()
        received = [chunks.read(payload, self.chunks, config.bits) for payload in payloads]
        if config.clip:
            received = clipped(received)
        return chunks.mean(received, self.chunks, of_senders=config.average == "senders")

    def evaluated(self, unmetered: UnmeteredChannel) -> list[Tensor]:
        theta = self.memory["theta"]
        if not self.memory["since"]:
            return theta
        # What `finish` would leave.
        change = self.change([error.clone() for error in self.memory["error"]], unmetered)
        return list(torch._foreach_sub(theta, change, alpha=self.config.outer_lr))

    def finish(self) -> None:
        if self.memory["since"]:
            self.end_round()


def clipped(received: list[list[chunks.Sent]]) -> list[list[chunks.Sent]]:
    """Shorten what each worker has sent of a tensor to the median norm over the workers, the lower of two."""
    norms = torch.stack([torch.stack([values.norm() for values, _ in worker]) for worker in received])
    factors = (norms.median(0).values / (norms + 1e-8)).clamp(max=1)
    return [
        [(values * factor, positions) for (values, positions), factor in zip(worker, row)]
        for worker, row in zip(received, factors)
    ]
