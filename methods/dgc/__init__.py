"""Deep Gradient Compression: each worker sums its momentum, and sends the largest entries of the sum.

    u_i <- m u_i + g_i;  v_i <- v_i + u_i;  s_i = the k largest of |v_i|;  v_i, u_i <- 0 where s_i was taken
    w <- w - lr (1/W sum_i s_i + weight decay with momentum)

Source: Lin, Han, Mao, Wang & Dally, "Deep Gradient Compression" (arXiv 1712.01887). Where the paper is
silent, the authors' code decides. Only tensors with several dimensions are compressed; the others are
averaged. With Nesterov momentum, u <- m (u + g), v <- v + u + g. Weight decay is not compressed, and has a
momentum of its own. With density 1 the step is dense: g is the mean gradient, and u the update. After such an
epoch, every worker continues from this u.

With Adam there is no momentum to correct. Adam takes the mean of the sums that were sent as its gradient
(ours; neither the paper nor the code has it).

Deviations from the authors' code:
- The warm-up densities are listed, one for each epoch. The code has a power law unless a list is given.
- Of the entries above the sampled threshold, the k largest are sent. Of at most 1.3 k entries, the code sends
  the first k by position.
- The stride of the sample shares no divisor with the tensor's size. In the code it is odd.
- The gradient's norm is clipped over all tensors, at `clip_norm` / sqrt(W) for a worker's share g_i / W of
  the mean.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field

import thinwire
from thinwire.codecs import sparse
from thinwire.codecs.indices import Encoding

from .provenance import PROVENANCE
from .residual import Residual

Density = Annotated[float, Field(gt=0, le=1)]


class Method(thinwire.Method):
    equals_ssgd = [
        {"density": 1.0, "warmup_densities": ()},
        {"density": 1.0, "warmup_densities": (), "nodes": 2},
        {"density": 1.0, "warmup_densities": (), "clip_norm": 1e6},
    ]
    needs = thinwire.Needs(optimizers=("sgd", "adam"))
    short = {"density": 0.1, "warmup_densities": (1.0, 0.5)}

    provenance = PROVENANCE

    @dataclass
    class Config:
        density: Density = 0.001  # share of each compressed tensor's entries that is sent after the warm-up
        warmup_densities: tuple[Density, ...] = (0.25, 0.0625, 0.015625, 0.004)  # one for each first epoch
        masking: bool = True  # whether the momentum of an entry starts again from zero when it is sent
        # Greatest norm of the mean of the workers' gradients, if the gradients are independent.
        clip_norm: Annotated[float, Field(gt=0)] | None = None
        selection: Literal["sampled", "exact"] = "sampled"  # how the largest entries are found
        indices: Encoding = "run_length"  # how positions are encoded: int32, bitmap or run_length

        def __post_init__(self):
            densities = [*self.warmup_densities, self.density]
            if densities != sorted(densities, reverse=True):
                raise ValueError(f"warmup_densities and then density must not rise, as {densities} do")

    def skip(self):
        warmup, epochs = len(self.config.warmup_densities), self.run.total_epochs
        if warmup >= epochs:
            return f"its warm-up of {warmup} epochs leaves none of the run's {epochs}"
        return None

    def setup(self):
        self.compressed = [param for param in self.run.params if param.tensor.dim() > 1]
        self.dense = [param for param in self.run.params if param.tensor.dim() <= 1]
        weights = [param.tensor for param in self.compressed]
        self.residual = Residual(weights, self.run.recipe.optimizer, self.config, self.memory)
        self.update = None

    def density(self):
        warmup = self.config.warmup_densities
        return warmup[self.run.epoch] if self.run.epoch < len(warmup) else self.config.density

    def sync_gradients(self):
        if self.config.clip_norm is not None:
            self.clip()
        if not self.compressed:
            self.run.world.mean(self.run.gradients).wait()
            return
        gradients = [param.grad for param in self.compressed]
        if self.density() == 1:
            self.run.world.mean(self.run.gradients).wait()
            update = self.residual.with_momentum(gradients)
        else:
            dense = self.run.world.mean([param.grad for param in self.dense])
            self.residual.accumulate(gradients)
            update = sparse.mean(self.exchange(), gradients, self.config.indices)
            dense.wait()
        if self.residual.corrects:
            # With zero gradients, the optimizer applies weight decay and its momentum only.
            torch._foreach_zero_(gradients)
            self.update = update
        else:
            torch._foreach_copy_(gradients, update)

    def exchange(self):
        """Take the largest entries of the residual, and gather those of all workers."""
        taken = self.residual.take_largest(self.density(), self.run.generator)
        ragged = sparse.varies(self.config.selection, self.config.indices)
        return self.run.world.gather(taken, ragged=ragged).wait()

    def sync_weights(self):
        if self.update is not None:
            torch._foreach_add_([p.tensor.data for p in self.compressed], self.update, alpha=-self.run.lr)
            self.update = None

    def clip(self):
        """Shorten this worker's gradient, so that the mean of W independent ones is within `clip_norm`."""
        gradients, workers = self.run.gradients, self.run.world.size
        share = torch.stack(torch._foreach_norm(gradients)).norm() / workers
        limit = self.config.clip_norm * workers**-0.5
        torch._foreach_mul_(gradients, (limit / share).clamp(max=1.0))
