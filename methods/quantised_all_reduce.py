"""Quantised all-reduce: gradients are averaged in blocks of few bits, inside nodes and then between them.

    Q(x) = s round(x / s) in each block, s = its largest |x| / m;  m = 7 with 4 bits, 127 with 8
    G_n = mean of Q(g_i) over the workers i of node n;  g <- Q(mean of Q(G_n) over the nodes n)

Source: qgZ in Wang et al., "ZeRO++" (arXiv 2306.10209), and DeepSpeed's code (`all_to_all_quant_reduce` in
`runtime/comm/coalesced_collectives.py`).

Worker j of a node averages the j-th part of the gradient in full precision. It quantises this part again for
the other nodes, of which each averages a piece. Nothing that was lost is kept for later steps. As in the
code, tensors with one dimension are averaged in full precision.

Deviations from the code:
- There each worker keeps its piece of the mean, for ZeRO. Here the mean is quantised once more, and sent back
  as it is through both levels. So all workers have the same bits.
- All compressed tensors form one row, padded to a multiple of W. The code sends a tensor in full precision if
  its size is no multiple of 2 W.
- Levels go from -m to m. In the code they go from -8 to 7 with 4 bits, for a largest entry of 8, so that the
  largest positive entry loses an eighth.
- Blocks have a fixed size. In the code it follows from the tensor's shape.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

import thinwire
from thinwire.api.all_reduce import exchange
from thinwire.codecs import blocks, lossy


class Method(thinwire.Method):
    equals_ssgd = [
        {"block": 1},
        {"block": 1, "nodes": 2},
        {"block": 1, "bits": 8},
    ]

    provenance = (
        thinwire.Part("blocks of few bits with a scale each", "certain", "Wang et al."),
        thinwire.Part("averaged inside nodes, then between them", "certain", "Wang et al."),
        thinwire.Part("sums in full precision, quantised again", "certain", "Wang et al."),
        thinwire.Part("tensors with one dimension in full precision", "from code", "all_to_all_quant_reduce"),
        thinwire.Part("mean quantised and sent back", "ours", "every worker needs it; theirs are for ZeRO"),
        thinwire.Part("one padded row instead of tensors", "ours", "the code leaves odd sizes uncompressed"),
        thinwire.Part("levels symmetric around zero", "ours", "the code clips the largest"),
        thinwire.Part("8 bits as an option", "ours", "option bits"),
    )

    @dataclass
    class Config:
        bits: Literal[4, 8] = 4  # of each entry of a compressed tensor
        block: Annotated[int, Field(ge=1)] = 128  # entries that share a scale

    config: Config

    def sync_gradients(self) -> None:
        gradients = self.run.gradients
        self.run.world.mean([g for g in gradients if g.dim() <= 1]).wait()
        matrices = [g for g in gradients if g.dim() > 1]
        if matrices:
            mean = self.all_reduce(torch.cat([g.flatten() for g in matrices]))
            for gradient, part in zip(matrices, mean.split([g.numel() for g in matrices])):
                gradient.copy_(part.view_as(gradient))

    def all_reduce(self, row: Tensor) -> Tensor:
        """Return the mean of the row over all workers, the same bits on all of them."""
        node, across = self.run.node, self.run.across
        codec = blocks.Rounded(self.config.bits, self.config.block)
        padded = functional.pad(row, (0, -len(row) % self.run.world.size))
        _, (part,) = exchange(node, [*padded.chunk(node.size)], codec, answers=False)
        pieces = [*part.chunk(across.size)]
        if across.size > 1:
            payloads, _ = exchange(across, pieces, codec)
        else:
            payloads = codec.encode(pieces)
        sizes = [len(piece) for piece in pieces]
        answers = node.gather(lossy.join(payloads)).wait()
        mean = torch.cat([piece for answer in answers for piece in lossy.decode(codec, answer, sizes)])
        return mean[: len(row)]
