"""Notes when the calls of a traced worker begin and end; see `thinwire.trace.recorder.RecordedCall`.

Where a worker is not traced, each function here only looks whether it is.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import TypeVar

import torch.distributed as dist

from thinwire.call import Call

T = TypeVar("T")


def begins(call: Call) -> None:
    """Note that the first byte can leave now."""
    if call.recorded is not None:
        call.recorded.begun_ns = perf_counter_ns()


def ends(call: Call) -> None:
    """Note that the answer is there now."""
    if call.recorded is not None:
        call.recorded.ended_ns = perf_counter_ns()


def timed(call: Call, function: Callable[[], T]) -> Callable[[], T]:
    """Return a function that carries out a call, and notes when it ends; and when it begins, if unknown."""
    recorded = call.recorded
    if recorded is None:
        return function

    def noted() -> T:
        recorded.begun_ns = recorded.begun_ns or perf_counter_ns()
        try:
            return function()
        finally:
            ends(call)

    return noted


def follow(call: Call, work: dist.Work, cpu: bool) -> None:
    """Note when a call's work in torch.distributed begins, and when it has ended.

    gloo's threads tell the end. It is noted by Python, so it comes late by as long as another thread keeps
    Python busy. Of tensors on a GPU nothing is noted, because their copies to the host are only queued then.

    Args:
        call: may consist of several works; the last one to end counts.
        work: which has just begun.
        cpu: are its tensors on the CPU?
    """
    recorded = call.recorded
    if recorded is None or not cpu:
        return

    def ended(future: object) -> None:
        ends(call)

    recorded.begun_ns = recorded.begun_ns or perf_counter_ns()
    work.get_future().add_done_callback(ended)
