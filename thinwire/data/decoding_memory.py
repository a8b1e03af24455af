"""The memory in which threads decode images: a budget that they share."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class MemoryBudget:
    """Bytes that threads take and give back. A thread that asks for more than is left waits."""

    def __init__(self, total: int) -> None:
        self._total, self._taken = total, 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Hold so many bytes. A request above the whole budget is granted once nobody else holds any."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + count <= self._total)
            self._taken += count
        try:
            yield
        finally:
            with self._changed:
                self._taken -= count
                self._changed.notify_all()
