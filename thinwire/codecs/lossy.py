"""Codecs that lose something: with a memory of what was lost, and several rows in one payload.

    p = x + e;  Q(p) is sent;  e = p - Q(p)

This is error feedback: what a row loses is added to the next one. So what was sent so far and e always add up
to all x. Such codecs are in `thinwire.codecs.blocks`.
"""

from typing import Protocol

import torch
from torch import Tensor

from thinwire.traffic.payload import Payload


class Codec(Protocol):
    """Turns rows into payloads, and a payload into the row that it stands for. A *row* is a flat tensor."""

    def encode(self, rows: list[Tensor]) -> list[Payload]:
        """Return a payload for each row; the rows stay as they are."""

    def decode(self, payload: Payload, count: int) -> Tensor:
        """Return the row of `count` entries that a payload stands for."""

    def sizes(self, count: int) -> dict[str, int]:
        """Return how many elements of each kind stand for a row of `count` entries."""


def encode(codec: Codec, rows: list[Tensor], errors: list[Tensor] | None = None) -> list[Payload]:
    """Encode rows, with error feedback if there are errors.

    Args:
        codec: how.
        rows: flat, of any lengths.
        errors: what earlier rows have lost, of the same lengths; changed in place. None: nothing is kept.
    """
    if errors is None:
        return codec.encode(rows)
    torch._foreach_add_(errors, rows)
    payloads = codec.encode(errors)
    torch._foreach_sub_(errors, [codec.decode(p, len(e)) for p, e in zip(payloads, errors)])
    return payloads


def join(payloads: list[Payload]) -> Payload:
    """Return one payload for several rows, which `decode` divides again."""
    return {kind: torch.cat([payload[kind] for payload in payloads]) for kind in payloads[0]}


def decode(codec: Codec, joined: Payload, counts: list[int]) -> list[Tensor]:
    """Return the rows, of as many entries as `counts` says, of a payload that `join` has made."""
    sizes = [codec.sizes(count) for count in counts]
    parts = {kind: values.split([size[kind] for size in sizes]) for kind, values in joined.items()}
    return [
        codec.decode({kind: values[i] for kind, values in parts.items()}, count)
        for i, count in enumerate(counts)
    ]


def means(codec: Codec, payloads: list[Payload], counts: list[int]) -> list[Tensor]:
    """Return the mean of each row over the workers, from the payloads that they have joined."""
    return [mean([*rows]) for rows in zip(*(decode(codec, payload, counts) for payload in payloads))]


def mean(rows: list[Tensor]) -> Tensor:
    """Return the mean of rows of the same length, added in their order."""
    first, *others = rows
    total = first.clone()
    for other in others:
        total += other
    return total / len(rows)
