"""One replica: its model, its method, its run and its ledger."""

import copy
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from thinwire import seeds
from thinwire.channel import Channel, QuietChannel
from thinwire.checkpoint import require_separate, restore, to_device
from thinwire.cluster import Cluster
from thinwire.method import Method
from thinwire.optim.optimizer import make_optimizer
from thinwire.optim.recipe import Recipe
from thinwire.run import Run
from thinwire.traffic.ledger import Ledger
from thinwire.train import batch_norm_buffers
from thinwire.train.ready_hooks import ReadyHooks
from thinwire.transport.transport import Transport

# When a channel refuses to carry anything: see `Method` for the hooks that may speak.
_BEFORE_TRAINING = (
    "before the first step, in __init__, skip, optimizer or setup: the weights are equal on all workers by "
    "then, and what else they need in common they tell each other in the first step, where run.step is 0"
)
_LOOKING = "in evaluated, which leaves training as it is: use the channel that it is given"
_TRAINING = (
    "outside evaluated, which it is given to: use run.world, run.node or run.across, which are metered"
)


class Worker:
    """A worker as the training loop sees it."""

    def __init__(
        self,
        rank: int,
        model: nn.Module,
        method: type[Method],
        config: Any,
        recipe: Recipe,
        cluster: Cluster,
        steps_per_epoch: int,
        seed: int,
        transport: Transport,
    ) -> None:
        self.model = model
        self.ledger = Ledger()
        self.run = Run(
            model,
            cluster,
            steps_per_epoch,
            steps_per_epoch * recipe.epochs,
            lambda params: make_optimizer(recipe.optimizer, params),
        )
        groups = cluster.groups(rank)
        quiet = groups.pop("quiet")
        self.channels = {
            name: Channel(name, members, _nodes(cluster, members), rank, transport, self.ledger)
            for name, members in groups.items()
        }
        self.run.world = self.channels["world"]
        self.run.node = self.channels["node"]
        self.run.across = self.channels["across"]
        self.quiet = QuietChannel("quiet", quiet, _nodes(cluster, quiet), rank, transport, self.ledger)
        self._shut(metered=_BEFORE_TRAINING, quiet=_BEFORE_TRAINING)
        # Options of its own, as in a process of its own.
        self.method = method(copy.deepcopy(config), self.run)
        self.epoch_loss = 0.0  # sum over the steps of this epoch
        self._forward_stream = seeds.of_forward_pass(seed, rank)
        self._method_stream = seeds.of_method(seed, rank)
        self._setup_seed = seeds.of_method_setup(seed, rank)
        self._hears_forward = method.forward_ready is not Method.forward_ready
        self._hears_gradients = method.grad_ready is not Method.grad_ready
        self._announcer = ReadyHooks(model, self.run.params, self.method) if transport.overlaps else None

    def setup(self) -> None:
        """Make the optimizer and set the method up."""
        self.run.reseed(lambda: self._setup_seed)
        self.run.optimizer = self.method.optimizer([param.tensor for param in self.run.params])
        self.method.setup()
        require_separate(self.method.memory, self.run.weights)

    def begin(self, step: int, lr: float, samples: int, world_samples: int) -> None:
        """Tell the method's run which step this is, and how many images it has; from here on it may speak."""
        self._shut(metered="", quiet=_TRAINING)
        run = self.run
        run.samples, run.world_samples = samples, world_samples
        run.step = step
        run.epoch = step // run.steps_per_epoch
        run.lr = lr
        run.reseed(lambda: self._method_stream.at(step))
        for group in run.optimizer.param_groups:
            group["lr"] = lr

    def forward_ready(self) -> None:
        """Announce every parameter before it is used, from the input side."""
        if self._hears_forward and self._announcer is None:
            for param in self.run.params:
                self.method.forward_ready(param)

    def compute_gradients(self, images: Tensor, labels: Tensor) -> None:
        """Forward and backward, with this worker's own stream for dropout."""
        stream = self._forward_stream.at(self.run.step)
        torch.default_generator.manual_seed(stream)
        if images.is_cuda:
            torch.cuda.manual_seed(stream)
        for param in self.run.params:
            param.tensor.grad = None
        with nullcontext() if self._announcer is None else self._announcer.passing():
            loss = functional.cross_entropy(self.model(images), labels)
            self.run.loss = loss.detach()
            if self._announcer is not None:
                self._announcer.forward_is_over()
            loss.backward()

    def exchange(self) -> None:
        """Between backward and the next forward: the method's."""
        if self._hears_gradients and self._announcer is None:
            for param in reversed(self.run.params):
                self.method.grad_ready(param)
        self.method.step()

    def epoch_end(self) -> None:
        """Give the method the epoch's loss; the four bytes that this takes are metered like any other."""
        if not self.method.wants_epoch_loss():
            return
        loss = torch.tensor([self.epoch_loss / self.run.steps_per_epoch], dtype=torch.float32)
        self.run.world.mean([loss], kind="control").wait()
        self.method.epoch_end(loss.item())

    def shipped(self) -> tuple[list[Tensor], list[Tensor]]:
        """The weights that the method ships and the mean of the floating-point buffers.

        Training has ended, or goes on with the next step: until then nobody speaks.
        """
        self._shut(metered=_LOOKING, quiet="")
        weights = self.method.evaluated(self.quiet)
        return weights, self.quiet.mean(batch_norm_buffers.tensors(self.model)).wait()

    def _shut(self, metered: str, quiet: str) -> None:
        """Let nobody speak on the channels for which it is said when that is; and anybody where it is not."""
        for channel in self.channels.values():
            channel.shut = metered
        self.quiet.shut = quiet

    def unclaimed(self) -> list[str]:
        """Calls of this step whose answers nobody waited for and nobody put in flight."""
        channels = (*self.channels.values(), self.quiet)
        return [
            f"{pending.call.describe()} on run.{channel.name}"
            for channel in channels
            for pending in channel.unclaimed
        ]

    def state(self) -> dict[str, Any]:
        """Everything that this worker needs to go on."""
        require_separate(self.method.memory, self.run.weights)
        return {
            "model": self.model.state_dict(),
            "optimizer": self.run.optimizer.state_dict(),
            "memory": self.method.memory,
            "flight": self.method.flight.state(),
            "metrics": self.run.metrics,
            "ledger": self.ledger.state(),
            "epoch_loss": self.epoch_loss,
        }

    def load(self, state: dict[str, Any], device: torch.device) -> None:
        """Take up a state that was saved; call after `setup`."""
        self.model.load_state_dict(state["model"])
        self.run.optimizer.load_state_dict(state["optimizer"])
        restore(self.method.memory, state["memory"], device)
        self.method.flight.load(to_device(state["flight"], device))
        self.run.metrics = state["metrics"]
        self.ledger.load(state["ledger"])
        self.epoch_loss = state["epoch_loss"]


def _nodes(cluster: Cluster, members: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(cluster.node_of(member) for member in members)
