"""Ways past the ledgers: calls at a time when nothing is metered, and roads that only one process has.

Payloads that carry more than their elements, and calls of servers, are refused in tests/unit.
"""

from functools import partial

import pytest

from tests import processes
from tests.contract import test_contract as contract
from tests.contract import test_on_processes as on_processes
from tests.contract.planted import subject
from thinwire.base.errors import MethodError

# What is refused: the message, and the code.
REFUSED = {
    "speaks in __init__": (
        r"run.node.gather was called before the first step, in __init__, skip, optimizer or setup",
        """
            def __init__(self, config, run):
                super().__init__(config, run)
                run.node.gather({})
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
