"""Each process uses its worker's own GPU, which is warm when the clocks run; how these and torch are set."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

import thinwire
from tests import processes, small
from tests.fake_gpu import CUDA
from thinwire.base.errors import UserError
from thinwire.base.placement import Address, Cluster, SharedFile
from thinwire.config.expand import cells
from thinwire.records.provenance import provenance
from thinwire.train import run_setup
from thinwire.train import trainer as trainer_module
from thinwire.train.cell_task import deterministic, device_of, require_precision
from thinwire.train.clock import Clock, StreamClock, clock_on
from thinwire.train.passes import Passes
from thinwire.train.trainer import warm_up
from thinwire.train.worker import seed_global_generators
from thinwire.transport import device as nccl_settings
from thinwire.transport.device import open_nccl_communicators
from thinwire.transport.endpoint import Endpoint
from thinwire.transport.inprocess import InProcess

CELL = cells("demo")[0]
ON_GPUS = replace(CELL, device="cuda", workers=4, nodes=1)
CPU, THIRD = torch.device("cpu"), torch.device("cuda", 2)


class Stop(Exception):
    """Ends the pass or the setup before it begins."""


@pytest.fixture
def made_current(monkeypatch):
    """The devices that were made current."""
    devices = []
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    return devices


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100-SXM4-40GB")


def test_dropout_is_seeded_on_the_gpu_of_the_worker(monkeypatch):
    """Whatever GPU is the current one: here, as in CUDA, the first one is."""
    generators = tuple(torch.Generator() for _ in range(4))
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    monkeypatch.setattr(torch.cuda, "manual_seed", generators[0].manual_seed)
    before = [generator.initial_seed() for generator in generators]
    seed_global_generators(THIRD, 7)
    assert torch.default_generator.initial_seed() == 7
    assert [g.initial_seed() for g in generators] == [*before[:2], 7, before[3]]


def test_every_thread_that_handles_tensors_uses_the_workers_gpu(made_current):
    """On a CPU nothing is made current."""
    for device, expected in ((THIRD, [THIRD, THIRD]), (CPU, [])):
        made_current.clear()
        endpoint = Endpoint((0, 1), object(), 0, Cluster(2, 2), device)
        for pool in (endpoint._waiting, endpoint._in_order):
            pool.submit(torch.get_num_threads).result()
            pool.shutdown()
        assert made_current == expected


def test_a_run_makes_its_gpu_current_before_it_computes(made_current, monkeypatch):
    def computes(device, precision):
        assert made_current == [THIRD]
        raise Stop

    monkeypatch.setattr(run_setup, "device_of", lambda cell, place: THIRD)
    monkeypatch.setattr(run_setup, "deterministic", computes)
    with pytest.raises(Stop):
        run_setup.RunSetup(CELL, Path("results"), InProcess(CELL.workers)).load()


def test_a_tensor_that_is_there_is_not_moved():
    there = torch.ones(1)
    assert thinwire.moved_to(CPU, there) is there


def test_the_device_of_a_worker_names_its_gpu(four_gpus):
    assert device_of(replace(ON_GPUS, transport="inprocess")) == torch.device("cuda", 0)
    assert device_of(replace(ON_GPUS, transport="processes"), 2) == THIRD


@pytest.mark.parametrize("transport", ["inprocess", "processes"])
def test_a_part_of_a_gpu_is_refused(four_gpus, monkeypatch, transport):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    with pytest.raises(UserError, match=r"MIG 1g\.5gb of .* is a part of a GPU \(MIG\): take a whole one"):
        device_of(replace(ON_GPUS, transport=transport))


def test_the_first_pass_is_waited_for_and_leaves_no_gradient(gpu, monkeypatch):
    model = small.Net()
    passes = []
    model.linear.register_forward_hook(lambda *_: passes.append("forward"))
    with torch.no_grad():
        warm_up(model, torch.rand(4, 1, 8, 8), torch.arange(4), Passes(small.recipe(), CPU))
    assert passes == ["forward"]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert gpu.synchronised == 1
    # A run on CPUs makes no such pass.
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


@pytest.mark.parametrize("mode", ["bits", "timing"])
def test_what_the_user_has_set_is_kept_and_timing_leaves_to_nccl_what_is_only_about_speed(monkeypatch, mode):
    """A change to a new dictionary, because the settings stay in the environment."""
    monkeypatch.setattr(os, "environ", {"NCCL_ALGO": "Tree", "PATH": "/bin"})
    nccl_settings.choose_nccl_settings(Address("first", 1, "srun 7.0.1"), mode)
    assert os.environ == {
        "NCCL_ALGO": "Tree",
        **({"NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0"} if mode == "bits" else {}),
        "NCCL_LAUNCH_ORDER_IMPLICIT": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
        "TORCH_NCCL_ENABLE_MONITORING": "0",
        "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
        "PATH": "/bin",
    }
    # On one machine NCCL listens on the loopback alone.
    monkeypatch.setattr(os, "environ", {"NCCL_SOCKET_IFNAME": "eth0"})
    nccl_settings.choose_nccl_settings(SharedFile("meeting", "lo"), mode)
    assert os.environ["NCCL_SOCKET_IFNAME"] == "lo"
    assert ("NCCL_ALGO" in os.environ) == (mode == "bits")


def test_work_in_the_queue_belongs_to_the_clock_that_ran_when_it_was_put_there(gpu):
    # On CPUs a clock is switched without events.
    assert [type(clock_on(torch.device(name))) for name in ("cpu", "cpu:0")] == [Clock, Clock]
    clock = clock_on(CUDA)
    assert isinstance(clock, StreamClock)
    gpu.compute(1)
    clock.switch("train")
    gpu.put(10)
    clock.switch("harness")
    # The stream is still busy with training, so the harness costs nothing.
    gpu.compute(2)
    clock.switch("train")
    gpu.put(10)
    clock.switch("harness")
    assert gpu.host == 3, "nothing was waited for"
    assert clock.read() == {"train": 20, "eval": 0, "harness": 1}
    assert gpu.host == 21, "the clocks are known when the stream has done its work"
    gpu.compute(5)
    clock.switch("eval")
    gpu.put(4)
    clock.switch("harness")
    assert clock.read() == {"train": 20, "eval": 4, "harness": 6}
    gpu.compute(3)
    clock.rename("train")
    assert clock.read() == {"train": 20, "eval": 4, "harness": 6}
    clock.switch("eval")
    assert clock.read() == {"train": 23, "eval": 4, "harness": 6}, "since the last switch"
    assert gpu.synchronised == 0


def test_what_the_stream_has_done_is_counted_at_once_so_that_no_events_pile_up(gpu):
    """Also beside the seconds of an earlier attempt."""
    clock = clock_on(CUDA)
    clock.load({"train": 7.0, "eval": 2.0, "harness": 1.0})
    for _ in range(100):
        clock.switch("train")
        gpu.put(1)
        clock.switch("harness")
        gpu.compute(1)
    assert len(clock._switches) <= 3
    assert clock.read() == {"train": 107, "eval": 2, "harness": 1}


def settings():
    """By device and precision: how torch rounds, what the record says of it, and whether memory is filled."""
    torch.cuda.get_device_name = lambda device: "a GPU"
    torch.cuda.nccl.version = lambda: (2, 28, 9)
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    found = []
    for name, precision in (("cuda:0", "tf32"), ("cuda:0", "bf16"), ("cuda:0", "fp32"), ("cpu", "fp32")):
        device = torch.device(name)
        deterministic(device, precision)
        rounds = [cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark]
        hardware = provenance(device, {})["hardware"]
        recorded = [hardware["tf32_in_convolutions"], hardware["tf32_in_matrix_products"]]
        found.append((rounds, recorded, torch.utils.deterministic.fill_uninitialized_memory))
    return found


def test_only_a_recipe_with_tf32_rounds_to_it_on_a_gpu_and_the_record_says_so():
    """The settings are made in a process of their own, because they last."""
    found, recorded, fills = zip(*processes.apart(settings))
    assert found[:3] == ([True, True, False], [False, False, False], [False, False, False])
    assert recorded == ([True, True], [False, False], [False, False], [None, None])
    assert not any(fills), "runs do not fill the memory of new tensors"


@pytest.mark.parametrize(("precision", "capability"), [("tf32", (7, 5)), ("bf16", (7, 0))])
def test_a_gpu_without_the_precision_of_a_recipe_is_refused(monkeypatch, precision, capability):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "an old GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with pytest.raises(UserError, match=f"an old GPU has no {precision}, .* take fp32, or another GPU$"):
        require_precision(CUDA, precision)
    require_precision(CUDA, "fp32")
    require_precision(CPU, precision)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    require_precision(CUDA, precision)


def test_tests_fill_the_memory_of_new_tensors_with_nan():
    assert torch.are_deterministic_algorithms_enabled()
    assert bool(torch.empty(1000).isnan().all())
