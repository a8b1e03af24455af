"""Workers in one process take turns; the greenlets that run them are used again."""

import gc
import weakref

import pytest
from greenlet import getcurrent

from thinwire.transport.inprocess import InProcess, let_others_run


class Worker:
    """What a turn belongs to."""


def test_results_are_in_the_order_of_the_workers_and_greenlets_are_used_again():
    transport = InProcess(3)
    first = transport.together([getcurrent] * 3)
    assert len(set(first)) == 3
    assert transport.together([getcurrent] * 3) == first


def test_an_idle_greenlet_keeps_no_worker_and_no_result():
    transport = InProcess(2)
    workers = [Worker(), Worker()]
    alive = weakref.WeakSet(workers)
    transport.together([lambda w=w: w for w in workers])
    del workers
    gc.collect()
    assert not alive


def test_a_transport_that_nobody_uses_is_freed_with_its_greenlets():
    transport = InProcess(2)
    alive = weakref.WeakSet([transport, *transport.together([getcurrent] * 2)])
    assert len(alive) == 3
    del transport
    gc.collect()
    assert not alive


def test_turns_after_an_error_begin_anew():
    transport = InProcess(2)

    def interrupted() -> str:
        let_others_run()
        return "continued"

    def failing() -> str:
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        transport.together([interrupted, failing])
    assert transport.together([lambda: 0, lambda: 1]) == [0, 1]
    assert transport.together([lambda: 2, lambda: 3]) == [2, 3]
