"""Forks that answer: a network namespace is of a whole process, so each node is one.

They are made `apart`, in a process with one thread: in a fork of pytest, a lock that another thread held
would stay held.
"""

import json
import os
import traceback
from collections.abc import Callable
from typing import Any


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
