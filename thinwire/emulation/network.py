"""An emulated network: nodes and the links between them, made with iproute2, and what cannot be emulated.

    node 0: eth0 --- port0                             bridge, in a namespace of its own
    node 1: eth0 --- port1 /

Each cable has the rate of the link in each direction: `eth0` limits what its node sends, and the port what
it receives. So several nodes that send to the same node share its link, as at a switch. Only descriptors hold
the nodes, so nodes and links vanish with the last process that has them open, however it ends.
"""

import errno
import json
import os
import signal
import socket
import subprocess

from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.emulation import namespaces

INTERFACE = "eth0"
# Frames that are passed on as one must fit into the burst; otherwise they slow down the computation.
_FRAMES, _QUEUE = 32_768, "400kb"
# What a link passes on at once after a pause: the burst of its token bucket.
BURST_BYTES = 36 * 1024
# Packets that a delayed link holds: more than the fastest link sends in a second.
_DELAYED = 1_000_000


def address(node: int) -> str:
    """The address of a node."""
    return f"10.77.{(node + 1) // 256}.{(node + 1) % 256}"


def build(nodes: int, rate_bits_per_second: float, latency_seconds: float) -> list[int]:
    """Make the namespaces of the bridge and of all nodes; returns the descriptors that hold them.

    Raises:
        NodeFailed: a node could not be made.
        OSError: this process may make no namespaces, or a program is missing.
        subprocess.CalledProcessError: the kernel lacks something.
    """
    bridge = namespaces.new_network()
    _batch("ip", ["link add bridge type bridge", "link set bridge up"], bridge)
    made = [bridge]
    for node in range(nodes):
        try:
            made.append(_node(node, bridge, rate_bits_per_second, latency_seconds))
        except (OSError, subprocess.CalledProcessError) as error:
            if node < 2:
                raise  # it is not the number of nodes
            raise NodeFailed(node, error) from None
    return made


class NodeFailed(Exception):
    """A node could not be made, although others were."""

    def __init__(self, node: int, cause: Exception) -> None:
        super().__init__(f"node {node}")
        self.node, self.cause = node, cause


class NoLatency(Exception):
    """The kernel cannot delay packets."""


def _node(node: int, bridge: int, rate_bits_per_second: float, latency_seconds: float) -> int:
    namespace, port = namespaces.new_network(), f"port{node}"
    with namespaces.entered(namespace) as number:
        # `ip` finds the namespace of the other end by a process in it, which is this process.
        ends = [
            f"link add {port} type veth peer name {INTERFACE} netns {number}",
            f"link set {port} addrgenmode none gso_max_size {_FRAMES} master bridge up",
        ]
        _batch("ip", ends, bridge)
    up = [
        "link set lo up",
        f"address add {address(node)}/16 dev {INTERFACE}",
        f"link set {INTERFACE} addrgenmode none gso_max_size {_FRAMES} up",
    ]
    _batch("ip", up, namespace)
    limit = f"root handle 1: tbf rate {rate_bits_per_second:.0f}bit burst {BURST_BYTES} limit {_QUEUE}"
    _batch("tc", [f"qdisc add dev {INTERFACE} {limit}"], namespace)
    _batch("tc", [f"qdisc add dev {port} {limit}"], bridge)
    if latency_seconds:
        delay = f"netem delay {latency_seconds * 1e6:.0f}us limit {_DELAYED}"
        try:
            _batch("tc", [f"qdisc add dev {INTERFACE} parent 1:1 handle 10: {delay}"], namespace)
        except subprocess.CalledProcessError:
            raise NoLatency from None
    return namespace


def _batch(program: str, commands: list[str], namespace: int) -> None:
    subprocess.run(
        [program, "-batch", "-"],
        input="\n".join(commands) + "\n",
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: namespaces.enter(namespace),
    )


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


def require_emulable(cell: Cell) -> None:
    """Require that emulation would do what the description of the cluster says.

    Raises:
        UserError: it would not.
    """
    assert cell.cluster is not None
    link = cell.cluster.link
    where = f"{cell.path} cannot be emulated on {cell.cluster.name}"
    if cell.nodes < 2:
        raise UserError(
            f"{where}: its {cell.workers} workers are on one node and use no link; choose a cell with "
            "several nodes, such as {workers: 2, nodes: 2}"
        )
    if cell.device != "cpu":
        raise UserError(f"{where}: emulated links join CPUs only; set device: cpu")
    if not link.full_duplex:
        raise UserError(f"{where}: emulated links have both directions at once; set full_duplex: true")
    if not link.shared_by_workers and cell.workers > cell.nodes:
        raise UserError(f"{where}: an emulated node has one link; set shared_by_workers: true")


def bytes_sent() -> int:
    """Bytes that the node of this process has sent so far, with the headers of all frames.

    They are read from tbf, which limits the link. The counter of the interface is not used: where the kernel
    passes on several frames as one, it counts their headers once.
    """
    command = ["tc", "-s", "-j", "qdisc", "show", "dev", INTERFACE, "root"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(next(limit["bytes"] for limit in json.loads(answer.stdout) if limit["kind"] == "tbf"))
