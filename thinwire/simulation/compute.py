"""How long computing takes on a described device, and on this machine."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from time import perf_counter
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.learning import NEXT_CHARACTER
from thinwire.base.options import resolve
from thinwire.config.cell import Cell
from thinwire.config.clusters import HERE, Device
from thinwire.simulation.operations import Compute, Step, Wait
from thinwire.simulation.program import Floats
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS, INPUTS

_COPIED_BYTES, _COPIES = 2**26, 5
# The first steps of a run are slower than all others.
WARM_UP_STEPS = 3
# A backward pass computes a gradient of the inputs and one of the weights, each as costly as a forward pass.
# A span of the weight contains both. Where the weight's is not wanted, there is a span of the inputs alone.
BACKWARD_OVER_FORWARD = 2
_PASSES = {"weight": BACKWARD_OVER_FORWARD, INPUTS: 1}


class Profile(Protocol):
    """Gives the seconds of computations."""

    @property
    def name(self) -> str:
        """`here`, or the name of its file."""

    def seconds(self, computed: Compute) -> float:
        """How long a computation takes.

        Raises:
            UserError: the profile has no such layer.
        """

    def pace(self, steps: int, workers: int, seed: int) -> Floats:
        """[steps, workers]: factors of the seconds, because no two steps take the same time."""


class MeasuredHere:
    """One worker, alone, on a core of this machine: what the schedule has recorded."""

    name = HERE

    def __init__(self, steps: Sequence[Step]) -> None:
        """Take the distribution of steps from a schedule whose times are typical; see `typical`."""
        alike: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for step in steps[WARM_UP_STEPS:]:
            alike[_structure(step)].append(_computing(step))
        factors = [s / median(all_) for all_ in alike.values() if len(all_) > 2 for s in all_ if s > 0]
        self._factors = np.array(factors or [1.0])

    def seconds(self, computed: Compute) -> float:
        return computed.seconds

    def pace(self, steps: int, workers: int, seed: int) -> Floats:
        return np.random.default_rng(seed).choice(self._factors, (steps, workers))


@dataclass(frozen=True)
class Described:
    """A device that a file describes.

    Layers take their floating-point operations over the rate of the device. Everything else is taken to be
    limited by memory: it takes the seconds measured here times the ratio of the memories. Every computation
    takes at least the time of a launch.
    """

    name: str
    device: Device
    forward_flops: dict[str, int]  # of one batch, by layer
    bytes_per_second_here: float
    variation: float  # standard deviation of a step over its mean

    def seconds(self, computed: Compute) -> float:
        if not computed.name:
            return 0.0
        if computed.kind == FORWARD:
            busy = self._layer(computed.name) / self.device.flops_per_second
        elif computed.kind == BACKWARD:
            layer, _, part = computed.name.rpartition(".")
            passes = _PASSES.get(part, 0)
            busy = passes * self._layer(layer) / self.device.flops_per_second if passes else 0.0
        else:
            slower = self.bytes_per_second_here / (self.device.memory_gigabytes_per_second * 1e9)
            busy = computed.seconds * slower
        return max(busy, self.device.launch_seconds)

    def _layer(self, name: str) -> int:
        if name not in self.forward_flops:
            raise UserError(f"the compute profile {self.name} has no layer {name!r} of this model")
        return self.forward_flops[name]

    def pace(self, steps: int, workers: int, seed: int) -> Floats:
        if not self.variation:
            return np.ones((steps, workers))
        # A gamma distribution of mean 1.
        shape = 1 / self.variation**2
        return np.random.default_rng(seed).gamma(shape, 1 / shape, (steps, workers))


def typical(steps: Sequence[Step]) -> list[Step]:
    """The steps with typical times: medians over all steps that have the same operations."""
    places: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        places[_structure(step)].append(number)
    made = [list(step) for step in steps]
    for numbers in places.values():
        counted = [number for number in numbers if number >= WARM_UP_STEPS] or numbers
        for place, operation in enumerate(steps[numbers[0]]):
            if isinstance(operation, Compute):
                taken = median(steps[number][place].seconds for number in counted)  # type: ignore[union-attr]
                for number in numbers:
                    made[number][place] = replace(operation, seconds=taken)
    return made


def forward_flops(model: nn.Module, inputs: Tensor) -> dict[str, int]:
    """The floating-point operations of a forward pass, by layer; a layer without any has 0."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model(inputs)
    counts = counter.get_flop_counts()
    root = type(model).__name__
    return {name: sum(counts.get(f"{root}.{name}", {}).values()) for name, _ in model.named_modules() if name}


@cache
def bytes_per_second_here() -> float:
    """How many bytes this machine copies in a second, read and written bytes counted; measured once."""
    source = torch.ones(_COPIED_BYTES // 4)
    target = torch.empty_like(source)
    times = []
    for _ in range(_COPIES):
        began = perf_counter()
        target.copy_(source)
        times.append(perf_counter() - began)
    return 2 * _COPIED_BYTES / median(times)


def _computing(step: Step) -> float:
    return sum(o.seconds for o in step if isinstance(o, Compute) and o.kind != HARNESS)


def _structure(step: Step) -> tuple[object, ...]:
    """What two steps have in common if they have the same operations."""
    return tuple(
        (o.kind, o.name) if isinstance(o, Compute) else "wait" if isinstance(o, Wait) else (o.channel, o.verb)
        for o in step
    )


def layer_flops(cell: Cell) -> dict[str, int]:
    """The floating-point operations of a forward pass of one input, by layer; 0 for a layer without any."""
    network, one = without_numbers(cell)
    counts = forward_flops(network, one)
    leaves = [name for name, module in network.named_modules() if name and not list(module.children())]
    return {name: counts[name] for name in leaves}


def without_numbers(cell: Cell) -> tuple[nn.Module, Tensor]:
    """The model of a cell and one input, on the device whose tensors have shapes and no numbers."""
    dataset = plugins.get("dataset", cell.data.use).load()
    model = plugins.get("model", cell.model.use).load()
    data = dataset(resolve(dataset, cell.data.options))
    with torch.device("meta"):
        network = model(resolve(model, cell.model.options), data.shape, data.classes).eval()
        of_text = data.learning() is NEXT_CHARACTER
        return network, torch.empty(1, *data.shape, dtype=torch.int64 if of_text else torch.float32)
