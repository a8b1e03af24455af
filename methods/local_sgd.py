"""Local SGD: each worker steps alone, and all average their weights every `period` steps.

    w_i <- optimizer(w_i, g_i) at every step; w_i <- 1/W sum_j w_j after steps H, 2H, 3H, ..., with H =
    `period`

Source: Stich, "Local SGD Converges Fast and Communicates Little" (arXiv 1805.09767).

With a `switch_epoch` it is post-local SGD of Lin et al. (arXiv 1808.07217): SSGD first, local steps
afterwards.

With `adaptive` it is AdaComm of Wang & Joshi (arXiv 1810.08313): the period follows the training loss F and
the learning rate lr. It becomes ceil(H sqrt(lr_0 / lr F / F_0)), or half of itself if that is not
shorter. F_0 is the loss before the first local step: its mean over the workers' batches, which is sent in
four bytes.

Decisions where public codes differ: the first average comes after H whole steps (PyTorch and EPFL average
after the first step). Each worker keeps its own momentum, and batch-norm statistics stay local. If steps are
left over at the end, the weights are averaged once more, which is counted.

Decisions for AdaComm: it adapts after every epoch (the paper: after fixed intervals of time). If there is a
switch, it starts there. lr_0 is the highest rate so far, so that a warm-up does not shorten the period. The
period is not halved in an epoch in which the rate has fallen. It never exceeds `max_period`, because a
falling rate lengthens it.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field

import thinwire
from thinwire.optim import adacomm


class Method(thinwire.Method):
    equals_ssgd = [
        {"period": 1, "linear": True},
        {"period": 1, "linear": True, "nodes": 2},
        {"switch_epoch": 1000},
        {"period": 1, "linear": True, "adaptive": True, "max_period": 1},
    ]
    short = {"period": 4}

    provenance = (
        thinwire.Part("local steps, then a mean of the weights", "certain", "Stich"),
        thinwire.Part("first mean after a whole period", "ours", "public codes differ"),
        thinwire.Part("momentum stays on its worker", "ours", "public codes differ"),
        thinwire.Part("batch-norm statistics stay local", "ours", "public codes differ"),
        thinwire.Part("one more mean at the end", "ours", "what is delivered must be on a worker"),
        thinwire.Part("post-local: SSGD before the local steps", "certain", "Lin et al."),
        thinwire.Part(
            "AdaComm: root of loss and learning rate",
            "related work",
            "Paddle's code; there the first period is under the root, too",
        ),
        thinwire.Part(
            "AdaComm: half a period that does not fall", "ours", "Wang & Joshi could not be read in full"
        ),
        thinwire.Part("AdaComm: adapts after epochs", "ours", "the publication: after intervals of time"),
        thinwire.Part("AdaComm: a longest period", "related work", "Paddle has one; its length here is ours"),
    )

    @dataclass
    class Config:
        period: Annotated[int, Field(ge=1)] = 16  # steps between two averages of the weights
        switch_epoch: Annotated[int, Field(ge=0)] = 0  # SSGD before this epoch, local steps from it on
        momentum: Literal["keep", "reset"] = "keep"  # each worker's momentum when weights are averaged
        adaptive: bool = False  # AdaComm: whether the period follows the loss
        max_period: Annotated[int, Field(ge=1)] = 32  # AdaComm: the longest period

    config: Config

    def skip(self) -> str | None:
        epochs = self.run.total_epochs
        if self.config.switch_epoch >= epochs:
            return f"it would switch to local steps in epoch {self.config.switch_epoch} of a run of {epochs}"
        return None

    def setup(self) -> None:
        # Steps between two averages, and steps since the last one.
        config = self.config
        period = min(config.period, config.max_period) if config.adaptive else config.period
        self.memory |= {"period": period, "since": 0}

    def sync_gradients(self) -> None:
        if self.run.epoch < self.config.switch_epoch:
            self.run.world.mean(self.run.gradients).wait()
        elif self.config.adaptive and "first_loss" not in self.memory:
            self.record_start()

    def record_start(self) -> None:
        """Before the first local step, keep the loss and the rate with which later ones are compared."""
        loss = self.run.loss.to(torch.float32, copy=True).view(1)
        self.run.world.mean([loss], kind="control").wait()
        self.memory["first_loss"] = loss  # a tensor, so that this step does not wait for a GPU
        self.memory["highest_lr"] = self.memory["last_lr"] = self.run.lr

    def sync_weights(self) -> None:
        if self.run.epoch >= self.config.switch_epoch:
            self.memory["since"] += 1
            if self.memory["since"] >= self.memory["period"]:
                self.average()

    def average(self) -> None:
        self.memory["since"] = 0
        self.run.world.mean(self.run.weights, kind="weights").wait()
        if self.config.momentum == "reset":
            for state in self.run.optimizer.state.values():
                for name in ("momentum_buffer", "exp_avg"):  # of SGD and LARS, and of Adam and AdamW
                    if state.get(name) is not None:
                        state[name].zero_()

    def wants_epoch_loss(self) -> bool:
        return self.config.adaptive

    def epoch_end(self, loss: float) -> None:
        memory, lr = self.memory, self.run.lr
        self.run.log("period", memory["period"])
        if self.run.epoch >= self.config.switch_epoch:
            memory["highest_lr"] = max(lr, memory["highest_lr"])
            memory["period"] = self.adapted(loss)
            memory["last_lr"] = lr

    def adapted(self, loss: float) -> int:
        memory, period = self.memory, self.memory["period"]
        first = self.config.period
        first_loss = memory["first_loss"].item()
        shorter = adacomm.interval(first, loss, first_loss, self.run.lr, memory["highest_lr"])
        if shorter is None:
            return period
        if shorter >= period and self.run.lr >= memory["last_lr"]:
            shorter = (period + 1) // 2
        return min(shorter, self.config.max_period)

    def finish(self) -> None:
        if self.memory["since"] > 0:
            self.average()
