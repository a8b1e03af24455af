"""Payloads as messages: how they are laid out, and how the host sends them over torch.distributed.

Tags identify them, so a receiver may ask for them in any order. Payloads go through the memory of the host,
even if they come from a GPU. The reason is that NCCL has no tags (pytorch/pytorch#125079). There, a send may
block all later work until its receiver asks for it, so workers that all send first would wait for ever
(NVIDIA/nccl#479).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Queue
from threading import Thread
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from thinwire.traffic.payload import DTYPES, Payload
from thinwire.traffic.wire_bytes import KINDS
from thinwire.transport.rendezvous import translated_errors

# How many numbers a header has. The first three are the bytes of the body, whether it is ragged, and the
# number of tensors. Then each tensor has its kind, type and length.
HEADER = 3 + 3 * len(KINDS)
# Tensors begin at multiples of this many bytes, so that they can be used inside the body without copies.
_ALIGNED = 8


def pack(payload: Payload, ragged: bool) -> tuple[Tensor, Tensor]:
    """Return the header, int64 [HEADER] on the CPU, and the body, uint8 [bytes] on the tensors' device."""
    entries: list[int] = []
    size = 0
    for kind, tensor in payload.items():
        entries += [KINDS.index(kind), DTYPES.index(tensor.dtype), len(tensor)]
        size += _room(len(tensor), tensor.dtype)
    header = torch.zeros(HEADER, dtype=torch.int64)
    header[: 3 + len(entries)] = torch.tensor([size, int(ragged), len(payload), *entries])
    device = next((tensor.device for tensor in payload.values()), None)
    body = torch.zeros(size, dtype=torch.uint8, device=device)
    for part, tensor in zip(unpack(header, body).values(), payload.values()):
        part.copy_(tensor.detach())
    return header, body


def body_bytes(header: Tensor) -> int:
    return int(header[0])


def unpack(header: Tensor, body: Tensor) -> Payload:
    """Return the payload of a header and a body; its tensors are views of the body."""
    _, _, tensors, *entries = header.tolist()
    payload, start = {}, 0
    for first in range(0, 3 * tensors, 3):
        kind, dtype, length = entries[first : first + 3]
        type_ = DTYPES[dtype]
        payload[KINDS[kind]] = body[start : start + length * type_.itemsize].view(type_)
        start += _room(length, type_)
    return payload


def _room(length: int, dtype: torch.dtype) -> int:
    """The bytes of a tensor in the body, including the padding before the next one."""
    size = length * dtype.itemsize
    return size + -size % _ALIGNED


# Tags of torch.distributed have 31 bits. A message needs two tags: one for its header and one for its body.
_TAGS = 2**30
# Two objects use one process group, so they need separate tags. One numbers its messages by calls, the other
# one counts them.
FIRST_TAG_OF_CALLS, FIRST_TAG_OF_MESSAGES = 0, _TAGS


class Received(NamedTuple):
    """A payload that has arrived."""

    payload: Payload
    ragged: bool


class PointToPoint:
    """Sends and receives one worker's payloads on one channel; its methods are thread-safe."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, first_tag: int) -> None:
        self._group = group
        self._device = device
        self._first_tag = first_tag
        # Sent, but perhaps not yet received: until then the tensors must be kept, and only `wait` tells.
        self._sent: Queue[tuple[Callable[[], object], Tensor] | None] = Queue()
        self._keeper = Thread(target=self._keep_until_received, daemon=True)
        self._keeper.start()

    def send(
        self,
        payload: Payload,
        to: Sequence[int],
        tag: int,
        ragged: bool = False,
        left: Callable[[], None] | None = None,
    ) -> None:
        """Send a payload to the members with these ranks, without waiting for them.

        `left` is called in a thread as soon as a part of the message has left.
        """
        header, body = pack(payload, ragged)
        for part_number, part in enumerate((header, body.cpu())):
            for member in to if len(part) else ():
                with translated_errors():
                    work = self._group.send([part], member, self._tag(tag, part_number))
                self._sent.put((work.wait if left is None else _followed(work, left), part))

    def receive(self, sources: Sequence[int], tag: int) -> list[Received]:
        """Wait for a payload from each of the members."""
        headers = [torch.empty(HEADER, dtype=torch.int64) for _ in sources]
        bodies = []
        with translated_errors():
            receiving = [
                self._group.recv([header], source, self._tag(tag, 0))
                for header, source in zip(headers, sources)
            ]
            for work, header, source in zip(list(receiving), headers, sources):
                work.wait()
                bodies.append(torch.empty(body_bytes(header), dtype=torch.uint8))
                if len(bodies[-1]):
                    receiving.append(self._group.recv([bodies[-1]], source, self._tag(tag, 1)))
            for work in receiving[len(headers) :]:
                work.wait()
        return [
            Received(unpack(header, body.to(self._device)), ragged=bool(header[1]))
            for header, body in zip(headers, bodies)
        ]

    def close(self) -> None:
        """Wait until everything that was sent has been received."""
        self._sent.put(None)
        self._keeper.join()

    def _keep_until_received(self) -> None:
        while (sent := self._sent.get()) is not None:
            # If this fails, the receiver has ended; so will the run.
            wait, _ = sent
            with suppress(RuntimeError):
                wait()

    def _tag(self, tag: int, part_number: int) -> int:
        return self._first_tag + (2 * tag + part_number) % _TAGS


def _followed(work: dist.Work, left: Callable[[], None]) -> Callable[[], object]:
    """Call `left` as soon as `work` is done; return a function that waits until then.

    gloo says that a message has left only to a thread that waits for this message. One whose receiver is late
    must not delay what is known of those behind it, so each has a thread.
    """

    def follow() -> None:
        with suppress(RuntimeError):
            work.wait()
            left()

    thread = Thread(target=follow, daemon=True)
    thread.start()
    return thread.join
