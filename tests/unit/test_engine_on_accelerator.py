"""What the engine does for GPUs alone, on an accelerator without hardware; see `tests.accelerator`."""

import threading
from typing import Any, ClassVar

import pytest
import torch

import thinwire
from tests import processes, small
from tests.host_waits import counting
from thinwire.data.batches import Prefetched
from thinwire.trace.recorder import ENCODE, recorded
from thinwire.train.clock import StreamClock
from thinwire.train.tracing import record_spans
from thinwire.train.trainer import Trainer
from thinwire.transport.inprocess import InProcess


@recorded(ENCODE)
def squeezed(tensor: Any) -> Any:
    return tensor.half()


class Encodes(thinwire.Method):
    """Encodes each gradient as soon as it is there, in the thread in which autograd computes it."""

    threads: ClassVar[set[int]] = set()

    def grad_ready(self, param):
        self.threads.add(threading.get_ident())
        param.grad.copy_(squeezed(param.grad))


def weights(run: Trainer) -> str:
    shipped, buffers = run.shipped()
    return small.digest([tensor.cpu() for tensor in (*shipped, *buffers)])


def settle(run: Trainer) -> None:
    """Wait for the thread that prepares batches: by chance its operations would count now or later."""
    if isinstance(run.batches, Prefetched):
        assert run.batches._next is not None
        run.batches._next[1].result()


def trained_apart(recipe: dict[str, Any]) -> dict[str, Any]:
    """Two epochs of SSGD on each device; the second epoch continues from a checkpoint."""
    from tests import accelerator

    on_cpu = small.trainer(small.task(2, epochs=2, **recipe), "ssgd")
    on_cpu.train()
    with pytest.MonkeyPatch.context() as monkeypatch:
        gpu = accelerator.install(monkeypatch)
        task = small.task(2, epochs=2, device=accelerator.DEVICE, **recipe)
        first = small.trainer(task, "ssgd")
        synchronised = gpu.synchronised
        first.train(until=1)
        settle(first)
        with counting() as counts:
            first.train(until=4)
            settle(first)
        first.train(until=5)
        second = small.trainer(task, "ssgd")
        second.load(first.state())
        second.train()
        generators = torch.default_generator, *torch.cuda.default_generators
        return {
            "seeds": {generator.initial_seed() for generator in generators},
            "clock": type(first.clock),
            "synchronised": (synchronised, gpu.synchronised),
            "waits": {place: n for place, n in counts.engine_waits.items() if "train/status.py" not in place},
            "operations": counts.operations / (3 * 2),
            "weights": (weights(on_cpu), weights(second)),
        }


# With the most operations of a worker's step; most of them are of the passes of the model.
@pytest.mark.parametrize(("recipe", "most"), [({}, 30), ({"prefetch": True, "mixup": 0.2}, 42)])
def test_a_run_goes_as_on_a_cpu_and_waits_for_no_copy(recipe, most):
    """Two trainers have warmed up, each with one wait for the whole device, and nothing else waits for it."""
    found = processes.apart(trained_apart, recipe)
    assert found["clock"] is StreamClock
    assert len(found["seeds"]) == 1
    assert found["synchronised"] == (1, 2)
    assert found["waits"] == {}
    assert found["weights"][0] == found["weights"][1]
    assert found["operations"] <= most


def activities_apart() -> list[set[tuple[str, str]]]:
    """What a worker does in two steps, by a trace on each device."""
    from tests import accelerator

    found = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        accelerator.install(monkeypatch)
        monkeypatch.setattr(InProcess, "overlaps", True)  # so that gradients are announced in hooks
        for device in (torch.device("cpu"), accelerator.DEVICE):
            Encodes.threads.clear()
            run = small.trainer(small.task(1, device=device), Encodes)
            (recorder,) = record_spans(run)
            run.train(until=2)
            if device.type != "cpu":
                assert Encodes.threads - {threading.get_ident()}, "autograd has a thread of its own there"
            found.append({(activity.kind, activity.name) for _, activity, *_ in recorder.spans})
    return found


def test_a_trace_has_what_hooks_do_in_the_thread_of_autograd():
    on_cpu, there = processes.apart(activities_apart)
    assert (ENCODE, "squeezed") in on_cpu
    assert there == on_cpu
