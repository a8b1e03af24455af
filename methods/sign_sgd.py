"""Sign methods: each worker sends a bit for each entry of its gradient, with a scale for each block.

    error_feedback: p_i = g_i + e_i;  c_i = s sign(p_i) in each block, s = its mean |p_i|;  e_i <- p_i - c_i
                    g <- 1/W sum_i c_i
    two_sided:      the same c_i go to a server;  q = 1/W sum_i c_i + f;  g <- s sign(q), s = the mean |q|
                    f <- q - g
    majority:       g <- sign(sum_i sign(g_i))

Sources: Karimireddy et al., "Error Feedback Fixes SignSGD" (arXiv 1901.09847); Zheng, Huang & Kwok,
"Communication-Efficient Distributed Blockwise Momentum SGD with Error-Feedback" (arXiv 1905.10936), which is
two-sided; Bernstein et al., "signSGD with Majority Vote is Communication Efficient and Fault Tolerant" (arXiv
1810.05291).

The sign of zero is +1, in what is sent and in what is kept; only a tie of the majority gives 0. Then entries
do not move, as in the code of PowerSGD's authors (epfml/powersgd), where ties with +1 would push all of them
one way.

With the majority, weights step by the learning rate whatever the size of gradients, so its learning rates are
far below SSGD's. The others keep SSGD's scale.

Decisions:
- Blocks never cross tensors. By default a tensor is a block, as in the sources of the first two rules.
- Errors are those of gradients, as in the code of PowerSGD's authors. Karimireddy et al. keep them times the
  learning rate.
- Servers of the second rule are spread over the workers tensor by tensor; Zheng et al. have one.
- Votes are gathered, as in public code; Bernstein et al. have a server that answers with a bit.
- The recipe's momentum and weight decay follow. Zheng et al. and Bernstein et al. have momentum on workers.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

import thinwire
from thinwire.api.all_reduce import all_reduce
from thinwire.codecs import blocks, lossy


class Method(thinwire.Method):
    equals_ssgd = [
        {"block": 1},
        {"block": 1, "nodes": 2},
        {"block": 1, "rule": "two_sided"},
        {"block": 1, "rule": "two_sided", "nodes": 2},
    ]

    provenance = (
        thinwire.Part("signs with a mean magnitude", "certain", "Karimireddy et al."),
        thinwire.Part("what is lost is added later", "certain", "Karimireddy et al."),
        thinwire.Part("server compresses the mean, with an error of its own", "certain", "Zheng et al."),
        thinwire.Part("majority of the signs", "certain", "Bernstein et al."),
        thinwire.Part("a tensor is a block", "certain", "Karimireddy et al.; Zheng et al."),
        thinwire.Part("smaller blocks", "ours", "option block"),
        thinwire.Part("errors without the learning rate", "related work", "the code of PowerSGD"),
        thinwire.Part("a server for each tensor", "ours", "it spreads the load"),
        thinwire.Part("votes are gathered, and a tie is 0", "related work", "the code of PowerSGD"),
        thinwire.Part("sign of zero is +1", "related work", "GRACE; other code remembers 0"),
        thinwire.Part("momentum and weight decay after the mean", "related work", "the code of PowerSGD"),
    )

    @dataclass
    class Config:
        # What is done with the signs. `error_feedback`: each worker gathers all and keeps what its own have
        # lost. `two_sided`: servers average them, and compress the mean. `majority`: the sign of most.
        rule: Literal["error_feedback", "two_sided", "majority"] = "error_feedback"
        block: Annotated[int, Field(ge=1)] | None = None  # entries that share a scale; none: whole tensors

        def __post_init__(self) -> None:
            if self.rule == "majority" and self.block is not None:
                raise ValueError("block belongs to the other rules, because a majority has no scales")

    config: Config

    def setup(self) -> None:
        self.codec = blocks.Signs(self.config.block)
        if self.config.rule != "majority":
            self.memory["errors"] = [torch.zeros_like(weight.flatten()) for weight in self.run.weights]

    def sync_gradients(self) -> None:
        rows = [gradient.flatten() for gradient in self.run.gradients]
        if self.config.rule == "error_feedback":
            means = self.gathered(rows)
        elif self.config.rule == "two_sided":
            means = all_reduce(self.run.world, rows, self.codec, self.memory)
        else:
            means = self.voted(rows)
        for gradient, mean in zip(self.run.gradients, means):
            gradient.copy_(mean.view_as(gradient))

    def gathered(self, rows: list[Tensor]) -> list[Tensor]:
        """Return the mean of what all workers send of these rows and of their errors."""
        sent = lossy.join(lossy.encode(self.codec, rows, self.memory["errors"]))
        payloads = self.run.world.gather(sent).wait()
        return lossy.means(self.codec, payloads, [len(row) for row in rows])

    def voted(self, rows: list[Tensor]) -> list[Tensor]:
        """Return 1 or -1 where most workers have this sign, and 0 where there are as many of both."""
        row = torch.cat(rows)
        ballots = self.run.world.gather({"values": blocks.signs(row)}).wait()
        votes = [blocks.from_signs(ballot["values"], len(row)) for ballot in ballots]
        return [*torch.stack(votes).sum(0).sign().split([len(row) for row in rows])]
