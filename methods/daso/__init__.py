"""DASO: nodes average gradients inside, and exchange weights at intervals that follow the loss.

    inside a node: g <- mean of the node's g, at every step, then the optimizer
    every B steps one group (a worker of every node) sends its weights x; S steps later its members merge
    x <- (2 S x + sum of the P weights sent) / (2 S + P), and their nodes copy them

Source: Coquelin et al., "Accelerating Neural Network Training with Distributed Asynchronous and Selective
Optimization (DASO)" (arXiv 2104.05588), by its abstract and the authors' code (class DASO of the library
Heat). P is the number of nodes, and the groups take turns. At a blocking step all workers take the plain mean
of the group's weights at once. Every step of a warm-up or cool-down epoch is blocking; of the other epochs
only the last step is. Warm-up and cool-down send in 16 bits. When the training loss stops falling, (B, S)
shrinks to (4, 1), (2, 1), (1, 1), and starts again from `max_skips`. The first loss that counts is that of
the epoch which ends the warm-up. Momentum is never exchanged. Left out: steps at which even the gradients of
a node are not averaged.

`control: published` computes B and S after every epoch as the authors' code does. It sends and merges after
the same steps, with the same weights. It was run beside Heat 1.8.0; tests/methods/ keeps Heat's decisions.
`corrected`, the default, mends the accidents of that code:

    With B = 2 and B = 1 messages merge on time, with their true age, and before new weights are sent.
    Messages in flight at the end of an epoch merge before the blocking mean; Heat overwrites them.
    Without a warm-up the first epoch cycles. B never starts above `max_skips`, and S is never below 1.

Merging on time is not always better. A merge leaves 2 S / (2 S + P) of the progress since the message was
sent. So with B = 1 on many nodes the formula all but stops the run, and the accident does not
(tests/methods/test_daso.py has the table). `blocking_sends: delta`, the default, casts the change since the
last blocking mean to 16 bits. The authors' code casts the weights, and so rounds the model. As in all means
of this project, values of 16 bits are divided before they are added. Heat divides their sum. So on a number
of nodes that is not a power of two, the last bits differ.

Controls. `fixed_skips` and `fixed_wait` are B and S of all epochs except warm-up and cool-down, whatever the
loss is. With `fixed_wait: 0` every exchange blocks, in full precision. `match_progress` divides the learning
rate by the share of the progress that merges leave, (B - S + S 2 S / (2 S + P)) / B. So weights move as far
in a step as those of SSGD, where gradient and rate are constant. This rule is ours. It does not know the
merges at the end of an epoch, which come early and leave less. Where B is 1 the share is small, 1 / 33 on 64
nodes. So a fixed B goes well with it.
"""

import math

import thinwire

from .authors_code import sync_weights_as_published
from .exchange import Exchange
from .options import Options
from .phases import after_epoch, of_first_epoch
from .progress import match_progress
from .provenance import PROVENANCE

# A blocking exchange after every step.
FIXED = {"fixed_skips": 1, "fixed_wait": 0, "warmup_epochs": 0, "cooldown_epochs": 0}
# On two nodes, whose weights are averaged after the optimizer's step.
AVERAGED = {"nodes": 2, "linear": True}


class Method(thinwire.Method):
    Config = Options
    config: Options
    equals_ssgd = [
        {"warmup_epochs": 1000, "blocking_dtype": "full", **AVERAGED},
        {"warmup_epochs": 1000, "blocking_dtype": "full", **AVERAGED, "control": "published"},
        {"warmup_epochs": 1000, "blocking_dtype": "full", **AVERAGED, "blocking_sends": "weights"},
        {**FIXED, **AVERAGED, "match_progress": True},
        {**FIXED, **AVERAGED, "control": "published"},
    ]
    needs = thinwire.Needs(nodes=2)
    short = {"warmup_epochs": 1, "cooldown_epochs": 0, "max_skips": 4}

    provenance = PROVENANCE

    def skip(self) -> str | None:
        epochs = self.run.total_epochs
        blocking = self.config.warmup_epochs + self.config.cooldown_epochs
        if self.run.steps_per_epoch == 1:
            return "with one step an epoch all of them are blocking"
        if blocking >= epochs:
            return f"its {blocking} blocking epochs leave none of the run's {epochs} to cycle in"
        return None

    def setup(self) -> None:
        skips, wait = of_first_epoch(self.config)
        self.memory |= {
            "skips": skips,  # B
            "wait": wait,  # S
            "group": 0,  # whose turn it is
            "previous": None,  # published: the group that sent last
            "best_loss": math.inf,
            "bad_epochs": 0,
            "common": [weight.clone() for weight in self.run.weights],  # after the last blocking mean
        }
        self.exchange = Exchange(self.run, self.config, self.memory, self.flight)

    def sync_gradients(self) -> None:
        self.run.node.mean(self.run.gradients).wait()
        if self.config.match_progress:
            match_progress(self.run, self.memory)

    def sync_weights(self) -> None:
        step = self.run.step % self.run.steps_per_epoch
        last = step == self.run.steps_per_epoch - 1
        if self.config.control == "published":
            sync_weights_as_published(self.exchange, step, last)
        else:
            self.corrected(step, last)

    def corrected(self, step: int, last: bool) -> None:
        exchange, skips = self.exchange, self.memory["skips"]
        for landing in self.flight.landed(math.inf if last else self.run.step):
            exchange.merge(landing, staleness=self.run.step - landing.note["sent"])
            exchange.copy_inside_nodes(landing.note["group"])
        if last or skips == 0 or step % skips == 0:
            sent = exchange.send()
            if last or self.memory["wait"] == 0:
                exchange.blocking_mean(sent)
            else:
                exchange.launch(sent, self.memory["wait"])
            exchange.pass_turn(last)

    def epoch_end(self, loss: float) -> None:
        """Warm up, cycle, cool down; shorten the interval when the loss has stopped falling."""
        self.run.log("skips", self.memory["skips"])
        epoch = self.run.epoch + 1
        following = after_epoch(epoch, self.run.total_epochs, loss, self.memory, self.config)
        self.memory["skips"], self.memory["wait"] = following
