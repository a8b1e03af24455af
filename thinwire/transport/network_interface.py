"""The network interface that has an address of this host."""

import fcntl
import ipaddress
import socket
import struct
from contextlib import suppress
from pathlib import Path

_SIOCGIFADDR = 0x8915  # from <linux/sockios.h>
_IFREQ = struct.Struct("16s24x")  # the name of an interface, and room for an address


def of_address(address: str) -> str | None:
    """Return the name of the interface; None if it is not found, as for second addresses of an interface."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.version == 6:
        return _of_ipv6(wanted)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, _IFREQ.pack(name.encode()))
                if answer[20:24] == wanted.packed:
                    return name
    return None


def _of_ipv6(wanted: ipaddress.IPv6Address) -> str | None:
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            address, *_, name = line.split()
            if bytes.fromhex(address) == wanted.packed:
                return name
    return None
