"""Ends a fork as Python ends a process, but leaves its modules as they are.

Python takes all modules apart before it ends. In a fork, that copies most of the memory of its parent, which
takes longer than most commands do.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Never


def end_after(work: Callable[[], object]) -> Never:
    """Do the work, and end this process with the exit code that it asks for.

    Raises:
        BaseException: what the work has raised, unless it is `SystemExit`. Python shows it, and ends.
    """
    asked: object = None
    try:
        work()
    except SystemExit as ending:
        asked = ending.code
    if isinstance(asked, str):
        print(asked, file=sys.stderr)
    # What Python does first, in its order.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(asked & 0xFF if isinstance(asked, int) else asked is not None)
