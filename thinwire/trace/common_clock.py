"""A moment from which the workers of all processes count their times.

Processes of one machine have the same monotonic clock. The clocks of several machines have nothing in common.
There the moment is when the processes leave a barrier. They leave it at almost the same time: the error is
about as long as a small message is on its way. It is taken from the median of several barriers.
"""

import socket
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

_BARRIERS = 15
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def common_zero_ns(share: Callable[[object], list[Any]]) -> tuple[int, int]:
    """A moment that all processes have in common, and the number of their machines.

    Args:
        share: returns the values of all processes, in the order of the ranks; all of them call it together.

    Returns:
        The moment, in nanoseconds of this process's clock, and the number of machines.
    """
    after = []
    for _ in range(_BARRIERS):
        share(None)
        after.append(perf_counter_ns())
    machine = _machine()
    everybody = share([machine, after])
    clocks: dict[str, list[int]] = {}
    for each, times in everybody:
        # All processes of a machine take the times of the first one, because they have one clock.
        clocks.setdefault(each, times)
    first = everybody[0][1]
    ahead = median(own - others for own, others in zip(clocks[machine], first))
    return int(first[-1] + ahead), len(clocks)


def _machine() -> str:
    """Names the machine; containers and network namespaces of one machine have its clock."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return socket.gethostname()
