"""Counts what any program sends over torch.distributed, as the ledgers of thinwire count it.

The calls are seen where torch hands them to a backend, so those of DistributedDataParallel and of FSDP are
among them. Autograd passes the meter on to its own threads.
"""

import os
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import pandas as pd
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import _resolve_process_group
from torch._ops import OpOverload
from torch.distributed.distributed_c10d import GroupName
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from thinwire.base.errors import UserError
from thinwire.traffic import wire_bytes
from thinwire.traffic.payload import nbytes
from thinwire.traffic.wire_bytes import Wire

Nested = Tensor | Sequence["Nested"]
# Names of the argument that has what a worker hands over.
_OWN = ("tensors", "input_tensors", "input_tensor", "input_list", "inputs", "input")


class _Call(NamedTuple):
    """A call of a worker; each method gives the bytes of one collective."""

    rank: int
    """Of the worker, in the group."""
    nodes: tuple[int, ...]
    """Of each member of the group, in the order of the ranks."""
    given: dict[str, Any]
    """The arguments, by their names in torch."""

    @property
    def own(self) -> list[Tensor]:
        """The tensors that this worker hands over."""
        return [*_flat(next(self.given[name] for name in _OWN if name in self.given))]

    @property
    def root(self) -> int:
        return self.given["root_rank" if "root_rank" in self.given else "src"]

    def barrier(self) -> Wire:
        return Wire(0, 0, 0)

    def all_reduce(self) -> Wire:
        return wire_bytes.all_reduce(self.rank, self.nodes, nbytes(self.own))

    def reduce(self) -> Wire:
        return wire_bytes.reduce(self.rank, self.nodes, nbytes(self.own), self.root)

    def broadcast(self) -> Wire:
        return wire_bytes.broadcast(self.rank, self.nodes, nbytes(self.own), self.root)

    def all_gather(self) -> Wire:
        sizes = [nbytes(self.own)] * len(self.nodes)
        if "output_tensors" in self.given:
            sizes = [nbytes([tensor]) for tensor in self.given["output_tensors"][0]]
        return wire_bytes.all_gather(self.rank, self.nodes, sizes)

    def gather(self) -> Wire:
        return wire_bytes.push(self.rank, self.nodes, [nbytes(self.own)] * len(self.nodes), self.root)

    def scatter(self) -> Wire:
        return wire_bytes.pull(self.rank, self.nodes, nbytes(self.given["output_tensors"]), self.root)

    def reduce_scatter(self) -> Wire:
        """Each part goes to its owner, as a push."""
        parts = [nbytes(self.own) // len(self.nodes)] * len(self.nodes)
        if "input_tensors" in self.given:
            parts = [nbytes([tensor]) for tensor in self.own]
        return self._messages(parts, [parts[self.rank]] * len(self.nodes))

    def all_to_all(self) -> Wire:
        if "output_tensors" in self.given:
            received = [nbytes([tensor]) for tensor in self.given["output_tensors"]]
            return self._messages([nbytes([tensor]) for tensor in self.own], received)
        (own,) = self.own
        row = own.element_size() * prod(own.shape[1:])
        equal = [len(own) // len(self.nodes)] * len(self.nodes)
        splits = (self.given[name] or equal for name in ("input_split_sizes", "output_split_sizes"))
        return self._messages(*([row * rows for rows in split] for split in splits))

    def send(self) -> Wire:
        return wire_bytes.send(self.nodes[self.rank], self.nodes[self.given["dst"]], nbytes(self.own))

    def receive(self) -> Wire:
        return wire_bytes.receive(nbytes(self.own))

    def _messages(self, sent: Sequence[int], received: Sequence[int]) -> Wire:
        """Messages between all pairs, of so many bytes to and from each member."""
        others = [(member, node) for member, node in enumerate(self.nodes) if member != self.rank]
        messages = [wire_bytes.send(self.nodes[self.rank], node, sent[member]) for member, node in others]
        messages += [wire_bytes.receive(received[member]) for member, _ in others]
        return Wire(*(sum(column) for column in zip(Wire(0, 0, 0), *messages)))


def _flat(tensors: Nested) -> Iterator[Tensor]:
    """The tensors of nested lists."""
    if isinstance(tensors, Tensor):
        yield tensors
    else:
        for each in tensors:
            yield from _flat(each)


def _group(given: str | dist.ProcessGroup | torch.ScriptObject) -> dist.ProcessGroup:
    """The group of an operation, which has its name, itself, or itself in a box."""
    if isinstance(given, str):
        return _resolve_process_group(GroupName(given))
    return dist.ProcessGroup.unbox(given) if isinstance(given, torch.ScriptObject) else given


# The operations of torch that make a call, by the collective, which is the name in tables.
_OPERATIONS = {
    "barrier": ("c10d::barrier", "c10d::monitored_barrier_"),
    "all_reduce": (
        "c10d::allreduce_",
        "c10d::allreduce_coalesced_",
        "_c10d_functional::all_reduce",
        "_c10d_functional::all_reduce_",
        "_c10d_functional::all_reduce_coalesced",
        "_c10d_functional::all_reduce_coalesced_",
    ),
    "reduce": ("c10d::reduce_",),
    "broadcast": ("c10d::broadcast_", "_c10d_functional::broadcast", "_c10d_functional::broadcast_"),
    "all_gather": (
        "c10d::allgather_",
        "c10d::allgather_coalesced_",
        "c10d::_allgather_base_",
        "c10d::allgather_into_tensor_coalesced_",
        "_c10d_functional::all_gather_into_tensor",
        "_c10d_functional::all_gather_into_tensor_out",
        "_c10d_functional::all_gather_into_tensor_coalesced",
    ),
    "gather": ("c10d::gather_",),
    "scatter": ("c10d::scatter_",),
    "reduce_scatter": (
        "c10d::reduce_scatter_",
        "c10d::_reduce_scatter_base_",
        "c10d::reduce_scatter_tensor_coalesced_",
        "_c10d_functional::reduce_scatter_tensor",
        "_c10d_functional::reduce_scatter_tensor_out",
        "_c10d_functional::reduce_scatter_tensor_coalesced",
    ),
    "all_to_all": ("c10d::alltoall_", "c10d::alltoall_base_", "_c10d_functional::all_to_all_single"),
    "send": ("c10d::send",),
    "receive": ("c10d::recv_", "c10d::recv_any_source_"),
}
_COLLECTIVES = {operation: name for name, several in _OPERATIONS.items() for operation in several}
# What sends nothing.
_LOCAL = ("c10d::check_for_nan", "_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd")


class meter(TorchDispatchMode):  # noqa: N801  # it is used as a function: `with thinwire.meter() as counted`
    """Counts the bytes of this worker's calls, while the block runs.

    The bytes are those of `thinwire.traffic.wire_bytes`, whatever the backend does. `all_reduce` and
    `all_gather` are rings, `broadcast` and `reduce` are chains. In all other calls, each worker that has
    something for another one sends it a message. Calls of threads that the program starts are not seen.

    Args:
        nodes: the node of each rank. By default torchrun's LOCAL_WORLD_SIZE says how many ranks a node has;
            without it, all are on one node.

    Raises:
        UserError: a call is of a kind that is not counted.
    """

    supports_higher_order_operators = True

    def __init__(self, nodes: Sequence[int] | None = None) -> None:
        super().__init__()
        self._nodes = nodes
        self._found: dict[tuple[str, tuple[int, ...]], list[int]] = {}

    @property
    def table(self) -> pd.DataFrame:
        """A row for each collective and group: its `calls`, and bytes `sent`, `received` and `between_nodes`.

        `between_nodes` is the part of `sent` that went to another node. `group` has the ranks of the group.
        """
        rows = [[*key, *sums] for key, sums in self._found.items()]
        return pd.DataFrame(rows, columns=["collective", "group", "calls", *Wire._fields])

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Count a call if it is one of torch.distributed, and make it."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # torch then asks again for each operation that it makes of this one
        if "c10d" in func.namespace or func.namespace == "symm_mem":
            self._count(func._schema, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _count(self, schema: torch.FunctionSchema, args: Sequence[object], kwargs: dict[str, object]) -> None:
        if schema.name in _LOCAL:
            return
        given: dict[str, Any] = dict(zip((argument.name for argument in schema.arguments), args)) | kwargs
        collective = _COLLECTIVES.get(schema.name)
        sparse = any(tensor.layout is not torch.strided for tensor in _flat(given.get("tensors", [])))
        if collective is None or sparse:
            what = f"{schema.name} of sparse tensors" if sparse else schema.name
            raise UserError(f"thinwire.meter cannot count {what}: it counts {', '.join(_OPERATIONS)}")
        group = _group(given["process_group" if "process_group" in given else "group_name"])
        ranks = tuple(dist.get_process_group_ranks(group))
        each = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
        nodes = tuple(rank // each if self._nodes is None else self._nodes[rank] for rank in ranks)
        wire: Wire = getattr(_Call(group.rank(), nodes, given), collective)()
        before = self._found.get((collective, ranks), [0] * 4)
        self._found[collective, ranks] = [total + new for total, new in zip(before, (1, *wire))]
