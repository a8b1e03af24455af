"""Dion: hidden matrices step by a low-rank orthonormal part of their momentum, and the rest stays in it.

    M_i <- M_i + g_i;  P = orth(1/W sum_i M_i Q);  R_i = M_i^T P;  R = 1/W sum_i R_i
    M_i <- M_i - (1 - mu) P R_i^T;  Q <- R, each column divided by its norm
    w <- (1 - lr wd) w - lr sqrt(outputs / inputs) P Q^T

Source: Ahn et al., "Dion: Distributed Orthonormalized Updates" (arXiv 2504.05295), and the authors' code
(microsoft/dion at 0a059a4, `dion/dion_reference.py`), which decides where the two differ.

M is a weight as a matrix, turned so that it has at least as many rows as columns. Q has r columns: the share
`rank_fraction` of the columns of M, rounded up. At full rank P Q^T comes close to the orthogonal factor of M,
as Muon's step does, while M changes slowly. It is no gradient, so with its defaults the method is SSGD under
no optimizer. P and R depend on the mean of the M_i only. So W workers step as one would that has all their
data.

Other parameters are averaged dense, and take the recipe's optimizer; so do the head and embeddings. Its
momentum is left out for hidden matrices, and its weight decay is the wd above. With `orthonormal: false`, an
ablation, the optimizer takes P R^T as the gradient of a hidden matrix. Then Q is orth(R), because R may have
no column for a direction in which the gradient was zero.

Deviations from the code:
- M_i loses the worker's own R_i. The code subtracts R, so that the M_i of the workers drift apart; weights
  are the same.
- A matrix of zeros keeps its Q if R is zero. The code asks whether the worker's own M_i is zero, and then the
  weights of the workers may differ.
- orth is Householder's QR; the code's default is a randomised Cholesky QR.
- Weights of convolutions are matrices with a row for each output channel. The code refuses them.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

import thinwire

# Is added to the norms by which the columns of R are divided.
EPSILON = 1e-8
FULL_RANK = {"rank_fraction": 1.0, "momentum": 0.0, "orthonormal": False}


class Method(thinwire.Method):
    equals_ssgd = [
        FULL_RANK,
        {**FULL_RANK, "min_gain": 0.0},
        {**FULL_RANK, "min_gain": 0.0, "nodes": 2},
    ]
    # The rates of LARS are far from those of the other optimizers.
    needs = thinwire.Needs(optimizers=("sgd", "adam", "adamw", "muon"))
    ablations = [{"orthonormal": False}]
    tunes = {"momentum": (0.8, 0.99)}

    provenance = (
        thinwire.Part("power iteration on the momentum", "certain", "Ahn et al."),
        thinwire.Part("what is not used stays in the momentum", "certain", "Ahn et al."),
        thinwire.Part("means of the factors instead of gradients", "certain", "Ahn et al."),
        thinwire.Part("rate times sqrt(outputs / inputs)", "certain", "Ahn et al."),
        thinwire.Part("columns of R divided by their norms", "certain", "Ahn et al."),
        thinwire.Part("tall matrices", "from code", "is_transposed in dion_reference.py"),
        thinwire.Part("gradients where factors are no smaller", "from code", "compressed_all_reduce there"),
        thinwire.Part("head and embeddings by another optimizer", "from code", "its README"),
        thinwire.Part("each worker subtracts its own R", "ours", "the momenta do not drift apart"),
        thinwire.Part("no orthonormal step, an ablation", "ours", "option orthonormal"),
    )

    @dataclass
    class Config:
        rank_fraction: Annotated[float, Field(gt=0, le=1)] = 0.25  # rank, as a share of the smaller side
        momentum: Annotated[float, Field(ge=0, lt=1)] = 0.95  # mu: what stays of the part that is used
        # A hidden matrix is sent as factors if they have more than this many times fewer entries.
        min_gain: Annotated[float, Field(ge=0)] = 1.0
        orthonormal: bool = True  # whether matrices step by P Q^T, or the optimizer takes P R^T

    config: Config

    def skip(self) -> str | None:
        hidden = [param.hidden for param in self.run.params]
        if not any(hidden):
            return "the model has no hidden matrix, and Dion steps nothing else"
        if all(hidden) and self.config.orthonormal:
            return "the model has hidden matrices alone, so the recipe's optimizer has nothing to step"
        return None

    def optimizer(self, params: list[nn.Parameter]) -> torch.optim.Optimizer:
        hidden = {param.tensor for param in self.run.params if param.hidden and self.config.orthonormal}
        return self.run.make_optimizer([param for param in params if param not in hidden])

    def setup(self) -> None:
        self.matrices = [param for param in self.run.params if param.hidden]
        self.factored = []
        self.memory |= {"momentum": {}, "q": {}}
        for param in self.matrices:
            momentum = torch.zeros_like(tall(param.tensor.data), memory_format=torch.contiguous_format)
            rows, columns = momentum.shape
            rank = math.ceil(round(self.config.rank_fraction * columns, 6))
            shape = (columns, rank)
            drawn = torch.randn(shape, generator=self.run.shared_generator, dtype=momentum.dtype)
            self.memory["momentum"][param.name] = momentum
            self.memory["q"][param.name] = thinwire.moved_to(momentum.device, drawn)
            if rows * columns > self.config.min_gain * rank * (rows + columns):
                self.factored.append(param)

    def sync_gradients(self) -> None:
        mean, momentum = self.run.world.mean, self.memory["momentum"]
        dense = mean([param.grad for param in self.run.params if param not in self.factored])
        products = {param: self.accumulate(param) for param in self.factored}
        mean(list(products.values())).wait()
        dense.wait()
        products |= {param: self.accumulate(param) for param in self.matrices if param not in products}
        ps = {param: torch.linalg.qr(product).Q for param, product in products.items()}
        rs = {param: momentum[param.name].T @ p for param, p in ps.items()}
        for param, p in ps.items():
            momentum[param.name].sub_(p @ rs[param].T, alpha=1 - self.config.momentum)
        mean([rs[param] for param in self.factored]).wait()
        for param, p in ps.items():
            self.set_direction(param, p, rs[param])

    def accumulate(self, param: thinwire.Param) -> Tensor:
        """Add the gradient to the momentum M of a hidden matrix, and return M Q."""
        momentum: Tensor = self.memory["momentum"][param.name].add_(tall(param.grad))
        return momentum @ self.memory["q"][param.name]

    def set_direction(self, param: thinwire.Param, p: Tensor, r: Tensor) -> None:
        """Replace the gradient by the direction of the step, and keep the next Q."""
        rows, columns = param.grad.flatten(1).shape
        if self.config.orthonormal:
            q = r / (r.norm(dim=0) + EPSILON)
            direction = math.sqrt(rows / columns) * p @ q.T
        else:
            q = torch.linalg.qr(r).Q
            direction = p @ r.T
        self.memory["q"][param.name] = torch.where(r.any(), q, self.memory["q"][param.name])
        param.grad.copy_((direction.T if rows < columns else direction).reshape(param.grad.shape))

    def sync_weights(self) -> None:
        if self.config.orthonormal:
            rate, decay = self.run.lr, self.run.recipe.optimizer.weight_decay
            for param in self.matrices:
                param.tensor.data.mul_(1 - rate * decay).sub_(param.grad, alpha=rate)


def tall(tensor: Tensor) -> Tensor:
    """Return the tensor as a matrix with a row for each output, turned if it has more columns than rows."""
    matrix = tensor.flatten(1)
    return matrix.T if matrix.shape[0] < matrix.shape[1] else matrix
