"""Runs a function in several processes that have met, for tests of what happens between them."""

import atexit
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import torch
import torch._dynamo  # which optimizers import at their first step: here once, not in every process
import torch.distributed as dist

from thinwire.transport import rendezvous

# One process imports torch and the engine; the others are its forks.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.small", "tests.contract.test_contract", "tests.processes"])


class Failed(AssertionError):
    """A process raised, or did not end."""


def run(function: Callable[..., Any], workers: int, *args: Any, timeout: float = 120) -> list[Any]:
    """What `function(*args)` gives in each of the processes; they have joined one process group.

    Raises:
        Failed: with the traceback of the first that raised; the others are killed.
    """
    port = free_port()
    pipes, processes = [], []
    for rank in range(workers):
        here, there = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_rank, args=(rank, workers, port, there, function, args))
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    try:
        results: dict[int, Any] = {}
        while len(results) < workers:
            waiting = [pipe for rank, pipe in enumerate(pipes) if rank not in results]
            ready = wait(waiting, timeout)
            if not ready:
                raise Failed(f"ranks {sorted(set(range(workers)) - set(results))} did not end in {timeout} s")
            for pipe in ready:
                rank = pipes.index(pipe)
                try:
                    sound, results[rank] = pipe.recv()
                except EOFError:
                    sound, results[rank] = False, "it died"
                if not sound:
                    raise Failed(f"rank {rank}: {results[rank]}")
    finally:
        for process in processes:
            if len(results) < workers:
                process.kill()
            process.join()
    return [results[rank] for rank in range(workers)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _rank(rank: int, workers: int, port: int, pipe: Any, function: Callable[..., Any], args: Any) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        rendezvous.join(
            rendezvous.Placement(rank, workers, rank, "here", "127.0.0.1", port, "test"), timeout_seconds=60
        )
        answer = (True, function(*args))
    except BaseException:
        answer = (False, traceback.format_exc())
    pipe.send(answer)
    if answer[0]:
        dist.barrier()
        dist.destroy_process_group()
    atexit._clear()
    os._exit(0)
