"""Builds the nodes of an emulated cluster and the links between them, with iproute2.

    node 0: eth0 --- port0 \
                            bridge, in a namespace of its own
    node 1: eth0 --- port1 /

Each cable has the rate of the link in each direction: `eth0` limits what its node sends, and the port what
it receives. So several nodes that send to the same node share its link, as at a switch.
"""

import subprocess

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
