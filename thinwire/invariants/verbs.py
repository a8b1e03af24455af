"""What each verb's payload makes of the bytes on the links; the formulas are those of `traffic.wire_bytes`.

All numbers are means over the workers, and every worker is in one group of the channel. So a ratio that holds
for the sum over a group holds for these means as well.
"""

import math
from collections.abc import Callable
from typing import Any

from thinwire.worker_placement import Cluster

# From the push and the pull of a verb and the size of the group: the pull, or the push of a verb that only
# pulls; and the bytes that are sent and received. Of a push, the server's own part stays off the wire.
_Expected = Callable[[float, float, int], tuple[float, float, float, float]]
_FORMULAS: dict[str, _Expected] = {
    "mean": lambda push, pull, n: (push, push, 2 * (n - 1) / n * push, 2 * (n - 1) / n * push),
    "gather": lambda push, pull, n: (push, (n - 1) * push, (n - 1) * push, (n - 1) * push),
    "broadcast": lambda push, pull, n: (push, (n - 1) * push, (n - 1) * push, (n - 1) * push),
    "pull": lambda push, pull, n: (0, pull, (n - 1) / n * pull, (n - 1) / n * pull),
    "send": lambda push, pull, n: (push, 0, push, 0),
    "receive": lambda push, pull, n: (0, pull, 0, pull),
}
VERBS = (*_FORMULAS, "push")
_COLUMNS = ("payload_push_bytes", "payload_pull_bytes", "wire_sent_bytes", "wire_received_bytes")


def broken_verb(row: dict[str, Any], cluster: Cluster) -> str | None:
    """How a row of `traffic.parquet` has bytes that its verb cannot give, in a clause, or None."""
    push, pull, sent, received = (row[name] for name in _COLUMNS)
    members = len(cluster.groups(0)[row["channel"]])
    if row["verb"] == "push":
        if pull or not _same(sent, received) or sent > push * (1 + 1e-9):
            return f"workers that push {push:g} bytes neither send {sent:g} nor receive {received:g}"
    else:
        expected = _FORMULAS[row["verb"]](push, pull, members)
        for name, value, follows in zip(_COLUMNS, (push, pull, sent, received), expected):
            if not _same(value, follows):
                return f"{name} is {value:g}, and {follows:g} follows from the payload for {members} workers"
    between = row["between_nodes_bytes"]
    if row["channel"] == "node" and between:
        return f"{between:g} bytes of a channel inside the nodes went between nodes"
    if row["channel"] == "across" and not _same(between, sent):
        return f"{between:g} of {sent:g} bytes of a channel between nodes went between nodes"
    return None


def _same(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-6)
