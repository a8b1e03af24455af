"""QSGD: gradients are rounded at random to few levels, so that they are right on average.

    N = |v|_2 in each block v of g_i;  l = floor(m |v| / N), plus 1 with the probability of what is left over
    Q(v) = N sign(v) l / m, with m = 2^(bits - 1) - 1;  g <- 1/W sum_i Q(g_i)

Source: Alistarh, Grubic, Li, Tomioka & Vojnovic, "QSGD: Communication-Efficient SGD via Gradient Quantization
and Encoding" (arXiv 1610.02132). Nothing is kept of what was lost, because its mean is zero.

With `levels: exponential` it is NUQSGD of Ramezani-Kebrya et al. (arXiv 1908.06077): instead of multiples of
1/m the levels are 0, 2^(1 - m), ..., 1/4, 1/2, 1. `{bits: 2, norm: max, block: null, clip: 2.5}` is TernGrad
of Wen et al. (arXiv 1705.07878): N is the largest |v|, and the levels are 0 and 1. It first clips each tensor
at 2.5 of its standard deviations, which makes large entries too small on average.

Decisions:
- A level and its sign have `bits` bits together, packed without a gap. The publication has Elias codes, whose
  lengths depend on the values; GRACE sends a byte or more.
- Blocks never cross tensors. Every tensor is compressed, even a small one.
- A block of zeros stays zeros; GRACE divides by its norm.
- What all workers send is gathered, as in GRACE. In TernGrad a server adds it up.
- A tensor whose entries are all equal has no deviation, and is not clipped.
- The recipe's momentum and weight decay follow the mean.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

import thinwire
from thinwire.codecs import blocks, lossy


class Method(thinwire.Method):
    equals_ssgd = [
        {"block": 1},
        {"block": 1, "nodes": 2},
        {"block": 1, "norm": "max", "bits": 2},
        {"block": 1, "levels": "exponential"},
        {"block": 1, "clip": 1e6},
    ]

    provenance = (
        thinwire.Part("random rounding of shares of a norm", "certain", "Alistarh et al."),
        thinwire.Part("a norm for each block", "certain", "Alistarh et al., who call it a bucket"),
        thinwire.Part("exponential levels", "certain", "Ramezani-Kebrya et al."),
        thinwire.Part("three levels of the largest entry, clipped first", "certain", "Wen et al."),
        thinwire.Part("codes of fixed length", "related work", "GRACE, with whole bytes; Elias codes there"),
        thinwire.Part("gathered", "related work", "GRACE"),
        thinwire.Part("blocks of zeros stay zeros", "ours", "GRACE divides by zero"),
        thinwire.Part("momentum and weight decay after the mean", "related work", "an example of GRACE"),
    )

    @dataclass
    class Config:
        bits: Annotated[int, Field(ge=2, le=8)] = 4  # of each entry: its sign and its level
        levels: Literal["uniform", "exponential"] = "uniform"  # exponential is NUQSGD
        norm: Literal["l2", "max"] = "l2"  # of a block: the Euclidean norm, or the largest magnitude
        block: Annotated[int, Field(ge=1)] | None = 128  # entries that share a norm; none: whole tensors
        clip: Annotated[float, Field(gt=0)] | None = (
            None  # largest entry, in standard deviations of its tensor
        )

    config: Config

    def sync_gradients(self) -> None:
        config, gradients = self.config, self.run.gradients
        codec = blocks.RandomLevels(config.bits, config.block, config.norm, config.levels, self.run.generator)
        rows = [gradient.flatten() for gradient in gradients]
        if config.clip is not None:
            rows = [clipped(row, config.clip) for row in rows]
        payloads = self.run.world.gather(lossy.join(codec.encode(rows))).wait()
        means = lossy.means(codec, payloads, [len(row) for row in rows])
        for gradient, mean in zip(gradients, means):
            gradient.copy_(mean.view_as(gradient))


def clipped(row: Tensor, deviations: float) -> Tensor:
    """Return the row within so many of its standard deviations; as it is, if all its entries are equal."""
    limit = deviations * row.std(correction=0)
    limit = limit.masked_fill(limit == 0, float("inf"))
    return row.clamp(-limit, limit)
