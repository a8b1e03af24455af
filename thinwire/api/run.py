"""The run and its task, as the method of one worker sees them: `self.run`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from thinwire.api.channel import Channel
from thinwire.api.parameters import Bucket, Param, in_buckets, parameters
from thinwire.base import seeds
from thinwire.base.errors import MethodError
from thinwire.base.placement import Cluster
from thinwire.data.arrays import Data
from thinwire.optim.optimizers import make_optimizer
from thinwire.optim.recipe import Recipe

if TYPE_CHECKING:
    from thinwire.api.model import Model


class StepGenerator:
    """A generator that is seeded when it is first used in a step, because few methods use it."""

    def __init__(self) -> None:
        self._generator = torch.Generator()
        self._seed: Callable[[], int] | None = None

    def begin(self, seed: Callable[[], int]) -> None:
        self._seed = seed

    def get(self) -> torch.Generator:
        """Return the generator, where the stream of this step stands."""
        if self._seed is not None:
            self._generator.manual_seed(self._seed())
            self._seed = None
        return self._generator


class Run:
    """What a method may read, and its channels. There is one `Run` for each worker.

    A method may make calls on the channels in the hooks of training only; see `thinwire.api.method.Method`.
    """

    params: list[Param]
    """The trainable parameters, from the input side to the output side."""
    optimizer: torch.optim.Optimizer
    """What `Method.optimizer` returned; set before `Method.setup`."""
    lr: float
    """The learning rate of this step, by the recipe's schedule; not set before the first step."""
    loss: Tensor
    """This worker's training loss in this step, a scalar; set by the forward pass."""
    samples: int
    """Images of this worker in this step; not set before the first step."""
    world_samples: int
    """Images of all workers in this step; not set before the first step."""
    step: int
    """The number of this step, from 0."""
    epoch: int
    """The number of this epoch, from 0; after the last step of an epoch it is still that epoch."""
    steps_per_epoch: int
    """Steps in one epoch."""
    total_steps: int
    """Steps in the whole run."""
    recipe: Recipe
    """The recipe of the run; `recipe.optimizer` has the momentum and the weight decay. Read it only."""
    cluster: Cluster
    """The numbers of workers and nodes, and which worker sits on which node."""
    world: Channel
    """The channel of all workers."""
    node: Channel
    """The channel of the workers on this node."""
    across: Channel
    """The channel between nodes: one worker of each node, with the same place on its node as this worker."""

    def __init__(self, model: "Model", recipe: Recipe, cluster: Cluster, steps_per_epoch: int) -> None:
        self.params = parameters(model)
        self.model = model
        self.recipe = recipe
        self.cluster = cluster
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = steps_per_epoch * recipe.epochs
        self.step = 0
        self.epoch = 0
        self._generator, self._shared_generator = StepGenerator(), StepGenerator()
        self.metrics: dict[str, float] = {}

    @property
    def total_epochs(self) -> int:
        """Epochs in the whole run."""
        return -(-self.total_steps // self.steps_per_epoch)

    @property
    def generator(self) -> torch.Generator:
        """This worker's own random numbers, on the CPU: a new stream for every step, and one for `setup`."""
        return self._generator.get()

    @property
    def shared_generator(self) -> torch.Generator:
        """Random numbers that are the same on all workers, on the CPU.

        All workers make the same random choice without communication, for example of the entries that they
        send. They must draw the same numbers in the same order. There is a new stream for every step, and one
        for `setup`. Each stream follows from the seed of the run. So a run that continues from a checkpoint
        draws the same numbers.
        """
        return self._shared_generator.get()

    def reseed(self, own: Callable[[], int], shared: Callable[[], int]) -> None:
        """Begin new streams with these seeds. For the engine only."""
        self._generator.begin(own)
        self._shared_generator.begin(shared)

    @property
    def weights(self) -> list[Tensor]:
        """The parameter tensors, in the order of `params`; a method changes them in place."""
        return [param.tensor.data for param in self.params]

    @property
    def gradients(self) -> list[Tensor]:
        """The gradients, in the order of `params`; a method changes them in place."""
        return [param.grad for param in self.params]

    @property
    def batch_norm(self) -> bool:
        """Does the model have batch normalisation?"""
        return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.model.modules())

    def make_optimizer(
        self,
        params: list[nn.Parameter],
        momentum: float | None = None,
        weight_decay: float | None = None,
        copies_of: list[nn.Parameter] | None = None,
    ) -> torch.optim.Optimizer:
        """Return the recipe's optimizer for these parameters.

        If `Method.optimizer` returns it, the engine sets its learning rate and saves its state. For all other
        optimizers, the method does both itself.

        A method that applies momentum or weight decay itself takes it out of the optimizer with a 0. It finds
        the recipe's values in `recipe.optimizer`. Without momentum, Nesterov's form is off, too.

        Args:
            params: what the optimizer changes.
            momentum: instead of the recipe's.
            weight_decay: instead of the recipe's.
            copies_of: the model's parameters of which `params` are copies, such as those on a parameter
                server, because Muon treats a parameter by its place in the model; None: no copies.

        Raises:
            MethodError: the recipe's optimizer has no momentum, or a value is out of range; or it is Muon,
                and a parameter is none of the model's.
        """
        recipe = self.recipe.optimizer.changed(momentum, weight_decay)
        of_model = {id(param.tensor): param.hidden for param in self.params}
        hidden = [of_model.get(id(tensor)) for tensor in copies_of or params]
        if recipe.name == "muon" and None in hidden:
            raise MethodError(
                "run.make_optimizer: muon needs the model's parameters, or in copies_of those that params "
                "are copies of; if the method steps other tensors, it names other optimizers in `needs`"
            )
        return make_optimizer(recipe, params, [bool(is_hidden) for is_hidden in hidden])

    def buckets(self, cap_mb: float) -> list[Bucket]:
        """Return the parameters in buckets of at most `cap_mb` megabytes; see `thinwire.api.parameters`."""
        return in_buckets(self.params, cap_mb)

    def log(self, name: str, value: float) -> None:
        """Record a metric of the method; the curve shows the last value on worker 0 at each evaluation.

        The tables also show one metric, `virtual_epochs`. It is the number of epochs that the trained epochs
        stand for so far.
        """
        self.metrics[name] = float(value)


@dataclass(frozen=True)
class Task:
    """A model, its data and its recipe, on a cluster."""

    build_model: Callable[[], "Model"]
    data: Data
    recipe: Recipe
    cluster: Cluster
    seed: int
    device: torch.device = torch.device("cpu")  # noqa: RUF009
    dtype: torch.dtype = torch.float32


def initial_model(task: Task) -> "Model":
    """Return the model with its initial weights, which are the same for all methods of a block."""
    # No state of a GPU is kept: the model is built on the CPU, and every step seeds its own generators.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.of_weights(task.seed))
        return task.build_model().to(device=task.device, dtype=task.dtype).train()
