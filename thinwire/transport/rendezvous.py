"""Rendezvous: the processes of a run find each other and open process groups."""

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from thinwire.errors import UserError
from thinwire.resource_shortage import shortage
from thinwire.transport import closed_listeners, handshake, listening, network_interface, peer_proof
from thinwire.transport.connection_errors import translated_errors
from thinwire.transport.rank_placement import Placement
from thinwire.transport.store_client import NotThisRun, RunStore
from thinwire.transport.store_server import StoreServer

# If rank 0 refuses to begin, how long it waits until the others have received the reason.
_REFUSAL_SECONDS = 10.0


class Refused(UserError):
    """Rank 0 refuses to begin; the message is its reason."""


@dataclass(frozen=True)
class _Joined:
    """What this process keeps of a rendezvous until it ends."""

    # Kept here, because torch itself keeps only the C++ object behind a store.
    store: RunStore
    # With it members of groups prove their identity; derived from the secret and unique to this rendezvous.
    key: bytes


_joined: list[_Joined] = []


def join(placement: Placement, timeout_seconds: float, refusal: str | None = None) -> RunStore:
    """Join the other processes; return the store through which all ranks exchange keys and values.

    Args:
        placement: of this process.
        timeout_seconds: how long to wait for the others.
        refusal: on rank 0 only: the reason why the run must not begin, if there is one.

    Raises:
        Refused: rank 0 has passed a refusal.
        UserError: the port is taken, rank 0 cannot be reached, or a rank did not come in time.
    """
    store = store_of(placement, timeout_seconds, is_master=placement.rank == 0)
    try:
        key = _open_first_group(placement, store, timeout_seconds, refusal)
    except RuntimeError:
        problem = "has lost rank 0"
        with suppress(RuntimeError):
            arrived = store.add("arrived", 0)
            problem = f"met {arrived} of {placement.workers} ranks within {timeout_seconds:.0f} s"
        raise UserError(
            f"{placement.describe()} {problem}: start all of them at once, and let their hosts reach "
            "each other"
        ) from None
    _joined.append(_Joined(store, key))
    return store


def _open_first_group(
    placement: Placement, store: RunStore, timeout_seconds: float, refusal: str | None
) -> bytes:
    """Open the group of all ranks; return the key of this rendezvous.

    Raises:
        Refused: rank 0 has passed a refusal.
    """
    store.add("arrived", 1)
    if placement.rank == 0:
        store.set("nonce", secrets.token_bytes(handshake.BYTES))
        store.set("refusal", refusal or "")
    elif refusal := store.get("refusal").decode():
        store.add("refused", 1)
    if refusal:
        deadline = time.monotonic() + _REFUSAL_SECONDS
        while placement.rank == 0 and store.add("refused", 0) < placement.workers - 1:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        raise Refused(refusal)
    _choose_interface(placement, store)
    key = handshake.answer(placement.secret, handshake.RANK, store.get("nonce"))

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
    """Open and return a process group whose members have proved their identity.

    All ranks must open all groups in the same order.

    Args:
        members: ranks; None: all ranks.
        backend: of torch.distributed, see `transport.backend`.

    Raises:
        ConnectionLost: a member did not come.
        UserError: a process that is not part of the run has taken the place of a member.
    """
    joined = _joined[-1]
    with translated_errors():
        return _open(
            lambda: dist.new_group(members, backend=backend), joined.key, joined.store.timeout.total_seconds()
        )


def _open(make: Callable[[], Any], key: bytes, timeout_seconds: float) -> Any:
    """Make a group, check the proofs of its members, and close its listeners to all other processes."""
    before = closed_listeners.listening()
    group = make()
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        peer_proof.prove(group, key, timeout_seconds)
    # These are only gloo's listeners: NCCL begins to listen at its first collective.
    closed_listeners.shut(closed_listeners.listening() - before)
    return group


def store_of(placement: Placement, timeout_seconds: float, is_master: bool = False) -> RunStore:
    """Connect to the store of the run, which rank 0 serves.

    Args:
        placement: of this process.
        timeout_seconds: for connecting, and for later requests.
        is_master: serve the store in this process, too.

    Raises:
        UserError: the connection fails.
    """
    server = None
    if is_master:
        own = placement.listener
        listeners = [own] if own else listening.at(placement.host, placement.port)
        try:
            server = StoreServer(listeners, placement.secret)
        except OSError as error:
            raise shortage(error) or error from None
    elif placement.listener is not None and placement.rank != 0:
        # Inherited from the process that opened it. If it stayed open here, others could still connect to it
        # after rank 0 has ended, and would wait in vain.
        placement.listener.close()
    try:
        return RunStore(placement.host, placement.port, placement.secret, timeout_seconds, server)
    except OSError as error:
        raise shortage(error) or UserError(_advice(placement, error, timeout_seconds)) from None


def _choose_interface(placement: Placement, store: RunStore) -> None:
    """Let gloo listen only on the interface over which this process reaches rank 0.

    A choice of the user (GLOO_SOCKET_IFNAME) is kept. Without a choice, gloo would listen at the address to
    which the name of this host resolves. The loopback is chosen only if all ranks are on this host.
    """
    chosen = network_interface.of_address(store.address)
    if chosen is None or ("GLOO_SOCKET_IFNAME" in os.environ and placement.launcher != "fork"):
        return
    if not listening.is_loopback(store.address) or listening.means_loopback_everywhere(placement.host):
        os.environ["GLOO_SOCKET_IFNAME"] = chosen


def _advice(placement: Placement, error: OSError, timeout_seconds: float) -> str:
    """Tell the user why this process has no connection to the store, and what to do."""
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
