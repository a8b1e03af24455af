"""The settings of torch. Those of runs are made in a process of their own, because they last."""

import json
import subprocess
import sys

import pytest
import torch

from thinwire.plugins import ROOT

SETTINGS = """
import json, torch
from thinwire.records.provenance import provenance
from thinwire.train.cell_task import deterministic

torch.cuda.get_device_name = lambda device: "a GPU"
torch.cuda.nccl.version = lambda: (2, 28, 9)
device = torch.device({device!r})
deterministic(device)
cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
found = [cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark]
fills = torch.utils.deterministic.fill_uninitialized_memory
print(json.dumps([found, provenance(device)["hardware"], fills]))
"""


def settings(device):
    command = [sys.executable, "-W", "error", "-c", SETTINGS.format(device=device)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize(("device", "recorded"), [("cuda:0", False), ("cpu", None)])
def test_no_operation_on_a_gpu_rounds_to_tf32_and_the_record_says_so(device, recorded):
    found, hardware, fills = settings(device)
    assert device == "cpu" or found == [False, False, False]
    assert hardware["tf32_in_convolutions"] is recorded
    assert hardware["tf32_in_matrix_products"] is recorded
    assert fills is False, "runs do not fill the memory of new tensors"


def test_tests_fill_the_memory_of_new_tensors_with_nan():
    assert torch.are_deterministic_algorithms_enabled()
    assert bool(torch.empty(1000).isnan().all())
