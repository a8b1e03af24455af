"""Names, addresses and interfaces of hosts, and where rank 0 listens."""

import fcntl
import ipaddress
import socket
import struct
from contextlib import suppress
from pathlib import Path

_SIOCGIFADDR = 0x8915  # from <linux/sockios.h>
_IFREQ = struct.Struct("16s24x")  # the name of an interface, and room for an address
_BACKLOG = 4096


def listen(host: str, port: int) -> socket.socket:
    """Listen at a port of all addresses of this host, or of the loopback alone if `host` is one of it.

    torch would listen at all addresses even if all ranks are on one host.

    Raises:
        OSError: the port is taken, or this process may not use it.
    """
    if is_loopback(host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", port), backlog=_BACKLOG)
    return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)


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
