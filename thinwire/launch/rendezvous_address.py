"""The address and port at which ranks meet that srun has started, without MASTER_ADDR and MASTER_PORT.

Ranks that torchrun has started use its variables. Ranks that are forks meet at a free port of the loopback.
"""

import re
import socket
import subprocess
from contextlib import suppress

from thinwire.errors import UserError

# Where ranks meet if all of them are on one host.
LOOPBACK = "127.0.0.1"
# Below the ports that Linux gives to outgoing connections, from 32768 on.
_FIRST_PORT, _PORTS = 20000, 12768


def port_of_launch(job: int, step: int, launch: int) -> int:
    """A port that the ranks of a launch in a Slurm step can tell without asking each other."""
    return _FIRST_PORT + (job * 97 + step + launch) % _PORTS


def first_host(nodes: str) -> str:
    """The first host of a list in Slurm's notation: `rack[1-2]n[03-05,9],login` gives `rack1n03`."""
    first = re.match(r"(?:[^,\[\]]|\[\w+[^\]]*\])+", nodes)
    if first is None:
        raise UserError(f"SLURM_STEP_NODELIST is {nodes!r}, which is not a list of hosts")
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first[0])


def address_of(node: str) -> str:
    """The address of a Slurm node: its name, or what Slurm has on record if that name has no address."""
    with suppress(socket.gaierror):
        socket.getaddrinfo(node, None)
        return node
    with suppress(OSError):
        command = ["scontrol", "--oneliner", "show", "node", node]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if known := re.search(r"\bNodeAddr=(\S+)", output):
            return known[1]
    return node
