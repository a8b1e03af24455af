"""How the ranks of a run meet, and what they say if they cannot.

Ranks of one machine are forks of one process. They meet in a file that only they have open, and connect over
the loopback, so that no other host can reach them. Ranks that srun or torchrun has started meet in torch's
`TCPStore`, which rank 0 serves. Also which address and interface of a host lead to another one.
"""

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, PrefixStore, Store, TCPStore

from thinwire.base.errors import UserError, shortage
from thinwire.base.placement import Address, Placement, SharedFile

T = TypeVar("T")
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
_REFUSAL_SECONDS = 10.0  # that rank 0 waits until the others have received why it refuses to begin
_MOST_NAMED = 8  # missing ranks in a message
_GLOO = "gloo/"  # gloo raises plain RuntimeErrors, which begin with the file of its source
_SIOCGIFADDR = 0x8915  # from <linux/sockios.h>
_IFREQ = struct.Struct("16s24x")  # the name of an interface, and room for an address
_BACKLOG = 4096
_joined: list[Store] = []  # the store of this process; in rank 0 it serves the others as long as it exists


class Refused(UserError):
    """Rank 0 refuses to begin; the message is its reason."""


class ConnectionLost(Exception):
    """Another process has ended or does not answer."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate the errors of connections inside this block, which calls torch.distributed.

    Errors of other kinds stay as they are, for example of a tensor on the wrong device.

    Raises:
        ConnectionLost: another process has ended.
        ResourceError: this machine is short of something.
    """
    try:
        yield
    except RuntimeError as error:
        if (short := shortage(error)) is not None:
            raise short from error
        if not isinstance(error, dist.DistError) and _GLOO not in str(error):
            raise
        raise ConnectionLost(_first_line(error)) from error


def within(seconds: float, do: Callable[[], T]) -> T:
    """Do something, and return its result; a `TCPStore` waits for some answers without a limit of time.

    Raises:
        TimeoutError: it takes longer; a thread still waits for its end.
    """
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(do())
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=ask, daemon=True).start()
    return answer.result(seconds)


def join(placement: Placement, timeout_seconds: float, refusal: str | None = None) -> None:
    """Join the other processes, and open the group of all ranks.

    Args:
        placement: of this process.
        timeout_seconds: how long to wait for the others.
        refusal: on rank 0 only: the reason why the run must not begin, if there is one.

    Raises:
        Refused: rank 0 has passed a refusal.
        UserError: the port is taken, rank 0 cannot be reached, or a rank did not come in time.
    """
    meeting = placement.meeting
    if isinstance(meeting, Address):
        store = store_of(placement, meeting, timeout_seconds, serve=placement.rank == 0)
    else:
        store = FileStore(meeting.path)
        store.set_timeout(timedelta(seconds=timeout_seconds))
    _joined.append(store)
    try:
        # No part takes longer than its own limit, unless the host of rank 0 is gone.
        limit = 2 * timeout_seconds + _REFUSAL_SECONDS
        within(limit, partial(_meet, placement, store, timeout_seconds, refusal))
    except (RuntimeError, TimeoutError) as error:
        problem = _problem(placement, store, error, timeout_seconds)
        raise shortage(error) or UserError(f"{placement.describe()} {problem}") from None


def _meet(placement: Placement, store: Store, timeout_seconds: float, refusal: str | None) -> None:
    """Wait until all ranks have come, and open their group; torch raises RuntimeErrors if it cannot."""
    limit = timedelta(seconds=timeout_seconds)
    ranks = range(placement.workers)
    store.set(_here(placement.rank), "")
    if placement.rank == 0:
        store.set("refusal", refusal or "")
        if refusal:
            with suppress(RuntimeError):
                store.wait([_told(rank) for rank in ranks[1:]], timedelta(seconds=_REFUSAL_SECONDS))
            raise Refused(refusal)
    elif refusal := store.get("refusal").decode():
        store.set(_told(placement.rank), "")
        raise Refused(refusal)
    store.wait([_here(rank) for rank in ranks], limit)
    _choose_interface(placement.meeting)
    group = PrefixStore("group", store)
    dist.init_process_group(
        "gloo", store=group, rank=placement.rank, world_size=placement.workers, timeout=limit
    )


def store_of(placement: Placement, address: Address, timeout_seconds: float, serve: bool = False) -> Store:
    """Connect to the store at an address of rank 0.

    Args:
        placement: of this process.
        address: where the ranks meet.
        timeout_seconds: for connecting, and for later requests.
        serve: serve the store in this process, too, as long as it is kept.

    Raises:
        UserError: the port is taken, or rank 0 cannot be reached; at once if there is no such host.
    """
    limit, descriptor = timedelta(seconds=timeout_seconds), None
    if serve:
        try:
            descriptor = listen(address.host, address.port).detach()
        except OSError as error:
            where = f"port {address.port} of {socket.gethostname()}"
            raise shortage(error) or UserError(
                f"rank 0 cannot listen at {where} ({os.strerror(error.errno or 0)}): set MASTER_PORT to one "
                "that is free"
            ) from None

    def connected() -> TCPStore:
        # torch would ask for the address until the time is over.
        if is_unknown(address.host):
            raise UserError(
                f"{placement.describe()} finds no host {address.host}: set MASTER_ADDR to the name or an "
                "address of rank 0's host"
            )
        return TCPStore(
            address.host,
            address.port,
            is_master=serve,
            timeout=limit,
            wait_for_workers=False,
            master_listen_fd=descriptor,
        )

    try:
        store = within(timeout_seconds, connected)
    except (RuntimeError, TimeoutError) as error:
        raise shortage(error) or UserError(
            f"{placement.describe()} could not reach rank 0 at {address.host}:{address.port} within "
            f"{timeout_seconds:.0f} s: see that its host can be reached from here, by that name and port, "
            "and that it was started"
        ) from None
    # Another launch may have the same port on the same host; it must not find the ranks of this one.
    return PrefixStore(address.launch, store)


def _choose_interface(meeting: SharedFile | Address) -> None:
    """Let gloo listen only on the interface over which the ranks meet.

    On a cluster a choice of the user is kept. Without one, gloo would listen at the address to which the name
    of this host resolves. The loopback is chosen only if all ranks are on this host.
    """
    if isinstance(meeting, SharedFile):
        os.environ[GLOO_INTERFACE] = meeting.interface
    elif GLOO_INTERFACE not in os.environ:
        address = address_towards(meeting.host, meeting.port)
        if address is None or (is_loopback(address) and not is_loopback(meeting.host)):
            return
        if (chosen := interface_of(address)) is not None:
            os.environ[GLOO_INTERFACE] = chosen


def _problem(placement: Placement, store: Store, error: Exception, timeout_seconds: float) -> str:
    """What has kept this rank from joining the others, and what to do, as a verb phrase."""
    lost = "has lost rank 0: start all ranks at once, and see why rank 0 has ended"
    if isinstance(error, TimeoutError):
        return lost  # and the thread that still waits has the store
    try:
        missing = [rank for rank in range(placement.workers) if not store.check([_here(rank)])]
    except RuntimeError:
        return lost
    if not missing:
        return (
            f"cannot connect to the other ranks ({_first_line(error)}): let their hosts reach each other on "
            f"the interface {os.environ.get(GLOO_INTERFACE, 'of the name of each host')} ({GLOO_INTERFACE})"
        )
    named = ", ".join(map(str, missing[:_MOST_NAMED])) + ", ..." * (len(missing) > _MOST_NAMED)
    met = f"{placement.workers - len(missing)} of {placement.workers} ranks within {timeout_seconds:.0f} s"
    return (
        f"met {met}, without rank{'s' * (len(missing) > 1)} {named}: start all of them at once, and let "
        "their hosts reach each other"
    )


def _here(rank: int) -> str:
    return f"here/{rank}"


def _told(rank: int) -> str:
    return f"told/{rank}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def listen(host: str, port: int) -> socket.socket:
    """Listen at a port of all addresses of this host, or of the loopback alone if `host` is one of it.

    torch would listen at all addresses even if all ranks are on one host.

    Raises:
        OSError: the port is taken, or this process may not use it.
    """
    if is_loopback(host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual)


def is_loopback(host: str) -> bool:
    """Does this name or address mean the loopback on every host?"""
    try:
        return host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_unknown(host: str) -> bool:
    """Does the resolver answer that there is no such host? False where it gives no answer for now."""
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror as error:
        return error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
    return False


def address_towards(host: str, port: int) -> str | None:
    """Return the address of this host from which packets to another one leave; None if that is unknown."""
    with suppress(OSError):
        for family, kind, _, _, full in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind) as any_socket:
                any_socket.connect(full)  # sends nothing
                return str(any_socket.getsockname()[0])
    return None


def interface_of(address: str) -> str | None:
    """Return the interface with an address; None if it is not found, as for second addresses."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.version == 6:
        with suppress(OSError):
            for line in Path("/proc/net/if_inet6").read_text().splitlines():
                found, *_, name = line.split()
                if bytes.fromhex(found) == wanted.packed:
                    return name
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, _IFREQ.pack(name.encode()))
                if answer[20:24] == wanted.packed:
                    return name
    return None
