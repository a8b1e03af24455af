"""The suites that come with the project."""

import math
import subprocess
from functools import cache

import pytest
import torch
from torch import nn

from methods.hylo.options import COMPRESSED
from tests import project
from tests.project import untuned
from thinwire import plugins
from thinwire.api.parameters import in_buckets, parameters
from thinwire.base.options import resolve
from thinwire.codecs import select
from thinwire.config import expand, suite
from thinwire.config.entry_schema import EVERY, Entry
from thinwire.config.suite import load
from thinwire.optim.recipe import Optimizer
from thinwire.plugins import ROOT
from thinwire.report.tables.about import note, own_recipes


@pytest.mark.parametrize("name", project.SUITES)
def test_every_suite_is_valid_and_has_the_strong_baseline(name):
    """SSGD in full precision and in 16 bits, as the rules want it."""
    expand.require_valid(name)
    ssgd = [cell.method.options for cell in expand.cells(name) if cell.method.use == "ssgd"]
    assert {"full", "bfloat16"} <= {options.get("gradients", "full") for options in ssgd}


def test_every_committed_suite_is_tested():
    listed = subprocess.check_output(["git", "ls-files", "config"], cwd=ROOT, text=True).splitlines()
    committed = {name.removeprefix("config/").removesuffix(".yaml") for name in listed}
    assert committed & {*suite.suite_names()} == {*project.SUITES}


def test_suites_of_times_on_gpus_leave_nccl_its_fastest_ways():
    """By default it takes those whose sums repeat to the bit."""
    over_nccl = ("cuda", "processes")
    timed = [made for made in map(load, project.SUITES) if (made.device, made.transport) == over_nccl]
    assert {made.nccl for made in timed} == {"timing"}


def test_only_the_demo_takes_methods_that_it_does_not_name():
    assert [name for name in project.SUITES if EVERY in suite.load(name).methods] == ["demo"]


def test_a_method_that_was_added_later_is_no_part_of_what_ran(tmp_path, monkeypatch):
    before = project.demo()
    ran = {cell.method.label for cell in before}
    added = project.add_method(tmp_path, monkeypatch)
    now = [cell for cell in expand.cells("demo") if cell.method.label in {*ran, added}]
    assert len(now) > len(before)
    assert expand.cells_as_it_ran("demo", ran) == before
    assert expand.cells_as_it_ran("demo", {*ran, added}) == now
    assert expand.cells_as_it_ran("demo", {"ssgd"}) == before, "a subset lacks what the suite names"


@pytest.mark.parametrize("claim", ["multi_step_delay", "hylo", "mp2", "hsgd", "daso"])
def test_every_publication_has_a_suite_with_ten_repetitions(claim):
    assert claim in {cell.method.use for cell in expand.cells(f"claims/{claim}")}
    assert suite.load(f"claims/{claim}").repetitions == 10


def test_an_entry_may_have_a_reading_a_batch_and_an_optimizer_of_its_own(monkeypatch):
    laptop = untuned("laptop")
    large = Entry(use="hsgd", batch=512, optimizer=Optimizer(name="lars", lr=2.0))
    entries = laptop.methods | {"large": large, "read": Entry(use="ssgd", reading="strided")}
    changed = laptop.model_copy(update={"methods": entries, "simulate": None})
    monkeypatch.setattr(expand, "load", lambda name: changed)
    found = {cell.method.label: cell for cell in expand.cells("laptop") if cell.repetition == 0}
    recipe = found["large"].recipe
    assert recipe == laptop.recipe.model_copy(update={"batch": 512, "optimizer": large.optimizer})
    assert recipe.optimizer.weight_decay == 0, "no key of the suite's optimizer is left"
    assert found["read"].recipe == laptop.recipe.model_copy(update={"reading": "strided"})
    assert found["read"].fingerprint != found["ssgd"].fingerprint
    assert found["ssgd"].recipe == laptop.recipe
    assert len({found[label].seed for label in ("ssgd", "large", "read")}) == 1, "the runs are paired"


def test_the_tables_say_which_batch_and_optimizer_differ_from_those_of_the_suite():
    entry = Entry(use="hsgd", batch=512, optimizer=Optimizer(name="lars", lr=2.0, momentum=0.5, trust=0.02))
    laptop = untuned("laptop")
    changed = laptop.model_copy(update={"methods": {"ssgd": Entry(), "large": entry}})
    assert own_recipes(changed) == {
        "large": "batch 512, lars, lr 2, weight_decay 0, momentum 0.5, trust 0.02, lr_inside_momentum True"
    }
    assert "(batch 128, sgd, lr 0.1," in note(changed)
    assert not own_recipes(laptop)


@cache
def cells_on_gpus():
    """One for each data set, model and method of each suite on GPUs."""
    suites = {name: load(name) for name in project.SUITES}
    return [
        cell
        for name, made in suites.items()
        if made.device == "cuda"
        for cell in expand.cells(name)
        if (cell.repetition, cell.size_label) == (0, made.workers[0].label)
    ]


NETWORKS = {}


def network(cell):
    """Built once for each model and data set: only shapes count."""
    key = str((cell.data, cell.model))
    if key not in NETWORKS:
        dataset = plugins.get("dataset", cell.data.use).load()
        model = plugins.get("model", cell.model.use).load()
        data = dataset(resolve(dataset, cell.data.options))
        with torch.device("meta"):
            NETWORKS[key] = model(resolve(model, cell.model.options), data.shape, data.classes)
    return NETWORKS[key]


@cache
def entries(use):
    """Of each entry of a method in a suite: its options, and one model for each data set and model."""
    method, found = plugins.get("method", use).load(), {}
    for cell in cells_on_gpus():
        if cell.method.use == use:
            own = resolve(method, cell.method.options), []
            found.setdefault((cell.suite, cell.method.label), own)[1].append(network(cell))
    return found


@pytest.mark.parametrize(
    ("kind", "threshold"), [(nn.Conv2d, "conv_threshold"), (nn.Linear, "linear_threshold")]
)
def test_hylo_compresses_large_layers_of_both_kinds_and_leaves_small_ones(kind, threshold):
    found = entries("hylo")
    assert len(found) > 1
    for place, (options, networks) in found.items():
        layers = [layer for network in networks for layer in network.modules()]
        sizes = [layer.weight.numel() for layer in layers if isinstance(layer, kind)]
        if not sizes:
            continue  # the network of a text has no convolutions
        assert getattr(options, threshold) < max(sizes), place
        # Of a thousand classes or a large decoder, no linear layer is small.
        large = ("paper/time", "times/")
        assert min(sizes) <= getattr(options, threshold) or place[0].startswith(large), place


def pushed_bytes(options, parameters):
    """What a worker pushes in a step, without the scales and numbers of kernels, which are few."""
    total = 0
    for parameter in parameters:
        kind = "conv" if parameter.dim() > 2 else "linear"
        size = parameter.numel()
        if parameter.dim() == 1 or size <= getattr(options, f"{kind}_threshold"):
            total += 4 * size
        elif COMPRESSED[options.compression][kind] == "two bits":
            total += size / 4
        else:
            total += 4 * size / len(parameter) * math.ceil(options.least_rate * len(parameter))
    return total


def test_the_ways_that_are_compared_at_equal_bytes_push_equally_much():
    found = entries("hylo")
    labels = ["hylo_16th", "uniform_kernels_16th", "uniform_two_bits"]
    (claim,) = [claim for claim in load("claims/hylo").claim if claim.at_equal]
    assert {claim.method, *claim.against} == set(labels)
    for networks in zip(*(found["claims/hylo", label][1] for label in labels)):
        options = [found["claims/hylo", label][0] for label in labels]
        pushed = [pushed_bytes(own, network.parameters()) for own, network in zip(options, networks)]
        assert max(pushed) / min(pushed) - 1 < claim.at_equal.within_percent / 100


def test_multi_step_delay_splits_the_largest_tensor_and_waits_for_its_credit():
    found = entries("multi_step_delay")
    assert len(found) > 1
    for place, (options, networks) in found.items():
        for network in networks:
            sizes = [parameter.numel() for parameter in network.parameters()]
            assert max(sizes) > options.slice, place
            assert sum(sizes) > options.credit, place


@pytest.mark.parametrize("use", ["top_k", "dgc"])
def test_every_density_sends_several_entries_but_not_all(use):
    for place, (options, networks) in entries(use).items():
        for density in (options.density, *getattr(options, "warmup_densities", ())):
            for network in networks:
                largest = max(parameter.numel() for parameter in network.parameters())
                assert 1 < select.count(density, largest) < largest, place


def test_ssgd_sends_several_buckets_or_one_as_its_label_says():
    for place, (options, networks) in entries("ssgd").items():
        for network in networks:
            buckets = in_buckets(parameters(network), options.bucket_mb)
            assert (len(buckets) == 1) == place[1].endswith("_one_bucket"), place
