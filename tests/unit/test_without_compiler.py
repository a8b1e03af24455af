"""Processes that train do not import PyTorch's compiler."""

import subprocess
import sys

import pytest

TRAIN = """
import sys
import torch
from thinwire.optim.optimizer import make_optimizer
from thinwire.optim.recipe import Optimizer

weights = [torch.nn.Parameter(torch.ones(3))]
optimizer = make_optimizer(Optimizer(name={name!r}, lr=0.1), weights)
optimizer.zero_grad()
weights[0].grad = torch.arange(3.0)
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.step()
print("torch._dynamo" in sys.modules, weights[0].tolist())
"""
# The same with optimizers that import the compiler.
WITH_COMPILER = """
import torch
import thinwire.optim.optimizer
thinwire.optim.optimizer.keep_compiler_out = lambda: None
thinwire.optim.optimizer.Sgd = torch.optim.SGD
thinwire.optim.optimizer.Adam = torch.optim.Adam
"""


def printed(code):
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@pytest.mark.parametrize("name", ["sgd", "lars", "adam"])
def test_an_optimizer_steps_to_the_same_bits_without_the_compiler(name):
    code = TRAIN.format(name=name)
    without, with_compiler = printed(code), printed(WITH_COMPILER + code)
    assert without.startswith("False ")
    assert with_compiler == without.replace("False", "True")
