"""PowerSGD: each gradient is sent as the product of two thin matrices, and each worker keeps its own error.

    M_i = g_i + e_i, each tensor as a matrix of n rows and m columns;  Q <- orth(Q)
    P = orth(1/W sum_i M_i Q);  Q_i = M_i^T P;  Q = 1/W sum_i Q_i;  g <- P Q^T;  e_i <- M_i - P Q_i^T

Source: Vogels, Karimireddy & Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
Optimization" (arXiv 1905.13727). P has n rows, Q has m, and both have r columns, r = min(`rank`, n, m). Each
step goes on from the last Q; with `warm_start: false` it draws a new one.

With `alternate` it is ACP-SGD of Zhang et al. (arXiv 2306.08881), and the authors' library does the same: a
step computes Q from P, the next one P from Q. The library begins with Q, the code of Zhang et al. with P.

    even steps: P <- orth(P);  Q_i = M_i^T P;  Q = 1/W sum_i Q_i;  g <- P Q^T;  e_i <- M_i - P Q_i^T
    odd steps:  Q <- orth(Q);  P_i = M_i Q;    P = 1/W sum_i P_i;  g <- P Q^T;  e_i <- M_i - P_i Q^T

Decisions where public codes differ:
- The error is that of the worker's own approximation, as in the publication and in the authors' library. The
  publication's code and torch subtract the mean approximation. The mean of the errors is then the same, but
  each of them drifts away.
- A tensor is compressed if it becomes more than `min_gain` times smaller, as in torch and in the authors'
  library. Tensors with one dimension never are.
- The first `dense_steps` average whole gradients, as in torch (1,000) and in the authors' library (100).
- orth is Householder's QR. Gram-Schmidt divides by zero at a column of zeros.
- The recipe's momentum and weight decay follow the mean, as in torch.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

import thinwire

EVERYTHING = {"rank": 1000, "min_gain": 0.0, "dense_steps": 0}


class Method(thinwire.Method):
    equals_ssgd = [
        EVERYTHING,
        {**EVERYTHING, "nodes": 2},
        {**EVERYTHING, "warm_start": False},
        {"dense_steps": 1000},
    ]
    short = {"dense_steps": 2}

    provenance = (
        thinwire.Part("two thin factors, found by one power iteration", "certain", "Vogels et al."),
        thinwire.Part("goes on from the last factor", "certain", "Vogels et al."),
        thinwire.Part("error of the worker's own approximation", "certain", "Vogels et al.; torch differs"),
        thinwire.Part("Q is orthogonalised, too", "related work", "torch's hook"),
        thinwire.Part("one factor a step, in turn", "related work", "Zhang et al.; the authors' library"),
        thinwire.Part("small gains are not compressed", "from code", "the authors' library"),
        thinwire.Part("dense steps first", "from code", "the authors' library"),
        thinwire.Part("QR of Householder", "from code", "the authors' library; torch has two ways"),
        thinwire.Part("momentum and weight decay after the mean", "related work", "torch's hook"),
    )

    @dataclass
    class Config:
        rank: Annotated[int, Field(ge=1)] = 2  # columns of the factors
        warm_start: bool = True  # whether a step goes on from the last factor, or from a random one
        alternate: bool = False  # ACP-SGD: whether a step sends only one factor, P and Q in turn
        dense_steps: Annotated[int, Field(ge=0)] = 100  # steps at the start that are SSGD
        # A tensor is compressed if its entries are more than this many times those that a step sends of it.
        min_gain: Annotated[float, Field(ge=0)] = 2.0

        def __post_init__(self) -> None:
            if self.alternate and not self.warm_start:
                raise ValueError("alternate needs warm_start: true, for each factor follows from the last")

    config: Config

    def skip(self) -> str | None:
        steps, dense = self.run.total_steps, self.config.dense_steps
        if dense >= steps:
            return f"its {dense} dense steps leave none of the run's {steps}"
        if not any(self.is_compressed(weight) for weight in self.run.weights):
            return f"no tensor of the model becomes so much smaller at rank {self.config.rank}"
        return None

    def is_compressed(self, weight: Tensor) -> bool:
        if weight.dim() <= 1:
            return False
        rows, columns = weight.flatten(1).shape
        factors = (rows + columns) * min(self.config.rank, rows, columns)
        sent = factors / 2 if self.config.alternate else factors
        return weight.numel() > self.config.min_gain * sent

    def setup(self) -> None:
        weights = self.run.weights
        self.compressed = [i for i, weight in enumerate(weights) if self.is_compressed(weight)]
        self.memory["errors"] = [torch.zeros_like(weights[i].flatten(1)) for i in self.compressed]
        if self.config.warm_start:
            self.memory["factors"] = self.draw_factors()

    def draw_factors(self) -> list[Tensor]:
        """Return random factors, the same on all workers: Q, [m, r]; with `alternate` P, [n, r]."""
        factors = []
        for error in self.memory["errors"]:
            rows, columns = error.shape
            shape = (rows if self.config.alternate else columns, min(self.config.rank, rows, columns))
            drawn = torch.randn(shape, generator=self.run.shared_generator, dtype=error.dtype)
            factors.append(thinwire.moved_to(error.device, drawn))
        return factors

    def sync_gradients(self) -> None:
        gradients = self.run.gradients
        if self.run.step < self.config.dense_steps:
            self.run.world.mean(gradients).wait()
            return
        compressed = [gradients[i] for i in self.compressed]
        others = [gradient for i, gradient in enumerate(gradients) if i not in self.compressed]
        matrices = [g.flatten(1) + error for g, error in zip(compressed, self.memory["errors"])]
        approximate = self.by_one_factor if self.config.alternate else self.by_two_factors
        for gradient, mean in zip(compressed, approximate(matrices, others)):
            gradient.copy_(mean.view_as(gradient))

    def by_two_factors(self, matrices: list[Tensor], others: list[Tensor]) -> list[Tensor]:
        """Return the approximate mean of the matrices, and average `others`, which are not compressed."""
        memory, mean = self.memory, self.run.world.mean
        last = memory["factors"] if self.config.warm_start else self.draw_factors()
        ps = [matrix @ orthogonal(q) for matrix, q in zip(matrices, last)]
        mean(ps + others).wait()
        ps = [orthogonal(p) for p in ps]
        qs = [matrix.T @ p for matrix, p in zip(matrices, ps)]
        memory["errors"] = [matrix - p @ q.T for matrix, p, q in zip(matrices, ps, qs)]
        mean(qs).wait()
        if self.config.warm_start:
            memory["factors"] = qs
        return [p @ q.T for p, q in zip(ps, qs)]

    def by_one_factor(self, matrices: list[Tensor], others: list[Tensor]) -> list[Tensor]:
        """As `by_two_factors`, with one mean: even steps send Q, odd steps P."""
        memory = self.memory
        odd = (self.run.step - self.config.dense_steps) % 2 == 1
        last = [orthogonal(factor) for factor in memory["factors"]]
        factors = [(matrix if odd else matrix.T) @ factor for matrix, factor in zip(matrices, last)]
        ps, qs = (factors, last) if odd else (last, factors)
        memory["errors"] = [matrix - p @ q.T for matrix, p, q in zip(matrices, ps, qs)]
        self.run.world.mean(factors + others).wait()
        memory["factors"] = factors
        return [p @ q.T for p, q in zip(ps, qs)]


def orthogonal(factor: Tensor) -> Tensor:
    """Return orthonormal columns whose span contains those of the factor, which has at least as many rows."""
    return torch.linalg.qr(factor).Q
