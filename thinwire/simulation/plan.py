"""Which method, for which network, over which link: `thinwire plan` simulates some methods without data."""

import gc
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import torch

from thinwire import plugins
from thinwire.base.errors import ResourceError, UserError, nearest
from thinwire.base.learning import NEXT_CHARACTER
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.hardware import ClusterDescription, Link, load_accelerator, load_cluster
from thinwire.config.suite import load
from thinwire.config.suite_schema import Round, WithoutData
from thinwire.config.yaml_file import MOST_WORKERS, Module
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.stand_ins import Network, reason_of, require_fit, small_task, weights
from thinwire.simulation.without_data import EVERY_STEP, CellWithoutData


@dataclass(frozen=True)
class Planned:
    """A method of the list."""

    module: Module
    round: Round = EVERY_STEP


# Of the suite with all methods, these are asked about; it has their settings.
SUITE = "times/cifar10"
LABELS = (
    "ssgd",
    "ssgd_one_bucket",
    "ssgd_bf16",
    "ssgd_bf16_one_bucket",
    "hsgd",
    "ps_sgd",
    "daso",
    "local_sgd",
    "diloco",
    "top_k",
    "dgc",
    "power_sgd",
)
# The suites with the networks that have a name; of each network, the first one.
_SUITES = (SUITE, "times/imagenet_mini", "times/text", "paper/accuracy", "paper/time", "paper/time_text")
_IMAGES, _TEXT = "resnet18", "gpt_124m"  # networks on whose data others are tried
# Each method is mirrored with all weights, and two or more are at the same time.
MOST_PARAMETERS = 200_000_000
_BLOCKS, _FEW_BLOCKS, _LARGE = 12, 2, 1_000_000  # of a stand-in, from so many weights on
UTILISATION = 0.9
# Rates that are tried, in Gbit/s.
LEAST_RATE, MOST_RATE = 1e-3, 1e4
_PRECISION = 1.01  # of the rate that is needed, as a factor
# What a process keeps of a network is several times its weights.
_MOST_AT_ONCE = 4


@dataclass(frozen=True)
class Question:
    """A network, a cluster and a device."""

    cell: Cell  # with the network, its data and its recipe; the method is another one
    workers: int
    per_node: int
    rate_gbit_per_second: float  # of a node's link, in each direction
    latency_seconds: float  # of that link, one way
    accelerator: str  # a file in config/accelerators/
    step_seconds: float | None = None  # of both passes; None: those of the accelerator

    def __post_init__(self) -> None:
        """Check the workers.

        Raises:
            UserError: a node would not be full, or there are too many workers.
        """
        if self.workers > MOST_WORKERS:
            raise UserError(f"{self.workers:,} workers are too many: give at most {MOST_WORKERS:,}")
        if self.workers % self.per_node:
            raise UserError(
                f"{self.workers} workers do not fill nodes of {self.per_node}: give a multiple of it"
            )

    @property
    def nodes(self) -> int:
        """How many the workers fill."""
        return self.workers // self.per_node

    def cluster(self, rate: float | None = None) -> ClusterDescription:
        """The cluster, if its links had this rate in Gbit/s; None: their own."""
        link = Link(
            rate_gbit_per_second=rate or self.rate_gbit_per_second, latency_seconds=self.latency_seconds
        )
        return load_cluster(settings().cluster).with_link(link)


@dataclass(frozen=True)
class Answer:
    """What is simulated of a method: means of a step and worker."""

    method: Planned
    seconds: float
    compute_seconds: float  # with what the method itself computes
    between_nodes_bytes: float
    # Gbit/s at which it computes in 90 % of the time. 0: at any rate that is tried; infinite: at none.
    required_gbit_per_second: float


@dataclass(frozen=True)
class LeftOut:
    """A method that cannot run there."""

    label: str
    reason: str


@cache
def settings() -> WithoutData:
    """Of the suite with all methods: its rounds, and its cluster, of which a question has another link."""
    known = load(SUITE).without_data
    assert known is not None
    return known


@cache
def methods() -> list[Planned]:
    """The methods that are asked about, with their settings."""
    modules = {cell.method.label: cell.method for cell in cells(SUITE)}
    return [Planned(modules[label], settings().rounds.get(label, EVERY_STEP)) for label in LABELS]


def answers(question: Question, methods: Sequence[Planned]) -> tuple[list[Answer], list[LeftOut]]:
    """Simulate the methods, each in a process; the fastest comes first.

    Raises:
        UserError: no method can run there.
    """
    processes = min(_MOST_AT_ONCE, len(os.sched_getaffinity(0)), len(methods))
    torch.set_num_threads(1)
    gc.freeze()  # a look for garbage before each run is short then
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        made = [*pool.map(partial(answer, question), methods)]
    found = [one for one in made if isinstance(one, Answer)]
    left = [one for one in made if isinstance(one, LeftOut)]
    if not found:
        raise UserError(left[0].reason)
    return sorted(found, key=lambda one: one.seconds), left


def answer(question: Question, method: Planned) -> Answer | LeftOut:
    """Simulate one method."""
    try:
        made = CellWithoutData(
            replace(question.cell, method=method.module),
            question.per_node,
            question.accelerator,
            method.round,
            question.step_seconds,
        )

        def waits(rate: float) -> float:
            return made.on(question.cluster(rate), question.nodes).exposed_share

        required = highest_rate(waits, 1 - UTILISATION, LEAST_RATE, MOST_RATE)
        mean = made.on(question.cluster(), question.nodes)
    except ResourceError:
        raise
    except Exception as error:
        # As in runs, what a method or a network cannot do is no reason to leave out the others.
        return LeftOut(method.module.label, _reason(question, method, error))
    return Answer(
        method,
        mean.seconds,
        mean.compute_seconds,
        mean.between_nodes_bytes,
        0.0 if required is None else math.inf if required == MOST_RATE else required,
    )


def _reason(question: Question, method: Planned, error: Exception) -> str:
    """Why it is left out; fewer nodes were mirrored, and a reason has the numbers of the whole cluster."""
    if isinstance(error, UserError):
        cell = replace(question.cell, method=method.module)
        cluster = Cluster(question.workers, question.nodes)
        try:
            MirroredCell(cell, Path(), cluster, partial(small_task, Network(cell)))
        except ResourceError:
            raise
        except UserError as own:
            error = own
    return reason_of(error)


def highest_rate(saved: Callable[[float], float], share: float, low: float, high: float) -> float | None:
    """The highest rate at which the share is saved, by bisection on a logarithmic axis.

    Args:
        saved: the share at a rate; it falls as the rate rises.
        share: that is asked for.
        low: the lowest rate, above 0.
        high: the highest rate, in the same unit.

    Returns:
        A rate at which at least the share is saved, at most 1 % below the highest one; `high` if it is saved
        even there; None if it is not saved even at `low`.
    """
    if saved(high) >= share:
        return high
    if saved(low) < share:
        return None
    while high > low * _PRECISION:
        between = math.sqrt(low * high)
        low, high = (between, high) if saved(between) >= share else (low, between)
    return low


@cache
def networks() -> dict[str, Cell]:
    """A cell of each network that has a name, with the data and the batch of its suite."""
    found: dict[str, Cell] = {}
    for suite in _SUITES:
        for cell in cells(suite):
            found.setdefault(cell.model.label, cell)
    return found


def network_of(name: str) -> tuple[Cell, int]:
    """A cell with this network, and the number of its weights.

    Args:
        name: of a network of `networks`, or of a module in models/, which has its defaults.

    Raises:
        UserError: there is no such network, it cannot be built without data, or it does not fit them.
    """
    known, modules = networks(), plugins.find("model")
    if name in known:
        cell = known[name]
    elif name in modules:
        like = _TEXT if modules[name].literal("task") == NEXT_CHARACTER.name else _IMAGES
        cell = replace(known[like], model=Module(name, name, {}))
    else:
        there = [*dict.fromkeys([*known, *modules])]
        raise UserError(
            f"there is no network {name!r}: there are {', '.join(there)}; the nearest is "
            f"{nearest(name, there)}"
        )
    try:
        count = weights(cell)
    except Exception as error:
        # A module may raise anything where it is given other data than it was written for.
        raise UserError(f"{name} cannot be built without data: {reason_of(error)}") from None
    require_fit(cell)
    return cell, count


def stand_in(parameters: int) -> tuple[Cell, int]:
    """A cell with a GPT of about so many weights, and their number.

    Raises:
        UserError: there are too many.
    """
    if parameters > MOST_PARAMETERS:
        raise UserError(f"{parameters:,} parameters are too many: give at most {MOST_PARAMETERS:,}")
    blocks = _BLOCKS if parameters >= _LARGE else _FEW_BLOCKS

    def gpt(width: int) -> Cell:
        options: dict[str, object] = {"width": width, "depth": blocks, "heads": 1}
        return replace(networks()[_TEXT], model=Module("stand_in", "gpt", options))

    # Its weights are a w^2 + b w, where w is the width: matrices, and what has one row for each number.
    a = 12 * blocks
    b = weights(gpt(1)) - a
    made = gpt(max(1, round((math.sqrt(b**2 + 4 * a * parameters) - b) / (2 * a))))
    return made, weights(made)


def computing_as(cell: Cell, accelerator: str) -> Cell:
    """The cell, with the precision of an accelerator.

    Raises:
        UserError: there is no such accelerator.
    """
    # Nothing is computed in TF32 on a CPU, where workers are mirrored.
    precision = "bf16" if load_accelerator(accelerator).precision == "bf16" else "fp32"
    return replace(cell, recipe=cell.recipe.model_copy(update={"precision": precision}))
