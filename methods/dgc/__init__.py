"""Deep Gradient Compression: each worker sums its momentum, and sends the largest entries of the sum.

    u_i <- m u_i + g_i;  v_i <- v_i + u_i;  s_i = the k largest of |v_i|;  v_i, u_i <- 0 where s_i was taken
    w <- w - lr (1/W sum_i s_i + weight decay with momentum)

Source: Lin, Han, Mao, Wang & Dally, "Deep Gradient Compression" (arXiv 1712.01887). Where the paper is
silent, the authors' code decides. Only tensors with several dimensions are compressed; the others are
averaged. With Nesterov momentum, u <- m (u + g), v <- v + u + g. Weight decay is not compressed, and has a
momentum of its own. With density 1 the step is dense: g is the mean gradient, and u the update. After such an
epoch, every worker continues from this u.

With Adam or AdamW there is no momentum to correct. They take the mean of the sums that were sent as their
gradient (ours; neither the paper nor the code has it).

Deviations from the authors' code:
- The warm-up densities are listed, one for each epoch. The code has a power law unless a list is given.
- Of the entries above the sampled threshold, the k largest are sent. Of at most 1.3 k entries, the code sends
  the first k by position.
- The stride of the sample shares no divisor with the tensor's size. In the code it is odd.
- The gradient's norm is clipped over all tensors, at `clip_norm` / sqrt(W) for a worker's share g_i / W of
  the mean.
"""

import torch
from torch import Tensor

import thinwire
from thinwire.codecs import sparse
from thinwire.traffic.payload import Payload

from .options import Options
from .provenance import PROVENANCE
from .residual import Residual


class Method(thinwire.Method):
    Config = Options
    config: Options
    equals_ssgd = [
        {"density": 1.0, "warmup_densities": ()},
        {"density": 1.0, "warmup_densities": (), "nodes": 2},
        {"density": 1.0, "warmup_densities": (), "clip_norm": 1e6},
    ]
    needs = thinwire.Needs(optimizers=("sgd", "adam", "adamw"))
    short = {"density": 0.1, "warmup_densities": (1.0, 0.5)}

    provenance = PROVENANCE

    def skip(self) -> str | None:
        warmup, epochs = len(self.config.warmup_densities), self.run.total_epochs
        if warmup >= epochs:
            return f"its warm-up of {warmup} epochs leaves none of the run's {epochs}"
        return None

    def setup(self) -> None:
        self.compressed = [param for param in self.run.params if param.tensor.dim() > 1]
        self.dense = [param for param in self.run.params if param.tensor.dim() <= 1]
        weights = [param.tensor for param in self.compressed]
        self.residual = Residual(weights, self.run.recipe.optimizer, self.config, self.memory)
        self.update: list[Tensor] | None = None

    def density(self) -> float:
        warmup = self.config.warmup_densities
        return warmup[self.run.epoch] if self.run.epoch < len(warmup) else self.config.density

    def sync_gradients(self) -> None:
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

    def exchange(self) -> list[Payload]:
        """Take the largest entries of the residual, and gather those of all workers."""
        taken = self.residual.take_largest(self.density(), self.run.generator)
        ragged = sparse.varies(self.config.selection, self.config.indices)
        return self.run.world.gather(taken, ragged=ragged).wait()

    def sync_weights(self) -> None:
        if self.update is not None:
            torch._foreach_add_([p.tensor.data for p in self.compressed], self.update, alpha=-self.run.lr)
            self.update = None

    def clip(self) -> None:
        """Shorten this worker's gradient, so that the mean of W independent ones is within `clip_norm`."""
        gradients, workers = self.run.gradients, self.run.world.size
        share = torch.stack(torch._foreach_norm(gradients)).norm() / workers
        limit = self.config.clip_norm * workers**-0.5
        torch._foreach_mul_(gradients, (limit / share).clamp(max=1.0))
