"""Payloads from one process to another, of any size, over a process group of torch.distributed.

Tags tell messages apart, so they may be asked for in any order. They travel through the memory of the host,
on a GPU too: a parameter server lives on the host.
"""

from collections.abc import Sequence
from contextlib import suppress
from queue import Queue
from threading import Thread
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.traffic.payload import Payload
from thinwire.transport import message
from thinwire.transport.connection_errors import translated_errors

# Tags of torch.distributed have 31 bits; a message takes two, for header and body.
_TAGS = 2**30
# Two offices on one process group: one counts its messages by calls, the other by messages.
FIRST_TAG_OF_CALLS, FIRST_TAG_OF_MESSAGES = 0, _TAGS


class Received(NamedTuple):
    """What has arrived."""

    payload: Payload
    ragged: bool


class PointToPoint:
    """One worker's post office for one channel; its methods may be called from several threads."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, first_tag: int) -> None:
        self._group = group
        self._device = device
        self._first_tag = first_tag
        # Sent and perhaps not yet taken: tensors must stay until they are, and gloo tells only who waits.
        self._sent: Queue[tuple[dist.Work, Tensor] | None] = Queue()
        self._taking = Thread(target=self._see_them_taken, daemon=True)
        self._taking.start()

    def send(self, payload: Payload, to: Sequence[int], tag: int, ragged: bool = False) -> None:
        """Send a payload to members of the channel, and go on at once."""
        header, body = message.pack(payload, ragged)
        for place, part in enumerate((header, body.cpu())):
            for member in to if len(part) else ():
                with translated_errors():
                    work = self._group.send([part], member, self._tag(tag, place))
                self._sent.put((work, part))

    def receive(self, sources: Sequence[int], tag: int) -> list[Received]:
        """Wait for a payload from each of the members."""
        headers = [torch.empty(message.HEADER, dtype=torch.int64) for _ in sources]
        bodies = []
        with translated_errors():
            coming = [
                self._group.recv([header], source, self._tag(tag, 0))
                for header, source in zip(headers, sources)
            ]
            for work, header, source in zip(list(coming), headers, sources):
                work.wait()
                bodies.append(torch.empty(message.body_bytes(header), dtype=torch.uint8))
                if len(bodies[-1]):
                    coming.append(self._group.recv([bodies[-1]], source, self._tag(tag, 1)))
            for work in coming[len(headers) :]:
                work.wait()
        return [
            Received(message.unpack(header, body.to(self._device)), message.is_ragged(header))
            for header, body in zip(headers, bodies)
        ]

    def close(self) -> None:
        """Wait until everything that was sent is taken."""
        self._sent.put(None)
        self._taking.join()

    def _see_them_taken(self) -> None:
        while (sent := self._sent.get()) is not None:
            # Who did not take it has ended, and the run with it.
            with suppress(RuntimeError):
                sent[0].wait()

    def _tag(self, tag: int, place: int) -> int:
        return self._first_tag + (2 * tag + place) % _TAGS
