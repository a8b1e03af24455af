"""1-bit Adam: after a warm-up, the variance is frozen, and the momentum is sent with a bit an entry.

    warm-up:  g <- 1/W sum_i g_i, then the recipe's Adam or AdamW, which leaves m and v
    then:     m_i = b1 m + (1 - b1) g_i;  m <- the two-sided all-reduce of the m_i, in signs with scales
              w <- w - lr m / (sqrt(v) + eps), with v of the last step of the warm-up

Source: Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed"
(arXiv 2102.02888), and the authors' code (`runtime/fp16/onebit/adam.py` of DeepSpeed). The all-reduce is
`thinwire.api.all_reduce`, with errors of workers and of servers. A scale is the root mean square of its
tensor, so that the norm stays.

An entry whose gradient was always zero in the warm-up has v = 0. A bit cannot be zero, so it would move by
lr / eps times a scale. So its momentum is zero after the warm-up. In the code users name such entries. One
worker alone compresses nothing, as in the code.

After too short a warm-up some v are far too small, and training diverges: on digits with a rate of 0.003
after 10 steps of warm-up, but not after 40.

Deviations from the code:
- m and v are divided by 1 - b1^t and 1 - b2^T after T steps of warm-up, as Adam does in the warm-up. The code
  takes an option for it and never applies it.
- Each tensor has a server, spread over the workers. In the code each worker serves a part of each tensor,
  with a scale of its own; it divides by the size of the padded tensor.
- With Adam, weight decay is a part of the gradient, and with AdamW it is decoupled. The code has the latter
  on all parameters.
- The warm-up has 100 steps; the code's default is 100,000, and the publication has a fifth of a run.

0/1 Adam (Lu et al., arXiv 2202.06009) is left out. Its steps without any exchange and its growing intervals
between updates of v are a method of their own.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

import thinwire
from thinwire.api.all_reduce import all_reduce
from thinwire.codecs import blocks


class Method(thinwire.Method):
    equals_ssgd = [
        {"warmup_steps": 1000},
        {"warmup_steps": 1000, "nodes": 2},
    ]
    needs = thinwire.Needs(optimizers=("adamw", "adam"))
    short = {"warmup_steps": 10}

    provenance = (
        thinwire.Part("dense Adam first, then its variance is frozen", "certain", "Tang et al."),
        thinwire.Part("momentum in signs, with errors on both sides", "certain", "Tang et al."),
        thinwire.Part("scales keep the norm of a tensor", "from code", "compressed_allreduce"),
        thinwire.Part("smaller blocks", "ours", "option block"),
        thinwire.Part("a server for each tensor", "ours", "no padding; each tensor has one scale each way"),
        thinwire.Part("entries without variance do not move", "from code", "exp_avg_mask, which users pass"),
        thinwire.Part(
            "moments are corrected for their start", "ours", "as in the warm-up; the code forgets it"
        ),
        thinwire.Part("decoupled weight decay with AdamW", "from code", "its step"),
        thinwire.Part("weight decay in the gradient with Adam", "ours", "that is the recipe's Adam"),
    )

    @dataclass
    class Config:
        warmup_steps: Annotated[int, Field(ge=1)] = 100  # steps at the start that are dense
        block: Annotated[int, Field(ge=1)] | None = None  # entries that share a scale; none: whole tensors

    config: Config

    def skip(self) -> str | None:
        steps, warmup = self.run.total_steps, self.config.warmup_steps
        if warmup >= steps:
            return f"its warm-up of {warmup} steps leaves none of the run's {steps}"
        return None

    def step(self) -> None:
        if self.run.step < self.config.warmup_steps:
            self.run.world.mean(self.run.gradients).wait()
            self.run.optimizer.step()
        else:
            self.exchange_momentum()
            self.step_with_frozen_variance()

    def exchange_momentum(self) -> None:
        """Add each worker's gradient to its momentum, and replace that by the workers' compressed mean."""
        run, recipe = self.run, self.run.recipe.optimizer
        momentum, variance = self.moments("exp_avg"), self.moments("exp_avg_sq")
        if recipe.name == "adam":
            torch._foreach_add_(run.gradients, run.weights, alpha=recipe.weight_decay)
        torch._foreach_lerp_(momentum, run.gradients, 1 - recipe.beta1)
        means = [tensor.flatten() for tensor in momentum]
        if run.world.size > 1:
            means = all_reduce(run.world, means, blocks.Signs(self.config.block, norm="l2"), self.memory)
        for m, mean, v in zip(momentum, means, variance):
            m.copy_(mean.view_as(m) * (v > 0))

    def step_with_frozen_variance(self) -> None:
        run, recipe = self.run, self.run.recipe.optimizer
        rate = run.lr / (1 - recipe.beta1 ** (run.step + 1))
        correction = 1 - recipe.beta2**self.config.warmup_steps
        for group in run.optimizer.param_groups:
            for param in group["params"]:
                state = run.optimizer.state[param]
                if recipe.name == "adamw":
                    param.mul_(1 - run.lr * group["weight_decay"])
                deviation = (state["exp_avg_sq"] / correction).sqrt() + group["eps"]
                param.addcdiv_(state["exp_avg"], deviation, value=-rate)

    def moments(self, name: str) -> list[torch.Tensor]:
        """Return a moment of all parameters, which the optimizer keeps under this name."""
        return [self.run.optimizer.state[param.tensor][name] for param in self.run.params]
