"""One process for each worker: torch.distributed between hosts, shared memory inside them.

There is one communicator for each channel. Calls begin when a worker posts them, so they run while it
computes. They end when it waits for the answer. What carries them:

- NCCL, if tensors are on GPUs: see `nccl`
- shared memory, if all members of a channel share a node and their tensors are on the CPU
- gloo in all other cases: see `gloo`

Messages always go point to point through the memory of the host: see `messages`.
"""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Thread
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from thinwire.base.errors import MethodError
from thinwire.base.placement import Cluster
from thinwire.traffic.payload import Payload
from thinwire.transport.call import Call, Finish, Group, Pending, channel_key
from thinwire.transport.device import open_nccl_communicators, uses_device_group
from thinwire.transport.endpoint import (
    Endpoint,
    begin_thread,
    disagreeing,
    first_difference,
    require_received,
)
from thinwire.transport.interface import Ended, Kind, Outcome, Transport
from thinwire.transport.rendezvous import GLOO_INTERFACE, ConnectionLost, translated_errors
from thinwire.transport.shared_tensors import SharedTensors

T = TypeVar("T")
# How long a rank that has failed waits until it can report that to the others.
REPORTING_SECONDS = 3.0
# Of gloo, whose 30 minutes would end ranks that wait while another one verifies a large data set. Whether a
# rank still makes progress, its heartbeat says.
_UNLIMITED = timedelta(days=7)


class Processes(Transport):
    """The transport of one worker, while all others run in other processes; first call `rendezvous.join`."""

    overlaps = True

    def __init__(
        self,
        cluster: Cluster,
        device: torch.device,
        backend: str = "gloo",
        doing: Callable[[str], None] = lambda what: None,
        kind: Kind = "measured",
        log_calls: bool = False,
        status_interface: str | None = None,
    ) -> None:
        """Open the channels of a cluster with as many workers as there are processes.

        Args:
            cluster: tells which workers share a node.
            device: of this worker's tensors.
            backend: of torch.distributed, see `device.backend_of`.
            doing: called with a description of what the worker is doing, whenever that changes.
            kind: of the results over this transport, for the record.
            log_calls: keep the last calls in words, to say which one differs if the workers do not agree. It
                takes longer than many a call, so it is for checks of methods, and not for runs.
            status_interface: the network interface over which the ranks exchange their status; None for that
                of all calls.

        Raises:
            ConnectionLost: another process has ended.
            ResourceError: the machine is short of something.
        """
        rank = dist.get_rank()
        self.kind = kind
        self.ranks: Sequence[int] = [rank]
        self.nodes: list[str] = []  # names of the nodes of all ranks; empty if unknown
        self._doing, self._log_calls = doing, log_calls
        self._control = open_group(None, "gloo", status_interface)
        groups = _process_groups(cluster, backend)
        self._own_groups = [g for g in groups.values() if g is not dist.GroupMember.NON_GROUP_MEMBER]
        self._device = device
        self._issuing = None
        if uses_device_group(device, backend):
            self._issuing = ThreadPoolExecutor(1, initializer=partial(begin_thread, device))
        self._shared = None
        if device.type == "cpu" and cluster.workers_per_node > 1:
            self._shared = SharedTensors()
        self._endpoints = {
            channel_key(name, members): Endpoint(
                members,
                groups.get((name, members)),
                rank,
                cluster,
                device,
                self._issuing,
                self._shared,
                log_calls,
            )
            for name, members in cluster.groups(rank).items()
        }
        # Functions that finish the calls that were posted and not yet waited for.
        self._outstanding: dict[Pending[object], Finish] = {}

    def open_communicators(self) -> None:
        """Let NCCL open its communicators now, so that no step does; all processes must do so at once."""
        open_nccl_communicators(self._own_groups, self._device)

    def part(self) -> None:
        """Wait until all processes are ready to leave."""
        self.share([None])

    def close(self) -> None:
        """Release everything. All processes must do so at the same time."""
        self.part()
        if self._issuing is not None:
            self._issuing.shutdown()
        for endpoint in self._endpoints.values():
            endpoint.close()
        if self._shared is not None:
            self._shared.close()
        dist.destroy_process_group(self._control)

    def shared_like(self, tensors: Sequence[Tensor]) -> list[Tensor] | None:
        return None if self._shared is None else self._shared.like(tensors)

    def post(self, group: Group, call: Call) -> Pending[object]:
        pending: Pending[object] = Pending(group, call, self.wait)
        endpoint = self._endpoints[group.key]
        endpoint.log.note(call)
        self._doing(f"computes, after call {endpoint.log.count} on run.{group.name}")
        finish = endpoint.begin(pending, group.calls)
        group.calls += 1
        if finish is not None:
            self._outstanding[pending] = finish
        return pending

    def send(self, group: Group, call: Call) -> Pending[None]:
        pending: Pending[None] = Pending(group, call, self.wait)
        self._endpoints[group.key].send(group, call)
        pending.complete(None)
        return pending

    def receive(self, group: Group, call: Call) -> Pending[Payload]:
        pending: Pending[Payload] = Pending(group, call, self.wait)
        self._outstanding[pending] = self._endpoints[group.key].receive(group, call)
        return pending

    def wait(self, pending: Pending[object]) -> None:
        self._doing(f"waits for {pending.call.describe(self._log_calls)} on run.{pending.group.name}")
        pending.complete(self._outstanding.pop(pending)())
        self._doing("computes")

    def arrive(self) -> None:
        for pending in list(self._outstanding):
            self.wait(pending)

    def travels(self) -> bool:
        return bool(self._outstanding)

    def share(self, own: list[T]) -> list[T]:
        return self._exchange(own[0])

    def end_together(self, outcome: Outcome) -> Outcome:
        reported: Future[Outcome] = Future()

        def report() -> None:
            try:
                self._exchange(None, outcome)
            except Ended as error:
                reported.set_result(error.outcome)
            except ConnectionLost as error:
                reported.set_exception(error)

        Thread(target=report, daemon=True).start()
        try:
            return reported.result(REPORTING_SECONDS)
        except TimeoutError:
            raise ConnectionLost(
                "the others wait for this rank, and cannot be told that it has failed"
            ) from None

    def _exchange(self, value: T, outcome: Outcome | None = None) -> list[T]:
        """Send a value, and the outcome if this worker cannot continue; return the values of all workers.

        Raises:
            Ended: one of the workers reports that it cannot continue.
        """
        self._doing("waits for the status of all workers")
        own = torch.frombuffer(bytearray(json.dumps([value, outcome]).encode()), dtype=torch.uint8)
        length = torch.tensor([len(own)])
        lengths = [torch.empty_like(length) for _ in range(dist.get_world_size())]
        with translated_errors():
            dist.all_gather(lengths, length, group=self._control)
            padded = functional.pad(own, (0, max(map(int, lengths)) - len(own)))
            received = [torch.empty_like(padded) for _ in lengths]
            dist.all_gather(received, padded, group=self._control)
        self._doing("computes")
        messages = [json.loads(row[: int(end)].numpy().tobytes()) for row, end in zip(received, lengths)]
        ended = {rank: outcome for rank, (_, outcome) in enumerate(messages) if outcome is not None}
        if ended:
            first, (status, reason) = next(iter(ended.items()))
            # An outcome that is the same on all ranks is not attributed to one of them.
            same = len(ended) == len(messages) and all(other == [status, reason] for other in ended.values())
            if same or reason is None:
                raise Ended((status, reason))
            who = f"rank {first} on {self.nodes[first]}" if self.nodes else f"rank {first}"
            raise Ended((status, f"{who}: {reason}"))
        return [value for value, _ in messages]

    def check_agreement(self) -> None:
        summaries = self.share([{key: endpoint.summary() for key, endpoint in self._endpoints.items()}])
        key = disagreeing(summaries)
        if key is not None:
            logs = self.share([self.calls().get(key)])
            difference = first_difference({rank: log for rank, log in enumerate(logs) if log is not None})
            counts = {rank: own[key]["calls"][0] for rank, own in enumerate(summaries) if key in own}
            difference = difference or (
                f"by rank they made {counts} calls, which differ in number or in what they carry; "
                "thinwire check --processes looks for the first one that differs"
            )
            raise MethodError(f"the workers do not agree on run.{key.split('/')[0]}: {difference}")
        require_received(summaries)

    def calls(self) -> dict[str, dict[str, str]]:
        """Return the last calls of this worker in words, if they are kept, by channel and number."""
        return {key: endpoint.log.last() for key, endpoint in self._endpoints.items()}


def _process_groups(cluster: Cluster, backend: str) -> dict[tuple[str, tuple[int, ...]], dist.ProcessGroup]:
    """Open the process groups of all channels with several members; return them by name and members.

    Every process opens all groups in the same order, including those of which it is no member. The reason is
    that torch.distributed numbers groups in the order in which a process opens them. If only its members
    opened a group, it could get the number of an earlier group. That group is closed, but its entries are
    still in the store.
    """
    of_workers = [cluster.groups(worker) for worker in cluster.world()]
    return {
        (name, members): open_group(list(members), backend)
        for name in of_workers[0]
        for members in dict.fromkeys(groups[name] for groups in of_workers)
        if len(members) > 1
    }


def open_group(members: list[int] | None, backend: str, interface: str | None = None) -> dist.ProcessGroup:
    """Open the process group of some ranks, or of all; all ranks must open all groups in the same order.

    Args:
        members: the ranks.
        backend: of torch.distributed.
        interface: of gloo's connections; None for the one over which the ranks meet.

    Raises:
        ConnectionLost: a member did not come.
    """
    limit = _UNLIMITED if backend == "gloo" else None
    usual = os.environ.get(GLOO_INTERFACE)
    if interface is not None:
        os.environ[GLOO_INTERFACE] = interface
    try:
        with translated_errors():
            return dist.new_group(members, backend=backend, timeout=limit)
    finally:
        if interface is not None and usual is not None:
            os.environ[GLOO_INTERFACE] = usual
