"""The contract suite catches what it is there for: methods with one planted bug each."""

import re
import textwrap
from functools import partial

import pytest

from tests import processes
from tests.contract import conftest
from tests.contract import test_contract as contract
from tests.contract import test_on_processes as on_processes
from tests.contract.conftest import Subject
from thinwire import plugins
from thinwire.errors import MethodError
from thinwire.train.divergence import Diverged

HEAD = '''"""A method with a planted bug."""

import random
from dataclasses import dataclass

import torch
import thinwire


class Leaking(thinwire.Server):
    """Answers with `leak`, which a method makes from the data that were pushed."""

    def update(self, pushes):
        return self.leak(abs(int(1e6 * sum(push["values"].sum() for push in pushes))))


class Method(thinwire.Method):
'''
AVERAGE = "self.run.world.mean(self.run.gradients).wait()"

# What is planted: the check that must catch it, and the body of the class.
BUGS = {
    "randomness of its own": (
        contract.test_same_bits_every_time,
        """
        def sync_weights(self):
            self.run.weights[0].mul_(1 + 1e-3 * random.random())
        """,
    ),
    "waits for the GPU in every step": (
        contract.test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values,
        """
        def sync_gradients(self):
            self.norm = self.run.gradients[0].norm().item()
        """,
    ),
    "waits twice where it may wait once": (
        contract.test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values,
        """
        def sync_gradients(self):
            row = self.run.gradients[0].flatten()
            large = row[row.abs() > row.abs().mean()]
            some = large if len(large) > 1 and large.max() > 0 else row
            self.run.world.gather({"values": some}, ragged=True).wait()
        """,
    ),
    "writes to the weights when they are looked at": (
        contract.test_evaluation_is_neutral,
        """
        def evaluated(self, quiet):
            mean = quiet.mean(self.run.weights).wait()
            for weight, other in zip(self.run.weights, mean):
                weight.copy_(other)
            return mean
        """,
    ),
    "lands its messages when it is looked at": (
        contract.test_hooks_that_only_answer_change_nothing,
        """
        def setup(self):
            self.memory["late"] = [torch.zeros_like(weight) for weight in self.run.weights]

        def land(self):
            for landing in self.flight.landed(self.run.step):
                torch._foreach_copy_(self.memory["late"], landing.answer)

        def sync_gradients(self):
            self.land()
            pending = self.run.world.mean([gradient.clone() for gradient in self.run.gradients])
            self.flight.launch(pending, lands=self.run.step)
            torch._foreach_copy_(self.run.gradients, self.memory["late"])

        def evaluated(self, quiet):
            self.land()
            return super().evaluated(quiet)

        def finish(self):
            self.land()
        """,
    ),
    "counts how often it is asked": (
        contract.test_hooks_that_only_answer_change_nothing,
        """
        def wants_epoch_loss(self):
            self.memory["asked"] = self.memory.get("asked", 0) + 1
            return False
        """,
    ),
    "state outside memory": (
        contract.test_resumes_to_the_same_bits,
        """
        def setup(self):
            self.velocity = torch.zeros_like(self.run.gradients[0])

        def sync_gradients(self):
            self.velocity.mul_(0.5).add_(self.run.gradients[0])
            self.run.gradients[0].copy_(self.velocity)
        """,
    ),
    "a sum where SSGD has a mean": (
        contract.test_equals_ssgd_with_the_options_it_declares,
        """
        equals_ssgd = [{}]

        def sync_gradients(self):
            self.run.world.mean(self.run.gradients).wait()
            torch._foreach_mul_(self.run.gradients, self.run.world.size)
        """,
    ),
    "a tolerance that lets everything pass": (
        contract.test_equals_ssgd_with_the_options_it_declares,
        """
        equals_ssgd = [thinwire.InTheLimit({}, tolerance=1.0, reason="none is needed")]

        def sync_gradients(self):
            self.run.world.mean(self.run.gradients).wait()
        """,
    ),
    "further from SSGD than its tolerance": (
        contract.test_equals_ssgd_with_the_options_it_declares,
        """
        equals_ssgd = [thinwire.InTheLimit({}, tolerance=1e-9, reason="it sends 16 bits")]

        def sync_gradients(self):
            for gradient in self.run.gradients:
                gradient.copy_(gradient.half())
            self.run.world.mean(self.run.gradients).wait()
        """,
    ),
    "forgets the node's mates": (
        contract.test_equals_ssgd_with_the_options_it_declares,
        """
        equals_ssgd = [{"nodes": 2}]

        def sync_gradients(self):
            self.run.across.mean(self.run.gradients).wait()
        """,
    ),
    "forgets a tensor": (
        contract.test_equals_ssgd_with_the_options_it_declares,
        """
        equals_ssgd = [{}]

        def sync_gradients(self):
            self.run.world.mean(self.run.gradients[1:]).wait()
        """,
    ),
    "ships other weights from each worker": (
        contract.test_all_workers_ship_the_same_weights,
        """
        def evaluated(self, quiet):
            return self.run.weights
        """,
    ),
    "an answer that nobody waits for": (
        contract.test_same_bits_every_time,
        """
        def sync_gradients(self):
            self.run.world.mean(self.run.gradients)
        """,
    ),
    "one worker draws more than the others from what all share": (
        contract.test_draws_shared_choices_alike_on_all_workers,
        """
        def sync_gradients(self):
            if self.run.world.rank == 1:
                torch.rand(1, generator=self.run.shared_generator)
        """,
    ),
    "a message that never lands": (
        contract.test_every_message_in_flight_is_received,
        """
        def sync_gradients(self):
            copies = [g.clone() for g in self.run.gradients]
            self.flight.launch(self.run.world.mean(copies), lands=self.run.step + 2)
            for landing in self.flight.landed(self.run.step):
                torch._foreach_copy_(self.run.gradients, landing.answer)
        """,
    ),
    "an average that nobody pays for": (
        contract.test_some_worker_holds_what_is_shipped_at_the_end,
        """
        def sync_weights(self):
            if self.run.step % 5 == 4:
                self.run.world.mean(self.run.weights, kind="weights").wait()
        """,
    ),
    "no word between the workers": (
        contract.test_some_worker_holds_what_is_shipped_at_the_end,
        """
        pass
        """,
    ),
    "an option without a word": (
        contract.test_describes_itself,
        """
        @dataclass
        class Config:
            period: int = 3
        """,
    ),
    "workers in one class variable": (
        contract.test_workers_share_only_the_channels,
        """
        seen = {}

        def sync_gradients(self):
            mine = self.seen.setdefault(self.run.step, self.run.gradients[0].clone())
            self.run.gradients[0].copy_(mine)
        """,
    ),
    "the first to come decides": (
        contract.test_does_not_depend_on_the_order_of_the_workers,
        """
        turn = [None, None]

        def sync_gradients(self):
            if self.turn[0] != self.run.step:
                self.turn[:] = [self.run.step, self.run.world.rank]
            if self.turn[1] == self.run.world.rank:
                torch._foreach_zero_(self.run.gradients)
        """,
    ),
    "sockets": (
        contract.test_communicates_through_the_channels_only,
        """
        def sync_gradients(self):
            import socket
        """,
    ),
    "torch.distributed": (
        contract.test_communicates_through_the_channels_only,
        """
        def sync_gradients(self):
            torch.distributed.is_initialized()
        """,
    ),
    "a channel opened by force": (
        contract.test_communicates_through_the_channels_only,
        """
        def setup(self):
            self.run.world.shut = ""
        """,
    ),
    "a transport's own verbs": (
        contract.test_communicates_through_the_channels_only,
        """
        def sync_gradients(self):
            self.run.world._transport.share([1])
        """,
    ),
    "types of an answer": (
        contract.test_unmetered_metadata_does_not_depend_on_the_data,
        """
        def sync_gradients(self):
            server = Leaking({})
            types = [torch.float32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
            server.leak = lambda number: {"values": torch.zeros(0, dtype=types[number % 6])}
            self.run.world.push_pull(0, {"values": self.run.gradients[0].flatten()}, server).wait()
        """,
    ),
    "kinds of a ragged answer": (
        contract.test_unmetered_metadata_does_not_depend_on_the_data,
        """
        def sync_gradients(self):
            server = Leaking({})
            server.leak = lambda number: {"values": torch.zeros(0)} if number % 2 else {}
            push = {"values": self.run.gradients[0].flatten()}
            self.run.world.push_pull(0, push, server, ragged=True).wait()
        """,
    ),
    "sizes of an answer, under a key that is new every time": (
        contract.test_unmetered_metadata_does_not_depend_on_the_data,
        """
        def sync_gradients(self):
            server = Leaking({})
            server.leak = lambda number: {"control": torch.zeros(number % 1000, dtype=torch.bool)}
            key = f"step {self.run.step}"
            self.run.world.push_pull(key, {"values": self.run.gradients[0].flatten()}, server).wait()
        """,
    ),
    "sizes of messages": (
        contract.test_unmetered_metadata_does_not_depend_on_the_data,
        """
        def sync_gradients(self):
            world, number = self.run.world, abs(int(1e6 * self.run.gradients[0].sum()))
            message = {"control": torch.zeros(number % 1000, dtype=torch.bool)}
            world.send(message, (world.rank + 1) % world.size).wait()
            world.receive((world.rank - 1) % world.size).wait()
        """,
    ),
    "are messages ragged": (
        contract.test_unmetered_metadata_does_not_depend_on_the_data,
        """
        def sync_gradients(self):
            world, number = self.run.world, abs(int(1e6 * self.run.gradients[0].sum()))
            world.send({}, (world.rank + 1) % world.size, ragged=number % 2 == 0).wait()
            world.receive((world.rank - 1) % world.size).wait()
        """,
    ),
    "a leader, whom the workers elect": (
        contract.test_a_mirrored_worker_sends_what_it_sends_among_all_workers,
        """
        def sync_gradients(self):
            world = self.run.world
            ranks = world.gather({"control": torch.tensor([world.rank])}).wait()
            leader = max(int(rank["control"]) for rank in ranks)
            world.broadcast(self.run.gradients, source=leader).wait()
        """,
    ),
    "letters on a shared answer": (
        contract.test_does_not_change_the_answers_it_receives,
        """
        def sync_gradients(self):
            gathered = self.run.world.gather({"values": torch.zeros(0)}).wait()
            gathered[0]["values"].secret = self.run.gradients[0]
        """,
    ),
    "a kind more in a shared answer": (
        contract.test_does_not_change_the_answers_it_receives,
        """
        def sync_gradients(self):
            gathered = self.run.world.gather({"values": torch.zeros(0)}).wait()
            gathered[0][f"of {self.run.world.rank}"] = self.run.gradients[0]
        """,
    ),
    "writing into a shared answer": (
        contract.test_does_not_change_the_answers_it_receives,
        """
        def sync_gradients(self):
            gathered = self.run.world.gather({"values": torch.zeros(3)}).wait()
            gathered[0]["values"].data += self.run.gradients[0].sum()
        """,
    ),
    "learns nothing": (
        contract.test_learns,
        """
        def sync_gradients(self):
            torch._foreach_neg_(self.run.gradients)
        """,
    ),
    "not finite": (
        contract.test_runs_on_every_cluster_and_gives_finite_weights,
        """
        def sync_weights(self):
            self.run.weights[0].div_(0)
        """,
    ),
}
# What the engine refuses at once: its message, and the body of the class.
REFUSED = {
    "shapes of empty tensors": (
        r"values of shape \[0, \d+\] were handed to run.world.gather, and payloads travel flat",
        """
        def sync_gradients(self):
            number = abs(int(1e6 * self.run.gradients[0].sum()))
            gathered = self.run.world.gather({"values": torch.empty(0, number)}).wait()
            self.run.log("leaked", sum(payload["values"].shape[1] for payload in gathered))
        """,
    ),
    "shapes of an answer": (
        r"values of shape \[0, \d+\] were handed to the workers by Leaking.update",
        """
        def sync_gradients(self):
            server = Leaking({})
            server.leak = lambda number: {"values": torch.empty(0, number)}
            self.run.world.push_pull(0, {"values": self.run.gradients[0].flatten()}, server).wait()
        """,
    ),
    "shapes of messages": (
        r"values of shape \[0, \d+\] were handed to run.world.send",
        """
        def sync_gradients(self):
            number = abs(int(1e6 * self.run.gradients[0].sum()))
            self.run.world.send({"values": torch.empty(0, number)}, to=0)
        """,
    ),
    "numbers without a dimension": (
        r"values of shape \[\] were handed to run.world.gather",
        """
        def sync_gradients(self):
            self.run.world.gather({"values": self.run.gradients[0].sum()}).wait()
        """,
    ),
    "types of empty tensors": (
        "hand over the same kinds in the same order and of the same types",
        """
        def sync_gradients(self):
            letter = [torch.float32, torch.int64, torch.int8][self.run.world.rank % 3]
            self.run.world.gather({"values": torch.empty(0, dtype=letter)}, ragged=True).wait()
        """,
    ),
    "order of empty tensors": (
        "hand over the same kinds in the same order and of the same types",
        """
        def sync_gradients(self):
            kinds = ["values", "indices", "scales"]
            kinds = kinds[self.run.world.rank % 3:] + kinds[:self.run.world.rank % 3]
            self.run.world.gather({kind: torch.empty(0) for kind in kinds}, ragged=True).wait()
        """,
    ),
    "a tensor with a method of its own": (
        "a Spy was handed to run.world.mean",
        """
        def sync_gradients(self):
            class Spy(torch.Tensor):
                pass
            self.run.world.mean([gradient.as_subclass(Spy) for gradient in self.run.gradients]).wait()
        """,
    ),
    "catches what it is told of others": (
        "rank 0 hands over values .*, and rank 1 indices",
        """
        def sync_gradients(self):
            world = self.run.world
            try:
                world.gather({("values", "indices")[world.rank % 2]: torch.empty(0)})
            except thinwire.UserError as error:
                self.caught = str(error)
            world.unclaimed.clear()
        """,
    ),
    "speaks in __init__": (
        "run.world.mean was called before the first step, in __init__, skip, optimizer or setup",
        """
        def __init__(self, config, run):
            super().__init__(config, run)
            run.world.mean([torch.zeros(1)])
        """,
    ),
    "speaks in skip": (
        "run.node.gather was called before the first step",
        """
        def skip(self):
            self.run.node.gather({})
        """,
    ),
    "speaks in optimizer": (
        "run.across.broadcast was called before the first step",
        """
        def optimizer(self, params):
            self.run.across.broadcast([p.data for p in params], source=0).wait()
            return super().optimizer(params)
        """,
    ),
    "speaks in setup": (
        "run.world.mean was called before the first step, .* in the first step, where run.step is 0",
        """
        def setup(self):
            self.run.world.mean(self.run.weights, kind="weights").wait()
        """,
    ),
    "meters its evaluation": (
        "run.world.mean was called in evaluated, .* use the channel that it is given",
        """
        def evaluated(self, quiet):
            return self.run.world.mean([w.clone() for w in self.run.weights]).wait()
        """,
    ),
    "keeps the channel of its evaluation": (
        "run.quiet.mean was called outside evaluated",
        """
        quiet = None

        def evaluated(self, quiet):
            self.quiet = quiet
            return super().evaluated(quiet)

        def sync_gradients(self):
            if self.quiet is not None:
                torch._foreach_copy_(self.run.gradients, self.quiet.mean(self.run.gradients).wait())
        """,
    ),
    "a server that speaks": (
        "run.world.mean was called in a server's update",
        """
        def sync_gradients(self):
            server = Leaking({})
            server.leak = lambda number: self.run.world.mean(self.run.gradients).wait() and {}
            self.run.world.push_pull(0, {"values": self.run.gradients[0].flatten()}, server).wait()
        """,
    ),
}
# Ways to communicate that exist only if workers share a process.
IN_ONE_PROCESS = {
    "an attribute of torch": """
        def sync_gradients(self):
            seen = vars(torch).setdefault(f"seen_in_step_{self.run.step}", {})
            seen[self.run.world.rank] = [gradient.clone() for gradient in self.run.gradients]
            self.run.world.mean([torch.zeros(1)]).wait()
            torch._foreach_copy_(self.run.gradients, [sum(each) / len(seen) for each in zip(*seen.values())])
        """,
    "the state of torch's generator": """
        def sync_gradients(self):
            if self.run.world.rank == 0:
                torch.manual_seed(abs(int(1e6 * self.run.gradients[0].sum())))
            self.run.world.mean([torch.zeros(1)]).wait()
            torch._foreach_add_(self.run.gradients, 1e-9 * (torch.initial_seed() % 10_000))
        """,
}


# Workers that do not do the same: what is planted in real processes, and what of it must be named. `odd` is
# true on rank 2 in the fourth step; run.world goes between the nodes, by torch.distributed, and run.node
# through shared memory.
APART = {
    "another kind between nodes": (
        'run.world.mean(run.gradients, kind="weights" if odd else "values").wait()',
        r"do not agree on run.world: call 4: rank 0 calls mean\(values, .* and rank 2 calls mean\(weights, ",
    ),
    "another shape between nodes": (
        "run.world.mean([torch.ones(4, 1) if odd else torch.ones(4)]).wait()",
        r"do not agree on run.world: call 4: .*float32\[4\]\) and rank 2 .*float32\[4, 1\]\)",
    ),
    "another size between nodes": (
        "run.world.mean([torch.ones(5 if odd else 4)]).wait()",
        r"run.world: call 4: .* float32\[4\]\) and rank 2 calls mean\(values, float32\[5\]\)",
    ),
    "another shape on a node": (
        "run.node.mean([torch.ones(4, 1) if odd else torch.ones(4)]).wait()",
        r"run.node: call 4: rank 2 calls mean\(values, float32\[4, 1\]\) and rank 3 calls .*float32\[4\]\)",
    ),
    "another size on a node": (
        "run.node.mean([torch.ones(500_000 if odd else 4)]).wait()",
        r"rank 1 is at call 4 on run.node, mean\(values\) of 16 bytes, and rank 0 is at another",
    ),
    "another verb on a node": (
        """
        ones = [torch.ones(4)]
        (run.node.broadcast(ones, source=0) if odd else run.node.mean(ones)).wait()
        """,
        r"is at call 4 on run.node, mean\(values\) of 16 bytes, and rank 0 is at another call",
    ),
    "a call more between nodes": (
        "if odd: run.world.mean(run.gradients).wait()",
        r"rank 2 waits for mean\(values, .*\) on run.world",
    ),
    "a call less on a node": (
        "if not odd: run.node.mean(run.gradients).wait()",
        r"rank 3 waits for mean\(values, .*\) on run.node",
    ),
    "undeclared sizes between nodes": (
        'run.world.gather({"values": torch.ones(5 if odd else 4)}).wait()',
        r"run.world: call 4: .*gather\(values float32\[4\]\) and rank 2 calls gather\(values float32\[5\]\)",
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
    "an answer that nobody waits for": (
        "pending = run.world.mean(run.gradients)\nif not odd: pending.wait()",
        r"MethodError: worker 0 neither waited for mean\(values, .*\) on run.world nor put it in flight",
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
# Seconds without progress, after which processes that wait for each other are asked what they wait for.
PATIENCE = 5.0


def written(tmp_path, head, body, indent):
    path = tmp_path / "planted.py"
    path.write_text(head + textwrap.indent(textwrap.dedent(body), " " * indent) + "\n")
    return path


def subject(tmp_path, body):
    path = written(tmp_path, HEAD, body, 4)
    return Subject("planted", path, plugins.load_file("method", path, "planted"))


@pytest.fixture
def perform(tmp_path, monkeypatch):
    """Perform a check on a method; gives what it has noted."""
    return partial(conftest.perform, monkeypatch=monkeypatch, tmp_path=tmp_path, stop=6)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, tmp_path, perform):
    check, body = BUGS[bug]
    planted = subject(tmp_path, body)
    with pytest.raises((AssertionError, MethodError, Diverged)) as caught:
        perform(check, planted)
    assert not isinstance(caught.value, MethodError) or bug.startswith(("an answer", "a message"))


@pytest.mark.parametrize("bug", REFUSED)
def test_a_call_that_cannot_be_metered_is_refused(bug, tmp_path):
    message, body = REFUSED[bug]
    with pytest.raises(MethodError, match=message):
        contract.test_runs_on_every_cluster_and_gives_finite_weights(subject(tmp_path, body))


@pytest.mark.parametrize("bug", IN_ONE_PROCESS)
def test_communication_inside_one_process_is_found(bug, tmp_path):
    planted = subject(tmp_path, IN_ONE_PROCESS[bug])
    trajectory = processes.run(on_processes.trajectory_here, 4, planted.path, tmp_path)
    with pytest.raises(AssertionError, match="workers in one process have another road than the channels"):
        on_processes.test_runs_as_in_one_process(
            planted, on_processes.CPUS, lambda subject: {("trajectory", on_processes.CPUS): trajectory}
        )


def test_a_sound_method_passes(tmp_path, perform):
    """The same checks pass on a method without a bug, so what they caught was the bug."""
    sound = subject(tmp_path, f"equals_ssgd = [{{}}]\n\ndef sync_gradients(self):\n    {AVERAGE}\n")
    for check in {check for check, _ in BUGS.values()}:
        perform(check, sound)


def test_what_is_ssgd_in_the_limit_says_how_close_it_comes_and_why(tmp_path, perform):
    body = """
    equals_ssgd = [thinwire.InTheLimit({}, tolerance=1e-4, reason="it sends 32 bits")]

    def sync_gradients(self):
        for gradient in self.run.gradients:
            gradient.copy_(gradient.float())
        self.run.world.mean(self.run.gradients).wait()
    """
    (note,) = perform(contract.test_equals_ssgd_with_the_options_it_declares, subject(tmp_path, body))
    assert "within 0.0001: it sends 32 bits; the largest difference of a weight was" in note
    assert 0 < float(note.rpartition(" ")[2]) < 1e-4


def test_a_method_that_learns_says_how_much_in_how_many_steps(tmp_path, perform):
    sound = subject(tmp_path, f"short = {{}}\n\ndef sync_gradients(self):\n    {AVERAGE}\n")
    (note,) = perform(contract.test_learns, sound)
    assert re.fullmatch(
        r"learns to \d\d\.\d % accuracy on digits in 375 steps on 4 workers, with its defaults; "
        f"{contract.LEAST_ACCURACY_PERCENT} % are asked for",
        note,
    )


def runs_apart(tmp_path, body):
    """The outcome of a run of a method with this body, in four processes on two nodes."""
    path = written(tmp_path, ON_PROCESSES, body, 8)
    run = partial(on_processes.check_here, "every_message_in_flight_is_received")
    return processes.run_all([run], 4, path, tmp_path, patience=PATIENCE)[0]


@pytest.mark.parametrize("bug", APART)
def test_workers_that_make_different_calls_are_caught(bug, tmp_path):
    body, named = APART[bug]
    failed = runs_apart(tmp_path, body)
    assert isinstance(failed, processes.Failed)
    assert re.search(named, str(failed)), failed


def test_workers_of_several_processes_draw_the_same_from_the_shared_generator(tmp_path):
    body = """
    drawn = torch.rand(4, generator=run.shared_generator)
    for other in run.world.gather({"values": drawn}).wait():
        assert torch.equal(other["values"], drawn)
    """
    assert runs_apart(tmp_path, body) == [None] * 4


def test_workers_that_make_the_same_calls_pass(tmp_path):
    """The same calls, without a worker that differs."""
    bodies = [textwrap.dedent(body) for bug, (body, _) in APART.items() if bug != "a server that raises"]
    assert runs_apart(tmp_path, "\n".join(["odd = False", *bodies])) == [None] * 4
