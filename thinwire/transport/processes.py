"""One process for each worker: torch.distributed between hosts, shared memory inside them.

Collectives are gloo's on a CPU and NCCL's on a GPU, with one communicator for each channel. They begin when a
worker posts them, so that they run beside its computing, and end when it waits. A mean is a ring all-reduce,
a gathering of equal payloads a ring all-gather; ragged payloads, pushes, answers and messages are mail, which
threads carry, so that a server answers whatever its worker is doing. A channel whose members share a node
meets in shared memory instead.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch.nn import functional

from thinwire.call import Call, Pending
from thinwire.cluster import Cluster
from thinwire.errors import MethodError
from thinwire.group import Group
from thinwire.traffic.payload import Payload
from thinwire.transport.agreement import disagreeing, first_difference, require_received
from thinwire.transport.connection_errors import ConnectionLost, translated_errors
from thinwire.transport.endpoint import Endpoint, Finish
from thinwire.transport.rendezvous import open_group
from thinwire.transport.transport import Ended, Outcome

T = TypeVar("T")
# How long a rank that has failed waits for the others to say something.
TELLING_SECONDS = 3.0


class Processes:
    """The transport of one worker whose mates run in other processes; `rendezvous.join` comes before it."""

    kind: Literal["inprocess", "measured"] = "measured"
    overlaps = True

    def __init__(
        self,
        cluster: Cluster,
        device: torch.device,
        backend: str = "gloo",
        doing: Callable[[str], None] = lambda what: None,
        called: Callable[[str, int, str], None] = lambda channel, number, words: None,
    ) -> None:
        """Open the channels of a cluster with as many workers as there are processes.

        Args:
            cluster: which workers share a node.
            device: of this worker's tensors.
            backend: of torch.distributed, see `rendezvous.backend_of`.
            doing: is told what the worker is about to wait for.
            called: is told of every call: the channel, its number there, and the call in words.

        Raises:
            ConnectionLost: another process has ended.
            ResourceError: the machine is short of something.
        """
        rank = dist.get_rank()
        self.ranks: Sequence[int] = [rank]
        self.nodes: list[str] = []  # of all ranks by name, where that is known
        self._doing, self._called = doing, called
        self._control = open_group(None, "gloo")
        groups = _process_groups(cluster, backend)
        self._endpoints = {
            (name, members[0]): Endpoint(members, groups.get((name, members)), rank, cluster, device)
            for name, members in cluster.groups(rank).items()
        }
        # What is left to do for calls that were posted and not waited for yet.
        self._outstanding: dict[Pending[Any], Finish] = {}

    def part(self) -> None:
        """Return when all processes are about to leave."""
        self.share([None])

    def close(self) -> None:
        """Give everything back; all processes do so together."""
        self.part()
        for endpoint in self._endpoints.values():
            endpoint.close()
        dist.destroy_process_group(self._control)

    def together(self, turns: Sequence[Callable[[], T]]) -> list[T]:
        """There is one worker in this process."""
        return [turn() for turn in turns]

    def post(self, group: Group, call: Call) -> Pending[Any]:
        """Begin this worker's part of the next meeting on the channel."""
        pending: Pending[Any] = Pending(group, call, self.wait)
        endpoint = self._endpoints[group.key]
        words = endpoint.log.note(call)
        self._called(_name(group.key), endpoint.log.count, words)
        self._doing(f"computes, after {words} on run.{group.name}")
        finish = endpoint.begin(pending, group.calls)
        group.calls += 1
        if finish is not None:
            self._outstanding[pending] = finish
        return pending

    def send(self, group: Group, call: Call) -> Pending[None]:
        """Send a message, and go on at once."""
        pending: Pending[None] = Pending(group, call, self.wait)
        self._endpoints[group.key].send(group, call)
        pending.complete(None)
        return pending

    def receive(self, group: Group, call: Call) -> Pending[Payload]:
        """Ask for the next message from a member."""
        pending: Pending[Payload] = Pending(group, call, self.wait)
        self._outstanding[pending] = self._endpoints[group.key].receive(group, call)
        return pending

    def wait(self, pending: Pending[Any]) -> None:
        """Return when `pending` is done.

        Raises:
            ConnectionLost: another process has ended.
        """
        self._doing(f"waits for {pending.call.describe()} on run.{pending.group.name}")
        pending.complete(self._outstanding.pop(pending)())
        self._doing("computes")

    def arrive(self) -> None:
        """Wait for everything that was posted, so that its bytes are counted."""
        for pending in list(self._outstanding):
            self.wait(pending)

    def check_settled(self) -> None:
        """What this worker has left behind the engine finds; who did not come, `check_agreement`."""

    def share(self, own: list[T]) -> list[T]:
        """What every worker says, in the order of the ranks.

        Raises:
            Ended: one of them cannot go on.
        """
        return [word["said"] for word in self._say({"said": own[0]})]

    def end_together(self, outcome: Outcome) -> Outcome:
        """Tell the others, who hear it when they next say something.

        Raises:
            ConnectionLost: they say nothing, as they wait for this worker.
        """
        telling: Future[Outcome] = Future()

        def tell() -> None:
            try:
                self._say({"ended": outcome})
            except Ended as error:
                telling.set_result(error.outcome)
            except ConnectionLost as error:
                telling.set_exception(error)

        Thread(target=tell, daemon=True).start()
        try:
            return telling.result(TELLING_SECONDS)
        except TimeoutError:
            raise ConnectionLost(
                "the others wait for this rank, and cannot be told that it has failed"
            ) from None

    def _say(self, word: dict[str, Any]) -> list[dict[str, Any]]:
        """Every worker's word.

        Raises:
            Ended: one of them says that it cannot go on.
        """
        self._doing("waits for the word of all workers")
        said = torch.frombuffer(bytearray(json.dumps(word).encode()), dtype=torch.uint8)
        length = torch.tensor([len(said)])
        lengths = [torch.empty_like(length) for _ in range(dist.get_world_size())]
        with translated_errors():
            dist.all_gather(lengths, length, group=self._control)
            padded = functional.pad(said, (0, max(map(int, lengths)) - len(said)))
            heard = [torch.empty_like(padded) for _ in lengths]
            dist.all_gather(heard, padded, group=self._control)
        self._doing("computes")
        words = [json.loads(word[: int(end)].numpy().tobytes()) for word, end in zip(heard, lengths)]
        ended = {rank: word["ended"] for rank, word in enumerate(words) if "ended" in word}
        if ended:
            first, (status, reason) = next(iter(ended.items()))
            # What has come to all of them alike is no matter of one rank.
            alike = len(ended) == len(words) and all(other == [status, reason] for other in ended.values())
            if alike or reason is None:
                raise Ended((status, reason))
            who = f"rank {first} on {self.nodes[first]}" if self.nodes else f"rank {first}"
            raise Ended((status, f"{who}: {reason}"))
        return words

    def check_agreement(self) -> None:
        """All members of every channel have made the same calls so far, and every message was received.

        Raises:
            MethodError: naming the first call that differs, or the message.
        """
        heard = self.share([{key: endpoint.summary() for key, endpoint in self._by_name().items()}])
        key = disagreeing(heard)
        if key is not None:
            logs = self.share([self.calls().get(key)])
            told = first_difference({rank: log for rank, log in enumerate(logs) if log is not None})
            made = {rank: said[key]["calls"][0] for rank, said in enumerate(heard) if key in said}
            raise MethodError(
                f"the workers do not agree on run.{key.split('/')[0]}: "
                + (told or f"by rank they have made {made} calls, which differ in number or in a shape")
            )
        require_received(heard)

    def calls(self) -> dict[str, dict[str, str]]:
        """The last calls of this worker in words, by channel and number."""
        return {key: endpoint.log.last() for key, endpoint in self._by_name().items()}

    def _by_name(self) -> dict[str, Endpoint]:
        return {_name(key): endpoint for key, endpoint in self._endpoints.items()}


def _name(key: tuple[str, int]) -> str:
    name, first = key
    return f"{name}/{first}"


def _process_groups(cluster: Cluster, backend: str) -> dict[tuple[str, tuple[int, ...]], dist.ProcessGroup]:
    """The process groups of all channels with several members, by name and members.

    Every process names all of them, those of others too, in one order: torch.distributed numbers groups as
    they are made, and one that only its members know of would get the number, and meet the traces, of an
    earlier one that has been closed.
    """
    everybodys = [cluster.groups(worker) for worker in cluster.world()]
    return {
        (name, members): open_group(list(members), backend)
        for name in everybodys[0]
        for members in dict.fromkeys(groups[name] for groups in everybodys)
        if len(members) > 1
    }
