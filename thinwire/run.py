"""A run, as the method of one worker sees it: what it may read, and the channels that it may use."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from thinwire.buckets import Bucket, in_buckets
from thinwire.channel import Channel
from thinwire.cluster import Cluster
from thinwire.parameters import Param, parameters


class Run:
    """What a method may read, and the channels on which it may speak. One for each worker.

    A method speaks in the hooks of training only; `Method` says which these are.
    """

    params: list[Param]  # from the input side to the output side
    optimizer: torch.optim.Optimizer  # what `Method.optimizer` gave
    lr: float  # of this step, by the recipe's schedule; not there before the first step
    loss: Tensor  # this worker's training loss in this step, a scalar
    samples: int  # images of this worker in this step
    world_samples: int  # images of all workers in this step
    step: int  # counts from 0
    epoch: int  # counts from 0; after the last step of an epoch still that epoch
    steps_per_epoch: int
    total_steps: int
    cluster: Cluster
    world: Channel  # all workers
    node: Channel  # the workers of this node
    across: Channel  # the workers with this worker's place, one on each node

    def __init__(
        self,
        model: nn.Module,
        cluster: Cluster,
        steps_per_epoch: int,
        total_steps: int,
        make_optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    ) -> None:
        self.params = parameters(model)
        self.model = model
        self.cluster = cluster
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.step = 0
        self.epoch = 0
        self._generator = torch.Generator()
        self._seed: Callable[[], int] | None = None
        self.metrics: dict[str, float] = {}
        self._make_optimizer = make_optimizer

    @property
    def total_epochs(self) -> int:
        """Epochs of the run."""
        return self.total_steps // self.steps_per_epoch

    @property
    def generator(self) -> torch.Generator:
        """This worker's randomness, on the CPU: a fresh stream every step, and one for `setup`."""
        if self._seed is not None:
            self._generator.manual_seed(self._seed())
            self._seed = None
        return self._generator

    def reseed(self, seed: Callable[[], int]) -> None:
        """Begin a new stream; its seed is asked for when somebody draws, because few methods do."""
        self._seed = seed

    @property
    def weights(self) -> list[Tensor]:
        """The parameter tensors, in the order of `params`; write to them in place."""
        return [param.tensor.data for param in self.params]

    @property
    def gradients(self) -> list[Tensor]:
        """The gradients, in the order of `params`; write to them in place."""
        return [param.grad for param in self.params]

    @property
    def batch_norm(self) -> bool:
        """Does the model normalise over the batch?"""
        return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.model.modules())

    def make_optimizer(self, params: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The recipe's optimizer for these parameters.

        The engine sets the learning rate of the one that `Method.optimizer` gives, and saves it with the run;
        others are the method's own to look after.
        """
        return self._make_optimizer(params)

    def buckets(self, cap_mb: float) -> list[Bucket]:
        """The parameters in buckets of at most `cap_mb` megabytes; see `thinwire.buckets`."""
        return in_buckets(self.params, cap_mb)

    def log(self, name: str, value: float) -> None:
        """Note a number of the method's own; the curve shows its last value at each evaluation.

        `virtual_epochs`, how many epochs the run stands for so far, stands in the tables too.
        """
        self.metrics[name] = float(value)
