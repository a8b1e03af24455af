"""The addresses at which rank 0 listens for the other ranks: as few addresses of its host as possible."""

import errno
import ipaddress
import socket
from contextlib import suppress

from thinwire.errors import UserError

# Nearly every host has both, but some have only one of them.
_LOOPBACK = ("127.0.0.1", "::1")
_EVERYWHERE = ("0.0.0.0", "::")
_BACKLOG = 4096


def on_loopback() -> socket.socket:
    """Listen at a free port that can be reached only from this host.

    Raises:
        UserError: this host has no loopback interface.
    """
    for address in _LOOPBACK:
        with suppress(OSError):
            return _listen(address, 0)
    raise UserError(
        f"{socket.gethostname()} has no loopback, over which the ranks of one machine meet: ip link set lo up"
    )


def at(host: str, port: int) -> list[socket.socket]:
    """Listen at those addresses of the name `host` that belong to this host.

    On many hosts the host's own name resolves to the loopback, while other hosts resolve it correctly
    (Debian's /etc/hosts). Then this host cannot know the right address, so it listens at all addresses.

    Raises:
        UserError: the port is taken, or the name does not belong to this host.
    """
    here, listeners = socket.gethostname(), []
    addresses = addresses_of(host)
    if all(map(is_loopback, addresses)) and not means_loopback_everywhere(host):
        addresses = list(_EVERYWHERE)
    for address in addresses:
        try:
            listeners.append(_listen(address, port))
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue
            for listener in listeners:
                listener.close()
            if error.errno == errno.EADDRINUSE:
                message = f"port {port} is taken on {here}: set MASTER_PORT to one that is free"
            else:
                message = (
                    f"rank 0 on {here} cannot listen at {address}, port {port} ({error.strerror}): set "
                    "MASTER_PORT to one that it may use"
                )
            raise UserError(message) from None
    if not listeners:
        raise UserError(
            f"rank 0 on {here} cannot listen at {host} ({', '.join(addresses)}), which is no address of this "
            "host: set MASTER_ADDR to the host of rank 0"
        )
    return listeners


def addresses_of(host: str) -> list[str]:
    """Return all addresses to which a name resolves on this host, without duplicates.

    Raises:
        UserError: it does not resolve.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{socket.gethostname()} knows no host {host!r} ({reason}): set MASTER_ADDR to a name or an "
            "address of the host of rank 0 that all hosts know"
        ) from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_loopback(address: str) -> bool:
    """Can this address be reached only from its own host?"""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def means_loopback_everywhere(host: str) -> bool:
    """Does this name or address mean the loopback on every host?"""
    try:
        return host == "localhost" or is_loopback(host)
    except ValueError:
        return False


def _listen(address: str, port: int) -> socket.socket:
    ((family, kind, _, _, full), *_) = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    listener = socket.socket(family, kind)
    try:
        # Otherwise a port stays blocked for a minute after an earlier run has closed it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(full)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
