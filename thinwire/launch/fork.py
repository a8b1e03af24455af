"""Forks this process. The fork is killed when this process ends."""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable

from thinwire.stop_signals import default_stops

_PR_SET_PDEATHSIG = 1


def fork(work: Callable[[], int]) -> int:
    """Do some work in a fork, which exits with the code that `work` gives; returns its process id."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        # In a process group of its own: a Ctrl-C in the terminal reaches the parent, which forwards it once.
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        default_stops()
        if os.getppid() == parent:
            code = work()
    except KeyboardInterrupt:
        # Ends by the signal, which every parent recognises, and not with an exit code.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
