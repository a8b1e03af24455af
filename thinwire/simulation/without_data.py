"""The time of a cell on a described cluster and device, without its data: for networks that no laptop trains.

What a worker calls depends on the shapes of its model, and not on its inputs. So a worker of each role is
mirrored with two small inputs, on few nodes; see `thinwire.simulation.scaled`. Its seconds are those of a
described device:

- passes, with the batch of the cell, from the shapes of the network (`pass_seconds`);
- codecs, methods, optimizers and servers from the operations that the mirrored worker runs (`DeviceClock`);
- decoding what all workers of a channel gathered takes longer with their number, as servers do.

Nothing that was measured here is in the result, so it is the same on every machine. Input, evaluations and
stragglers are left out. Ragged sizes are those of gradients that nothing has learnt from.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from thinwire.base.errors import UserError, message_of
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell, prepares
from thinwire.config.hardware import Accelerator, ClusterDescription, load_accelerator
from thinwire.config.suite_schema import Round
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.device_clock import DeviceClock, passes_of, seconds_on_device
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.program import (
    Compute,
    Floats,
    Operation,
    Post,
    Program,
    Step,
    Wait,
    Work,
    program_of,
)
from thinwire.simulation.scaled import Schedule, Schedules
from thinwire.simulation.stand_ins import INPUTS_OF_A_WORKER, Network, prepare_small, small_task
from thinwire.simulation.timeline import Timeline, simulate
from thinwire.trace.recorder import DECODE

_FEW_NODES = 2  # on which schedules are known
EVERY_STEP = Round(steps=1)


def reason_of(error: Exception) -> str:
    """Why a method or a network cannot be simulated: its modules may raise anything without their data."""
    return str(error) if isinstance(error, UserError) else message_of(error)


@dataclass(frozen=True)
class MeanStep:
    """Means over the steps of a period and the workers."""

    seconds: float
    compute_seconds: float
    between_nodes_bytes: float = 0.0
    """That a worker sends to other nodes in a step."""

    @property
    def exposed_share(self) -> float:
        """The share of the step in which a worker waits: for bytes, for servers or for others."""
        return max(0.0, 1 - self.compute_seconds / self.seconds)


class CellWithoutData:
    """A cell whose schedule repeats after each round, for any number of nodes with so many workers each."""

    def __init__(
        self,
        cell: Cell,
        workers_per_node: int,
        accelerator: str,
        rounds: Round = EVERY_STEP,
        step_seconds: float | None = None,
        like: "CellWithoutData | None" = None,
    ) -> None:
        """Mirror a worker of each role.

        Args:
            cell: its own numbers of workers and nodes are not used.
            workers_per_node: on every cluster on which it will be simulated.
            accelerator: a file in config/accelerators/.
            rounds: the steps after which the schedule begins again.
            step_seconds: of both passes, where they are known; layers share them as on the accelerator.
            like: the same cell with the same accelerator and rounds on nodes of another size. Where its
                schedule does not depend on that size, it is used again.

        Raises:
            UserError: there is no such accelerator, or the method cannot run on two nodes, or the steps that
                are not mirrored have calls.
        """
        device = load_accelerator(accelerator)
        network = Network(cell)
        self._passes = passes_of(network, cell.recipe, workers_per_node, device)
        if step_seconds is not None:
            known = step_seconds / sum(self._passes.values())
            self._passes = {span: known * seconds for span, seconds in self._passes.items()}
        self._per_node, self._mirrored = workers_per_node, rounds.mirrored or rounds.steps
        self._others = rounds.steps - self._mirrored
        small = replace(
            cell,
            recipe=cell.recipe.model_copy(update={"batch": INPUTS_OF_A_WORKER, "batch_per": "worker"}),
            method=replace(cell.method, options={**cell.method.options, **rounds.options}),
        )
        # The first step of a run may differ, and others should not be like it.
        first = self._mirrored if self._others else max(2, self._mirrored) - self._mirrored
        self._schedules: Schedules
        if like is not None and like._schedules.all_alike:
            self._schedules = like._schedules
        else:
            self._schedules = Schedules(self._mirrored_cells(small, network, device), first, self._mirrored)
        self._known: dict[tuple[int, int], list[Program]] = {}  # by the numbers of nodes and of steps
        if self._others and any(not isinstance(made, Work) for made in self._programs(_FEW_NODES, 1)[0][0]):
            raise UserError(
                f"{cell.method.label}: of a round of {rounds.steps} steps {self._mirrored} are mirrored, and "
                "the first of them has calls, so the others cannot be like it: let more be mirrored"
            )

    def _mirrored_cells(
        self, small: Cell, network: Network, device: Accelerator
    ) -> Callable[[int], MirroredCell]:
        """Gives the cell with small inputs on so many nodes; each has as many steps in an epoch."""
        load = partial(small_task, network)
        # What a method has prepared is read each time that a worker is mirrored.
        self._folder = TemporaryDirectory() if prepares(small.method.use) else None
        prepared = None if self._folder is None else Path(self._folder.name)
        if prepared is not None:
            prepare_small(small, load(small, Path(), torch.device("cpu")), prepared)

        def mirrored(nodes: int) -> MirroredCell:
            cluster = Cluster(nodes * self._per_node, nodes)
            placed = replace(small, workers=cluster.workers, nodes=nodes)
            return MirroredCell(placed, Path(), cluster, load, DeviceClock(device), prepared)

        return mirrored

    def on(self, described: ClusterDescription, nodes: int) -> MeanStep:
        """The mean step of a round on so many nodes of a cluster; the first round is left out.

        Raises:
            UserError: so many workers cannot be mirrored, and have to be.
        """
        mirrored, others = self._mirrored, self._others
        timeline = self._simulate(described, nodes, np.ones(2 * mirrored))
        ends, computed = timeline.end_seconds.max(axis=1), timeline.compute_seconds[mirrored:]
        alone = computed[0].mean() if others else 0.0
        steps = mirrored + others
        return MeanStep(
            float(ends[-1] - ends[mirrored - 1] + others * alone) / steps,
            float(mirrored * computed.mean() + others * alone) / steps,
            timeline.between_nodes_bytes / timeline.compute_seconds.size * mirrored / steps,
        )

    def at_paces(self, described: ClusterDescription, nodes: int, paces: Floats) -> Floats:
        """The seconds of steps in which computing takes longer by these factors: [steps].

        It is for schedules in which no step leaves a call under way.
        """
        return self._simulate(described, nodes, paces).step_seconds

    def _simulate(self, described: ClusterDescription, nodes: int, paces: Floats) -> Timeline:
        cluster, programs = self._cluster(nodes), self._programs(nodes, len(paces))
        loads, pace = Loads(described, cluster), np.repeat(paces[:, None], cluster.workers, axis=1)
        return simulate(programs, cluster, loads, pace)

    def _programs(self, nodes: int, length: int) -> list[Program]:
        """The program of each worker; workers of one role share it."""
        if (nodes, length) not in self._known:
            schedule = self.schedule(nodes)
            of_role = [program_of(steps, length) for steps in schedule.steps]
            self._known[nodes, length] = [of_role[role] for role in schedule.role_of]
        return self._known[nodes, length]

    def schedule(self, nodes: int) -> Schedule:
        """What the workers of so many nodes do in the mirrored steps, with the seconds of the device.

        Raises:
            UserError: so many workers cannot be mirrored, and have to be.
        """
        mirrored = self._schedules.on(nodes, self._per_node)
        members = {channel: len(group) for channel, group in self._cluster(nodes).groups(0).items()}
        steps = [[self._on_device(step, members) for step in own] for own in mirrored.steps]
        return Schedule(steps, mirrored.role_of)

    def _cluster(self, nodes: int) -> Cluster:
        return Cluster(nodes * self._per_node, nodes)

    def _on_device(self, step: Step, members: dict[str, int]) -> Step:
        """The step, with the seconds of the device, where channels have so many members."""
        made: list[Operation] = []
        gathers = {post.call: post for post in step if isinstance(post, Post) and post.verb == "gather"}
        payloads = 1.0  # of the last answer, over those of the mirrored one
        for operation in step:
            match operation:
                case Compute():
                    operation = replace(operation, seconds=self._seconds(operation, payloads))
                case Wait(call):
                    answered = gathers.get(call)
                    payloads = members[answered.channel] / len(answered.members) if answered else 1.0
            made.append(operation)
        return made

    def _seconds(self, computed: Compute, payloads: float) -> float:
        seconds = seconds_on_device(self._passes, computed)
        return seconds * payloads if computed.kind == DECODE else seconds
