"""An emulated network: nodes and the links between them, made with iproute2, and what cannot be emulated.

    node 0: eth0 --- port0                             bridge, in a namespace of its own
    node 1: eth0 --- port1 /

    node 0: mgmt0 --- manage0                          management, another bridge there
    node 1: mgmt0 --- manage1 /

Each cable has the rate of the link in each direction: `eth0` limits what its node sends, and the port what
it receives. So several nodes that send to the same node share its link, as at a switch. Only descriptors hold
the nodes, so nodes and links vanish with the last process that has them open, however it ends. Where links
have a latency, a process passes on what they carry: see `linux`.

As on many clusters, there is a second network for management, without limits. Over it the ranks exchange
their status, which would otherwise wait behind the messages of a method, and the method with it.
"""

import errno
import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.emulation import linux
from thinwire.emulation.linux import Cable

INTERFACE, MANAGEMENT = "eth0", "mgmt0"
# Frames that are passed on as one must fit into the burst; otherwise they slow down the computation.
_FRAMES, _QUEUE_BYTES = 32_768, 400 * 1024
# What a link passes on at once after a pause: the burst of its token bucket.
BURST_BYTES = 36 * 1024
# TCP's buffers hold what is under way and what waits; they count more than the bytes in them.
_BUFFERS_OVER_WINDOW = 6

# A process that passes on frames takes about 0.1 ms, so it cannot emulate much less than 1 ms. With more than
# a second, nobody waits for what is measured before a run.
LEAST_LATENCY_SECONDS, MOST_LATENCY_SECONDS = 1e-3, 1.0


def address(node: int, network: int = 77) -> str:
    """The address of a node."""
    return f"10.{network}.{(node + 1) // 256}.{(node + 1) % 256}"


def build(nodes: int, rate_bits_per_second: float, latency_seconds: float) -> tuple[list[int], list[Cable]]:
    """Make the namespaces of the bridge and of all nodes.

    Returns:
        The descriptors that hold the namespaces, and the cables whose frames a process has to pass on: one
        for each node if there is a latency, otherwise none.

    Raises:
        NodeFailed: a node could not be made.
        OSError: this process may make no namespaces, or a program is missing.
        subprocess.CalledProcessError: the kernel lacks something.
    """
    bridge = linux.new_network()
    for name in ("bridge", "management"):
        _batch("ip", [f"link add {name} type bridge", f"link set {name} up"], bridge)
    made, cables = [bridge], []
    under_way = round(rate_bits_per_second / 8 * 2 * latency_seconds)  # bytes in a round trip
    for node in range(nodes):
        port = f"port{node}"
        try:
            namespace = linux.new_network()
            made.append(namespace)
            if latency_seconds:
                cables.append(Cable(linux.tap(INTERFACE, namespace), linux.tap(port, bridge)))
                _tune_for_latency(namespace, under_way)
            else:
                _cable(port, INTERFACE, bridge, namespace)
            _connect(node, port, bridge, namespace, rate_bits_per_second, _QUEUE_BYTES + under_way)
            _join_management(node, bridge, namespace)
        except (OSError, subprocess.CalledProcessError) as error:
            if node < 2:
                raise  # it is not the number of nodes
            raise NodeFailed(node, error) from None
    return made, cables


class NodeFailed(Exception):
    """A node could not be made, although others were."""

    def __init__(self, node: int, cause: Exception) -> None:
        super().__init__(f"node {node}")
        self.node, self.cause = node, cause


def _cable(port: str, interface: str, bridge: int, namespace: int) -> None:
    with linux.entered(namespace) as number:
        # `ip` finds the namespace of the other end by a process in it, which is this process.
        _batch("ip", [f"link add {port} type veth peer name {interface} netns {number}"], bridge)


def _tune_for_latency(namespace: int, under_way: int) -> None:
    """Let the connections of a node fill a link with so many bytes under way, as one tunes hosts for it.

    Where other congestion controls are the machine's default, they differ in how they use such a link. Reno
    is on every Linux. A window outlasts a pause: otherwise, it would grow anew after each local step.
    """
    with linux.entered(namespace):
        settings = Path("/proc/sys/net/ipv4")
        (settings / "tcp_congestion_control").write_text("reno")
        (settings / "tcp_slow_start_after_idle").write_text("0")
        for name in ("tcp_rmem", "tcp_wmem"):
            least, first, most = map(int, (settings / name).read_text().split())
            most = max(most, _BUFFERS_OVER_WINDOW * under_way)
            (settings / name).write_text(f"{least} {first} {most}")


def _connect(node: int, port: str, bridge: int, namespace: int, rate: float, queue_bytes: int) -> None:
    """Join both ends of a node's cable to what is there, and limit them, to so many bits a second."""
    _batch("ip", [f"link set {port} addrgenmode none gso_max_size {_FRAMES} master bridge up"], bridge)
    up = [
        "link set lo up",
        f"address add {address(node)}/16 dev {INTERFACE}",
        f"link set {INTERFACE} addrgenmode none gso_max_size {_FRAMES} up",
    ]
    _batch("ip", up, namespace)
    limit = f"root handle 1: tbf rate {rate:.0f}bit burst {BURST_BYTES} limit {queue_bytes}"
    _batch("tc", [f"qdisc add dev {INTERFACE} {limit}"], namespace)
    _batch("tc", [f"qdisc add dev {port} {limit}"], bridge)


def _join_management(node: int, bridge: int, namespace: int) -> None:
    port, own = f"manage{node}", f"{address(node, 78)}/16"
    _cable(port, MANAGEMENT, bridge, namespace)
    _batch("ip", [f"link set {port} addrgenmode none master management up"], bridge)
    up = [f"address add {own} dev {MANAGEMENT}", f"link set {MANAGEMENT} addrgenmode none up"]
    _batch("ip", up, namespace)


def _batch(program: str, commands: list[str], namespace: int) -> None:
    subprocess.run(
        [program, "-batch", "-"],
        input="\n".join(commands) + "\n",
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: linux.enter(namespace),
    )


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
        self._builder, self._line = os.fork(), here
        if self._builder == 0:
            here.close()
            _build_in_fork(there, nodes, rate_bits_per_second, latency_seconds)
        there.close()
        self._descriptors, message = _received(here)
        if message != _DONE or len(self._descriptors) != nodes + 2:
            self.close()
            reason = message.strip(_DONE).decode() or "this process may not open so many files (ulimit -n)"
            raise UserError(f"this machine cannot emulate a network of {nodes} nodes: {reason}")

    def enter(self, node: int) -> None:
        """Move this process to a node. It must have one thread; open sockets stay on their old network."""
        user, _bridge, *nodes = self._descriptors
        linux.enter(user, linux.USER)
        linux.enter(nodes[node])

    def close(self) -> None:
        """Let go of the nodes; they vanish once no process is on them."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        # Forks of this process may have the line open, too.
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()
        os.waitpid(self._builder, 0)


def _build_in_fork(there: socket.socket, nodes: int, rate: float, latency: float) -> None:
    """Build the network, and send the user namespace and those of the nodes; ends the process.

    Where links have a latency, the process first passes on what they carry, until nobody has the other end
    of the socket open.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    try:
        message = _DONE
        descriptors: list[int] = []
        cables: list[Cable] = []
        try:
            user = linux.current(linux.USER) if os.geteuid() == 0 else linux.begin_user()
            made, cables = build(nodes, rate, latency)
            descriptors = [user, *made]
        except Exception as error:
            message = _reason(error).encode()
        for first in range(0, len(descriptors), _IN_A_MESSAGE):
            socket.send_fds(there, [b" "], descriptors[first : first + _IN_A_MESSAGE])
        there.sendall(message)
        there.shutdown(socket.SHUT_WR)
        for descriptor in descriptors:
            os.close(descriptor)
        if cables:
            linux.pass_on(cables, latency, there)
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
    if isinstance(error, OSError) and error.filename == linux.DEVICE:
        return (
            f"it delays what links carry with TAP devices, and {linux.DEVICE} cannot be opened "
            f"({error.strerror}); choose a cluster with latency_seconds: 0"
        )
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
    if link.latency_seconds and not LEAST_LATENCY_SECONDS <= link.latency_seconds <= MOST_LATENCY_SECONDS:
        raise UserError(
            f"{where}: emulated links delay by {LEAST_LATENCY_SECONDS:g} to {MOST_LATENCY_SECONDS:g} seconds "
            f"or not at all; set link.latency_seconds, which is {link.latency_seconds:g}, to one of these"
        )
    if not link.shared_by_workers and cell.workers > cell.nodes:
        raise UserError(f"{where}: an emulated node has one link; set shared_by_workers: true")
