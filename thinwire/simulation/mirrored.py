"""The schedule of a cell, from a few steps of one worker of each role; see `thinwire.transport.mirror`.

It runs on the CPU of this machine, with any number of workers. The sizes of ragged payloads, and decisions
that follow from the loss, are those of a worker that trains alone on its part of the data.
"""

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import thread_time_ns

import torch
from torch import Tensor

from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.data.batches import Batches
from thinwire.optim.recipe import Recipe
from thinwire.simulation.device_clock import DeviceClock
from thinwire.simulation.program import MESSAGES, Step, steps_of
from thinwire.simulation.stand_ins import repeated, task_of_shapes
from thinwire.trace.recorder import RecordedCall, Recorder
from thinwire.train.cell_task import deterministic
from thinwire.train.evaluation import Diverged
from thinwire.train.preparation_record import preparation_of
from thinwire.train.tracing import record_spans
from thinwire.train.trainer import Trainer
from thinwire.transport.mirror import Mirror

MOST_WORKERS = 4096
# Where the data set is too small for so many workers, it is repeated until an epoch has this many steps.
FEWEST_STEPS_AN_EPOCH = 4
_CPU = torch.device("cpu")
MOST_ROLES = 64
# Sizes of workers of one role may differ by so much, for instance where a tensor cannot be divided evenly.
SIZE_TOLERANCE = 0.02
_WITH_PARTNERS = ("broadcast", "push_pull", *MESSAGES)

Calls = list[RecordedCall]


@dataclass(frozen=True)
class Role:
    """Workers that behave alike.

    They may differ by their place: the first worker of all, the first one of a node, every other one. Or a
    call names them as its partner: the source of a broadcast, the worker of a server, the other end of a
    message. Partners in the same steps are taken to behave alike, so that many workers with a server each
    are not as many roles. A worker that becomes a partner only after the last recorded step is not told
    apart.
    """

    worker: int  # the one that was mirrored
    workers: tuple[int, ...]  # all of them, in the order of their ranks


@dataclass(frozen=True)
class MirroredRun:
    """The first steps of one worker, whose mates were taken to do what it does."""

    worker: int
    steps: list[Step]
    recorder: Recorder
    parameters: int  # trainable numbers of the model
    steps_per_epoch: int
    total_steps: int  # of the whole run


class MirroredTrainer(Trainer):
    """Trains any worker without its mates, on the images of worker 0; there is nothing to evaluate."""

    def _batches_of(self, ranks: Sequence[int]) -> Batches:
        return super()._batches_of([0])

    def _evaluate(self, epochs: int) -> None:
        pass


class MirroredCell:
    """A cell on a cluster of any size. Its task is loaded once, for any number of its workers."""

    def __init__(
        self,
        cell: Cell,
        results: Path,
        cluster: Cluster,
        load: Callable[[Cell, Path, torch.device], Task] = task_of_shapes,
        clock: DeviceClock | None = None,
        prepared: Path | None = None,
    ) -> None:
        """Load the cell.

        Args:
            cell: its own numbers of workers and nodes are not used.
            results: the folder with its data, if they are there, and its method's preparation.
            cluster: on which it is mirrored.
            load: gives the task of the cell, from the folder, on a device.
            clock: of a described device; None: seconds are those of a core of this machine.
            prepared: the folder of a preparation that takes the place of the cell's own.

        Raises:
            UserError: the preparation is missing, or the number of training images is not known without the
                data, or the method cannot run on this cluster.
        """
        workers = cluster.workers
        if workers > MOST_WORKERS:
            raise UserError(f"{workers:,} workers are too many: at most {MOST_WORKERS:,} are mirrored")
        self.cell, self.cluster, self._clock = cell, cluster, clock
        method = plugins.get("method", cell.method.use).load()
        config = resolve(method, cell.method.options)
        self.task, self.repeated = self._load(results, load)
        self._trainer = partial(MirroredTrainer, self.task, method, config)
        # What the first worker that runs has learnt of the loss: others get the same, and decide alike.
        self._controls: list[Tensor] = []
        if reason := self._trainer(Mirror(workers, 0)).skip():
            nodes = f"{cluster.nodes} node{'s' if cluster.nodes > 1 else ''}"
            raise UserError(f"{cell.method.label} cannot run on {workers:,} workers on {nodes}: {reason}")
        if prepared is None and (preparation := preparation_of(cell, results)) is not None:
            prepared, _ = preparation
        self._prepared = prepared

    def _load(self, results: Path, load: Callable[[Cell, Path, torch.device], Task]) -> tuple[Task, int]:
        """The task, and how many times its data set is repeated."""
        recipe, workers = self.cell.recipe, self.cluster.workers
        try:
            images = workers * recipe.batch_per_worker(workers)
        except ValueError as error:
            raise UserError(
                f"{self.cell.path}: {error}: choose a number of workers that divides it, or a suite "
                "with a batch for each worker (`batch_per: worker`)"
            ) from None
        deterministic(_CPU)
        task = load(self.cell, results, _CPU)
        data = repeated(task.data, images * FEWEST_STEPS_AN_EPOCH)
        made = replace(task, data=data, recipe=_for_one_worker(task.recipe, workers), cluster=self.cluster)
        return made, len(data.train_inputs) // len(task.data.train_inputs)

    def run(self, worker: int, steps: int) -> MirroredRun:
        """Run the first steps of a worker; fewer if the whole run has fewer.

        Raises:
            UserError: the method broke the contract, or the worker, which trains alone, diverges.
        """
        mirror = Mirror(self.cluster.workers, worker, self._controls)
        trainer = self._trainer(mirror)
        trainer.setup(self._prepared)
        # The time of this thread on its core: other processes may have taken the core in between.
        (recorder,) = record_spans(trainer, self._clock or thread_time_ns)
        # A full collection takes as long as a hundred small steps, and would be in the time of one of them.
        gc.collect()
        gc.disable()
        try:
            with self._clock or nullcontext():
                trainer.train(until=steps)
        except Diverged as error:
            raise UserError(f"{self.cell.path}: worker {worker}, which trains alone here: {error}") from None
        finally:
            gc.enable()
        self._controls = max(self._controls, mirror.controls, key=len)
        return MirroredRun(
            worker=worker,
            steps=steps_of(recorder)[:steps],
            recorder=recorder,
            parameters=sum(param.tensor.numel() for param in trainer.workers[0].run.params),
            steps_per_epoch=trainer.steps_per_epoch,
            total_steps=trainer.total_steps,
        )

    def why_too_short(self, steps: int) -> str | None:
        """Why the method could not run here for only so many steps, in one clause, or None."""
        trainer = self._trainer(Mirror(self.cluster.workers, 0))
        trainer.workers[0].run.total_steps = min(steps, trainer.total_steps)
        return trainer.skip()

    def roles(self, steps: int) -> list[tuple[Role, MirroredRun]]:
        """The roles of the cluster in the first steps, each with the run of one of its workers.

        Raises:
            UserError: as `run`; or too many workers differ from each other.
        """
        runs: dict[int, MirroredRun] = {}

        def calls_of(worker: int) -> list[RecordedCall]:
            runs[worker] = self.run(worker, steps)
            return runs[worker].recorder.calls

        return [(role, runs[role.worker]) for role in roles(self.cluster, calls_of)]


def _for_one_worker(recipe: Recipe, workers: int) -> Recipe:
    """The recipe, with the learning rate of the batch of one worker.

    The mates add nothing to what this worker learns, so with a rate for the batch of all it would diverge.
    """
    reference = recipe.optimizer.lr_reference_batch
    if reference is None:
        return recipe
    optimizer = recipe.optimizer.model_copy(update={"lr_reference_batch": reference * workers})
    return recipe.model_copy(update={"optimizer": optimizer})


def roles(cluster: Cluster, calls_of: Callable[[int], Calls]) -> list[Role]:
    """The roles of a cluster, by the lowest rank of their workers.

    Args:
        cluster: whose workers are divided.
        calls_of: mirrors a worker and returns its calls; is used for at least one worker of each role.

    Raises:
        UserError: too many workers differ from each other.
    """
    mirrored: dict[int, Calls] = {}
    groups = _groups(cluster, [])
    while new := [group[0] for group in groups if mirrored.keys().isdisjoint(group)]:
        for worker in new:
            if len(mirrored) == MOST_ROLES:
                raise UserError(
                    f"more than {MOST_ROLES} of the {cluster.workers} workers differ from each other, so "
                    "the schedule of all does not follow from a few of them: choose fewer steps or workers"
                )
            mirrored[worker] = calls_of(worker)
        distinct = _merged([(worker,) for worker in mirrored], mirrored)
        groups = _groups(cluster, [mirrored[role.worker] for role in distinct])
    return _merged(groups, mirrored)


def _groups(cluster: Cluster, recorded: list[Calls]) -> list[tuple[int, ...]]:
    """Workers with places of one kind that are partners in the same steps of these calls."""
    partners = [_partners(calls) for calls in recorded]
    divided: dict[object, list[int]] = {}
    for worker in range(cluster.workers):
        node, place = divmod(worker, cluster.workers_per_node)
        ranks = {"world": worker, "node": place, "across": node}
        named = tuple(
            frozenset(found.get((channel, rank), Counter()).items())
            for found in partners
            for channel, rank in ranks.items()
        )
        divided.setdefault((node == 0, place == 0, named), []).append(worker)
    return [tuple(group) for group in divided.values()]


def _partners(calls: Calls) -> dict[tuple[str, int], Counter[tuple[int, str]]]:
    """By channel and rank there: in which steps, and how often, a call of a verb names it."""
    found: dict[tuple[str, int], Counter[tuple[int, str]]] = {}
    for call in calls:
        if call.verb in _WITH_PARTNERS and len(call.members) > 1:
            found.setdefault((call.channel, call.partner), Counter())[call.step, call.verb] += 1
    return found


def _merged(groups: list[tuple[int, ...]], mirrored: dict[int, Calls]) -> list[Role]:
    """One role for all groups whose mirrored workers behave alike."""
    found: list[Role] = []
    for group in groups:
        worker = next(member for member in group if member in mirrored)
        for number, role in enumerate(found):
            if alike(worker, mirrored[worker], role.worker, mirrored[role.worker]):
                found[number] = replace(role, workers=tuple(sorted((*role.workers, *group))))
                break
        else:
            found.append(Role(worker, group))
    return sorted(found, key=lambda role: role.workers)


def alike(worker: int, calls: Calls, other: int, others: Calls) -> bool:
    """Do two workers make the same calls in the same steps?

    The partners of their messages are compared as ranks, and as distances from each worker: one of the two
    must agree. Sizes may differ a little, and those of ragged payloads by any amount.
    """
    if len(calls) != len(others) or not all(map(_same, calls, others)):
        return False
    return all(a.partner == b.partner for a, b in zip(calls, others)) or all(
        _from(worker, a) == _from(other, b) for a, b in zip(calls, others)
    )


def _same(call: RecordedCall, other: RecordedCall) -> bool:
    """Are the calls the same, whoever their partners are?"""
    one, two = (
        (made.step, made.channel, made.verb, made.ragged, len(made.members)) for made in (call, other)
    )
    sizes = [sum(made.sent_bytes.values()) for made in (call, other)]
    return one == two and (call.ragged or max(sizes) - min(sizes) <= SIZE_TOLERANCE * max(sizes))


def _from(worker: int, call: RecordedCall) -> int:
    """The partner of a call; for a message, its distance from the worker in ranks, around the ring."""
    if call.verb not in MESSAGES:
        return call.partner
    return (call.partner - call.members.index(worker)) % len(call.members)
