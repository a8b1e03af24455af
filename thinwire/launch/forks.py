"""Forks for runs: what a parent imports before, so that they begin at once; they are killed when it ends."""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from thinwire.base.signals import default_stops, heeding_stops, interrupts_ending_at_once
from thinwire.records.provenance import packages

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


@contextmanager
def stops_forwarded(pids: Iterable[int]) -> Iterator[list[int]]:
    """Forward each signal that asks for a stop to these processes; gives a list whose end is it, or 0."""
    asked = [0]

    def forward(number: int) -> None:
        asked.append(number)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    with heeding_stops(forward):
        yield asked


def import_for_runs() -> None:
    """Import what all runs need, before the forks begin; plug-ins are not imported."""
    # With this, the search for GPUs does not initialise CUDA, which forks could not use afterwards.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    with interrupts_ending_at_once():
        import pyarrow
        import pyarrow.parquet
        import torch

    torch.set_num_threads(1)
    # With their first optimizer and their first table, torch and pyarrow import more.
    torch.optim.SGD([torch.zeros(1)])
    pyarrow.parquet.write_table(pyarrow.table({"number": [0]}), pyarrow.BufferOutputStream())
    packages()
