"""Parts of benchmarks: counts instead of times, all-reduce on two ranks, branches for GPUs, mutations."""

import importlib
import os
import re
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import all_reduce, mutations
from tests import processes, small
from thinwire.codecs import select
from thinwire.config.expand import cells
from thinwire.config.hardware import load_accelerator, load_cluster
from thinwire.config.yaml_file import Module
from thinwire.plugins import ROOT
from thinwire.simulation.without_data import CellWithoutData

VIEWS = (
    *("view", "slice", "select.", "t.", "transpose", "as_strided", "unsqueeze", "expand", "detach", "alias"),
)


class Counted(TorchDispatchMode):
    """Inside it, the operations on tensors are counted, and the entries that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = str(function).removeprefix("aten.")
        if not name.startswith(VIEWS):
            # Of the tensor that an index selects from, no more is read than what is found.
            read = () if name.startswith("index") else (args, kwargs)
            tensors = [leaf for leaf in tree_leaves((read, result)) if isinstance(leaf, torch.Tensor)]
            self.operations += 1
            self.entries += sum(tensor.numel() for tensor in tensors)
        return result


def test_the_engine_does_no_more_on_tensors_than_a_loop_by_hand(monkeypatch):
    """benchmarks/engine.py measures the seconds of both."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("engine")
    monkeypatch.setattr(benchmark, "WORKERS", 4)
    task = small.task(workers=4, epochs=9, evaluate_every_epochs=9)
    engine, hand = benchmark.a_trainer(task), benchmark.HandWritten(task)
    engine.train(until=2)
    hand.train(2)
    with Counted() as by_engine:
        engine.train(until=4)
    with Counted() as by_hand:
        hand.train(2)
    assert by_engine.operations <= 1.02 * by_hand.operations
    assert by_engine.entries <= 1.02 * by_hand.entries


@pytest.mark.parametrize(
    ("name", "density", "passes"), [("exact", 0.01, 5.0), ("sampled", 0.001, 4.0), ("random", 0.001, 1.1)]
)
def test_a_selection_reads_a_long_row_a_few_times(name, density, passes):
    """benchmarks/codecs.py measures the seconds of a pass."""
    numel = 1_000_000
    row = torch.randn(numel, generator=torch.Generator().manual_seed(1))
    with Counted() as counted:
        select.SELECT[name]([row], [int(density * numel)], torch.Generator().manual_seed(1))
    assert counted.entries <= passes * numel


LINE = re.compile(r" *([\d,]+) bytes: +([\d.]+) ms, +([\d.]+) GB/s")


def _rank(number: int) -> str:
    """What this rank prints, with the variables that srun would set, at sizes that take no minute."""
    step = {"SLURM_PROCID": str(number), "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "localhost"}
    os.environ.update(step)
    sys.argv = ["all_reduce.py", "gloo"]
    all_reduce.SIZES = (1024, 32768)
    with redirect_stdout(StringIO()) as said:
        all_reduce.main()
    return said.getvalue()


def test_of_all_reduce_the_first_rank_prints_a_line_for_each_size():
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda number: processes.apart(_rank, number), range(2))
    assert second == ""
    lines = [LINE.fullmatch(line) for line in first.splitlines()]
    assert [line[1] for line in lines] == ["1,024", "32,768"]
    for line in lines:
        # On two ranks, a ring sends as many bytes as there are. Both numbers have three decimals.
        size, milliseconds, rate = (float(number.replace(",", "")) for number in line.groups())
        assert abs(rate - size / milliseconds / 1e6) < 0.0006 + 0.0006 * rate / milliseconds


def test_described_steps_have_each_kind_once_and_a_share_of_the_servers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("method_steps")
    first = next(cell for cell in cells("times/cifar10") if cell.method.label == "ps_sgd")
    small_one = replace(first, model=Module("cnn", "cnn", {"width": 4}))
    made = CellWithoutData(small_one, benchmark.CLUSTER.workers_per_node, "h100_bf16")
    kinds = benchmark.kinds(made)
    simulated = made.on(load_cluster("infiniband_800g_4gpus"), benchmark.CLUSTER.nodes)
    computed = sum(seconds for kind, seconds in kinds.items() if kind != "server")
    assert computed == pytest.approx(1e3 * simulated.compute_seconds)
    # Each of the six tensors has a server, which runs two operations for the push of each of four workers.
    operation = load_accelerator("h100_bf16").operation_seconds
    assert kinds["server"] == pytest.approx(1e3 * 6 * 8 * operation / 4)


def test_methods_that_the_record_of_steps_does_not_have_are_left_out(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("method_steps")
    monkeypatch.setattr(benchmark, "CellWithoutData", lambda *cell: None)
    monkeypatch.setattr(benchmark, "kinds", lambda made: {"forward": 20.0})
    benchmark.main(Namespace())
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for suite, network in benchmark.SUITES.items():
        labels = [made.cell.method.label for made in benchmark.measured(suite)]
        assert [words[1] for words in lines if words[0] == network] == labels


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


def test_each_mutation_changes_one_line_that_thinwire_still_has():
    for mutation in mutations.read():
        path, number = mutation.place(ROOT)
        assert mutation.becomes != path.read_text().splitlines()[number].strip()
