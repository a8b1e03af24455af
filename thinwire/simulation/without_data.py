"""The time of a cell on a described cluster and device, without its data: for networks that no laptop trains.

What a worker calls depends on the shapes of its model, and not on its inputs. So a worker of each role is
mirrored with two small inputs, on few nodes; see `Schedules`. Its seconds are those of a described device:

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

from thinwire.api.channel import hosting_rank
from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell, prepares
from thinwire.config.hardware import Accelerator, ClusterDescription, load_accelerator
from thinwire.config.suite_schema import Round
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.device_clock import DeviceClock, on_device, passes_of
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.program import MESSAGES, Floats, Operation, Post, Program, Step, Work, program_of
from thinwire.simulation.stand_ins import INPUTS_OF_A_WORKER, Network, prepare_small, small_task
from thinwire.simulation.timeline import Timeline, simulate

_FEW, _MORE = 2, 3  # nodes on which workers are mirrored
_OF_ALL, _WITHOUT_PARTNERS = ("world", "unmetered"), ("mean", "gather")
_MOST_WORKERS_ANEW = 32  # with more, the calls of all of them take minutes
EVERY_STEP = Round(steps=1)


@dataclass(frozen=True)
class Schedule:
    """What all workers of a cluster do."""

    steps: list[list[Step]]  # of each role
    role_of: list[int]  # of each worker: the index of its role


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
        self.cell, self.accelerator = cell, accelerator
        device = load_accelerator(accelerator)
        network = Network(cell)
        self._passes = passes_of(cell, workers_per_node, device)
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
        if like is not None and like._schedules.all_alike:
            self._schedules: Schedules = like._schedules
        else:
            self._schedules = Schedules(self._cells(small, network, device), first, self._mirrored)
        self._known: dict[tuple[int, int], list[Program]] = {}  # by the numbers of nodes and of steps
        if self._others and any(not isinstance(made, Work) for made in self._programs(_FEW, 1)[0][0]):
            raise UserError(
                f"{cell.method.label}: of a round of {rounds.steps} steps {self._mirrored} are mirrored, and "
                "the first of them has calls, so the others cannot be like it: let more be mirrored"
            )

    def _cells(self, small: Cell, network: Network, device: Accelerator) -> Callable[[int], MirroredCell]:
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
        """The mirrored steps of all workers of so many nodes, in seconds of the device; raises as `on`."""
        mirrored, sizes = self._schedules.on(nodes, self._per_node), _sizes(self._cluster(nodes))
        return Schedule([on_device(self._passes, own, sizes) for own in mirrored.steps], mirrored.role_of)

    def _cluster(self, nodes: int) -> Cluster:
        return Cluster(nodes * self._per_node, nodes)


def _sizes(cluster: Cluster) -> dict[str, int]:
    """How many members each channel has."""
    return {channel: len(members) for channel, members in cluster.groups(0).items()}


class Schedules:
    """The schedules of a cell on any number of nodes of one size, or of any size if `all_alike`.

    On more nodes than two, a worker at the same place calls the same, but the server of a key is where the
    key says. How much a worker sends, or to whom, may depend on the number of workers: a worker on three
    nodes tells, and then each number of nodes is mirrored anew. It also tells how much longer a server takes
    with each worker that pushes to it.

    All members of a channel make the same calls. So where one worker makes only means and gathers among all
    workers, all of them are alike, and nodes of any size have the same schedule.
    """

    def __init__(self, mirrored: Callable[[int], MirroredCell], first: int, steps: int) -> None:
        """Mirror a worker of each role on two nodes, and one worker on three.

        Args:
            mirrored: gives the cell on so many nodes.
            first: step of the schedule; earlier ones are left out.
            steps: of the schedule.

        Raises:
            UserError: the method cannot run on two nodes, or as `MirroredCell`.
        """
        self._mirrored, self._first, self._steps = mirrored, first, steps
        few, more = mirrored(_FEW), mirrored(_MORE)
        self._per_node = more.cluster.workers_per_node
        other = more.run(0, first + steps).steps[first:]
        posts = [post for step in other for post in _posts(step)]
        self.all_alike = all(p.channel in _OF_ALL and p.verb in _WITHOUT_PARTNERS for p in posts)
        if self.all_alike:
            known = Schedule([few.run(0, first + steps).steps[first:]], [0] * few.cluster.workers)
        else:
            known = self._mirrored_on(few)
        self._known = {(_FEW, self._per_node): known}
        own = known.steps[known.role_of[0]]
        pairs = [pair for one, two in zip(own, other) for pair in zip(_posts(one), _posts(two))]
        # Otherwise the keys are multiples of the number of workers, so that one of them has all servers.
        self._by_key = all(one.key == two.key for one, two in pairs)
        # Of each server, by its key on two nodes.
        self._growth = {(one.channel, one.key): _growth(one, two) for one, two in pairs if one.server_seconds}
        many = [[len(_posts(step)) for step in made] for made in (own, other)]
        self._scales = many[0] == many[1] and all(self._same(one, two) for one, two in pairs)
        self.all_alike = self.all_alike and self._scales

    def on(self, nodes: int, per_node: int) -> Schedule:
        """The schedule on so many nodes of so many workers.

        Raises:
            UserError: as `MirroredCell`, where it has to be mirrored on these nodes; or they are too many.
        """
        if (nodes, per_node) not in self._known:
            workers = nodes * per_node
            if not self._scales and workers > _MOST_WORKERS_ANEW:
                raise UserError(
                    "what it calls depends on the number of workers, so it is mirrored on each, and with "
                    f"{workers:,} that takes too long: give at most {_MOST_WORKERS_ANEW}"
                )
            if self.all_alike:
                (own,) = self._known[_FEW, self._per_node].steps
                made = Schedule([own], [0] * workers)
            else:
                made = self._scaled(nodes) if self._scales else self._mirrored_on(self._mirrored(nodes))
            self._known[nodes, per_node] = made
        return self._known[nodes, per_node]

    def _mirrored_on(self, cell: MirroredCell) -> Schedule:
        found = cell.roles(self._first + self._steps)
        role_of = {worker: number for number, (role, _) in enumerate(found) for worker in role.workers}
        steps = [run.steps[self._first :] for _, run in found]
        return Schedule(steps, [role_of[worker] for worker in range(cell.cluster.workers)])

    def _scaled(self, nodes: int) -> Schedule:
        few, per_node = self._known[_FEW, self._per_node], self._per_node
        sizes = _sizes(Cluster(nodes * per_node, nodes))
        steps = [[[self._moved(op, sizes) for op in step] for step in own] for own in few.steps]
        # The first node may differ from all others.
        first, second = few.role_of[:per_node], few.role_of[per_node:]
        return Schedule(steps, first + second * (nodes - 1))

    def _moved(self, operation: Operation, sizes: dict[str, int]) -> Operation:
        """The operation in channels of other sizes: the server of its key, and how long that one takes."""
        if not isinstance(operation, Post) or operation.verb != "push_pull":
            return operation
        size = sizes[operation.channel]
        # A call that has no work for its server, such as a pull alone, has none on more nodes.
        growth = self._growth.get((operation.channel, operation.key), 0.0)
        seconds = operation.server_seconds * (1 + growth * (size - len(operation.members)))
        partner = hosting_rank(_key(operation), size) if self._by_key else operation.partner
        return replace(operation, partner=partner, server_seconds=seconds)

    def _same(self, post: Post, other: Post) -> bool:
        """Does a call on two nodes tell what it is on any number of them?"""
        moves = self._by_key and post.verb == "push_pull"
        one, two = (
            (made.channel, made.verb, made.ragged, made.ragged or made.sent_bytes, moves or made.partner)
            for made in (post, other)
        )
        # To whom a message goes may follow from the number of workers.
        return one == two and post.verb not in MESSAGES


def _growth(few: Post, more: Post) -> float:
    """By what share of the server's time on two nodes each member adds to it that there is only on three."""
    members = len(more.members) - len(few.members)
    return (more.server_seconds / few.server_seconds - 1) / members if members else 0.0


def _posts(step: Step) -> list[Post]:
    return [operation for operation in step if isinstance(operation, Post)]


def _key(post: Post) -> int | str:
    """The key of a call to a server, which a record has as text."""
    number = int(post.key) if post.key.removeprefix("-").isdecimal() else post.key
    return number if hosting_rank(number, len(post.members)) == post.partner else post.key
