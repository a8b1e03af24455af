"""Checks in one process that all workers make the same call. For ranks, see `agreement.disagreeing`."""

from thinwire.call import Call
from thinwire.errors import MethodError
from thinwire.group import Group


def require_same_call(group: Group, number: int, calls: list[Call]) -> None:
    """Check that all members have made the same call.

    Raises:
        MethodError: two of them differ.
    """
    first = calls[0]
    for rank, call in enumerate(calls[1:], 1):
        same = (
            (call.verb, call.kind, call.partner, call.key, call.ragged)
            == (first.verb, first.kind, first.partner, first.key, first.ragged)
            and len(call.tensors) == len(first.tensors)
            and all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(call.tensors, first.tensors))
        )
        if not same:
            raise MethodError(
                f"call {number + 1} on run.{group.name} does not agree: rank 0 calls "
                f"{first.describe()} and rank {rank} calls {call.describe()}"
            )
