"""The time of a cell on a described cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.config.hardware import ClusterDescription, load_accelerator
from thinwire.simulation.calibration import Calibration
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.compute import at_common_speed, pace, typical
from thinwire.simulation.device_clock import DeviceClock, on_device, passes_of
from thinwire.simulation.mirrored import MirroredCell, MirroredRun
from thinwire.simulation.operations import Role, Step
from thinwire.simulation.program import Timeline, program_of
from thinwire.simulation.recurrence import simulate_either_way
from thinwire.simulation.stand_ins import Network

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
        """Simulate it on a cluster, with what the machine and the software add if that is known.

        The seed is of what differs from step to step.
        """
        if calibration is None:
            loads = Loads(described, self.cluster)
            of_role = {worker: program_of(steps) for worker, steps in self.steps.items()}
        else:
            loads = Loads(described, self.cluster, calibration.burst_bytes, calibration.latency_seconds)
            of_role = {
                worker: program_of(steps, hand_over_seconds=calibration.hand_over_seconds)
                for worker, steps in self.steps.items()
            }
        role_of = {worker: role.worker for role in self.roles for worker in role.workers}
        programs = [of_role[role_of[worker]] for worker in range(self.cluster.workers)]
        length = len(programs[0])
        if calibration is None:
            variation = described.stragglers.coefficient_of_variation
            measured = self._measured.steps if self.is_measured else []
            factors = pace(measured, length, self.cluster.workers, seed, variation)
        else:
            factors = calibration.contention.draw(length, seed)
        timeline = simulate_either_way(programs, self.cluster, loads, factors)
        return Simulated(
            self.cell,
            described,
            self.cluster.workers,
            self.cluster.nodes,
            length,
            self.total_steps,
            timeline,
        )


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


def to_common_speed(cells: Sequence[SimulatedCell]) -> None:
    """Scale the seconds of these cells, which have the same batch of a worker; see `at_common_speed`."""
    places = [(cell, worker) for cell in cells for worker in cell.steps]
    scaled = at_common_speed([cell.steps[worker] for cell, worker in places])
    for (cell, worker), steps in zip(places, scaled):
        cell.steps[worker] = steps
