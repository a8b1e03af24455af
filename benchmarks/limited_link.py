"""A link of limited rate between two network namespaces, so that two ranks of one host act as two hosts.

Needs Linux, root, and iproute2. Only file descriptors hold the namespaces, so the namespaces and the link
vanish with the last process that has them open.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

INTERFACE = "eth0"
_ADDRESSES = ("10.77.0.1", "10.77.0.2")
_CLONE_NEWNET = 0x40000000  # from <sched.h>; Python has it from 3.12 on
# Frames that are passed on as one must fit into the burst; otherwise they slow down the computation.
_FRAMES, _BURST, _QUEUE = 32_768, "36kb", "400kb"
_LIBC = ctypes.CDLL(None, use_errno=True)


class LimitedLink:
    """Two namespaces, one for each rank, and `mbit_per_second` in each direction between them."""

    host = _ADDRESSES[0]  # of rank 0

    def __init__(self, mbit_per_second: float) -> None:
        """Set the link up. Raises OSError or subprocess.CalledProcessError if that is not possible here."""
        self._namespaces = [_new_namespace() for _ in _ADDRESSES]
        with _returning():
            _enter(self._namespaces[1])
            # `ip` finds the namespace of the other end by a process in it, which is this process.
            _run(
                f"ip link add {INTERFACE} type veth peer name {INTERFACE} netns {os.getpid()}",
                self._namespaces[0],
            )
        for namespace, address in zip(self._namespaces, _ADDRESSES):
            _run("ip link set lo up", namespace)
            _run(f"ip address add {address}/24 dev {INTERFACE}", namespace)
            _run(f"ip link set {INTERFACE} up gso_max_size {_FRAMES}", namespace)
            _run(
                f"tc qdisc add dev {INTERFACE} root tbf "
                f"rate {mbit_per_second}mbit burst {_BURST} limit {_QUEUE}",
                namespace,
            )

    def enter(self, rank: int) -> None:
        """Move this process to the rank's side of the link. Sockets that it has open stay where they are."""
        _enter(self._namespaces[rank])

    def close(self) -> None:
        for namespace in self._namespaces:
            os.close(namespace)


def _new_namespace() -> int:
    with _returning():
        if _LIBC.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return _current()


def _current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def _returning() -> Iterator[None]:
    """Return this process to its namespace at the end of the block."""
    before = _current()
    try:
        yield
    finally:
        _enter(before)
        os.close(before)


def _run(command: str, namespace: int) -> None:
    subprocess.run(
        command.split(), check=True, capture_output=True, text=True, preexec_fn=lambda: _enter(namespace)
    )
