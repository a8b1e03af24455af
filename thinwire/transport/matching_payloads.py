"""Checks that the workers hand over payloads of the same kinds, types and sizes in a call."""

from thinwire.errors import MethodError
from thinwire.traffic.payload import Payload, bytes_by_kind, describe


def bytes_of_each(payloads: list[Payload], ragged: bool) -> dict[str, list[int]]:
    """Check that the payloads match; return the bytes that each member hands over, by kind.

    For ragged payloads these include the bytes of the transmitted sizes.

    Raises:
        MethodError: the kinds or types differ, or the sizes differ and the payloads are not ragged.
    """
    first = describe(payloads[0], ragged=True)
    for rank, payload in enumerate(payloads):
        if (other := describe(payload, ragged=True)) != first:
            raise MethodError(
                f"rank 0 hands over {_listed(first)}, and rank {rank} {_listed(other)}: hand over the same "
                "kinds in the same order and of the same types, and an empty tensor where there is nothing"
            )
    each = [bytes_by_kind(payload, ragged) for payload in payloads]
    by_kind = {kind: [sizes[kind] for sizes in each] for kind in each[0]}
    for kind, sizes in by_kind.items():
        if len(set(sizes)) > 1 and not ragged:
            raise MethodError(
                f"the workers hand over {kind} of different sizes, {sizes} bytes: say ragged=True, so that "
                "the sizes travel too and are counted"
            )
    return by_kind


def _listed(kinds: list[str]) -> str:
    return ", ".join(kinds) or "nothing"
