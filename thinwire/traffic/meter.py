"""Counts what any program sends over torch.distributed, as the ledgers of thinwire count it.

The calls are seen where torch hands them to a backend, so those of DistributedDataParallel are among them.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from thinwire.base.errors import UserError
from thinwire.traffic import wire_bytes
from thinwire.traffic.payload import nbytes
from thinwire.traffic.wire_bytes import Wire


class _Member(NamedTuple):
    """A worker in the group that makes a call."""

    rank: int
    nodes: tuple[int, ...]
    """Of each member, in the order of the ranks."""

    def all_reduce(self, tensors: list[Tensor]) -> Wire:
        return wire_bytes.all_reduce(self.rank, self.nodes, nbytes(tensors))

    def broadcast(self, tensors: list[Tensor], source: int) -> Wire:
        return wire_bytes.broadcast(self.rank, self.nodes, nbytes(tensors), source)

    def all_gather(self, sizes: Sequence[int]) -> Wire:
        return wire_bytes.all_gather(self.rank, self.nodes, sizes)

    def all_to_all(self, sent: Sequence[int], received: Sequence[int]) -> Wire:
        """Messages between all pairs, of so many bytes to and from each member."""
        others = [(member, node) for member, node in enumerate(self.nodes) if member != self.rank]
        messages = [wire_bytes.send(self.nodes[self.rank], node, sent[member]) for member, node in others]
        messages += [wire_bytes.receive(received[member]) for member, _ in others]
        return Wire(*(sum(column) for column in zip(Wire(0, 0, 0), *messages)))

    def equal_parts(self, tensor: Tensor) -> list[int]:
        return [nbytes([tensor]) // len(self.nodes)] * len(self.nodes)


def _all_to_all(member: _Member, received: Tensor, sent: Tensor, into: list[int], out: list[int]) -> Wire:
    def parts(tensor: Tensor, rows: list[int]) -> list[int]:
        """The bytes of each part; rows are those of the parts, and none if they are equal."""
        return [nbytes([tensor]) // len(tensor) * n for n in rows] if rows else member.equal_parts(tensor)

    return member.all_to_all(parts(sent, out), parts(received, into))


def _reduce_scatter(member: _Member, part: Tensor, whole: Tensor) -> Wire:
    """Each part goes to its owner, as a push."""
    return member.all_to_all(member.equal_parts(whole), [nbytes([part])] * len(member.nodes))


# What each call of a backend is, by its name in torch: the name in tables, and its bytes. The arguments are
# those of the call without the group and the operation.
_CALLS: dict[str, tuple[str, Callable[..., Wire]]] = {
    "allreduce_": ("all_reduce", lambda member, tensors, *_: member.all_reduce(tensors)),
    "allreduce_coalesced_": ("all_reduce", lambda member, tensors, *_: member.all_reduce(tensors)),
    "broadcast_": ("broadcast", lambda member, tensors, source, *_: member.broadcast(tensors, source)),
    "allgather_": (
        "all_gather",
        lambda member, outputs, *_: member.all_gather([nbytes([tensor]) for tensor in outputs[0]]),
    ),
    "_allgather_base_": (
        "all_gather",
        lambda member, _, own, *__: member.all_gather([nbytes([own])] * len(member.nodes)),
    ),
    "_reduce_scatter_base_": (
        "reduce_scatter",
        lambda member, part, whole, *_: _reduce_scatter(member, part, whole),
    ),
    "alltoall_base_": ("all_to_all", lambda member, *arguments: _all_to_all(member, *arguments[:4])),
    "send": (
        "send",
        lambda member, tensors, to, *_: wire_bytes.send(
            member.nodes[member.rank], member.nodes[to], nbytes(tensors)
        ),
    ),
    "recv_": ("receive", lambda member, tensors, *_: wire_bytes.receive(nbytes(tensors))),
    "barrier": ("barrier", lambda member, *_: Wire(0, 0, 0)),
}


class meter(TorchDispatchMode):  # noqa: N801  # it is used as a function: `with thinwire.meter() as counted`
    """Counts the bytes of this worker's calls, while the block runs.

    Collectives are taken to be rings, chains and messages as in `thinwire.traffic.wire_bytes`, whatever the
    backend does. Calls of other threads are not seen.

    Args:
        nodes: the node of each rank. By default torchrun's LOCAL_WORLD_SIZE says how many ranks a node has;
            without it, all are on one node.

    Raises:
        UserError: a call is of a kind that is not counted.
    """

    def __init__(self, nodes: Sequence[int] | None = None) -> None:
        super().__init__()
        self._nodes = nodes
        self._found: dict[tuple[str, tuple[int, ...]], list[Wire]] = {}

    @property
    def table(self) -> pd.DataFrame:
        """A row for each collective and group: its `calls`, and bytes `sent`, `received` and `between_nodes`.

        `between_nodes` is the part of `sent` that went to another node. `group` has the ranks of the group.
        """
        rows = [
            {"collective": name, "group": ranks, "calls": len(wires)}
            | dict(zip(Wire._fields, map(sum, zip(*wires))))
            for (name, ranks), wires in self._found.items()
        ]
        return pd.DataFrame(rows, columns=["collective", "group", "calls", *Wire._fields])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count a call if it is one of torch.distributed, and make it."""
        if func.namespace == "c10d":
            self._count(func, args)
        return func(*args, **(kwargs or {}))

    def _count(self, func: Any, arguments: Sequence[Any]) -> None:
        known = func._schema.name.removeprefix("c10d::")
        if known not in _CALLS:
            raise UserError(f"thinwire.meter cannot count torch's {known}: it counts {', '.join(_CALLS)}")
        named = zip((argument.name for argument in func._schema.arguments), arguments)
        group = dist.ProcessGroup.unbox(next(value for name, value in named if name == "process_group"))
        ranks = tuple(dist.get_process_group_ranks(group))
        each = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
        nodes = tuple(rank // each if self._nodes is None else self._nodes[rank] for rank in ranks)
        name, wire_of = _CALLS[known]
        plain = [value for value in arguments if not isinstance(value, torch.ScriptObject)]
        wire = wire_of(_Member(group.rank(), nodes), *plain)
        self._found.setdefault((name, ranks), []).append(wire)
