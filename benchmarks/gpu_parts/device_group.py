"""The production path on one device: side streams and process groups of devices, watched for races.

With NCCL, each rank needs a GPU of its own. Gloo carries tensors of GPUs too, and several ranks may share
one. So four ranks train here over the code that NCCL's runs use: calls are issued in a thread of their own,
in a stream beside the worker's. On a GPU, torch's sanitizer watches which stream reads and writes what. Gloo
has no messages between GPUs, so the methods here use means, broadcasts and gathers.
"""

import threading
from typing import Any, NamedTuple

import ranks
import torch
from torch import Tensor

from gpu_parts import small_run
from gpu_parts.part import Found, Place
from thinwire.base.placement import on_gpu
from thinwire.train.cell_task import deterministic
from thinwire.train.trainer import Trainer
from thinwire.transport import processes
from thinwire.transport.device import SideStream

RANKS = small_run.CLUSTER.workers
# Together: means in flight over several steps, of slices, in 16 bits; broadcasts; equal and ragged gathers.
METHODS = ("daso", "dgc", "local_sgd", "multi_step_delay", "ssgd", "top_k")
SMALL_METHODS = ("daso", "dgc")
VERBS = {"mean", "broadcast", "gather"}
BACKEND = "cpu:gloo,cuda:gloo"
# Of a weight: gloo adds in another order.
MOST_DIFFERENCE = 1e-12


class Trained(NamedTuple):
    """What a rank tells of a run."""

    weights: list[list[float]]
    verbs: list[str]
    calls: int  # that the group of the device has carried out


def part(place: Place, found: Found) -> None:
    """Compare the weights of ranks with those of workers in one process.

    The ranks are forks of this process, so it uses the device only after them.
    """
    names = SMALL_METHODS if place.small else METHODS
    found.figures["sanitizer"] = "on" if place.is_gpu else "off: it watches streams of GPUs"
    of_ranks = dict(zip(names, ranks.run(_rank, RANKS, place.device, names)[0]))
    used = {verb for trained in of_ranks.values() for verb in trained.verbs}
    for name, trained in of_ranks.items():
        alone = small_run.trainer(small_run.task(place.device, method=name), name)
        alone.train()
        differs = max(
            abs(a - b)
            for ours, theirs in zip(trained.weights, _weights(alone), strict=True)
            for a, b in zip(ours, theirs, strict=True)
        )
        found.figures[name] = {"calls": trained.calls, "from_one_process": differs}
        if not trained.calls:
            found.broken.append(f"{name}: no call went over the group of the device")
        if not differs <= MOST_DIFFERENCE:
            found.broken.append(f"{name}: a weight of four ranks differs by {differs:.1e} from one process's")
    found.figures["verbs"] = sorted(used)
    if missing := VERBS - used:
        found.broken.append(f"no method used {', '.join(sorted(missing))}")


def _rank(device: torch.device, names: tuple[str, ...]) -> list[Trained]:
    """Train each method over the group of the device, as one rank."""
    if on_gpu(device):
        _watch()
    else:  # only GPUs have such groups; torch.cpu has the same functions
        processes.uses_device_group = lambda device, backend: True  # type: ignore[assignment]
    calls = _count_calls()
    deterministic(device)
    made = []
    for name in names:
        before = len(calls)
        task = small_run.task(device, method=name)
        transport = processes.Processes(task.cluster, device, BACKEND if on_gpu(device) else "gloo")
        run = Trainer(task, *small_run.method(name), transport)
        run.setup(None)
        run.train()
        verbs = sorted({str(row["verb"]) for row in run.traffic})
        made.append(Trained(_weights(run), verbs, len(calls) - before))
        transport.close()
    return made


def _count_calls() -> list[str]:
    """A list that gets an entry for each call that a group of a device carries out."""
    calls: list[str] = []
    submit = SideStream.submit

    def counted(self: SideStream, call: Any, exchange: Any) -> Any:
        calls.append(call.verb)
        return submit(self, call, exchange)

    SideStream.submit = counted  # type: ignore[method-assign]
    return calls


def _watch() -> None:
    """Let torch's sanitizer watch this process, as `TORCH_CUDA_SANITIZER=1` does, and the issuing thread too.

    A race raises. By itself the sanitizer sees operations of the thread that switched it on, and of autograd.
    """
    from torch.cuda import _sanitizer

    _sanitizer.enable_cuda_sanitizer()
    handler, lock = _sanitizer.cuda_sanitizer.dispatch.event_handler, threading.Lock()
    launch, begin = handler._handle_kernel_launch, processes.begin_thread

    def one_by_one(*args: Any) -> Any:
        with lock:
            return launch(*args)

    class OfThread(_sanitizer.CUDASanitizerDispatchMode):
        def __init__(self) -> None:
            self.event_handler = handler  # all threads share what is known of the tensors

    def begin_watched(device: torch.device) -> None:
        begin(device)
        OfThread().__enter__()

    handler._handle_kernel_launch = one_by_one
    processes.begin_thread = begin_watched


def _weights(run: Trainer) -> list[list[float]]:
    """What the first worker ships."""
    shipped: list[Tensor] = run.shipped()[0]
    return [weight.flatten().tolist() for weight in shipped]
