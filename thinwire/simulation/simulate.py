"""The time of a cell on a described cluster.

Brings schedules that were measured one after the other to one speed of the machine.

A core is faster at one time than at another, by a quarter and more, and each method is mirrored at a time of
its own. Without a remedy, a method would seem slow because the machine was. But the methods of one experiment
compute the same forward and backward passes. So the seconds of these passes tell how fast the machine was.
All seconds of a schedule are scaled such that its passes take as long as in the median over all schedules.

If a method wants fewer gradients, parts of its backward pass are others. Then only those parts of the passes
are compared that all schedules have.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.config.accelerators import load_accelerator
from thinwire.config.cell import Cell
from thinwire.config.clusters import ClusterDescription
from thinwire.simulation import event_loop, recurrence
from thinwire.simulation.calibration import Calibration
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.compute import pace, typical
from thinwire.simulation.device_clock import DeviceClock
from thinwire.simulation.mirrored import MirroredCell, MirroredRun
from thinwire.simulation.operations import Compute, Operation, Post, Role, Step
from thinwire.simulation.passes_on_device import on_device, passes_of
from thinwire.simulation.program import Timeline, costs_nothing, program_of
from thinwire.simulation.small_inputs import Network
from thinwire.trace.recorder import BACKWARD, FORWARD

# So many steps of a run are simulated unless a person wants more.
STEPS = 200
# With fewer steps that send, the steps after the last of them change the mean noticeably.
FEWEST_EXCHANGES = 5


@dataclass(frozen=True)
class Simulated:
    """The time of a cell on a cluster; seconds are means over the steps and the workers."""

    cell: Cell
    cluster: ClusterDescription
    workers: int
    nodes: int
    steps: int
    total_steps: int  # of the whole run
    timeline: Timeline

    @property
    def step_seconds(self) -> float:
        return self.timeline.seconds / self.steps


class SimulatedCell:
    """A cell whose schedule is known, for any clusters with so many workers and nodes."""

    def __init__(
        self,
        cell: Cell,
        results: Path,
        cluster: Cluster,
        steps: int = STEPS,
        accelerator: str | None = None,
    ) -> None:
        """Mirror one worker of each role.

        Args:
            cell: its own numbers of workers and nodes are not used.
            results: the folder with its data, if they are there, and its method's preparation.
            cluster: its workers and nodes.
            steps: how many of the first steps of the run.
            accelerator: a file in config/accelerators/, whose seconds computing takes; None: those of a core
                of this machine.

        Raises:
            UserError: as `MirroredCell`; or the recipe accumulates gradients.
        """
        if cell.recipe.accumulate > 1:
            raise UserError(
                f"{cell.path}: recipe.accumulate: simulated steps have one pair of passes: leave it out of a "
                "suite that is simulated"
            )
        device = None if accelerator is None else load_accelerator(accelerator)
        clock = None if device is None else DeviceClock(device)
        self._mirrored = MirroredCell(cell, results, cluster, clock=clock)
        self.cell, self.cluster = cell, cluster
        found = self._mirrored.roles(steps)
        self.roles: list[Role] = [role for role, _ in found]
        self.is_measured, seconds_of = device is None, typical
        if device is not None:
            seconds_of = partial(on_device, passes_of(Network(cell), cell.recipe, cluster.workers, device))
        self.steps: dict[int, list[Step]] = {role.worker: seconds_of(run.steps) for role, run in found}
        self._measured = found[0][1]
        self.total_steps = self._measured.total_steps
        self.unlike_run = self._unlike_run([run for _, run in found])

    def _unlike_run(self, runs: Sequence[MirroredRun]) -> str | None:
        """Why the mean of these first steps is not that of the whole run, in one sentence.

        None: nothing tells that it is not.
        """
        steps = len(self._measured.steps)
        if steps == self.total_steps:
            return None
        reason = self._mirrored.why_too_short(steps)
        if self.cluster.workers > 1:
            reason = _why_few(runs, steps) or reason
        if reason is None:
            return None
        return (
            f"{self.cell.method.label}: its first {steps} of {self.total_steps} steps are not like the whole "
            f"run, because {reason}"
        )

    def on(
        self, described: ClusterDescription, calibration: Calibration | None = None, seed: int = 0
    ) -> Simulated:
        """Simulate it on a cluster.

        Args:
            described: the cluster.
            calibration: what the machine and the software add; None: nothing is known about that.
            seed: of what differs from step to step.
        """
        if calibration is None:
            loads, hand_over_seconds = Loads(described, self.cluster), costs_nothing
        else:
            loads = Loads(described, self.cluster, calibration.burst_bytes, calibration.latency_seconds)
            hand_over_seconds = calibration.hand_over_seconds
        of_role = {
            worker: program_of(steps, attrgetter("seconds"), hand_over_seconds)
            for worker, steps in self.steps.items()
        }
        programs = [of_role[role.worker] for role in self._role_of_each()]
        length = len(programs[0])
        if calibration is None:
            variation = described.stragglers.coefficient_of_variation
            measured = self._measured.steps if self.is_measured else []
            factors = pace(measured, length, self.cluster.workers, seed, variation)
        else:
            factors = calibration.contention.draw(length, seed)
        if recurrence.applies(programs, self.cluster, loads):
            timeline = recurrence.simulate(programs[0], self.cluster, loads, factors)
        else:
            timeline = event_loop.simulate(programs, self.cluster, loads, factors)
        return Simulated(
            self.cell,
            described,
            self.cluster.workers,
            self.cluster.nodes,
            length,
            self.total_steps,
            timeline,
        )

    def _role_of_each(self) -> Sequence[Role]:
        by_worker = {worker: role for role in self.roles for worker in role.workers}
        return [by_worker[worker] for worker in range(self.cluster.workers)]


def _why_few(runs: Sequence[MirroredRun], steps: int) -> str | None:
    """Why these first steps have too few exchanges for a mean, or None. Control values do not count."""
    sending = {
        call.step for run in runs for call in run.recorder.calls if call.sent_bytes.keys() - {"control"}
    }
    if not sending:
        return "it sends nothing in them"
    if len(sending) < FEWEST_EXCHANGES and max(sending) < steps - 1:
        return f"it sends something in only {len(sending)} of them, and not in the last"
    return None


# The kind of a pass, and the name of a layer or a parameter in it.
Part = tuple[str, str]


def to_common_speed(cells: Sequence[SimulatedCell]) -> None:
    """Scale the seconds of these cells, which have the same model and the same batch of a worker."""
    places = [(cell, worker) for cell in cells for worker in cell.steps]
    scaled = at_common_speed([cell.steps[worker] for cell, worker in places])
    for (cell, worker), steps in zip(places, scaled):
        cell.steps[worker] = steps


def at_common_speed(schedules: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """The schedules, with scaled seconds.

    Schedules are compared only with those whose forward passes consist of the same layers.
    """
    passes = [_passes(steps) for steps in schedules]
    models = [frozenset(name for kind, name in own if kind == FORWARD) for own in passes]
    seconds: list[float] = []
    for model, own in zip(models, passes):
        alike = [other for key, other in zip(models, passes) if key == model]
        seconds.append(sum(own[part] for part in own if all(part in other for other in alike)))
    made = []
    for steps, model, measured in zip(schedules, models, seconds):
        typical = median(others for key, others in zip(models, seconds) if key == model)
        factor = typical / measured if measured else 1.0
        made.append([[_scaled(operation, factor) for operation in step] for step in steps])
    return made


def _passes(steps: Sequence[Step]) -> dict[Part, float]:
    """The seconds of a forward and a backward pass, by their parts; the mean over the steps."""
    found: dict[Part, float] = defaultdict(float)
    for operation in (o for step in steps for o in step):
        if isinstance(operation, Compute) and operation.kind in (FORWARD, BACKWARD):
            found[operation.kind, operation.name] += operation.seconds / len(steps)
    return dict(found)


def _scaled(operation: Operation, factor: float) -> Operation:
    if isinstance(operation, Compute):
        return replace(operation, seconds=factor * operation.seconds)
    if isinstance(operation, Post):
        return replace(operation, server_seconds=factor * operation.server_seconds)
    return operation
