"""How the processes of a run find each other."""

import socket
import time
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from thinwire.errors import UserError


def backend_of(device: torch.device, wanted: str | None) -> str:
    """How torch.distributed carries what lies on a device; what lies on the host always goes by gloo.

    Raises:
        UserError: this build of torch has no NCCL.
    """
    if device.type == "cpu" or wanted == "gloo":
        return "gloo"
    if not dist.is_nccl_available():
        raise UserError("this build of torch has no NCCL: install a CUDA build, or set backend: gloo")
    return "cpu:gloo,cuda:nccl"


# How long rank 0 waits, when it refuses, for the others to hear it.
_HEARING_SECONDS = 10.0


@dataclass(frozen=True)
class Placement:
    """Which worker this process is, and where the first one is found."""

    rank: int
    workers: int
    place: int  # among the workers of this node
    node: str  # on which it is, by name
    host: str  # of rank 0
    port: int
    launcher: str  # who started it

    def describe(self) -> str:
        return f"rank {self.rank} on {self.node}"


class Refused(UserError):
    """Rank 0 does not let the others begin; it says why itself."""


def join(placement: Placement, timeout_seconds: float, refusal: str | None = None) -> TCPStore:
    """Meet the other processes; gives the store in which they can leave notes.

    Args:
        placement: of this process.
        timeout_seconds: for the others to come.
        refusal: of rank 0: why nobody may begin.

    Raises:
        Refused: rank 0 has a refusal.
        UserError: the port is taken, the first host cannot be reached, or somebody did not come.
    """
    store = store_of(placement, timeout_seconds, is_master=placement.rank == 0)
    store.add("came", 1)
    if placement.rank == 0:
        store.set("refusal", refusal or "")
    elif refusal := store.get("refusal").decode():
        store.add("heard", 1)
    if refusal:
        deadline = time.monotonic() + _HEARING_SECONDS
        while placement.rank == 0 and store.add("heard", 0) < placement.workers - 1:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        raise Refused(refusal)
    try:
        dist.init_process_group(
            "gloo",
            store=PrefixStore("group", store),
            rank=placement.rank,
            world_size=placement.workers,
            timeout=timedelta(seconds=timeout_seconds),
        )
    except RuntimeError:
        raise UserError(
            f"{placement.describe()} met {store.add('came', 0)} of {placement.workers} ranks within "
            f"{timeout_seconds:.0f} s: start all of them at once, and let their hosts reach each other"
        ) from None
    return store


def store_of(placement: Placement, timeout_seconds: float, is_master: bool = False) -> TCPStore:
    """The store that rank 0 keeps, or a new line to it.

    Raises:
        UserError: it cannot be had.
    """
    timeout = timedelta(seconds=timeout_seconds)
    try:
        return TCPStore(
            placement.host, placement.port, is_master=is_master, timeout=timeout, wait_for_workers=False
        )
    except RuntimeError as error:
        raise UserError(_trouble(placement, str(error), timeout_seconds)) from None


def _trouble(placement: Placement, what: str, timeout_seconds: float) -> str:
    """Why there is no store, for the person who can mend it."""
    where, here = f"{placement.host}:{placement.port}", socket.gethostname()
    if placement.rank == 0 and "EADDRINUSE" in what:
        return f"port {placement.port} is taken on {here}: set MASTER_PORT to one that is free"
    if placement.rank == 0:
        return f"rank 0 on {here} cannot listen at {where} ({what.splitlines()[0]}): is that this host?"
    return (
        f"{placement.describe()} could not reach rank 0 at {where} within {timeout_seconds:.0f} s: see that "
        "its host can be reached from here, by that name and port, and that it was started"
    )
