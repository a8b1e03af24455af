"""One worker: its model, method, data and position in the run."""

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from thinwire.api.channel import Channel, UnmeteredChannel
from thinwire.api.method import Method
from thinwire.api.parameters import Param
from thinwire.api.run import Run, Task
from thinwire.base import seeds
from thinwire.base.placement import Cluster, on_gpu
from thinwire.optim.schedule import Plateau
from thinwire.records.checkpoint import require_separate, restore, to_device
from thinwire.traffic.wire_bytes import Ledger
from thinwire.train.evaluation import batch_norm_buffers
from thinwire.train.passes import Passes, ReadyHooks, place_gradients
from thinwire.transport.interface import Transport

if TYPE_CHECKING:
    from thinwire.api.model import Model


def seed_global_generators(device: torch.device, seed: int) -> None:
    """Seed the global generator of the CPU, and that of the GPU with the index of this device."""
    torch.default_generator.manual_seed(seed)
    if on_gpu(device):
        # Named by its index: `torch.cuda.manual_seed` seeds the current GPU of this thread instead.
        torch.cuda.default_generators[device.index].manual_seed(seed)


def clip(params: Sequence[Param], limit: float) -> None:
    """Shorten the gradients of a worker together, in place, if their Euclidean norm is above `limit`."""
    gradients = [param.tensor.grad for param in params if param.tensor.grad is not None]
    if gradients:
        norm = torch.stack(torch._foreach_norm(gradients)).norm()
        torch._foreach_mul_(gradients, (limit / norm).clamp(max=1.0))


# Why a channel refuses a call. `Method` lists the hooks that may communicate.
_BEFORE_TRAINING = (
    "before the first step, in __init__, skip, optimizer or setup: the weights are equal on all workers by "
    "then; what else they need in common they exchange in the first step, where run.step is 0"
)
_IN_EVALUATED = "in evaluated, which leaves training as it is: use the channel that it is given"
_OUTSIDE_EVALUATED = (
    "outside evaluated, the only hook that may use it: use run.world, run.node or run.across, which are "
    "metered"
)


class Worker:
    """A worker as the training loop sees it."""

    def __init__(
        self,
        rank: int,
        model: "Model",
        method: type[Method],
        config: object,
        task: Task,
        steps_per_epoch: int,
        transport: Transport,
    ) -> None:
        recipe, cluster, seed = task.recipe, task.cluster, task.seed
        self.model = model
        self.ledger = Ledger()
        self.run = Run(model, recipe, cluster, steps_per_epoch)
        groups = cluster.groups(rank)
        unmetered = groups.pop("unmetered")
        self.channels = {
            name: Channel(name, members, _nodes(cluster, members), rank, transport, self.ledger)
            for name, members in groups.items()
        }
        self.run.world = self.channels["world"]
        self.run.node = self.channels["node"]
        self.run.across = self.channels["across"]
        self.unmetered = UnmeteredChannel(
            "unmetered", unmetered, _nodes(cluster, unmetered), rank, transport, self.ledger
        )
        self._set_refusals(metered=_BEFORE_TRAINING, unmetered=_BEFORE_TRAINING)
        # Each worker has its own copy of the options, as it would have in a process of its own.
        self.method = method(copy.deepcopy(config), self.run)
        self.epoch_loss = 0.0  # sum over the steps of this epoch
        self.plateau = Plateau(recipe.schedule) if recipe.schedule.name == "plateau" else None
        self._wanted: list[nn.Parameter] = []  # whose gradients are computed; set by `setup`
        self._forward_stream = seeds.of_forward_pass(seed, rank)
        self._method_stream = seeds.of_method(seed, rank)
        self._shared_stream = seeds.of_shared_choices(seed)
        self._forward_seed = 0  # of this step, for dropout; set by `begin`
        self._uses_forward_ready = method.forward_ready is not Method.forward_ready
        self._uses_grad_ready = method.grad_ready is not Method.grad_ready
        place_gradients(self.run.params, transport.shared_like)
        self._passes = passes = Passes(recipe, self.run.params[0].tensor.device)
        self._ready_hooks = (
            ReadyHooks(model, self.run.params, self.method, passes.interrupted)
            if transport.overlaps
            else None
        )

    def setup(self) -> None:
        self.run.reseed(own=self._method_stream.in_setup, shared=self._shared_stream.in_setup)
        self.run.optimizer = self.method.optimizer([param.tensor for param in self.run.params])
        self.method.setup()
        require_separate(self.method.memory, self.run.weights)
        wanted = [param for param in self.run.params if self.method.wants_gradient(param)]
        self._wanted = [param.tensor for param in wanted]
        if self._ready_hooks is not None:
            self._ready_hooks.unwanted = set(range(len(self.run.params))) - {param.index for param in wanted}

    def begin(self, step: int, lr: float, samples: int, world_samples: int) -> None:
        """Begin a step: set its number, learning rate and batch sizes, and open the metered channels."""
        self._set_refusals(metered="", unmetered=_OUTSIDE_EVALUATED)
        run = self.run
        run.samples, run.world_samples = samples, world_samples
        run.step = step
        run.epoch = step // run.steps_per_epoch
        run.lr = lr
        # One worker after another does this: between passes over models, a hash takes several times as long.
        self._forward_seed = self._forward_stream.at(step)
        run.reseed(own=lambda: self._method_stream.at(step), shared=lambda: self._shared_stream.at(step))
        for group in run.optimizer.param_groups:
            group["lr"] = lr

    def forward_ready(self) -> None:
        """Call `forward_ready` for all parameters, unless hooks do so during the forward pass."""
        if self._uses_forward_ready and self._ready_hooks is None:
            for param in self.run.params:
                self.method.forward_ready(param)

    def compute_gradients(self, inputs: Tensor, labels: Tensor) -> None:
        """Run the forward and the backward pass, with this worker's own random stream for dropout.

        With `accumulate` there is a pair of passes for each part of the batch. Gradients are announced in the
        last backward pass, or after it if they are clipped, because the norm is not known before.
        """
        seed_global_generators(inputs.device, self._forward_seed)
        for param in self.run.params:
            param.tensor.grad = None
        recipe, hooks = self.run.recipe, self._ready_hooks
        size = len(inputs) // recipe.accumulate
        with nullcontext() if hooks is None else hooks.during_passes():
            for first in range(0, len(inputs), size):
                if hooks is not None:
                    is_last = first + size == len(inputs)
                    hooks.holds_gradients = not is_last or recipe.clip_norm is not None
                part = slice(first, first + size)
                loss = self._passes.loss(self.model, inputs[part], labels[part])
                if recipe.accumulate > 1:
                    loss = loss / recipe.accumulate
                self.run.loss = loss.detach() if first == 0 else self.run.loss + loss.detach()
                if hooks is not None:
                    hooks.end_forward()
                if len(self._wanted) == len(self.run.params):  # without a search for what leads to them
                    loss.backward()
                elif self._wanted:  # torch refuses a backward pass to nothing
                    loss.backward(inputs=self._wanted)
            if recipe.clip_norm is not None:
                clip(self.run.params, recipe.clip_norm)
        # Otherwise torch's optimizers would leave out a weight that the loss does not depend on, even its
        # decay, unless the method happens to look at its gradient.
        for tensor in self._wanted:
            if tensor.grad is None:
                tensor.grad = torch.zeros_like(tensor)

    def exchange(self) -> None:
        """Run the method between the backward pass and the next forward pass."""
        if self._uses_grad_ready and self._ready_hooks is None:
            for param in reversed(self.run.params):
                self.method.grad_ready(param)
        self.method.step()

    def epoch_end(self) -> None:
        """Give the method and the schedule `plateau` the mean loss, whose four bytes are metered once."""
        wanted = self.method.wants_epoch_loss()
        if not wanted and self.plateau is None:
            return
        loss = torch.tensor([self.epoch_loss / self.run.steps_per_epoch], dtype=torch.float32)
        self.run.world.mean([loss], kind="control").wait()
        if self.plateau is not None:
            self.plateau.end_epoch(loss.item())
        if wanted:
            self.method.epoch_end(loss.item())

    def shipped(self) -> tuple[list[Tensor], list[Tensor]]:
        """The weights that the method ships and the mean of the floating-point buffers, as new tensors.

        The metered channels stay closed until the next step begins.
        """
        self._set_refusals(metered=_IN_EVALUATED, unmetered="")
        weights = self.method.evaluated(self.unmetered)
        return weights, self.unmetered.mean([*batch_norm_buffers(self.model).values()]).wait()

    def _set_refusals(self, metered: str, unmetered: str) -> None:
        """Say why the metered channels and the unmetered one refuse calls; empty: they take them."""
        for channel in self.channels.values():
            channel.shut = metered
        self.unmetered.shut = unmetered

    def unclaimed(self) -> list[str]:
        """Calls of this step whose results the method neither waited for nor put in flight."""
        channels = (*self.channels.values(), self.unmetered)
        return [
            f"{pending.call.describe()} on run.{channel.name}"
            for channel in channels
            for pending in channel.unclaimed
        ]

    def state(self) -> dict[str, object]:
        """Everything that this worker needs to resume."""
        require_separate(self.method.memory, self.run.weights)
        plateau = {} if self.plateau is None else {"plateau": self.plateau.state()}
        # Before the ledger, which counts the bytes of an answer when somebody waits for it.
        flight = self.method.flight.state()
        return plateau | {
            "model": self.model.state_dict(),
            "optimizer": self.run.optimizer.state_dict(),
            "memory": self.method.memory,
            "flight": flight,
            "metrics": self.run.metrics,
            "ledger": self.ledger.state(),
            "epoch_loss": self.epoch_loss,
        }

    def load(self, state: dict[str, Any], device: torch.device) -> None:
        """Restore a saved state; call after `setup`."""
        self.model.load_state_dict(state["model"])
        self.run.optimizer.load_state_dict(state["optimizer"])
        restore(self.method.memory, state["memory"], device)
        self.method.flight.load(to_device(state["flight"], device))
        self.run.metrics = state["metrics"]
        self.ledger.load(state["ledger"])
        self.epoch_loss = state["epoch_loss"]
        if self.plateau is not None:
            self.plateau.load(state["plateau"])


def _nodes(cluster: Cluster, members: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(cluster.node_of(member) for member in members)
