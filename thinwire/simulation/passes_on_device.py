"""How long the passes of a network take on a described device, for any batch, without computing anything.

The network runs on tensors that have shapes and no numbers (PyTorch's `FakeTensorMode`). As in the engine, it
has the recipe's precision, and hooks that divide the passes into layers. `DeviceClock` adds up what each
operation would take.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from thinwire.api.parameters import parameters
from thinwire.config.accelerators import Accelerator
from thinwire.optim.recipe import Recipe
from thinwire.simulation.device_clock import DeviceClock
from thinwire.simulation.operations import Compute, Step
from thinwire.simulation.small_inputs import Network
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS, INPUTS, NS, Activity, Recorder
from thinwire.train.passes import Passes
from thinwire.train.tracing import cut_into_layers

Span = tuple[str, str]  # the kind and the name that a recorder gives it; see `thinwire.train.tracing`


def pass_seconds(
    build: Callable[[], nn.Module],
    batch: Callable[[], tuple[Tensor, Tensor]],
    passes: Passes,
    device: Accelerator,
) -> dict[Span, float]:
    """The seconds of each span of a forward and a backward pass.

    Args:
        build: makes the network.
        batch: makes the inputs and the labels of a worker.
        passes: as a recipe wants them, on a CPU.
        device: that computes.
    """
    with FakeTensorMode():
        model, (inputs, labels) = build().train(), batch()
        clock = DeviceClock(device.in_passes)
        recorder = Recorder(0, clock)
        cut_into_layers(model, parameters(model), recorder)
        with clock:
            recorder.switch(Activity(FORWARD))
            passes.loss(model, inputs, labels).backward()
            recorder.cut("")
    seconds: dict[Span, float] = defaultdict(float)
    for _, (kind, name, _), begin, end in recorder.spans:
        if kind in (FORWARD, BACKWARD):
            seconds[kind, name] += (end - begin) * NS
    return dict(seconds)


def passes_of(network: Network, recipe: Recipe, workers: int, device: Accelerator) -> dict[Span, float]:
    """The seconds of each span of both passes, on the batch that one of so many workers has."""
    inputs = partial(blank, recipe.batch_per_worker(workers), network.shape, network.of_text)
    return pass_seconds(network.build, inputs, Passes(recipe, torch.device("cpu")), device)


def seconds_on_device(passes: Mapping[Span, float], computed: Compute) -> float:
    """What a computation takes that a `DeviceClock` has timed, but for the passes, which have these seconds.

    What the harness does takes none.
    """
    kind, name = computed.kind, computed.name
    if kind == HARNESS:
        return 0.0
    if kind not in (FORWARD, BACKWARD):
        return computed.seconds
    if kind == BACKWARD and name.endswith(f".{INPUTS}"):
        # Of the two gradients of a layer, which cost the same, one is computed.
        return passes.get((BACKWARD, f"{name.removesuffix(INPUTS)}weight"), 0.0) / 2
    return passes.get((kind, name), 0.0)


def on_device(passes: Mapping[Span, float], steps: Sequence[Step]) -> list[Step]:
    """The steps, with what each computation takes on the device."""
    return [
        [
            replace(each, seconds=seconds_on_device(passes, each)) if isinstance(each, Compute) else each
            for each in step
        ]
        for step in steps
    ]


def blank(batch: int, shape: tuple[int, ...], of_text: bool) -> tuple[Tensor, Tensor]:
    """A batch of zeros: images and their classes, or windows of text and what follows each character."""
    if of_text:
        return (torch.zeros(batch, *shape, dtype=torch.int64),) * 2
    return torch.zeros(batch, *shape), torch.zeros(batch, dtype=torch.int64)
