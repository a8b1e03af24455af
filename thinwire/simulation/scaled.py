"""The schedule of a cell on any number of nodes, from workers that were mirrored on two nodes.

On more nodes, a worker at the same place of a node calls the same. Two things may differ. The server of a key
is on another worker, which follows from the key. And how much a worker sends, or to whom, may depend on how
many workers there are. A worker that is mirrored on three nodes tells. Then workers are mirrored anew on each
number of nodes.

A server takes longer with each worker that pushes to it. How much longer, the worker on three nodes tells.

All members of a channel make the same calls. So where one worker makes only means and gathers among all
workers, all of them are alike, and nodes of any size have the same schedule.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from thinwire.api.channel import hosting_rank
from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.program import MESSAGES, Operation, Post, Step

_FEW, _MORE = 2, 3  # nodes
_OF_ALL, _WITHOUT_PARTNERS = ("world", "unmetered"), ("mean", "gather")
_MOST_WORKERS_ANEW = 32  # with more, the calls of all of them take minutes


@dataclass(frozen=True)
class Schedule:
    """What all workers of a cluster do."""

    steps: list[list[Step]]  # of each role
    role_of: list[int]  # of each worker: the index of its role


class Schedules:
    """The schedules of a cell on nodes of one size, or of any size if `all_alike`."""

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
        self.all_alike = all(
            post.channel in _OF_ALL and post.verb in _WITHOUT_PARTNERS
            for step in other
            for post in _posts(step)
        )
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
        steps, role_of = [], [0] * cell.cluster.workers
        for number, (role, run) in enumerate(cell.roles(self._first + self._steps)):
            steps.append(run.steps[self._first :])
            for worker in role.workers:
                role_of[worker] = number
        return Schedule(steps, role_of)

    def _scaled(self, nodes: int) -> Schedule:
        few, per_node = self._known[_FEW, self._per_node], self._per_node
        groups = Cluster(nodes * per_node, nodes).groups(0)
        sizes = {channel: len(members) for channel, members in groups.items()}
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
