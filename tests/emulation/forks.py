"""Forks that answer: a network namespace is of a whole process, so each node is one.

They are made `apart`, in a process with one thread: in a fork of pytest, a lock that another thread held
would stay held.
"""

import json
import os
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from thinwire.emulation.network import Network


def begun(do: Callable[[], Any]) -> Callable[[], Any]:
    """Do something in a fork of this process; returns the function that waits for what it gave, as JSON.

    If it has raised, this is its traceback.
    """
    assert len(os.listdir("/proc/self/task")) == 1
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "it has raised something else"
        try:
            answer = do()
        except BaseException:
            answer = traceback.format_exc()
        finally:
            os.write(there, json.dumps(answer).encode())
            os._exit(0)
    os.close(there)

    def answered() -> Any:
        with os.fdopen(here) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return json.loads(text)

    return answered


def on_all_nodes(nodes: int, do: Callable[[Network, int, str], Any]) -> list[Any]:
    """What forks of this process give, one on each node, for the network, their rank and a file."""
    with closing(Network(nodes, 1e9)) as made, tempfile.TemporaryDirectory() as folder:
        forks = [begun(partial(do, made, rank, f"{folder}/meeting")) for rank in range(nodes)]
        return [answered() for answered in forks]
