"""The server: imports what is slow to import, and forks a process for every client."""

import os
import sys

os.environ["TORCH_CPP_LOG_LEVEL"] = "FATAL"  # as thinwire sets it before it imports torch

import gc
import json
import runpy
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import altair  # noqa: F401
import matplotlib.backends.backend_pdf
import matplotlib.pyplot  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pydantic  # noqa: F401
import rich.console  # noqa: F401
import safetensors.torch  # noqa: F401
import seaborn  # noqa: F401
import snakemake.cli
import snakemake.report.html_reporter
import snakemake.workflow  # noqa: F401
import statsmodels.stats.multitest  # noqa: F401
import torch
import torch._dynamo

sys.path.insert(0, os.path.dirname(__file__))
from ending import end_after

del sys.path[0]
_STREAMS = 3


def serve(address: str) -> Callable[[], None] | None:
    """Fork a keeper for every client; gives what a fork is to do, and in the server nothing at its end."""
    assert threading.active_count() == 1, "a fork would lose the other threads"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{address}")
        listener.listen(64)
        print("listening", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return None
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return keep(client)
            client.close()


def keep(client: socket.socket) -> Callable[[], None] | None:
    """Fork the process that does the work, pass signals on to it, and tell the client how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    _, files, _, _ = socket.recv_fds(client, 1, _STREAMS + 1)
    *streams, asked_file = files
    with os.fdopen(asked_file) as file:
        file.seek(0)
        asked = json.load(file)
    worker = os.fork()
    if worker == 0:
        client.close()
        return lambda: become(asked, streams)
    for stream in streams:
        os.close(stream)
    os.closerange(0, _STREAMS)
    ended = os.pidfd_open(worker)
    client.send(b"!")
    while True:
        ready, _, _ = select.select([client, ended], [], [])
        if ended in ready:
            _, status = os.waitpid(worker, 0)
            with suppress(OSError):
                client.send(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        number = client.recv(1)
        if not number:  # the client was killed, and what it would have started with it
            with suppress(ProcessLookupError):
                os.killpg(worker, signal.SIGKILL)
            os._exit(0)
        os.kill(worker, number[0])


def become(asked: dict, streams: list[int]) -> None:
    """Be what the client would have been."""
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.closerange(_STREAMS, 256)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
    sys.stderr.reconfigure(line_buffering=True)
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    first, *arguments = asked["command"]
    python_path = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if first == "-m":
        sys.argv = arguments
        sys.path[:0] = [asked["folder"], *python_path]
        end_after(lambda: runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True))
    sys.argv = [first, *arguments]
    sys.path[:0] = [os.path.dirname(os.path.abspath(first)), *python_path]
    end_after(lambda: runpy.run_path(first, run_name="__main__"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    # Forks do not look for garbage in what they share: that would copy it.
    gc.collect()
    gc.freeze()
    # In a fork the frames of the server are left, so that the command has its process to itself.
    following = serve(sys.argv[1])
    if following is not None:
        following()
