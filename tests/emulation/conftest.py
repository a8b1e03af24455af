"""What tests of emulated clusters share: a network that can be emulated, and forks that answer.

A network namespace is of a whole process, so each node is a fork. It is made `apart`, in a process with one
thread: in a fork of pytest, a lock that another thread held would stay held.
"""

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from tests.processes import apart
from thinwire.base.errors import UserError
from thinwire.emulation.network import Network

FORK = multiprocessing.get_context("fork")


def why_not():
    """Why no network can be emulated here; None if one can."""
    try:
        Network(2, 1e9).close()
    except UserError as error:
        return str(error)


@pytest.fixture(scope="session")
def emulable():
    """Skip the tests where no network can be emulated."""
    if reason := apart(why_not):
        pytest.skip(reason)


def begun(do: Callable[[], Any]) -> Callable[[], Any]:
    """Do something in a fork of this process; returns the function that waits for what it gave.

    If it has raised, this is its traceback.
    """
    assert len(os.listdir("/proc/self/task")) == 1
    here, there = FORK.Pipe(duplex=False)

    def answer() -> None:
        try:
            there.send(do())
        except BaseException:
            there.send(traceback.format_exc())

    child = FORK.Process(target=answer)
    child.start()
    there.close()

    def answered() -> Any:
        received = here.recv()
        child.join()
        return received

    return answered


def on_all_nodes(nodes: int, do: Callable[[Network, int, str], Any]) -> list[Any]:
    """What forks of this process give, one on each node, for the network, their rank and a file."""
    with closing(Network(nodes, 1e9)) as made, tempfile.TemporaryDirectory() as folder:
        forks = [begun(partial(do, made, rank, f"{folder}/meeting")) for rank in range(nodes)]
        return [answered() for answered in forks]
