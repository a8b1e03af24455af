"""Faults of public code, each as a few lines of a method, and the check that catches it.

Each method is here twice: as it should be, and with its fault. The check must tell the two apart.
docs/checks.md names the projects, and the files in which the fault was read.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.contract import conftest
from tests.contract import test_contract as contract
from tests.contract.planted import subject
from thinwire.train.evaluation import Diverged


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
