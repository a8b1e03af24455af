"""Faults of public code, each as a few lines of a method, and the check that catches it.

Each method is here twice, as it should be and with its fault, and the check must tell the two apart.
docs/public_bugs.md names the projects, and the files in which the fault was read. Checks that no other file
has are here.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

import thinwire
from tests import small
from tests.contract import conftest
from tests.contract import test_contract as contract
from tests.contract.planted import subject
from thinwire.api.flight import Landing
from thinwire.train.evaluation import Diverged


def momentum_is_nesterovs(subject):
    """A mean of weights after each step of plain SGD, and Nesterov's momentum outside, is SSGD with it."""
    momentum = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.0}
    same = {"schedule": {"name": "constant"}, "build_model": small.Plain}
    run = small.trainer(small.task(optimizer=momentum, **same), subject.method)
    ssgd = small.trainer(small.task(optimizer=momentum | {"nesterov": True}, **same), "ssgd")
    for trained in (run, ssgd):
        trained.train(until=5)
    assert contract.largest_difference(run.shipped()[0], ssgd.shipped()[0]) <= contract.ROUNDING


def a_mixing_weight_of_1_leaves_the_workers_their_own_weights(subject):
    run, alone = (small.trainer(small.task(), method) for method in (subject.method, thinwire.Method))
    for trained in (run, alone):
        trained.train(until=5)
    for mixed, single in zip(run.workers, alone.workers):
        assert contract.largest_difference(mixed.run.weights, single.run.weights) <= contract.ROUNDING


def errors_have_nothing_in_the_columns_that_were_sent(subject):
    """An error is what its own worker did not send, so the next message of this worker can mend it."""

    def look(run):
        for worker in run.workers:
            for gradient, error in zip(worker.run.gradients, worker.method.memory["error"]):
                if gradient.dim() > 1:
                    assert float((gradient.flatten(1).T @ error.flatten(1)).abs().max()) <= contract.ROUNDING

    small.trainer(small.task(), subject.method).train(until=5, after_step=look)


def a_sign_takes_one_bit(subject):
    run = small.trainer(small.task(2), subject.method)
    run.train(until=1)
    entries = sum(weight.numel() for weight in run.workers[0].run.weights)
    assert run.workers[0].ledger.total().payload_push == -(-entries // 8)


def what_is_received_at_the_end_is_used(subject):
    """Other weights in the last message change what is delivered."""
    run, changed = (small.trainer(small.task(), subject.method) for _ in range(2))
    run.train()
    changed.train(until=changed.total_steps - 1)
    for worker in changed.workers:
        assert len(worker.method.flight) == 1
        landed = worker.method.flight.landed
        worker.method.flight.landed = lambda now, landed=landed: map(doubled, landed(now))
    changed.train()
    assert contract.largest_difference(run.shipped()[0], changed.shipped()[0]) > 1e-3


def doubled(landing):
    return Landing([2 * weight for weight in landing.answer], landing.note)


class Fault(NamedTuple):
    check: Callable[..., None]
    right: str
    """What stands in the body where it says FAULTY."""
    wrong: str
    body: str


FAULTS = {
    "torchft: the outer step goes uphill": Fault(
        contract.test_equals_ssgd_with_the_options_it_declares,
        right="old - new",
        wrong="new - old",
        body="""
        equals_ssgd = [{"linear": True}]

        def setup(self):
            self.memory["outer"] = [weight.clone() for weight in self.run.weights]

        def sync_weights(self):
            outer = self.memory["outer"]
            changes = [FAULTY for old, new in zip(outer, self.run.weights)]
            self.run.world.mean(changes, kind="weights").wait()
            for weight, old, change in zip(self.run.weights, outer, changes):
                weight.copy_(old.sub_(change))
        """,
    ),
    "torchft: what is mixed is dropped": Fault(
        a_mixing_weight_of_1_leaves_the_workers_their_own_weights,
        right="lerp_(weight, 1.0)",
        wrong="lerp(weight, 1 - 1.0)",
        body="""
        def sync_weights(self):
            means = [weight.clone() for weight in self.run.weights]
            self.run.world.mean(means, kind="weights").wait()
            for weight, mean in zip(self.run.weights, means):
                mean.FAULTY
                weight.copy_(mean)
        """,
    ),
    "EXO Gym: the first mean comes a step late": Fault(
        contract.test_equals_ssgd_with_the_options_it_declares,
        right="(step + 1) % period == 0",
        wrong="step % period == 0 and step > 0",
        body="""
        equals_ssgd = [{"linear": True}]

        def sync_weights(self):
            step, period = self.run.step, 1
            if FAULTY:
                self.run.world.mean(self.run.weights, kind="weights").wait()
        """,
    ),
    "NoLoCo: heavy ball is called Nesterov": Fault(
        momentum_is_nesterovs,
        right="change + 0.9 * speed",
        wrong="speed",
        body="""
        def optimizer(self, params):
            return self.run.make_optimizer(params, momentum=0)

        def setup(self):
            self.memory["outer"] = [weight.clone() for weight in self.run.weights]
            self.memory["speed"] = [torch.zeros_like(weight) for weight in self.run.weights]

        def sync_weights(self):
            self.run.world.mean(self.run.weights, kind="weights").wait()
            for weight, old, speed in zip(self.run.weights, self.memory["outer"], self.memory["speed"]):
                change = old - weight
                speed.mul_(0.9).add_(change)
                weight.copy_(old.sub_(FAULTY))
        """,
    ),
    "EF21: the sum of the workers overwrites the memory of the first": Fault(
        contract.test_equals_ssgd_with_the_options_it_declares,
        right="known[0].clone()",
        wrong="known[0]",
        body="""
        equals_ssgd = [{}]

        def setup(self):
            zeros = [torch.zeros_like(weight) for weight in self.run.weights]
            self.memory["own"] = [zero.clone() for zero in zeros]
            self.memory["known"] = [[zero.clone() for zero in zeros] for _ in range(self.run.world.size)]

        def sync_gradients(self):
            for place, (gradient, own) in enumerate(zip(self.run.gradients, self.memory["own"])):
                change = gradient - own
                own.add_(change)
                known = [worker[place] for worker in self.memory["known"]]
                answers = self.run.world.gather({"values": change.flatten()}).wait()
                for tensor, answer in zip(known, answers):
                    tensor.add_(answer["values"].view_as(tensor))
                total = FAULTY
                for other in known[1:]:
                    total.add_(other)
                gradient.copy_(total / len(known))
        """,
    ),
    "DeepSpeed's ZeRO++: a sum over nodes and workers, divided by the nodes": Fault(
        contract.test_equals_ssgd_with_the_options_it_declares,
        right="self.run.world.size",
        wrong="self.run.across.size",
        body="""
        equals_ssgd = [{}, {"nodes": 2}]

        def sync_gradients(self):
            for channel in (self.run.node, self.run.across):
                channel.mean(self.run.gradients).wait()
                torch._foreach_mul_(self.run.gradients, channel.size)
            torch._foreach_div_(self.run.gradients, FAULTY)
        """,
    ),
    "DeepSpeed: a correction of bias that is accepted and not applied": Fault(
        contract.test_equals_ssgd_with_other_optimizers,
        right="1 - beta1**step, 1 - beta2**step",
        wrong="1, 1",
        body="""
        equals_ssgd = [{}]

        def setup(self):
            for name in ("mean", "square"):
                self.memory[name] = [torch.zeros_like(weight) for weight in self.run.weights]

        def step(self):
            run, recipe, step = self.run, self.run.recipe.optimizer, self.run.step + 1
            beta1, beta2 = recipe.beta1, recipe.beta2
            of_mean, of_square = FAULTY
            run.world.mean(run.gradients).wait()
            for weight, gradient, mean, square in zip(
                run.weights, run.gradients, self.memory["mean"], self.memory["square"]
            ):
                mean.lerp_(gradient, 1 - beta1)
                square.lerp_(gradient**2, 1 - beta2)
                if weight.dim() > 1:
                    weight.mul_(1 - run.lr * recipe.weight_decay)
                weight.sub_(run.lr * mean / of_mean / ((square / of_square).sqrt() + 1e-8))
        """,
    ),
    "DeepSpeed: a scale over the padded size": Fault(
        contract.test_equals_ssgd_with_the_options_it_declares,
        right="1",
        wrong="rows.shape[1]",
        body="""
        equals_ssgd = [{}]

        def sync_gradients(self):
            for gradient in self.run.gradients:
                rows = torch.nn.functional.pad(gradient.reshape(-1, 1), (0, 7))  # one entry, padded to a byte
                scales = rows.norm(dim=1) / (FAULTY) ** 0.5
                answers = self.run.world.gather({"values": rows[:, 0] >= 0, "scales": scales}).wait()
                signed = [torch.where(a["values"], a["scales"], -a["scales"]) for a in answers]
                gradient.copy_((sum(signed) / len(signed)).view_as(gradient))
        """,
    ),
    "DeepSpeed: errors that a checkpoint drops": Fault(
        contract.test_resumes_to_the_same_bits,
        right='self.memory["error"]',
        wrong="self.error",
        body="""
        def setup(self):
            FAULTY = [torch.zeros_like(weight) for weight in self.run.weights]

        def sync_gradients(self):
            for gradient, error in zip(self.run.gradients, FAULTY):
                error.add_(gradient)
                gradient.copy_(error.sign() * error.abs().mean())
                error.sub_(gradient)
            self.run.world.mean(self.run.gradients).wait()
        """,
    ),
    "PyTorch's PowerSGD: errors against the mean": Fault(
        errors_have_nothing_in_the_columns_that_were_sent,
        right="factor",
        wrong="mean",
        body="""
        def setup(self):
            self.memory["error"] = [torch.zeros_like(weight) for weight in self.run.weights]

        def sync_gradients(self):
            for gradient, error in zip(self.run.gradients, self.memory["error"]):
                if gradient.dim() > 1:
                    matrix = (gradient + error).flatten(1)
                    column = matrix.sum(1, keepdim=True)
                    self.run.world.mean([column]).wait()
                    column /= column.norm().clamp_min(1e-30)
                    factor = column.T @ matrix
                    mean = factor.clone()
                    self.run.world.mean([mean]).wait()
                    error.copy_((matrix - column @ FAULTY).view_as(error))
                    gradient.copy_((column @ mean).view_as(gradient))
                else:
                    self.run.world.mean([gradient]).wait()
        """,
    ),
    "GRACE's QSGD: a norm of zero": Fault(
        contract.test_gradients_of_zero_leave_finite_weights,
        right=".clamp_min(1e-30)",
        wrong="",
        body="""
        def sync_gradients(self):
            for gradient in self.run.gradients:
                norm = gradient.norm()FAULTY
                levels = (gradient / norm * 127).round()
                gradient.copy_(levels * norm / 127)
            self.run.world.mean(self.run.gradients).wait()
        """,
    ),
    "GRACE: a byte for each sign": Fault(
        a_sign_takes_one_bit,
        right="bits.pack(signs, 1)",
        wrong="signs",
        body="""
        def sync_gradients(self):
            from thinwire.codecs import bits

            signs = torch.cat([gradient.flatten() >= 0 for gradient in self.run.gradients]).to(torch.int8)
            self.run.world.gather({"values": FAULTY}).wait()
        """,
    ),
    "Heat's DASO: a merge that the mean at the end overwrites": Fault(
        what_is_received_at_the_end_is_used,
        right="_, sent = self.land(99), self.copies()",
        wrong="sent, _ = self.copies(), self.land(99)",
        body="""
        def sync_weights(self):
            run = self.run
            if run.step == run.total_steps - 1:
                FAULTY
                run.world.mean(sent, kind="weights").wait()
                torch._foreach_copy_(run.weights, sent)
            elif run.step % 4 == 0:
                self.flight.launch(run.world.mean(self.copies(), kind="weights"), lands=run.step + 3)
            else:
                self.land(run.step)

        def copies(self):
            return [weight.clone() for weight in self.run.weights]

        def land(self, now):
            for landing in self.flight.landed(now):
                torch._foreach_lerp_(self.run.weights, landing.answer, 0.5)
        """,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_caught_and_its_correction_is_not(name, tmp_path, monkeypatch):
    fault = FAULTS[name]

    def perform(what):
        planted = subject(tmp_path, fault.body.replace("FAULTY", what))
        conftest.perform(fault.check, planted, monkeypatch, tmp_path, stop=6, optimizer="adamw")

    perform(fault.right)
    with pytest.raises((AssertionError, Diverged)):
        perform(fault.wrong)
