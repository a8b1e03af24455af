"""What a GPU and NCCL need to start is done before the clocks run, with settings that the user may change."""

import os
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from tests import small
from tests.fake_gpu import CUDA, FakeGpu
from thinwire.base.placement import Address, SharedFile
from thinwire.train import trainer as trainer_module
from thinwire.train.trainer import warm_up
from thinwire.transport import device as nccl_settings
from thinwire.transport.device import open_nccl_communicators


@pytest.fixture
def gpu(monkeypatch):
    made = FakeGpu()
    made.install(monkeypatch)
    return made


def test_the_first_pass_is_waited_for_and_changes_nothing_of_the_model(gpu):
    """Not even the statistics of batch norm, or a gradient."""
    model = small.Net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    passes = []
    model.linear.register_forward_hook(lambda *_: passes.append("forward"))
    with torch.no_grad():
        warm_up(model, torch.rand(4, 1, 8, 8), torch.arange(4))
    assert passes == ["forward"]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert gpu.synchronised == 1


def test_a_run_on_cpus_makes_no_pass_before_its_first_step(monkeypatch):
    monkeypatch.setattr(trainer_module, "warm_up", lambda *_: pytest.fail("no GPU is here"))
    small.trainer(small.task(2), "ssgd")


def test_each_communicator_is_open_before_the_next_one_starts(gpu, monkeypatch):
    """A rank is in several groups, and two that start at once may wait for each other."""
    happened = []
    zeros = torch.zeros

    def on_this_device(size, device):
        happened.append(device)
        return zeros(size)

    def exchange(received, numbers, group):
        assert len(received) == len(numbers) == group.size()
        happened.append(("links of", group))

    monkeypatch.setattr(torch, "zeros", on_this_device)
    monkeypatch.setattr(dist, "all_reduce", lambda number, group: happened.append(("ring of", group)))
    monkeypatch.setattr(dist, "all_to_all_single", exchange)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: happened.append("waits"))
    world, node = SimpleNamespace(size=lambda: 4), SimpleNamespace(size=lambda: 2)
    open_nccl_communicators([world, node], CUDA)
    assert happened == [
        *(CUDA, ("ring of", world), CUDA, ("links of", world), "waits"),
        *(CUDA, ("ring of", node), CUDA, ("links of", node), "waits"),
    ]


def test_what_the_user_has_set_is_kept(monkeypatch):
    """A change to a new dictionary, because the settings stay in the environment."""
    monkeypatch.setattr(os, "environ", {"NCCL_ALGO": "Tree", "PATH": "/bin"})
    nccl_settings.choose_nccl_settings(Address("first", 1, "srun 7.0.1"))
    assert os.environ == {
        "NCCL_ALGO": "Tree",
        "NCCL_PROTO": "Simple",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_LAUNCH_ORDER_IMPLICIT": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
        "PATH": "/bin",
    }


def test_on_one_machine_nccl_listens_on_the_loopback_alone(monkeypatch):
    monkeypatch.setattr(os, "environ", {"NCCL_SOCKET_IFNAME": "eth0"})
    nccl_settings.choose_nccl_settings(SharedFile("meeting", "lo"))
    assert os.environ["NCCL_SOCKET_IFNAME"] == "lo"
