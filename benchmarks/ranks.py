"""Ranks for the benchmarks: forks of a process that has imported torch, so that they start at once."""

import multiprocessing
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch._dynamo  # optimizers import it at their first step; here it is imported once for all ranks
import torch.distributed as dist

from thinwire.base.placement import Placement, SharedFile
from thinwire.transport import rendezvous

SECONDS_TO_JOIN = 60
_FORK = multiprocessing.get_context("fork")


def run(
    function: Callable[..., Any],
    ranks: int,
    *args: Any,
    interface: str = "lo",
    enter: Callable[[int], None] = lambda rank: None,
) -> list[Any]:
    """Run `function(*args)` on ranks that have joined one process group, and return what each returned.

    Nothing may have been computed in parallel before, because a fork has only one thread.

    Args:
        function: computes on one thread.
        ranks: number of ranks.
        args: arguments of the function.
        interface: network interface over which the ranks communicate.
        enter: called in each rank before it opens a socket.

    Raises:
        RuntimeError: with the traceback of the first rank that raised; the others are killed.
    """
    pipes: list[Connection] = []
    processes = []
    answers: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        meeting = SharedFile(f"{folder}/meeting", interface)
        try:
            for rank in range(ranks):
                here, there = _FORK.Pipe(duplex=False)
                placement = Placement(rank, ranks, rank, f"rank {rank}", "fork", meeting)
                process = _FORK.Process(
                    target=_rank, args=(placement, enter, there, function, args), daemon=True
                )
                process.start()
                there.close()
                pipes.append(here)
                processes.append(process)
            while len(answers) < ranks:
                for pipe in wait([pipe for rank, pipe in enumerate(pipes) if rank not in answers]):
                    rank = pipes.index(pipe)  # type: ignore[arg-type]
                    try:
                        failure, answers[rank] = pipe.recv()  # type: ignore[union-attr]
                    except EOFError:
                        failure = "it died"
                    if failure:
                        raise RuntimeError(f"rank {rank}: {failure}")
        finally:
            for process in processes:
                if len(answers) < ranks:
                    process.kill()
                process.join()
    return [answers[rank] for rank in range(ranks)]


def slowest(seconds: float) -> float:
    """The longest of the times that the ranks have measured."""
    longest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return longest.item()


def _rank(
    placement: Placement,
    enter: Callable[[int], None],
    pipe: Connection,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    try:
        enter(placement.rank)
        torch.set_num_threads(1)
        rendezvous.join(placement, SECONDS_TO_JOIN)
        answer = function(*args)
    except BaseException:
        pipe.send((traceback.format_exc(), None))
        return
    pipe.send(("", answer))
    dist.barrier()
    dist.destroy_process_group()
