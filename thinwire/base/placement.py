"""Which worker is on which node, which process stands for which worker, and how it uses a GPU."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thinwire.base.errors import UserError

if TYPE_CHECKING:
    import torch


# True while operations on tensors of the CPU are counted as those of an accelerator. Where there is one
# algorithm for CPUs and another one for accelerators, the latter runs then. It is not part of `on_gpu`: these
# tensors stay on the CPU, so nothing waits for them, and they need neither streams nor pinned memory.
counted_as_accelerator: ContextVar[bool] = ContextVar("counted_as_accelerator", default=False)


def on_gpu(device: "torch.device") -> bool:
    """Do tensors of this device have values that the host cannot read without waiting?

    Everything that is done for GPUs alone asks this. So tests can do it on an accelerator without hardware.
    Which algorithm runs is another question: see `counted_as_accelerator`.
    """
    return device.type not in ("cpu", "meta")


def moved_to(device: "torch.device", tensor: "torch.Tensor") -> "torch.Tensor":
    """Return a tensor of the host on a device, and itself if it is there.

    The host does not wait for the copy. From memory that is not pinned, it would wait until the GPU has done
    all work that it has.
    """
    if on_gpu(device) and not on_gpu(tensor.device):
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True)
class Cluster:
    """`workers` workers, spread evenly over `nodes` nodes; worker w sits on node w // workers_per_node."""

    workers: int
    nodes: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1 or self.nodes < 1:
            raise UserError(
                f"a cluster of {self.workers} workers on {self.nodes} nodes is impossible: "
                "both must be at least 1"
            )
        if self.workers % self.nodes:
            raise UserError(
                f"{self.workers} workers cannot be spread evenly over {self.nodes} nodes: "
                "choose a number of workers that the nodes divide"
            )

    @property
    def workers_per_node(self) -> int:
        return self.workers // self.nodes

    def node_of(self, worker: int) -> int:
        return worker // self.workers_per_node

    def world(self) -> tuple[int, ...]:
        """All workers."""
        return tuple(range(self.workers))

    def groups(self, worker: int) -> dict[str, tuple[int, ...]]:
        """The members of each channel of a worker, by the channel's name.

        `node` has the workers of its node, `across` the worker of each node with the same place as this one;
        `unmetered` is for evaluation.
        """
        node, place = divmod(worker, self.workers_per_node)
        first = node * self.workers_per_node
        return {
            "world": self.world(),
            "node": tuple(range(first, first + self.workers_per_node)),
            "across": tuple(range(place, self.workers, self.workers_per_node)),
            "unmetered": self.world(),
        }


@dataclass(frozen=True)
class SharedFile:
    """Where ranks of one machine meet: in a file that only they have open."""

    path: str
    interface: str  # the network interface of their connections
    status_interface: str | None = None  # of those over which they exchange their status, if it is another


@dataclass(frozen=True)
class Address:
    """Where ranks meet that have no parent in common: at an address of rank 0."""

    host: str
    port: int
    launch: str  # a name that no other launch has


@dataclass(frozen=True)
class Placement:
    """Which worker this process is, and where it meets the others."""

    rank: int
    workers: int
    place: int  # number among the workers of this node, from 0
    node: str  # the name of this node
    launcher: str  # the program that has started this process
    meeting: SharedFile | Address

    def describe(self) -> str:
        """Name the rank and its node, for messages."""
        return f"rank {self.rank} on {self.node}"
