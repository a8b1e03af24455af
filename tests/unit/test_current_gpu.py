"""Each process and each thread uses its worker's own GPU, not the first one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from thinwire.base.placement import Cluster
from thinwire.config.expand import cells
from thinwire.train import run_setup, worker
from thinwire.train.cell_task import device_of
from thinwire.train.worker import seed_global_generators
from thinwire.transport.endpoint import Endpoint
from thinwire.transport.inprocess import InProcess

CELL = cells("demo")[0]
THIRD = torch.device("cuda", 2)


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


def test_dropout_is_seeded_on_the_gpu_of_the_worker(monkeypatch):
    """Whatever GPU is the current one: here, as in CUDA, the first one is."""
    generators = tuple(torch.Generator() for _ in range(4))
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    monkeypatch.setattr(torch.cuda, "manual_seed", generators[0].manual_seed)
    before = [generator.initial_seed() for generator in generators]
    seed_global_generators(THIRD, 7)
    assert torch.default_generator.initial_seed() == 7
    assert [g.initial_seed() for g in generators] == [*before[:2], 7, before[3]]


def test_a_worker_seeds_the_generators_of_the_device_on_which_its_images_are(monkeypatch):
    seeded = []
    monkeypatch.setattr(worker, "seed_global_generators", lambda device, seed: seeded.append((device, seed)))

    class Stop(Exception):
        """Ends the forward pass before it begins."""

    def model(images):
        raise Stop

    stub = SimpleNamespace(
        _forward_seed=13,
        run=SimpleNamespace(params=[]),
        _ready_hooks=None,
        model=model,
    )
    with pytest.raises(Stop):
        worker.Worker.compute_gradients(stub, SimpleNamespace(device=THIRD), None)
    assert seeded == [(THIRD, 13)]


def test_every_thread_that_handles_tensors_uses_the_workers_gpu(made_current):
    """On a CPU nothing is made current."""
    for device, expected in ((THIRD, [THIRD, THIRD]), (torch.device("cpu"), [])):
        made_current.clear()
        endpoint = Endpoint((0, 1), object(), 0, Cluster(2, 2), device)
        for pool in (endpoint._waiting, endpoint._in_order):
            pool.submit(torch.get_num_threads).result()
            pool.shutdown()
        assert made_current == expected


def test_a_run_makes_its_gpu_current_before_it_computes(made_current, monkeypatch):
    class Stop(Exception):
        """Ends the setup."""

    def computes(device):
        assert made_current == [THIRD]
        raise Stop

    monkeypatch.setattr(run_setup, "device_of", lambda cell, place: THIRD)
    monkeypatch.setattr(run_setup, "deterministic", computes)
    with pytest.raises(Stop):
        run_setup.RunSetup(CELL, Path("results"), InProcess(CELL.workers)).load()


def test_the_device_of_a_worker_names_its_gpu(four_gpus):
    cell = replace(CELL, device="cuda", workers=4, nodes=1)
    assert device_of(replace(cell, transport="inprocess")) == torch.device("cuda", 0)
    assert device_of(replace(cell, transport="processes"), 2) == THIRD
