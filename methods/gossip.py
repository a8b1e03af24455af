"""Gossip: each worker steps alone, then averages its weights with those of few other workers.

    w_i <- optimizer(w_i, g_i);  after every `period` steps: w_i <- the mean of w_i and the w_j it receives

With W workers, worker i receives in exchange t, t = 0, 1, ..., from

    exponential:  j = i - 2^(t mod (floor(log2(W - 1)) + 1))
    ring:         j = i - 1 and j = i + 1
    random_pairs: the other one of its pair; with an odd W, one worker has none
    complete:     all others, which is local SGD

Sources: Assran et al., "Stochastic Gradient Push for Distributed Deep Learning" (arXiv 1811.10792), and its
code (facebookresearch/stochastic_gradient_push at e682064, `NPeerDynamicDirectedExponentialGraph` with one
peer): exponential. Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?" (arXiv
1705.09056): ring. Kolehmainen et al., "NoLoCo" (arXiv 2506.10911): random pairs, every 50 steps.

A worker sends its weights to as many others as it receives from. So weights always sum to the same, and the
push-sum weights of Assran et al. would all be 1. They are left out.

Decisions:
- What is delivered is the mean of all workers' weights. It is computed at the end, and its bytes are counted.
- The average follows the step, as in the code of Assran et al. Lian et al. average the weights before it.
- Momentum and batch-norm statistics stay on their worker.
- NoLoCo's outer optimizer, a momentum of what the weights have moved, is left out.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field

import thinwire


class Method(thinwire.Method):
    equals_ssgd = [
        {"graph": "complete", "linear": True},
        {"graph": "complete", "linear": True, "nodes": 2},
    ]

    provenance = (
        thinwire.Part("local steps, then means with few workers", "certain", "Lian et al.; Assran et al."),
        thinwire.Part("exponential graph, one peer at a time", "certain", "Assran et al."),
        thinwire.Part("ring, thirds of three", "certain", "Lian et al."),
        thinwire.Part("random pairs, at intervals", "related work", "NoLoCo"),
        thinwire.Part("average after the step", "from code", "of Assran et al."),
        thinwire.Part("no push-sum weights", "ours", "on these graphs they are all 1"),
        thinwire.Part("one more mean at the end", "ours", "what is delivered must be on a worker"),
        thinwire.Part("complete graph, a control", "ours", "graph: complete"),
    )

    @dataclass
    class Config:
        graph: Literal["exponential", "ring", "random_pairs", "complete"] = "exponential"  # who averages
        period: Annotated[int, Field(ge=1)] = 1  # steps between two averages

    config: Config

    def skip(self) -> str | None:
        period, steps = self.config.period, self.run.total_steps
        return f"its period of {period} steps is longer than the run of {steps}" if period > steps else None

    def sync_weights(self) -> None:
        exchange, since = divmod(self.run.step + 1, self.config.period)
        if since == 0:
            if self.config.graph == "complete":
                self.average()
            else:
                self.average_with_peers(exchange - 1)

    def average(self) -> None:
        self.run.world.mean(self.run.weights, kind="weights").wait()

    def average_with_peers(self, exchange: int) -> None:
        world, weights = self.run.world, self.run.weights
        targets, sources = self.peers(exchange)
        row = torch.cat([weight.flatten() for weight in weights])
        sent = [world.send({"weights": row}, target) for target in targets]
        answers = {source: world.receive(source) for source in sources}
        rows = {world.rank: row} | {source: answer.wait()["weights"] for source, answer in answers.items()}
        for message in sent:
            message.wait()
        # In the order of the workers, so that those with the same rows get the same bits.
        mean = torch.stack([rows[j] for j in sorted(rows)]).mean(0)
        for weight, part in zip(weights, mean.split([weight.numel() for weight in weights])):
            weight.copy_(part.view_as(weight))

    def peers(self, exchange: int) -> tuple[list[int], list[int]]:
        """Return the ranks to which this worker sends in an exchange, and those from which it receives."""
        rank, size = self.run.world.rank, self.run.world.size
        if size == 1:
            return [], []
        if self.config.graph == "exponential":
            offset = 2 ** (exchange % (size - 1).bit_length())
            return [(rank + offset) % size], [(rank - offset) % size]
        if self.config.graph == "ring":
            neighbours = sorted({(rank - 1) % size, (rank + 1) % size})
            return neighbours, neighbours
        drawn = torch.randperm(size, generator=self.run.shared_generator).tolist()
        place = drawn.index(rank) ^ 1  # pairs are the places 0 and 1, 2 and 3, ...
        partner = drawn[place : place + 1]
        return partner, partner

    def finish(self) -> None:
        if self.config.graph != "complete" or self.run.total_steps % self.config.period:
            self.average()
