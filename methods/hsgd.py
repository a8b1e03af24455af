"""HSGD, reconstructed: gradients are averaged inside each node first, then between the nodes.

    G_n = sum of b_i g_i over the workers i of node n;  g <- sum_n G_n / sum_i b_i;  then the optimizer

Source: Wang, Lu, Chen & Li, "An Efficient Method for Training Deep Learning Networks Distributed", IEICE
Trans. Inf. & Syst. E103-D(12), 2020. Only its abstract could be read, so this is a reconstruction:
hierarchical synchronous SGD, whose first level uses the node's shared memory. Two parts of it are elsewhere:
its LARS is a recipe (`optimizer: {name: lars}`), and its contiguous parallel input belongs to the data.

Decisions: b_i is the number of images, so unequal batches are exact. The workers of a node share the work:
worker j sums the j-th part of the gradient (a reduce-scatter), averages it between the nodes, and broadcasts
it to the node's other workers (an all-gather). So HSGD sends as much as a flat ring on the wire, and less
between nodes. Traffic through a node's shared memory uses no network, but the ledgers count it. Every worker
applies the optimizer to its own copy of the weights; the paper has one copy for each node.

With `gradients` in 16 bits, exactly the messages between nodes have 16 bits. Each worker casts its part of
the node's mean, and the mean over the nodes is computed in 16 bits. Messages inside a node keep full
precision. So with P nodes, each node sends 2 (P - 1) / P times two bytes for each of the gradient's entries
to other nodes. In 32 bits these are four bytes an entry. On one node nothing is cast.

`level_1: weights` is the other reading of the abstract, for comparison: each worker steps alone, and the
weights are averaged. The two readings agree for SGD with batches in fixed proportion, but for no optimizer
whose steps are not linear in the gradient.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

import thinwire
from thinwire.codecs import precision


class Method(thinwire.Method):
    equals_ssgd = [
        {},
        {"nodes": 2},
        {"level_1": "weights", "linear": True},
        {"level_1": "weights", "linear": True, "nodes": 2},
        {"gradients": "bfloat16"},
        thinwire.InTheLimit(
            {"gradients": "bfloat16", "nodes": 2}, tolerance=0.002, reason="means between nodes have 16 bits"
        ),
        thinwire.InTheLimit(
            {"gradients": "float16", "nodes": 2}, tolerance=0.002, reason="means between nodes have 16 bits"
        ),
    ]
    tuned_as_ssgd = True

    provenance = (
        thinwire.Part("two levels, the first in shared memory", "certain", "the abstract"),
        thinwire.Part(
            "gradients are averaged on both levels", "ours", "the abstract fits weights, too; option level_1"
        ),
        thinwire.Part("means weighted with the numbers of images", "ours", "unequal batches are exact"),
        thinwire.Part("workers of a node share the sums", "ours", "the abstract does not say who sums"),
        thinwire.Part("each worker has weights of its own", "ours", "the workers are processes"),
        thinwire.Part("LARS, as a recipe", "certain", "the abstract"),
        thinwire.Part("the rule of LARS", "related work", "You et al. 2017"),
        thinwire.Part("contiguous reading, in the data", "certain", "the abstract"),
        thinwire.Part("16 bits between nodes", "ours", "the abstract names no precision; option gradients"),
    )

    @dataclass
    class Config:
        level_1: Literal["gradients", "weights"] = "gradients"  # what the workers of a node average
        gradients: precision.Precision = "full"  # precision in which gradients are sent between nodes

        def __post_init__(self) -> None:
            if self.level_1 == "weights" and self.gradients != "full":
                raise ValueError(
                    f"gradients: {self.gradients} needs level_1: gradients, because with level_1: weights no "
                    "gradient is sent"
                )

    config: Config

    def sync_gradients(self) -> None:
        if self.config.level_1 == "gradients":
            self.weighted_mean(self.run.gradients, kind="values")

    def sync_weights(self) -> None:
        if self.config.level_1 == "weights":
            self.weighted_mean(self.run.weights, kind="weights")

    def weighted_mean(self, tensors: list[Tensor], kind: str) -> None:
        """Replace the tensors by their mean over all workers, weighted with each worker's images."""
        run = self.run
        share = run.samples * run.world.size / run.world_samples
        row = torch.cat([tensor.flatten() for tensor in tensors]) * share
        if run.across.size == 1:
            run.node.mean([row], kind).wait()
        else:
            self.in_two_levels(row, kind)
        sizes = [tensor.numel() for tensor in tensors]
        for tensor, part in zip(tensors, row.split(sizes)):
            tensor.copy_(part.view_as(tensor))

    def in_two_levels(self, row: Tensor, kind: str) -> None:
        node, parts = self.run.node, row.tensor_split(self.run.node.size)
        own = parts[node.rank].copy_(node.reduce_scatter(list(parts), kind).wait())
        if self.config.gradients == "full":
            self.run.across.mean([own], kind).wait()
        else:
            cast = precision.cast([own], self.config.gradients)
            own.copy_(self.run.across.mean(cast, kind).wait()[0])
        for broadcast in [node.broadcast([part], j, kind) for j, part in enumerate(parts)]:
            broadcast.wait()
