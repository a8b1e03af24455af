"""Multi-step delay, reconstructed: rounds of local steps, whose summed gradients update a global model.

    in a round of h steps: d_i = g_i + weight_decay x_i, A_i += d_i, x_i -= lr ((1 - beta) d_i + beta ghat)
    at its end: A = 1/W sum_i A_i; v <- m v + A; z <- z - lr v; ghat = A / h; x_i <- z + (1 - lambda)(x_i - z)

Source: Ju et al., "Multi-step delay parameter update", J. Harbin Institute of Technology (2025), of which
only the abstract could be read. It has an adaptive number of local steps, gradients aggregated into a global
model, a correction of the local one, and sub-tensors by priority. The formulas are a reconstruction from
published parts. The correction inside rounds follows SSD-SGD (Xu et al., arXiv 2012.05396), whose weights
2 : 0.5 are scaled to sum 1. The interval, h, follows AdaComm (Wang & Joshi, arXiv 1810.08313). `delay: 1`
follows CoCoD-SGD: a round's sum lands at the end of the next round. Then x_i <- x_i + lambda (z - e_i), where
e_i is the x_i that was sent. Slices and their order follow P3 and ByteScheduler.

Decisions: L2 is in the local gradients, so rounds of one step are SSGD. The first `warmup_steps` steps are
such rounds. The last round takes what is left. The global step has the learning rate of the round's last
step. The weights shipped are z, as far as it has landed. The interval starts from `interval`, not from
timings, which runs in one process lack. Slices of the input side are sent first, and at most `credit` entries
are on their way. As in ByteScheduler, `release: background` lets the transport wait for credit while the
worker goes on; by default the worker waits. Both give the same bits and bytes. With `delay: 0` each layer
waits for its own slices only, before its next use.

Controls. A fixed interval has `interval`, `min_interval` and `max_interval` equal. No correction in rounds is
`in_round: 0`. `order: fifo` sends the slices of the output side first, because their gradients are complete
first. Both orders begin after the round's last backward pass, and give the same weights to the bit. With
`local_momentum`, u_i <- m u_i + d_i takes the place of d_i, or d_i + m u_i with Nesterov. Then the global
step has no momentum. At a constant rate, with no correction and a fixed interval, this is local SGD.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

import thinwire
from thinwire.api.channel import UnmeteredChannel

from . import intervals, local_step
from .global_model import GlobalModel
from .options import Options, why_not
from .provenance import PROVENANCE
from .sub_tensors import send, slices


class Method(thinwire.Method):
    Config = Options
    config: Options
    equals_ssgd = [
        {"warmup_steps": 1000},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1, "nodes": 2},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1, "slice": 7, "credit": 10},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1, "slice": 7, "order": "fifo"},
        {"warmup_steps": 0, "interval": 1, "max_interval": 1, "local_momentum": True},
    ]
    needs = thinwire.Needs(optimizers=("sgd",))
    short = {"warmup_steps": 3, "interval": 3, "delay": 1}
    provenance = PROVENANCE

    def skip(self) -> str | None:
        return why_not(self.config, self.run.total_steps)

    def setup(self) -> None:
        self.global_model = GlobalModel(self.run, self.config, self.memory)
        self.memory |= intervals.state_at_start(self.config)
        self.memory |= local_step.state_at_start(self.run, self.config)
        self.memory |= {"left": 0, "length": 0}  # steps left in this round, and h

    def forward_ready(self, param: thinwire.Param) -> None:
        if self.config.delay == 0 or self.run.step <= self.config.warmup_steps:
            self.land(param.index)

    def step(self) -> None:
        if self.memory["left"] == 0:
            self.begin_round()
        local_step.step(self.run, self.memory, self.config)
        self.memory["left"] -= 1
        if self.memory["left"] == 0:
            self.end_round()
        if self.wants_epoch_loss():
            intervals.note_first_loss(self.run, self.memory, self.config)

    def begin_round(self) -> None:
        memory, left = self.memory, self.run.total_steps - self.run.step
        memory["length"] = memory["left"] = 1 if self.warming_up else min(memory["interval"], left)
        torch._foreach_zero_(memory["sum"])

    def end_round(self) -> None:
        if self.lands_late:
            self.land(self.run.step)
        for part, pending in send(self.run, self.memory["sum"], self.config):
            note = part | {"lr": self.run.lr, "length": self.memory["length"], "warming_up": self.warming_up}
            if self.lands_late:
                note["as_sent"] = self.global_model.local(part).clone()
            self.flight.launch(pending, self.run.step + 1 if self.lands_late else part["param"], **note)

    @property
    def warming_up(self) -> bool:
        return self.run.step < self.config.warmup_steps

    @property
    def lands_late(self) -> bool:
        """Is this step in a round whose sum lands a round later?"""
        return self.config.delay == 1 and not self.warming_up

    def land(self, now: int) -> None:
        """Update the global model with the slices that have arrived, and correct the local one."""
        for landing in self.flight.landed(now):
            self.global_model.update(landing.note, landing.answer[0])
            self.global_model.correct_local(landing.note)

    def slices(self) -> Iterator[tuple[thinwire.Param, int, int]]:
        return slices(self.run.params, self.config)

    def wants_epoch_loss(self) -> bool:
        return self.config.min_interval < self.config.max_interval

    def epoch_end(self, loss: float) -> None:
        self.run.log("interval", self.memory["interval"])
        if not self.warming_up:
            intervals.adapt(self.memory, self.config, self.run.lr, loss)

    def evaluated(self, unmetered: UnmeteredChannel) -> list[Tensor]:
        # With what the next forward pass will land, layer by layer.
        landing = [] if self.lands_late else self.flight.state()
        return self.global_model.after(landing)

    def finish(self) -> None:
        self.land(self.run.total_steps + len(self.run.params))
