"""The passes of eight replicas on one device: in series, in streams, in a CUDA graph, and as one vmap."""

from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional

from gpu_parts import small_run
from gpu_parts.part import Found, Place, first_line
from thinwire.api.run import initial_model

REPLICAS, BATCH, REPETITIONS = 8, 32, 7
SMALL_REPLICAS, SMALL_BATCH, SMALL_REPETITIONS = 2, 4, 1


def part(place: Place, found: Found) -> None:
    """Time forward and backward passes of all replicas, over those in series."""
    data = small_run.random_images(32, 3)
    task = small_run.task(place.device, dtype=torch.float32, data=data)
    replicas, batch = (SMALL_REPLICAS, SMALL_BATCH) if place.small else (REPLICAS, BATCH)
    models = [initial_model(task) for _ in range(replicas)]
    images = torch.randn(replicas, batch, *data.shape, device=place.device)
    labels = torch.randint(0, data.classes, (replicas, batch), device=place.device)
    ways: dict[str, Callable[[], Callable[[], None]]] = {"series": lambda: _series(models, images, labels)}
    if place.is_gpu:
        ways["streams"] = lambda: _streams(models, images, labels)
        ways["graph"] = lambda: _graph(models, images, labels)
    ways["vmap"] = lambda: _vmap(models, images, labels)
    series = 0.0
    for name, prepare in ways.items():
        try:
            seconds = _seconds(place, prepare())
        except Exception as error:
            found.figures[name] = f"does not run: {first_line(error)}"
            continue
        series = series or seconds
        found.figures[name] = {"ms": 1e3 * seconds, "of_series": seconds / series}


def _series(models: list[nn.Module], images: Tensor, labels: Tensor) -> Callable[[], None]:
    def passes() -> None:
        for model, own, wanted in zip(models, images, labels):
            _pass(model, own, wanted)

    return passes


def _pass(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    for parameter in model.parameters():
        parameter.grad = None
    functional.cross_entropy(model(images), labels).backward()


def _streams(models: list[nn.Module], images: Tensor, labels: Tensor) -> Callable[[], None]:
    streams = [torch.cuda.Stream() for _ in models]

    def passes() -> None:
        here = torch.cuda.current_stream()
        for stream, model, own, wanted in zip(streams, models, images, labels):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                _pass(model, own, wanted)
        for stream in streams:
            here.wait_stream(stream)

    return passes


def _graph(models: list[nn.Module], images: Tensor, labels: Tensor) -> Callable[[], None]:
    passes = _series(models, images, labels)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):  # a graph may record only what has warmed up
            passes()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        passes()
    return graph.replay


def _vmap(models: list[nn.Module], images: Tensor, labels: Tensor) -> Callable[[], None]:
    parameters, buffers = stack_module_state(models)
    base = models[0]

    def loss(own: dict[str, Tensor], state: dict[str, Tensor], batch: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(base, (own, state), (batch,)), wanted)

    of_all = vmap(grad(loss))

    def passes() -> None:
        of_all(parameters, buffers, images, labels)

    return passes


def _seconds(place: Place, passes: Callable[[], None]) -> float:
    repetitions = SMALL_REPETITIONS if place.small else REPETITIONS
    return median([place.seconds(passes) for _ in range(repetitions + 2)][2:])
