"""Ways past the ledgers: calls that the engine refuses at once, and roads that only one process has."""

from functools import partial

import pytest

from tests import processes
from tests.contract import test_contract as contract
from tests.contract import test_on_processes as on_processes
from tests.contract.planted import subject
from thinwire.base.errors import MethodError

# What is refused: the message, and the code.
REFUSED = {
    "shapes of empty tensors": (
        r"values of shape \[0, \d+\] were handed to run.world.gather, and payloads travel flat",
        """
            number = abs(int(1e6 * self.run.gradients[0].sum()))
            gathered = self.run.world.gather({"values": torch.empty(0, number)}).wait()
            self.run.log("leaked", sum(payload["values"].shape[1] for payload in gathered))
            """,
    ),
    "shapes of an answer": (
        r"values of shape \[0, \d+\] were handed to the workers by Leaking.update",
        """
            server = Leaking({})
            server.leak = lambda number: {"values": torch.empty(0, number)}
            self.run.world.push_pull(0, {"values": self.run.gradients[0].flatten()}, server).wait()
            """,
    ),
    "shapes of messages": (
        r"values of shape \[0, \d+\] were handed to run.world.send",
        """
            number = abs(int(1e6 * self.run.gradients[0].sum()))
            self.run.world.send({"values": torch.empty(0, number)}, to=0)
            """,
    ),
    "numbers without a dimension": (
        r"values of shape \[\] were handed to run.world.gather",
        'self.run.world.gather({"values": self.run.gradients[0].sum()}).wait()',
    ),
    "types of empty tensors": (
        r"hand over the same kinds in the same order and of the same types",
        """
            letter = [torch.float32, torch.int64, torch.int8][self.run.world.rank % 3]
            self.run.world.gather({"values": torch.empty(0, dtype=letter)}, ragged=True).wait()
            """,
    ),
    "order of empty tensors": (
        r"hand over the same kinds in the same order and of the same types",
        """
            kinds = ["values", "indices", "scales"]
            kinds = kinds[self.run.world.rank % 3:] + kinds[:self.run.world.rank % 3]
            self.run.world.gather({kind: torch.empty(0) for kind in kinds}, ragged=True).wait()
            """,
    ),
    "a tensor with a method of its own": (
        r"a Spy was handed to run.world.mean",
        """
            def sync_gradients(self):
                class Spy(torch.Tensor):
                    pass
                self.run.world.mean([gradient.as_subclass(Spy) for gradient in self.run.gradients]).wait()
            """,
    ),
    "catches what it is told of others": (
        r"rank 0 hands over values .*, and rank 1 indices",
        """
            world = self.run.world
            try:
                world.gather({("values", "indices")[world.rank % 2]: torch.empty(0)})
            except thinwire.UserError as error:
                self.caught = str(error)
            world.unclaimed.clear()
            """,
    ),
    "speaks in __init__": (
        r"run.world.mean was called before the first step, in __init__, skip, optimizer or setup",
        """
            def __init__(self, config, run):
                super().__init__(config, run)
                run.world.mean([torch.zeros(1)])
            """,
    ),
    "speaks in skip": (
        r"run.node.gather was called before the first step",
        """
            def skip(self):
                self.run.node.gather({})
            """,
    ),
    "speaks in optimizer": (
        r"run.across.broadcast was called before the first step",
        """
            def optimizer(self, params):
                self.run.across.broadcast([p.data for p in params], source=0).wait()
                return super().optimizer(params)
            """,
    ),
    "speaks in setup": (
        r"run.world.mean was called before the first step, .* in the first step, where run.step is 0",
        """
            def setup(self):
                self.run.world.mean(self.run.weights, kind="weights").wait()
            """,
    ),
    "meters its evaluation": (
        r"run.world.mean was called in evaluated, .* use the channel that it is given",
        """
            def evaluated(self, unmetered):
                return self.run.world.mean([w.clone() for w in self.run.weights]).wait()
            """,
    ),
    "keeps the channel of its evaluation": (
        r"run.unmetered.mean was called outside evaluated",
        """
            unmetered = None

            def evaluated(self, unmetered):
                self.unmetered = unmetered
                return super().evaluated(unmetered)

            def sync_gradients(self):
                if self.unmetered is not None:
                    torch._foreach_copy_(self.run.gradients, self.unmetered.mean(self.run.gradients).wait())
            """,
    ),
    "a server that speaks": (
        r"run.world.mean was called in a server's update",
        """
            server = Leaking({})
            server.leak = lambda number: self.run.world.mean(self.run.gradients).wait() and {}
            self.run.world.push_pull(0, {"values": self.run.gradients[0].flatten()}, server).wait()
            """,
    ),
}
# Ways to communicate that exist only if workers share a process.
IN_ONE_PROCESS = {
    "an attribute of torch": """
        seen = vars(torch).setdefault(f"seen_in_step_{self.run.step}", {})
        seen[self.run.world.rank] = [gradient.clone() for gradient in self.run.gradients]
        self.run.world.mean([torch.zeros(1)]).wait()
        torch._foreach_copy_(self.run.gradients, [sum(each) / len(seen) for each in zip(*seen.values())])
        """,
    "the state of torch's generator": """
        if self.run.world.rank == 0:
            torch.manual_seed(abs(int(1e6 * self.run.gradients[0].sum())))
        self.run.world.mean([torch.zeros(1)]).wait()
        torch._foreach_add_(self.run.gradients, 1e-9 * (torch.initial_seed() % 10_000))
        """,
}


@pytest.mark.parametrize("bug", REFUSED)
def test_a_call_that_cannot_be_metered_is_refused(bug, tmp_path):
    message, body = REFUSED[bug]
    with pytest.raises(MethodError, match=message):
        contract.test_runs_on_every_cluster_and_gives_finite_weights(subject(tmp_path, body))


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """The methods of one process only, each with its trajectory on processes; these share one launch."""
    folders = {bug: tmp_path_factory.mktemp("planted") for bug in IN_ONE_PROCESS}
    planted = {bug: subject(folder, IN_ONE_PROCESS[bug]) for bug, folder in folders.items()}
    runs = [partial(on_processes.trajectory_here, planted[bug].path, folders[bug]) for bug in planted]
    return {bug: (planted[bug], made) for bug, made in zip(planted, processes.run_all(runs, 4))}


@pytest.mark.parametrize("bug", IN_ONE_PROCESS)
def test_communication_inside_one_process_is_found(bug, apart):
    planted, trajectory = apart[bug]
    with pytest.raises(AssertionError, match="workers in one process have another road than the channels"):
        on_processes.test_runs_as_in_one_process(
            planted, on_processes.CPUS, lambda subject: {("trajectory", on_processes.CPUS): trajectory}
        )
