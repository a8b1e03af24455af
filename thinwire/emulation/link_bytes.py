"""Bytes that a node has sent over its link, as the kernel has counted them."""

import json
import subprocess

from thinwire.emulation.build_network import INTERFACE


def sent() -> int:
    """Bytes that the node of this process has sent so far, with the headers of all frames.

    They are read from tbf, which limits the link. The counter of the interface is not used: where the kernel
    passes on several frames as one, it counts their headers once.
    """
    command = ["tc", "-s", "-j", "qdisc", "show", "dev", INTERFACE, "root"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(next(limit["bytes"] for limit in json.loads(answer.stdout) if limit["kind"] == "tbf"))
