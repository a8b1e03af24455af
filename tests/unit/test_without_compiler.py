"""Processes that train do not import PyTorch's compiler."""

import subprocess
import sys
from functools import cache

import pytest

NAMES = ("sgd", "lars", "adam")
# Each optimizer has a process of its own, a fork of one that has imported torch.
TRAIN = f"""
import os
import sys
import torch
from thinwire.optim.optimizer import make_optimizer
from thinwire.optim.recipe import Optimizer

def train(name):
    weights = [torch.nn.Parameter(torch.ones(3))]
    optimizer = make_optimizer(Optimizer(name=name, lr=0.1), weights)
    optimizer.zero_grad()
    weights[0].grad = torch.arange(3.0)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    print("torch._dynamo" in sys.modules, weights[0].tolist(), flush=True)

for name in {NAMES}:
    if os.fork() == 0:
        train(name)
        os._exit(0)
    os.wait()
"""
# The same with optimizers that import the compiler.
WITH_COMPILER = """
import torch
import thinwire.optim.optimizer
thinwire.optim.optimizer.keep_compiler_out = lambda: None
thinwire.optim.optimizer.Sgd = torch.optim.SGD
thinwire.optim.optimizer.Adam = torch.optim.Adam
"""


@cache
def printed(code):
    """What a process with this code prints of each optimizer."""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(zip(NAMES, ended.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_steps_to_the_same_bits_without_the_compiler(name):
    without, with_compiler = printed(TRAIN)[name], printed(WITH_COMPILER + TRAIN)[name]
    assert without.startswith("False ")
    assert with_compiler == without.replace("False", "True")
