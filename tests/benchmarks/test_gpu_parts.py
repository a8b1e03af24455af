"""Parts of the benchmark for GPUs take their branches for GPUs, on an accelerator without hardware."""

import importlib
import sys
from typing import Any

import pytest
import torch

from tests import processes
from thinwire.plugins import ROOT


def part_apart(name: str) -> tuple[dict[str, Any], list[str]]:
    """What a part has found, in a process that has the accelerator. It counts no memory, and no kernels."""
    from tests import accelerator

    sys.path.insert(0, str(ROOT / "benchmarks"))
    part = importlib.import_module("gpu_parts.part")
    found = part.Found()
    with pytest.MonkeyPatch.context() as monkeypatch:
        accelerator.install(monkeypatch)
        for counter in ("empty_cache", "reset_peak_memory_stats"):
            monkeypatch.setattr(torch.cuda, counter, lambda: None)
        for counter in ("memory_allocated", "max_memory_allocated"):
            monkeypatch.setattr(torch.cuda, counter, lambda: 0)
        monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {"allocation.all.allocated": 0})
        module = importlib.import_module(f"gpu_parts.{name}")
        module.part(part.Place(accelerator.DEVICE, small=True), found)
    return found.figures, found.broken


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["augmentation", "equal_bits", "memory_of_workers", "replicas", "waits_of_methods"]
)
def test_a_part_takes_its_branches_for_gpus(name):
    figures, broken = processes.apart(part_apart, name)
    assert broken == []
    assert figures
    if name == "replicas":
        # Only a GPU has graphs.
        assert [way for way, made in figures.items() if isinstance(made, str)] == ["graph"]


@pytest.mark.parametrize("left", [2**20, 2**30])
def test_memory_is_filled_although_the_driver_gives_less_than_is_free(monkeypatch, left):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    full_memory = importlib.import_module("gpu_parts.full_memory")
    part = importlib.import_module("gpu_parts.part")
    kept, free = 64 * 2**20, [5 * 2**30 + 12345]

    def take(size: int, **_: Any) -> int:
        if size > free[0] - kept:
            raise torch.OutOfMemoryError
        free[0] -= size
        return size

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[0], 0))
    monkeypatch.setattr(torch, "empty", take)
    full_memory._fill(part.Place(torch.device("cuda", 0), small=False), left)
    assert 0 <= free[0] - max(left, kept) < 2**21
