"""The time of a cell on a described cluster and device, without its data: for networks that no laptop trains.

What a worker calls depends on the shapes of its model, and not on its images. So a worker of each role is
mirrored with two small images, on few nodes; see `thinwire.simulation.scaled`. The seconds of layers follow
from the images of the cell and from the device. A server reads a push and its sum, and writes the sum, at the
rate of the device's memory. Optimizers and codecs take no more than a launch. Nothing that was measured here
is in the result, so it is the same on every machine. Input, evaluations and stragglers are left out.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.config import clusters
from thinwire.config.cell import Cell
from thinwire.config.clusters import ClusterDescription
from thinwire.data.arrays import Rows
from thinwire.simulation import event_loop, recurrence, stand_in_data
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.compute import Described, layer_flops
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.operations import Operation, Post, Step
from thinwire.simulation.program import Floats, Program, Timeline, program_of
from thinwire.simulation.scaled import Schedules
from thinwire.train.cell_task import task_with

_PIXELS, _IMAGES = 32, 2
_STEPS_AN_EPOCH = 1000  # more than are mirrored: no epoch ends
_PASSES_OVER_A_PUSH = 3  # read it, read the sum, write the sum


@dataclass(frozen=True)
class MeanStep:
    """Means over the steps of a period and the workers, in seconds."""

    seconds: float
    compute_seconds: float

    @property
    def exposed_share(self) -> float:
        """The share of the step in which a worker waits: for bytes, for servers or for others."""
        return max(0.0, 1 - self.compute_seconds / self.seconds)


class CellWithoutData:
    """A cell whose schedule repeats every few steps, for any number of nodes."""

    def __init__(self, cell: Cell, workers_per_node: int, profile: str, period: int = 1) -> None:
        """Mirror a worker of each role.

        Args:
            cell: its own numbers of workers and nodes are not used.
            workers_per_node: on every cluster on which it will be simulated.
            profile: a file in config/profiles/.
            period: the number of steps after which the schedule begins again.

        Raises:
            UserError: there is no such profile, or the method cannot run on two nodes.
        """
        device = clusters.load_profile(profile)
        self._memory_bytes_per_second = device.memory_gigabytes_per_second * 1e9
        batch = cell.recipe.batch_per_worker(workers_per_node)
        flops = {layer: batch * count for layer, count in layer_flops(cell).items()}
        self._profile = Described(profile, device, flops, bytes_per_second_here=0.0, variation=0.0)
        self._period, self._per_node = period, workers_per_node
        small = replace(cell, recipe=cell.recipe.model_copy(update={"batch": _IMAGES, "batch_per": "worker"}))
        first = max(2, period) - period  # the first step of a run may differ
        self._schedules = Schedules(lambda nodes: _mirrored(small, workers_per_node, nodes), first, period)

    def on(self, described: ClusterDescription, nodes: int) -> MeanStep:
        """The mean step of the second period, on so many nodes of a cluster."""
        timeline = self._simulate(described, nodes, np.ones(2 * self._period))
        ends = timeline.end_seconds.max(axis=1)
        return MeanStep(
            float(ends[-1] - ends[self._period - 1]) / self._period,
            float(timeline.compute_seconds[self._period :].mean()),
        )

    def at_paces(self, described: ClusterDescription, nodes: int, paces: Floats) -> Floats:
        """The seconds of steps in which computing takes longer by these factors, one step for each.

        It is for schedules in which no step leaves a call under way.

        Args:
            described: the cluster.
            nodes: of it.
            paces: [steps], factors of the profile's seconds.
        """
        return self._simulate(described, nodes, paces).step_seconds

    def _simulate(self, described: ClusterDescription, nodes: int, paces: Floats) -> Timeline:
        cluster = Cluster(nodes * self._per_node, nodes)
        schedule = self._schedules.on(nodes)
        of_role = [self._program(steps, cluster, len(paces)) for steps in schedule.steps]
        programs = [of_role[role] for role in schedule.role_of]
        loads, pace = Loads(described, cluster), np.repeat(paces[:, None], cluster.workers, axis=1)
        if recurrence.applies(programs, cluster, loads):
            return recurrence.simulate(programs[0], cluster, loads, pace)
        return event_loop.simulate(programs, cluster, loads, pace)

    def _program(self, steps: list[Step], cluster: Cluster, length: int) -> Program:
        members = {channel: len(group) for channel, group in cluster.groups(0).items()}
        served = [[self._served(operation, members) for operation in step] for step in steps]
        return program_of(served, self._profile.seconds, length=length)

    def _served(self, operation: Operation, members: dict[str, int]) -> Operation:
        """The operation, with the seconds of a server on this device and for so many pushes."""
        if not isinstance(operation, Post):
            return operation
        pushed = members[operation.channel] * operation.sent_bytes
        served = operation.verb == "push_pull"
        seconds = served * _PASSES_OVER_A_PUSH * pushed / self._memory_bytes_per_second
        return replace(operation, server_seconds=seconds)


def _mirrored(cell: Cell, workers_per_node: int, nodes: int) -> MirroredCell:
    """The cell with its small images, on so many nodes; each has as many steps in an epoch."""
    cluster = Cluster(nodes * workers_per_node, nodes)
    return MirroredCell(replace(cell, workers=cluster.workers, nodes=nodes), Path(), cluster, _task)


def _task(cell: Cell, results: Path, device: torch.device) -> Task:
    """The task of a cell, with the same small black image again and again."""
    plugin = plugins.get("dataset", cell.data.use).load()
    channels = plugin(resolve(plugin, cell.data.options)).shape[0]
    rows = torch.zeros(_STEPS_AN_EPOCH * _IMAGES * cell.workers, dtype=torch.int64)
    image = torch.zeros((1, channels, _PIXELS, _PIXELS), dtype=torch.uint8)
    data = stand_in_data.data_of(cell, Rows(image, rows), labels=rows, test=image, mean=0.0, std=1.0)
    return task_with(stand_in_data.undivided(cell), data, device)
