"""Multi-step delay, reconstructed: rounds of local steps, whose summed gradients update a global model.

    in a round of h steps: d_i = g_i + weight_decay x_i, A_i += d_i, x_i -= lr ((1 - beta) d_i + beta ghat)
    at its end: A = 1/W sum_i A_i; v <- m v + A; z <- z - lr v; ghat = A / h; x_i <- z + (1 - lambda)(x_i - z)

Source: Ju et al., "Multi-step delay parameter update", J. Harbin Institute of Technology (2025), of which
only the abstract could be read: an adaptive number of local steps, gradients aggregated into a global model,
a correction of the local one, sub-tensors by priority. The formulas are a reconstruction from published
parts: the correction inside rounds after SSD-SGD (Xu et al., arXiv 2012.05396), with its weights 2 : 0.5
scaled to sum 1; the interval after AdaComm (Wang & Joshi, arXiv 1810.08313); `delay: 1` after CoCoD-SGD,
where a round's sum lands at the end of the next round, x_i <- x_i + lambda (z - e_i) with e_i the x_i that
was sent; slices and their order after P3 and ByteScheduler.

Decisions: L2 is in the local gradients, so rounds of one step are SSGD; the first `warmup_steps` steps are
such rounds; the last round takes the steps that are left; the global step has the learning rate of the
round's last step; z is shipped as far as it has landed. The interval starts from `interval`, not from
timings, which a run in one process does not have. The input side's slices are sent first, with at most
`credit` entries on their way, and with `delay: 0` each layer waits for its own slices only, just before it is
used again.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field

import thinwire
from thinwire.optim import adacomm

# The loss at the beginning is the mean over so many steps at the end of the warm-up.
STEPS_OF_FIRST_LOSS = 50


class Method(thinwire.Method):
    equals_ssgd = [
        {"warmup_steps": 1000},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1, "nodes": 2},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1, "slice": 7, "credit": 10},
    ]
    needs = thinwire.Needs(optimizers=("sgd",))
    short = {"warmup_steps": 3, "interval": 3, "delay": 1}

    @dataclass
    class Config:
        warmup_steps: Annotated[int, Field(ge=0)] = 500  # SSGD for so many steps
        interval: Annotated[int, Field(ge=1)] = 4  # steps of a round, to begin with
        min_interval: Annotated[int, Field(ge=1)] = 1  # fewest steps of a round
        max_interval: Annotated[int, Field(ge=1)] = 16  # most steps of a round
        adapt_every_epochs: Annotated[int, Field(ge=1)] = 1  # epochs between two looks at the loss
        lr_term: bool = True  # does a falling learning rate lengthen the rounds?
        shrink: Annotated[float, Field(gt=0, lt=1)] | None = None  # factor where the loss does not fall
        in_round: Annotated[float, Field(ge=0, le=1)] = 0.2  # beta: share of the last global gradient
        at_sync: Annotated[float, Field(ge=0, le=1)] = 1.0  # lambda: how far x goes to z; 1 is all the way
        delay: Literal[0, 1] = 0  # rounds between sending and landing
        slice: Annotated[int, Field(ge=1)] = 1_000_000  # most entries of a sub-tensor
        credit: Annotated[int, Field(ge=1)] = 4_000_000  # most entries on their way at once

        def __post_init__(self):
            if self.min_interval > self.max_interval:
                raise ValueError(
                    f"min_interval {self.min_interval} is above max_interval {self.max_interval}"
                )

    def skip(self):
        if self.config.warmup_steps >= self.run.total_steps:
            warmup = self.config.warmup_steps
            return f"its warm-up of {warmup} steps is as long as the run of {self.run.total_steps}"
        left = self.run.total_steps - self.config.warmup_steps
        if self.first_interval() > left:
            return f"its rounds of {self.first_interval()} steps are longer than the {left} after the warm-up"
        return None

    def first_interval(self):
        return min(max(self.config.interval, self.config.min_interval), self.config.max_interval)

    def setup(self):
        weights = self.run.weights
        self.memory |= {
            "global": [weight.clone() for weight in weights],  # z
            "velocity": [torch.zeros_like(weight) for weight in weights],  # v
            "sum": [torch.zeros_like(weight) for weight in weights],  # A
            "mean": [torch.zeros_like(weight) for weight in weights],  # ghat
            "interval": self.first_interval(),
            "highest_lr": 0.0,
            "left": 0,  # steps left in this round
            "length": 0,  # h
            "first_losses": [],
            "losses": [],
        }

    @property
    def waits_for_nothing(self):
        """Is this step in a round whose sum lands a round later?"""
        return self.config.delay == 1 and self.run.step >= self.config.warmup_steps

    def forward_ready(self, param):
        if self.config.delay == 0 or self.run.step <= self.config.warmup_steps:
            self.land(param.index)

    def step(self):
        memory, config = self.memory, self.config
        if memory["left"] == 0:
            self.begin_round()
        beta, options = config.in_round, self.run.optimizer.param_groups[0]
        direction = torch._foreach_add(self.run.gradients, self.run.weights, alpha=options["weight_decay"])
        torch._foreach_add_(memory["sum"], direction)
        torch._foreach_mul_(direction, 1 - beta)
        torch._foreach_add_(direction, memory["mean"], alpha=beta)
        torch._foreach_add_(self.run.weights, direction, alpha=-self.run.lr)
        memory["left"] -= 1
        if memory["left"] == 0:
            self.end_round()
        if self.wants_epoch_loss():
            self.note_first_loss()

    def begin_round(self):
        memory, run = self.memory, self.run
        warming_up = run.step < self.config.warmup_steps
        memory["length"] = 1 if warming_up else min(memory["interval"], run.total_steps - run.step)
        memory["left"] = memory["length"]
        torch._foreach_zero_(memory["sum"])

    def end_round(self):
        if self.waits_for_nothing:
            self.land(self.run.step)
            self.send(lands=lambda param: self.run.step + 1)
        else:
            self.send(lands=lambda param: param.index)

    def slices(self):
        """The sub-tensors by priority: the input side first, and in a tensor its beginning."""
        for param in self.run.params:
            for start in range(0, param.tensor.numel(), self.config.slice):
                yield param, start, min(start + self.config.slice, param.tensor.numel())

    def send(self, lands):
        """Send the sum of the round in slices, with no more than the credit on their way."""
        sent = []
        for param, start, end in self.slices():
            while sent and sum(size for _, size in sent) + end - start > self.config.credit:
                sent.pop(0)[0].wait()
            part = self.memory["sum"][param.index].view(-1)[start:end].clone()
            pending = self.run.world.mean([part])
            sent.append((pending, end - start))
            note = {"param": param.index, "start": start, "end": end, "lr": self.run.lr}
            note |= {"length": self.memory["length"], "warming_up": self.run.step < self.config.warmup_steps}
            if self.waits_for_nothing:
                note["as_sent"] = self.run.weights[param.index].view(-1)[start:end].clone()
            self.flight.launch(pending, lands(param), **note)

    def land(self, now):
        """Update the global model with the slices that have arrived, and correct the local one."""
        for landing in self.flight.landed(now):
            note = landing.note
            self.update(note, landing.answer[0])
            x, z = (self.part(tensors, note) for tensors in (self.run.weights, self.memory["global"]))
            if "as_sent" in note:
                x.add_(z - note["as_sent"], alpha=self.config.at_sync)
            elif note["warming_up"]:
                x.copy_(z)
            else:
                x.copy_(z + (1 - self.config.at_sync) * (x - z))

    def update(self, note, arrived):
        options = self.run.optimizer.param_groups[0]
        v, z, mean = (self.part(self.memory[name], note) for name in ("velocity", "global", "mean"))
        v.mul_(options["momentum"]).add_(arrived)
        z.sub_(arrived + options["momentum"] * v if options["nesterov"] else v, alpha=note["lr"])
        mean.copy_(arrived / note["length"])

    def part(self, tensors, note):
        return tensors[note["param"]].view(-1)[note["start"] : note["end"]]

    def note_first_loss(self):
        """At the end of the warm-up: the loss and the learning rate to which later ones are compared."""
        memory, steps_left = self.memory, self.config.warmup_steps - self.run.step
        if 0 < steps_left <= STEPS_OF_FIRST_LOSS:
            memory["first_losses"].append(self.run.loss.clone())
        if steps_left == 1:
            loss = torch.stack(memory["first_losses"]).mean()
            self.run.world.mean([loss], kind="control").wait()
            memory["first_loss"] = loss.item()
            memory["highest_lr"] = memory["last_lr"] = self.run.lr
            memory["first_losses"] = []

    def wants_epoch_loss(self):
        return self.config.min_interval < self.config.max_interval

    def epoch_end(self, loss):
        memory, lr = self.memory, self.run.lr
        self.run.log("interval", memory["interval"])
        if self.run.step < self.config.warmup_steps:
            return
        memory["highest_lr"] = max(memory["highest_lr"], lr)
        memory["losses"].append(loss)
        if len(memory["losses"]) < self.config.adapt_every_epochs:
            return
        mean = sum(memory["losses"]) / len(memory["losses"])
        memory["losses"] = []
        if "first_loss" not in memory:
            memory["first_loss"] = mean
            memory["last_lr"] = lr
        memory["interval"] = self.adapted(mean)
        memory["last_lr"] = lr

    def adapted(self, loss):
        config, memory, interval = self.config, self.memory, self.memory["interval"]
        highest = memory["highest_lr"] if config.lr_term else self.run.lr
        wanted = adacomm.interval(config.interval, loss, memory["first_loss"], self.run.lr, highest)
        if wanted is None:
            return interval
        if config.shrink is not None and wanted >= interval and self.run.lr == self.memory["last_lr"]:
            wanted = math.ceil(config.shrink * interval)
        return min(max(wanted, config.min_interval), config.max_interval)

    def evaluated(self, quiet):
        self.land_what_is_waited_for()
        return [weight.clone() for weight in self.memory["global"]]

    def land_what_is_waited_for(self):
        """What the next forward pass would land anyway, layer by layer."""
        if not self.waits_for_nothing:
            self.land(len(self.run.params))

    def finish(self):
        self.land(self.run.total_steps + len(self.run.params))
