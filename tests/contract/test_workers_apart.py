"""Workers of several processes that do not make the same calls are caught, and what differs is named."""

import re
import textwrap
from functools import partial

import pytest

from tests import processes
from tests.contract import test_on_processes as on_processes

# Workers that do not do the same: what is planted in real processes, and what of it must be named. `odd` is
# true on rank 2 in the fourth step; run.world goes between the nodes, by torch.distributed, and run.node
# through shared memory.
APART = {
    "another kind between nodes": (
        'run.world.mean(run.gradients, kind="weights" if odd else "values").wait()',
        r"do not agree on run.world: call 4: rank 0 calls mean\(values, .* and rank 2 calls mean\(weights, ",
    ),
    "another size on a node": (
        "run.node.mean([torch.ones(500_000 if odd else 4)]).wait()",
        r"rank 1 is at call 4 on run.node, mean\(values\) of 16 bytes, and rank 0 is at another",
    ),
    "a call more between nodes": (
        "if odd: run.world.mean(run.gradients).wait()",
        r"rank 2 waits for mean\(values, .*\) on run.world",
    ),
    "a call less on a node": (
        "if not odd: run.node.mean(run.gradients).wait()",
        r"rank 3 waits for mean\(values, .*\) on run.node",
    ),
    "undeclared sizes on a node": (
        'run.node.gather({"values": torch.ones(5 if odd else 4)}).wait()',
        r"MethodError: the workers hand over values of different sizes, \[20, 16\] bytes: say ragged=True",
    ),
    "undeclared sizes for a server between nodes": (
        'run.world.push_pull(0, {"values": torch.ones(5 if odd else 4)}, Echo({})).wait()',
        r"MethodError: the workers hand over values of different sizes, \[16, 16, 20, 16\] bytes: say ragged",
    ),
    "a server that raises": (
        'run.world.push_pull(0, {"indices": torch.ones(4)}, Echo({})).wait()',
        r"KeyError: 'values'",
    ),
    "a message that nobody receives": (
        'if odd: run.world.send({"values": torch.ones(4)}, to=1).wait()',
        r"MethodError: rank 2 sent 1 messages to rank 1 on run.world, which asked for 0",
    ),
    "a message that nobody sends": (
        "if odd: run.across.receive(source=0).wait()",
        r"rank 2 waits for receive\(rank 0\) on run.across",
    ),
}
ON_PROCESSES = '''"""A method that does not do the same everywhere."""

import torch
import thinwire


class Echo(thinwire.Server):
    def update(self, pushes):
        return {"values": pushes[0]["values"]}


class Method(thinwire.Method):
    def sync_gradients(self):
        run = self.run
        odd = run.world.rank == 2 and run.step == 3
'''
DRAWS = """
drawn = torch.rand(4, generator=run.shared_generator)
for other in run.world.gather({"values": drawn}).wait():
    assert torch.equal(other["values"], drawn)
"""
# One that the transport finds, one that ends in waiting, and one that is found at the end; the others are
# found in the same ways.
QUICK = (
    "another kind between nodes",
    "a call less on a node",
    "a message that nobody receives",
)
# Seconds without progress, after which processes that wait for each other are asked what they wait for.
PATIENCE = 5.0


def runs_apart(tmp_path, body):
    """The outcome of a run of a method with this body, in four processes on two nodes."""
    path = tmp_path / "apart.py"
    path.write_text(ON_PROCESSES + textwrap.indent(textwrap.dedent(body), " " * 8) + "\n")
    run = partial(on_processes.check_here, "every_message_in_flight_is_received")
    return processes.run_all([run], 4, path, tmp_path, patience=PATIENCE)[0]


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[] if bug in QUICK else pytest.mark.slow) for bug in APART]
)
def test_workers_that_make_different_calls_are_caught(bug, tmp_path):
    body, named = APART[bug]
    failed = runs_apart(tmp_path, body)
    assert isinstance(failed, processes.Failed)
    assert re.search(named, str(failed)), failed


def test_workers_that_make_the_same_calls_pass(tmp_path):
    """The same calls, without a worker that differs; what is drawn for all is the same in all processes."""
    bodies = [textwrap.dedent(body) for bug, (body, _) in APART.items() if bug != "a server that raises"]
    assert runs_apart(tmp_path, "\n".join(["odd = False", DRAWS, *bodies])) == [None] * 4
