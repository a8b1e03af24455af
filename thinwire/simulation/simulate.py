"""The time of a cell on a described cluster, with the computing of this machine or of a described device."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.config.hardware import ClusterDescription, load_accelerator
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.device_clock import DeviceClock, on_device, passes_of
from thinwire.simulation.mirrored import MirroredCell, MirroredRun
from thinwire.simulation.program import Compute, Floats, Operation, Post, Program, Step, Wait, program_of
from thinwire.simulation.timeline import Timeline, simulate
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS

# So many steps of a run are simulated unless a person wants more.
STEPS = 200
# With fewer steps that send, the steps after the last of them change the mean noticeably.
FEWEST_EXCHANGES = 5
# The first steps of a run are slower than all others.
WARM_UP_STEPS = 3


class SimulatedCell:
    """A cell whose schedule is known, for any clusters with so many workers and nodes."""

    def __init__(
        self, cell: Cell, results: Path, cluster: Cluster, steps: int = STEPS, accelerator: str | None = None
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
        mirrored = MirroredCell(cell, results, cluster, clock=None if device is None else DeviceClock(device))
        self.cell, self.cluster = cell, cluster
        found = mirrored.roles(steps)
        runs = [run for _, run in found]
        self._role_of = {worker: role.worker for role, _ in found for worker in role.workers}
        self.total_steps = runs[0].total_steps
        self.unlike_run = _unlike_run(mirrored, runs)
        if device is None:
            self._measured, seconds_of = runs[0].steps, typical
        else:
            self._measured = []
            seconds_of = partial(on_device, passes_of(cell, cluster.workers, device))
        self.steps: dict[int, list[Step]] = {run.worker: seconds_of(run.steps) for run in runs}

    def on(self, described: ClusterDescription) -> Timeline:
        """Simulate it on a cluster."""
        programs, workers = self.programs(), self.cluster.workers
        variation = described.stragglers.coefficient_of_variation
        factors = pace(self._measured, len(programs[0]), workers, variation)
        return simulate(programs, self.cluster, Loads(described, self.cluster), factors)

    def programs(self) -> list[Program]:
        """The programs of all workers; workers of one role share one."""
        made = {worker: program_of(steps) for worker, steps in self.steps.items()}
        return [made[self._role_of[worker]] for worker in range(self.cluster.workers)]


def _unlike_run(mirrored: MirroredCell, runs: Sequence[MirroredRun]) -> str | None:
    """Why the mean of these first steps is not that of the whole run, in one sentence.

    None: nothing tells that it is not.
    """
    steps, total = len(runs[0].steps), runs[0].total_steps
    if steps == total:
        return None
    reason = mirrored.why_too_short(steps)
    if mirrored.cluster.workers > 1:
        reason = _why_few(runs, steps) or reason
    if reason is None:
        return None
    label = mirrored.cell.method.label
    return f"{label}: its first {steps} of {total} steps are not like the whole run, because {reason}"


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


def pace(measured: Sequence[Step], steps: int, workers: int, variation: float = 0.0) -> Floats:
    """[steps, workers]: factors of typical seconds, because no two steps take the same time.

    They are drawn from what the measured steps took over the median of those with the same operations. The
    variation, a standard deviation over the mean, comes on top.
    """
    alike: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for step in measured[WARM_UP_STEPS:]:
        alike[_structure(step)].append(_computing(step))
    factors = [s / median(all_) for all_ in alike.values() if len(all_) > 2 for s in all_ if s > 0]
    generator = np.random.default_rng(0)
    drawn = generator.choice(np.array(factors or [1.0]), (steps, workers))
    if not variation:
        return drawn
    shape = 1 / variation**2  # of a gamma distribution of mean 1
    return drawn * generator.gamma(shape, 1 / shape, (steps, workers))


def _computing(step: Step) -> float:
    return sum(o.seconds for o in step if isinstance(o, Compute) and o.kind != HARNESS)


def _structure(step: Step) -> tuple[object, ...]:
    """What two steps have in common if they have the same operations."""
    return tuple(
        (o.kind, o.name) if isinstance(o, Compute) else "wait" if isinstance(o, Wait) else (o.channel, o.verb)
        for o in step
    )


def at_common_speed(schedules: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """Schedules that were measured one after the other, with all seconds scaled to one speed of the machine.

    A core is faster at one time than at another, by a quarter and more. Without a remedy, a method would seem
    slow because the machine was. But methods with the same layers compute the same passes: so all seconds of
    a schedule are scaled such that its passes take as long as in the median over these schedules. If a method
    wants fewer gradients, only those parts of the passes are compared that all of them have.
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


def _passes(steps: Sequence[Step]) -> dict[tuple[str, str], float]:
    """The seconds of a forward and a backward pass, by their parts; the mean over the steps."""
    found: dict[tuple[str, str], float] = defaultdict(float)
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
