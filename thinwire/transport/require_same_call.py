"""Checks in one process that all workers make the same call. For ranks, see `call_log.disagreeing`."""

from thinwire.call import Call
from thinwire.errors import MethodError
from thinwire.group import Group


def require_same_call(group: Group, number: int, calls: list[Call]) -> None:
    """Check that all members have made the same call.

    Raises:
        MethodError: two of them differ.
    """
    first = calls[0]
    expected = _must_agree(first)
    for rank, call in enumerate(calls[1:], 1):
        if _must_agree(call) != expected:
            raise MethodError(
                f"call {number + 1} on run.{group.name} does not agree: rank 0 calls "
                f"{first.describe()} and rank {rank} calls {call.describe()}"
            )


def _must_agree(call: Call) -> tuple[object, ...]:
    """Everything in which the calls of all members must agree."""
    layout = [(tensor.shape, tensor.dtype) for tensor in call.tensors]
    return call.verb, call.kind, call.partner, call.key, call.ragged, layout
