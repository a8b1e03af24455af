"""How payloads travel between GPUs: in one all-gather, or over direct links to and from servers."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.traffic.payload import Payload
from thinwire.transport import wire_format
from thinwire.transport.call import Call, Outcomes
from thinwire.transport.metering import bytes_of_each, bytes_of_equal
from thinwire.transport.rendezvous import translated_errors

Transfer = tuple[Callable[..., dist.Work | None], Tensor, int]  # `isend` or `irecv`, a row, another member
# Before torch 2.13 it had another name.
_all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class Links:
    """One worker's links to the members of a channel; used in the side stream only."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        self._process_group, self._device = group, device
        self._rank, self._size = group.rank(), group.size()
        # Headers of the answers that are not ragged; see `Call.asked`.
        self._known: dict[tuple[str, ...], Tensor] = {}

    def through_servers(self, calls: list[Call]) -> Outcomes:
        """Push everything, let the servers on this worker answer, and pull everything."""
        pushed, answers = [], []
        for call, pushes in zip(calls, self._push(calls)):
            here = self._rank == call.partner
            pushed.append(bytes_of_each(pushes, call.ragged) if here else bytes_of_equal(call, self._size))
            answers.append(call.serve(pushes) if here else {})
        return list(zip(pushed, self._pull(calls, answers), strict=True))

    def _push(self, calls: list[Call]) -> list[list[Payload]]:
        """Return for each call the payloads of all members on its server's worker, and nothing on others."""
        own, bodies = self.packed([call.payload for call in calls], calls[0].ragged)
        headers = self.headers(own, calls[0].ragged)
        transfers: list[Transfer] = []
        arriving = []
        for number, (call, body) in enumerate(zip(calls, bodies)):
            rows = []
            if self._rank == call.partner:
                rows = [self._empty(wire_format.body_bytes(header)) for header in headers[:, number]]
                rows[self._rank] = body
                transfers += [(dist.irecv, rows[other], other) for other in self._others()]
            else:
                transfers.append((dist.isend, body, call.partner))
            arriving.append(rows)
        self._transfer(transfers)
        return [
            [wire_format.unpack(header, row) for header, row in zip(headers[:, number], rows)]
            for number, rows in enumerate(arriving)
        ]

    def _pull(self, calls: list[Call], answers: list[Payload]) -> list[Payload]:
        """Return for each call its server's answer on all members; its tensors are new."""
        # This copies, because a server may continue to change the tensors of its answer.
        own, bodies = self.packed(answers, calls[0].ragged)
        transfers: list[Transfer] = []
        arriving = []
        for call, header, body in zip(calls, headers := self._headers_of_answers(calls, own), bodies):
            if self._rank == call.partner:
                transfers += [(dist.isend, body, other) for other in self._others()]
            else:
                body = self._empty(wire_format.body_bytes(header))
                transfers.append((dist.irecv, body, call.partner))
            arriving.append(body)
        self._transfer(transfers)
        return [wire_format.unpack(header, body) for header, body in zip(headers, arriving)]

    def _headers_of_answers(self, calls: list[Call], own: Tensor) -> list[Tensor]:
        """Return the header of each answer; they are exchanged once, or in every call if it is ragged.

        Args:
            calls: all of them ragged, or none.
            own: [calls, numbers], valid where the server is on this worker.
        """
        asked = [call.asked() for call in calls]
        ragged = calls[0].ragged
        if ragged or any(question not in self._known for question in asked):
            everybody = self.headers(own, ragged=True)
            found = [everybody[call.partner, number] for number, call in enumerate(calls)]
            if ragged:
                return found
            self._known |= dict(zip(asked, found))
        return [self._known[question] for question in asked]

    def packed(self, payloads: list[Payload], ragged: bool) -> tuple[Tensor, list[Tensor]]:
        """Return the headers, [payloads, numbers] on the CPU, and the bodies on the device."""
        headers, bodies = zip(*(wire_format.pack(payload, ragged) for payload in payloads), strict=True)
        return torch.stack(headers), [body.to(self._device) for body in bodies]

    def headers(self, own: Tensor, ragged: bool) -> Tensor:
        """Return the headers of all members, [members, payloads, numbers] on the CPU.

        They are equal unless the payloads are ragged.
        """
        if not ragged:
            return own.expand(self._size, *own.shape)
        return self.all_gather(own.flatten().to(self._device)).cpu().view(self._size, *own.shape)

    def all_gather(self, row: Tensor) -> Tensor:
        """Return the rows of all members, [members, elements]; they must have equal lengths."""
        rows = row.new_empty(self._size * len(row))
        if len(row):
            with translated_errors():
                _all_gather_single(rows, row, group=self._process_group)
        return rows.view(self._size, len(row))

    def _transfer(self, parts: list[Transfer]) -> None:
        """Send and receive rows at once.

        In a batch, NCCL uses the communicator of the group, and opens none for a pair of members
        (pytorch/pytorch#160342). `torch.distributed.gather` would need rows of equal sizes.
        """
        ops = [
            dist.P2POp(op, row, group_peer=other, group=self._process_group)
            for op, row, other in parts
            if len(row)
        ]
        with translated_errors():
            for work in dist.batch_isend_irecv(ops) if ops else ():
                work.wait()

    def _others(self) -> list[int]:
        return [member for member in range(self._size) if member != self._rank]

    def _empty(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device)
