"""Begins collective calls of one channel in the order in which a worker posts them.

`torch.distributed` matches the calls of several processes by their order. So if one call is held back until
others have ended, all later ones wait behind it, in a thread of their own.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch.distributed as dist

from thinwire.transport.call import Call
from thinwire.transport.rendezvous import translated_errors

Works = list[dist.Work]


class InTurn:
    """The collective calls of one channel; calls are posted by one thread."""

    def __init__(self, holding: ThreadPoolExecutor) -> None:
        """Begin without calls.

        Args:
            holding: one thread, in which calls are held back.
        """
        self._holding = holding
        self._held: Future[Works] | None = None  # the last call that was held back

    def begin(self, call: Call, start: Callable[[], Works]) -> Callable[[], Works]:
        """Begin a call now, or when its turn has come; return a function that waits until it has begun.

        Args:
            call: it may follow others of this channel; see `Call.after`.
            start: begins it in `torch.distributed`.
        """
        before = [pending.call.begun for pending in call.after]
        if all(map(_has_ended, before)) and (self._held is None or self._held.done()):
            begun: Future[Works] = Future()
            begun.set_result(start())
        else:
            begun = self._held = self._holding.submit(_hold, before, start)
        call.begun = begun
        return begun.result


def _has_ended(begun: Future[Works] | None) -> bool:
    return begun is None or (begun.done() and all(work.is_completed() for work in begun.result()))


def _hold(before: list[Future[Works] | None], start: Callable[[], Works]) -> Works:
    for begun in before:
        for work in [] if begun is None else begun.result():
            with translated_errors():
                work.wait()
    return start()
