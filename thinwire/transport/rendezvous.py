"""How the processes of a run find each other."""

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from thinwire.errors import UserError
from thinwire.resources import shortage
from thinwire.transport import closed_listeners, handshake, listening, network_interface, peer_proof
from thinwire.transport.connection_errors import translated_errors
from thinwire.transport.store import NotThisRun, RunStore
from thinwire.transport.store_server import StoreServer


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
    # Of the run: who does not know it is not let in.
    secret: bytes = field(repr=False)
    # Where rank 0 is to listen, if somebody has begun to; otherwise it opens host and port itself.
    listener: socket.socket | None = field(default=None, repr=False)

    def describe(self) -> str:
        return f"rank {self.rank} on {self.node}"


class Refused(UserError):
    """Rank 0 does not let the others begin; it says why itself."""


@dataclass(frozen=True)
class _Met:
    """What is left of the meeting, for as long as this process lives."""

    # torch itself keeps only the C++ half of a store.
    store: RunStore
    # With which peers prove that they were there: the secret, mixed with what no other meeting has.
    key: bytes


_met: list[_Met] = []


def join(placement: Placement, timeout_seconds: float, refusal: str | None = None) -> RunStore:
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
    try:
        key = _meet(placement, store, timeout_seconds, refusal)
    except RuntimeError:
        came = "has lost rank 0"
        with suppress(RuntimeError):
            came = f"met {store.add('came', 0)} of {placement.workers} ranks within {timeout_seconds:.0f} s"
        raise UserError(
            f"{placement.describe()} {came}: start all of them at once, and let their hosts reach each other"
        ) from None
    _met.append(_Met(store, key))
    return store


def _meet(placement: Placement, store: RunStore, timeout_seconds: float, refusal: str | None) -> bytes:
    """Open the group of all ranks; gives the key of this meeting."""
    store.add("came", 1)
    if placement.rank == 0:
        store.set("meeting", secrets.token_bytes(handshake.BYTES))
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
    _choose_interface(placement, store)
    key = handshake.answer(placement.secret, handshake.RANK, store.get("meeting"))

    def open_first() -> dist.ProcessGroup:
        dist.init_process_group(
            "gloo",
            store=PrefixStore("group", store),
            rank=placement.rank,
            world_size=placement.workers,
            timeout=timedelta(seconds=timeout_seconds),
        )
        return dist.distributed_c10d._get_default_group()

    _open(open_first, key, timeout_seconds)
    return key


def open_group(members: list[int] | None, backend: str) -> Any:
    """torch.distributed's group of some ranks (None: all), whose members have proved who they are.

    All ranks open all groups, in one order.

    Raises:
        ConnectionLost: somebody did not come.
        UserError: somebody came who is not of the run.
    """
    met = _met[-1]
    with translated_errors():
        return _open(
            lambda: dist.new_group(members, backend=backend), met.key, met.store.timeout.total_seconds()
        )


def _open(make: Callable[[], Any], key: bytes, timeout_seconds: float) -> Any:
    """A group, when all its members have proved themselves and nobody else can come any more."""
    before = closed_listeners.listening()
    group = make()
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        peer_proof.prove(group, key, timeout_seconds)
    # Those of gloo alone: NCCL begins to listen when it first has something to carry.
    closed_listeners.shut(closed_listeners.listening() - before)
    return group


def store_of(placement: Placement, timeout_seconds: float, is_master: bool = False) -> RunStore:
    """The store that rank 0 keeps, or a new line to it.

    Raises:
        UserError: it cannot be had.
    """
    server = None
    if is_master:
        own = placement.listener
        listeners = [own] if own else listening.at(placement.host, placement.port)
        server = StoreServer(listeners, placement.secret)
    elif placement.listener is not None and placement.rank != 0:
        # Inherited from the process that began to listen. Nobody is to wait here for a rank 0 that is gone.
        placement.listener.close()
    try:
        return RunStore(placement.host, placement.port, placement.secret, timeout_seconds, server)
    except OSError as error:
        raise shortage(error) or UserError(_trouble(placement, error, timeout_seconds)) from None


def _choose_interface(placement: Placement, store: RunStore) -> None:
    """gloo is to listen where rank 0 was reached, and only there, unless somebody knows better.

    Its own choice is the address to which the host's name resolves. A loopback is right only where all ranks
    are on this host.
    """
    chosen = network_interface.of_address(store.address)
    if chosen is None or ("GLOO_SOCKET_IFNAME" in os.environ and placement.launcher != "fork"):
        return
    if not listening.is_loopback(store.address) or listening.means_loopback_everywhere(placement.host):
        os.environ["GLOO_SOCKET_IFNAME"] = chosen


def _trouble(placement: Placement, error: OSError, timeout_seconds: float) -> str:
    """Why there is no store, for the person who can mend it."""
    where = f"{placement.host}:{placement.port}"
    if isinstance(error, NotThisRun):
        return (
            f"{placement.describe()} reached {where}, but what listens there is not rank 0 of this run: set "
            "MASTER_PORT to one that is free, and start all ranks at once with one results folder"
        )
    return (
        f"{placement.describe()} could not reach rank 0 at {where} within {timeout_seconds:.0f} s: see that "
        "its host can be reached from here, by that name and port, and that it was started"
    )
