"""Traces of small runs, for tests of the forms in which traces are written."""

from typing import Any

from tests import small
from thinwire.api.method import Method
from thinwire.trace import trace_file
from thinwire.trace.trace_file import Trace, common_zero_ns
from thinwire.train.tracing import record_spans
from thinwire.transport.call import Server


class Everything(Method):
    """Uses every verb, with payloads of one size and of several."""

    def step(self) -> None:
        run, (first, *_) = self.run, self.run.params
        weight = first.tensor.data.flatten()
        world = run.world
        world.mean([weight.clone()]).wait()
        own = weight[: 1 + world.rank]
        pending = world.gather({"values": own}, ragged=True)
        world.gather({"values": weight[:3]}).wait()
        world.broadcast([weight.clone()], source=1).wait()
        pending.wait()
        run.node.mean([weight.clone()]).wait()
        world.send({"values": own}, (world.rank + 1) % world.size, ragged=True).wait()
        world.receive((world.rank - 1) % world.size).wait()
        for key in (0, 1, 2):
            world.push_pull(key, {"values": weight[:5]}, Doubles({})).wait()


class Doubles(Server):
    """Answers with more than was pushed."""

    def update(self, pushes: list[Any]) -> Any:
        return {"values": 2 * sum(push["values"] for push in pushes).repeat(2)}


def trace_of(method: Any, steps: int | None = 3, workers: int = 4, nodes: int = 2, **options: Any) -> Trace:
    """The trace of a small run; on one of several processes, of its worker."""
    run = small.trainer(small.task(workers, nodes), method, **options)
    transport = run.transport
    zero_ns, _ = common_zero_ns(lambda value: transport.share([value for _ in transport.ranks]))
    recorders = record_spans(run)
    run.train(until=steps)
    run.transport.arrive()
    for recorder in recorders:
        recorder.cut("")
    return trace_file.of_recorders(recorders, zero_ns)
