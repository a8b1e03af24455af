"""Nodes that are joined by links of a limited rate, so that ranks of one machine act as those of several.

Only descriptors hold the nodes. So nodes and links vanish with the last process that has them open, however
it ends.
"""

import errno
import os
import signal
import socket
import subprocess

from thinwire.emulation import namespaces
from thinwire.emulation.build_network import INTERFACE, NodeFailed, NoLatency, address, build
from thinwire.errors import UserError

__all__ = ["INTERFACE", "Network"]
# The ports of a bridge in Linux (BR_MAX_PORTS), of which one is its own.
MOST_NODES = 1023
# Descriptors that fit into a message (SCM_MAX_FD is 253).
_IN_A_MESSAGE = 200
_DONE = b"."


class Network:
    """The nodes of an emulated cluster."""

    host = address(0)  # of node 0

    def __init__(self, nodes: int, rate_bits_per_second: float, latency_seconds: float = 0.0) -> None:
        """Make the nodes, and join each to all others.

        Args:
            nodes: their number.
            rate_bits_per_second: of the link of a node, in each direction, headers included.
            latency_seconds: from a node to another one, one way.

        Raises:
            UserError: it is not possible here; the message says why.
        """
        if nodes > MOST_NODES:
            raise UserError(f"{nodes} nodes cannot be emulated: one machine joins at most {MOST_NODES}")
        here, there = socket.socketpair()
        # In a fork: only a process with a single thread may begin a user namespace.
        builder = os.fork()
        if builder == 0:
            _build_in_fork(there, nodes, rate_bits_per_second, latency_seconds)
        there.close()
        descriptors, message = _received(here)
        os.waitpid(builder, 0)
        here.close()
        if message != _DONE or len(descriptors) != nodes + 2:
            for descriptor in descriptors:
                os.close(descriptor)
            reason = message.strip(_DONE).decode() or "this process may not open so many files (ulimit -n)"
            raise UserError(f"this machine cannot emulate a network of {nodes} nodes: {reason}")
        self._user, self._bridge, *self._nodes = descriptors

    def enter(self, node: int) -> None:
        """Move this process to a node. It must have one thread; open sockets stay on their old network."""
        namespaces.enter(self._user, namespaces.USER)
        namespaces.enter(self._nodes[node])

    def close(self) -> None:
        """Let go of the nodes; they vanish once no process is on them."""
        for descriptor in (self._user, self._bridge, *self._nodes):
            os.close(descriptor)


def _build_in_fork(there: socket.socket, nodes: int, rate: float, latency: float) -> None:
    """Build the network, and send the user namespace and those of the nodes; ends the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    try:
        message = _DONE
        descriptors = []
        try:
            user = namespaces.current(namespaces.USER) if os.geteuid() == 0 else namespaces.begin_user()
            descriptors = [user, *build(nodes, rate, latency)]
        except Exception as error:
            message = _reason(error).encode()
        for first in range(0, len(descriptors), _IN_A_MESSAGE):
            socket.send_fds(there, [b" "], descriptors[first : first + _IN_A_MESSAGE])
        there.sendall(message)
    finally:
        os._exit(0)


def _received(here: socket.socket) -> tuple[list[int], bytes]:
    """The descriptors and the message that the fork sends, until it ends."""
    descriptors: list[int] = []
    message = b""
    while True:
        try:
            part, received, _, _ = socket.recv_fds(here, 4096, _IN_A_MESSAGE)
        except OSError as error:
            return descriptors, _reason(error).encode()
        descriptors += received
        message += part
        if not part:
            return descriptors, message.strip()


def _reason(error: Exception) -> str:
    """Why the network could not be made, and what to do, in a clause."""
    if isinstance(error, NodeFailed):
        return f"{_reason(error.cause)}; {error.node} nodes were made, so choose fewer"
    if isinstance(error, NoLatency):
        return "its kernel has no netem, which delays packets; choose a cluster with latency_seconds: 0"
    if isinstance(error, FileNotFoundError) and error.filename in ("ip", "tc"):
        return f"there is no `{error.filename}`, which is part of iproute2"
    if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return (
            "it needs root, or user namespaces, which this system does not allow "
            f"({os.strerror(error.errno)})"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "this system allows no more namespaces (user.max_net_namespaces, user.max_user_namespaces)"
    if isinstance(error, subprocess.CalledProcessError):
        said = " ".join((error.stderr or "").split())
        return f"`{error.cmd[0]}` failed, so the kernel may lack veth, bridge or tbf ({said})"
    return str(error)
