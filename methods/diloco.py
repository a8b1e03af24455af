"""DiLoCo: rounds of local steps, whose mean change is the gradient of an outer step with Nesterov's momentum.

    theta_i <- optimizer(theta_i, g_i) at every step; after steps H, 2H, 3H, ..., with H = `period`:
    D = 1/W sum_i (theta - theta_i);  m <- mu m + D;  theta <- theta - eta (D + mu m);  theta_i <- theta

Source: Douillard et al., "DiLoCo" (arXiv 2311.08105). OpenDiLoCo (a5b7236) has the same eta, mu and step.
The local optimizer is the recipe's, whose state stays on its worker. With Muon it is MuLoCo (Therien et al.,
arXiv 2505.23725). What is delivered is theta.

`fragments`, `delay`, `mix` and `bits` are Streaming DiLoCo (Douillard et al., arXiv 2501.18512). The weights
are P = `fragments` parts, and each has its round in turn, H / P steps after the one before. What is sent
lands tau = `delay` steps later. Then theta makes its step and theta_i <- alpha theta_i + (1 - alpha) theta,
with alpha = `mix`. With 8 or 4 bits, theta - theta_i is rounded in blocks, and so is the mean: in a
compressed all-reduce, each worker averages its share of a fragment in full precision.

Bytes of a round for n entries, each way: 4 n, or with b bits ceil(n b / 8) + 4 ceil(n / block) of each share.

Decisions: layers are dealt out to the fragments in turn, which the publication calls strided. With 32 bits
the weights themselves are averaged, which is the same. At the end, fragments in flight land, and those with
steps since they last landed have one more round. The publication has 4 bits with an exponent; here levels
are equidistant. Rounding errors are not kept, as there. Batch-norm statistics stay local.

Decoupled DiLoCo (arXiv 2604.21428) is left out. Its quorum, K of W workers, saves the wait for late ones.
Here a call is complete when all workers have made it, so only the loss of the quorum could be seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

import thinwire
from thinwire.api import all_reduce
from thinwire.api.channel import Channel, UnmeteredChannel
from thinwire.codecs import blocks
from thinwire.optim import outer
from thinwire.traffic.payload import Payload

SSGD = {"period": 1, "outer_lr": 1.0, "outer_momentum": 0.0, "linear": True}


class Method(thinwire.Method):
    equals_ssgd = [
        SSGD,
        SSGD | {"nodes": 2},
        SSGD | {"bits": 8, "block": 1},
        SSGD | {"bits": 4, "block": 1, "nodes": 2},
    ]
    short = {"period": 4, "fragments": 2, "delay": 1, "mix": 0.5}
    tunes = {"outer_lr": (0.3, 1.0), "outer_momentum": (0.3, 0.95)}

    provenance = (
        thinwire.Part(
            "local steps, then an outer step with their mean change", "certain", "Douillard et al."
        ),
        thinwire.Part("Nesterov's momentum in the outer step", "certain", "Douillard et al."),
        thinwire.Part("state of the local optimizer stays", "certain", "Douillard et al."),
        thinwire.Part("Muon as the local optimizer", "certain", "Therien et al."),
        thinwire.Part("fragments in turn", "certain", "Streaming DiLoCo"),
        thinwire.Part("each layer is dealt out, not each block", "ours", "models here need no blocks"),
        thinwire.Part("a change lands some steps later, and is mixed in", "certain", "Streaming DiLoCo"),
        thinwire.Part("changes in few bits", "certain", "Streaming DiLoCo; its 4 bits have an exponent"),
        thinwire.Part("the mean is rounded, too", "related work", "torchft's quantised all-reduce"),
        thinwire.Part("one more round at the end", "ours", "what is delivered must be on a worker"),
        thinwire.Part("no quorum", "ours", "no worker is late here"),
    )

    @dataclass
    class Config:
        period: Annotated[int, Field(ge=1)] = 100  # H: steps of a round
        outer_lr: Annotated[float, Field(gt=0)] = 0.7  # eta: learning rate of the outer step
        outer_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9  # mu: momentum of the outer step
        fragments: Annotated[int, Field(ge=1)] = 1  # P: parts of the weights, which have their rounds in turn
        delay: Annotated[int, Field(ge=0)] = 0  # tau: steps between sending and landing
        mix: Annotated[float, Field(ge=0, lt=1)] = 0.0  # alpha: share of a worker's weights that stays
        bits: Literal[32, 8, 4] = 32  # of each entry that is sent
        block: Annotated[int, Field(ge=1)] = 128  # entries that share a scale, with 8 or 4 bits

        def __post_init__(self) -> None:
            turn, rest = divmod(self.period, self.fragments)
            if rest:
                raise ValueError(f"a period of {self.period} steps has no {self.fragments} equal turns")
            if self.delay >= turn:
                raise ValueError(f"delay {self.delay} is not below the {turn} steps between two fragments")

    config: Config

    def skip(self) -> str | None:
        layers, fragments = len(self.layers()), self.config.fragments
        if fragments > layers:
            return f"it has {fragments} fragments for a model of {layers} layers"
        return None

    def layers(self) -> dict[str, list[int]]:
        """The numbers of the parameters of each layer, by its name, from the input side."""
        layers: dict[str, list[int]] = {}
        for param in self.run.params:
            layers.setdefault(param.name.rpartition(".")[0], []).append(param.index)
        return layers

    def setup(self) -> None:
        weights, count = self.run.weights, self.config.fragments
        self.codec = blocks.Rounded(self.config.bits, self.config.block)
        layers = list(self.layers().values())
        # The numbers of the parameters of each fragment.
        self.fragments = [[i for layer in layers[first::count] for i in layer] for first in range(count)]
        self.memory["theta"] = [weight.clone() for weight in weights]
        self.memory["velocity"] = [torch.zeros_like(weight) for weight in weights]
        self.memory["since"] = [0] * count  # steps of each fragment since it last landed

    def sync_weights(self) -> None:
        config, now = self.config, self.run.step
        self.memory["since"] = [steps + 1 for steps in self.memory["since"]]
        turn, rest = divmod(now + 1, config.period // config.fragments)
        if rest == 0:
            self.launch((turn - 1) % config.fragments, lands=now + config.delay)
        self.land(now)

    def launch(self, fragment: int, lands: int) -> None:
        for pending in self.send(fragment, self.run.world):
            self.flight.launch(pending, lands, fragment=fragment)

    def send(self, fragment: int, channel: Channel) -> Sequence[thinwire.Pending[Any]]:
        """Send a fragment of this worker's weights, or in few bits their change since the last round."""
        weights = self.part(self.run.weights, fragment)
        if self.config.bits == 32:
            return [channel.mean([weight.clone() for weight in weights], kind="weights")]
        change = torch._foreach_sub(self.part(self.memory["theta"], fragment), weights)
        row = torch.cat([tensor.flatten() for tensor in change])
        pulls, _ = all_reduce.start(channel, [*row.split(self.shares(len(row)))], self.codec)
        return pulls

    def shares(self, entries: int) -> list[int]:
        """The numbers of entries of which each worker averages one."""
        most = -(-entries // self.run.world.size)
        return [min(most, entries - first) for first in range(0, entries, most)]

    def part(self, tensors: list[Tensor], fragment: int) -> list[Tensor]:
        return [tensors[index] for index in self.fragments[fragment]]

    def land(self, now: int) -> None:
        """Make the outer step of each fragment that has arrived, and move this worker's weights to it."""
        arrived = by_fragment([(landing.note, landing.answer) for landing in self.flight.landed(now)])
        for fragment, answers in arrived.items():
            self.outer_step(fragment, answers, self.memory["theta"], self.memory["velocity"])
            theta = self.part(self.memory["theta"], fragment)
            torch._foreach_lerp_(self.part(self.run.weights, fragment), theta, 1 - self.config.mix)
            self.memory["since"][fragment] = 0

    def outer_step(
        self, fragment: int, answers: list[Any], theta: list[Tensor], velocity: list[Tensor]
    ) -> None:
        """Make the outer step of a fragment of `theta` with the answers to `send`."""
        config, theta = self.config, self.part(theta, fragment)
        mean = answers[0] if config.bits == 32 else self.decode(answers, theta)
        outer.step(theta, self.part(velocity, fragment), mean, config.outer_lr, config.outer_momentum)

    def decode(self, payloads: list[Payload], theta: list[Tensor]) -> list[Tensor]:
        """The mean of the workers' weights, from the mean of their changes since `theta`, by shares."""
        sizes = [tensor.numel() for tensor in theta]
        shares = self.shares(sum(sizes))
        row = torch.cat([self.codec.decode(payload, count) for payload, count in zip(payloads, shares)])
        return [tensor - change.view_as(tensor) for tensor, change in zip(theta, row.split(sizes))]

    def evaluated(self, unmetered: UnmeteredChannel) -> list[Tensor]:
        # What `finish` would leave, in new tensors.
        theta, velocity = ([t.clone() for t in self.memory[name]] for name in ("theta", "velocity"))
        arriving = by_fragment([(message["note"], message["answer"]) for message in self.flight.state()])
        for fragment, since in enumerate(self.memory["since"]):
            if since and fragment not in arriving:
                arriving[fragment] = [pending.wait() for pending in self.send(fragment, unmetered)]
        for fragment, answers in arriving.items():
            self.outer_step(fragment, answers, theta, velocity)
        return theta

    def finish(self) -> None:
        end = self.run.total_steps + self.config.delay
        self.land(end)
        for fragment, since in enumerate(self.memory["since"]):
            if since:
                self.launch(fragment, lands=end)
        self.land(end)


def by_fragment(messages: list[tuple[dict[str, Any], Any]]) -> dict[int, list[Any]]:
    """The answers of messages by the fragment in their notes, in the order of the messages."""
    answers: dict[int, list[Any]] = {}
    for note, answer in messages:
        answers.setdefault(note["fragment"], []).append(answer)
    return answers
