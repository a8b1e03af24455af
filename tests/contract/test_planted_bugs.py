"""The contract suite catches what it is there for: methods with one planted bug each."""

import re
from functools import partial

import pytest

from tests.contract import conftest
from tests.contract import test_channels as channels
from tests.contract import test_contract as contract
from tests.contract import test_gpus as gpus
from tests.contract.planted import subject
from thinwire.base.errors import MethodError
from thinwire.train.evaluation import Diverged

AVERAGE = "self.run.world.mean(self.run.gradients).wait()"
# The check that must catch it, what is planted, and its code.
BUGS = {
    contract.test_same_bits_every_time: {
        "randomness of its own": """
            def sync_weights(self):
                self.run.weights[0].mul_(1 + 1e-3 * random.random())
            """,
        "an answer that nobody waits for": "self.run.world.mean(self.run.gradients)",
    },
    gpus.test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values: {
        "waits for the GPU in every step": "self.norm = self.run.gradients[0].norm().item()",
        "waits twice where it may wait once": """
            row = self.run.gradients[0].flatten()
            large = row[row.abs() > row.abs().mean()]
            some = large if len(large) > 1 and large.max() > 0 else row
            self.run.world.gather({"values": some}, ragged=True).wait()
            """,
    },
    contract.test_evaluation_is_neutral: {
        "writes to the weights when they are looked at": """
            def evaluated(self, unmetered):
                mean = unmetered.mean(self.run.weights).wait()
                for weight, other in zip(self.run.weights, mean):
                    weight.copy_(other)
                return mean
            """,
    },
    contract.test_hooks_that_only_answer_change_nothing: {
        "lands its messages when it is looked at": """
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

            def evaluated(self, unmetered):
                self.land()
                return super().evaluated(unmetered)

            def finish(self):
                self.land()
            """,
        "counts how often it is asked": """
            def wants_epoch_loss(self):
                self.memory["asked"] = self.memory.get("asked", 0) + 1
                return False
            """,
    },
    contract.test_resumes_to_the_same_bits: {
        "state outside memory": """
            def setup(self):
                self.velocity = torch.zeros_like(self.run.gradients[0])

            def sync_gradients(self):
                self.velocity.mul_(0.5).add_(self.run.gradients[0])
                self.run.gradients[0].copy_(self.velocity)
            """,
    },
    contract.test_equals_ssgd_with_the_options_it_declares: {
        "a sum where SSGD has a mean": """
            equals_ssgd = [{}]

            def sync_gradients(self):
                self.run.world.mean(self.run.gradients).wait()
                torch._foreach_mul_(self.run.gradients, self.run.world.size)
            """,
        "a tolerance that lets everything pass": """
            equals_ssgd = [thinwire.InTheLimit({}, tolerance=1.0, reason="none is needed")]

            def sync_gradients(self):
                self.run.world.mean(self.run.gradients).wait()
            """,
        "is tuned as SSGD, which it does not show on two nodes": """
            equals_ssgd = [{}]
            tuned_as_ssgd = True

            def sync_gradients(self):
                self.run.world.mean(self.run.gradients).wait()
            """,
        "further from SSGD than its tolerance": """
            equals_ssgd = [thinwire.InTheLimit({}, tolerance=1e-9, reason="it sends 16 bits")]

            def sync_gradients(self):
                for gradient in self.run.gradients:
                    gradient.copy_(gradient.half())
                self.run.world.mean(self.run.gradients).wait()
            """,
        "forgets the node's mates": """
            equals_ssgd = [{"nodes": 2}]

            def sync_gradients(self):
                self.run.across.mean(self.run.gradients).wait()
            """,
        "forgets a tensor": """
            equals_ssgd = [{}]

            def sync_gradients(self):
                self.run.world.mean(self.run.gradients[1:]).wait()
            """,
    },
    contract.test_equals_ssgd_with_other_optimizers: {
        "a mean of weights, which only linear steps allow": """
            equals_ssgd = [{}]

            def sync_weights(self):
                self.run.world.mean(self.run.weights, kind="weights").wait()
            """,
    },
    contract.test_all_workers_ship_the_same_weights: {
        "ships other weights from each worker": """
            def evaluated(self, unmetered):
                return self.run.weights
            """,
    },
    contract.test_draws_shared_choices_alike_on_all_workers: {
        "one worker draws more than the others from what all share": """
            if self.run.world.rank == 1:
                torch.rand(1, generator=self.run.shared_generator)
            """,
    },
    contract.test_every_message_in_flight_is_received: {
        "a message that never lands": """
            copies = [g.clone() for g in self.run.gradients]
            self.flight.launch(self.run.world.mean(copies), lands=self.run.step + 2)
            for landing in self.flight.landed(self.run.step):
                torch._foreach_copy_(self.run.gradients, landing.answer)
            """,
    },
    contract.test_some_worker_holds_what_is_shipped_at_the_end: {
        "an average that nobody pays for": """
            def sync_weights(self):
                if self.run.step % 5 == 4:
                    self.run.world.mean(self.run.weights, kind="weights").wait()
            """,
        "no word between the workers": "pass",
    },
    contract.test_describes_itself: {
        "an option without a word": """
            @dataclass
            class Config:
                period: int = 3
            """,
    },
    channels.test_workers_share_only_the_channels: {
        "workers in one class variable": """
            seen = {}

            def sync_gradients(self):
                mine = self.seen.setdefault(self.run.step, self.run.gradients[0].clone())
                self.run.gradients[0].copy_(mine)
            """,
    },
    contract.test_does_not_depend_on_the_order_of_the_workers: {
        "the first to come decides": """
            turn = [None, None]

            def sync_gradients(self):
                if self.turn[0] != self.run.step:
                    self.turn[:] = [self.run.step, self.run.world.rank]
                if self.turn[1] == self.run.world.rank:
                    torch._foreach_zero_(self.run.gradients)
            """,
    },
    channels.test_communicates_through_the_channels_only: {
        "sockets": "import socket",
        "torch.distributed": "torch.distributed.is_initialized()",
        "a channel opened by force": """
            def setup(self):
                self.run.world.shut = ""
            """,
        "a transport's own verbs": "self.run.world._transport.share([1])",
    },
    channels.test_unmetered_metadata_does_not_depend_on_the_data: {
        "types of an answer, under a key that is new every time": """
            server = Leaking({})
            types = [torch.float32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
            server.leak = lambda number: {"values": torch.zeros(0, dtype=types[number % 6])}
            push = {"values": self.run.gradients[0].flatten()}
            self.run.world.push_pull(self.run.step, push, server).wait()
            """,
        "kinds of a ragged answer": """
            server = Leaking({})
            server.leak = lambda number: {"values": torch.zeros(0)} if number % 2 else {}
            push = {"values": self.run.gradients[0].flatten()}
            self.run.world.push_pull(0, push, server, ragged=True).wait()
            """,
        "sizes of an answer, under a key that is new every time": """
            server = Leaking({})
            server.leak = lambda number: {"control": torch.zeros(number % 1000, dtype=torch.bool)}
            key = f"step {self.run.step}"
            self.run.world.push_pull(key, {"values": self.run.gradients[0].flatten()}, server).wait()
            """,
        "sizes of messages": """
            world, number = self.run.world, abs(int(1e6 * self.run.gradients[0].sum()))
            message = {"control": torch.zeros(number % 1000, dtype=torch.bool)}
            world.send(message, (world.rank + 1) % world.size).wait()
            world.receive((world.rank - 1) % world.size).wait()
            """,
        "are messages ragged": """
            world, number = self.run.world, abs(int(1e6 * self.run.gradients[0].sum()))
            world.send({}, (world.rank + 1) % world.size, ragged=number % 2 == 0).wait()
            world.receive((world.rank - 1) % world.size).wait()
            """,
    },
    channels.test_a_mirrored_worker_sends_what_it_sends_among_all_workers: {
        "a leader, whom the workers elect": """
            world = self.run.world
            ranks = world.gather({"control": torch.tensor([world.rank])}).wait()
            leader = max(int(rank["control"]) for rank in ranks)
            world.broadcast(self.run.gradients, source=leader).wait()
            """,
        "messages of workers that nothing tells apart": """
            if self.run.world.rank == 2:
                self.run.world.send({"control": torch.zeros(9)}, to=3).wait()
            if self.run.world.rank == 3:
                self.run.world.receive(source=2).wait()
            """,
        "a mean on one node alone, which is not the first": """
            if self.run.cluster.nodes > 2 and self.run.across.rank == 1:
                self.run.node.mean(self.run.gradients).wait()
            """,
    },
    channels.test_does_not_change_the_answers_it_receives: {
        "letters on a shared answer": """
            gathered = self.run.world.gather({"values": torch.zeros(0)}).wait()
            gathered[0]["values"].secret = self.run.gradients[0]
            """,
        "a kind more in a shared answer": """
            gathered = self.run.world.gather({"values": torch.zeros(0)}).wait()
            gathered[0][f"of {self.run.world.rank}"] = self.run.gradients[0]
            """,
        "writing into a shared answer": """
            gathered = self.run.world.gather({"values": torch.zeros(3)}).wait()
            gathered[0]["values"].data += self.run.gradients[0].sum()
            """,
    },
    contract.test_learns: {
        "learns nothing": "torch._foreach_neg_(self.run.gradients)",
    },
    contract.test_gradients_of_zero_leave_finite_weights: {
        "divides by a norm": """
            for gradient in self.run.gradients:
                gradient.div_(gradient.norm())
            self.run.world.mean(self.run.gradients).wait()
            """,
    },
    contract.test_runs_on_every_cluster_and_gives_finite_weights: {
        "not finite": """
            def sync_weights(self):
                self.run.weights[0].div_(0)
            """,
    },
}


@pytest.fixture
def perform(tmp_path, monkeypatch):
    """Perform a check on a method; gives what it has noted."""
    return partial(conftest.perform, monkeypatch=monkeypatch, tmp_path=tmp_path, stop=6, optimizer="adamw")


@pytest.mark.parametrize("bug", [bug for bugs in BUGS.values() for bug in bugs])
def test_a_planted_bug_is_caught(bug, tmp_path, perform):
    (check,) = (check for check, bugs in BUGS.items() if bug in bugs)
    planted = subject(tmp_path, BUGS[check][bug])
    with pytest.raises((AssertionError, MethodError, Diverged)) as caught:
        perform(check, planted)
    assert not isinstance(caught.value, MethodError) or bug.startswith(("an answer", "a message"))


def test_a_sound_method_passes(tmp_path, perform):
    """The same checks pass on a method without a bug, so what they caught was the bug."""
    sound = subject(tmp_path, f"equals_ssgd = [{{}}]\n\ndef sync_gradients(self):\n    {AVERAGE}\n")
    for check in BUGS:
        perform(check, sound)


@pytest.mark.parametrize("kept", ["torch.ones((), dtype=torch.bfloat16)", 'float("nan")'])
def test_what_a_method_remembers_may_be_of_any_value(kept, tmp_path, perform):
    body = f'self.memory["last"] = {kept}\nself.run.log("ratio", float(self.memory["last"]))'
    perform(contract.test_resumes_to_the_same_bits, subject(tmp_path, body))


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
