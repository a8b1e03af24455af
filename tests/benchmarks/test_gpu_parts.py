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
