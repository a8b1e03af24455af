"""The suites that run on CPUs exercise the code of their methods, and not only their names.

A threshold above the largest tensor turns a method into another one, without a message. So each entry is
trained twice: as the suite has it, and on two nodes with options for far smaller tensors and shorter runs.
Every branch that is taken then must be taken in the suite, too: the steps from one line of the method to the
next are counted. Branches that the entry's other options rule out are taken in neither of the two. An option
that an entry sets to 0, to nothing, or to a size that no tensor has, switches a phase off, and stays.

One worker is mirrored. The images are noise, whose loss does not fall, so what follows a plateau can happen.
Preparations are random numbers in the right shapes.
"""

import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from linecache import getline
from pathlib import Path

import numpy as np
import pytest
import torch

from methods.mp2 import layers, predictor, server
from methods.wnn.forecaster import KINDS, Forecaster
from tests import project
from thinwire import plugins
from thinwire.api.parameters import in_buckets, parameters
from thinwire.api.run import Task
from thinwire.base.learning import CLASSIFICATION
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.codecs import select, sparse
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.config.yaml_file import Module
from thinwire.data.arrays import Data
from thinwire.data.dataset import Augment
from thinwire.optim.schedule import Schedule
from thinwire.records.checkpoint import write_tensors
from thinwire.simulation.mirrored import MirroredTrainer
from thinwire.transport.mirror import Mirror

pytestmark = pytest.mark.slow

# Their periods are longer than the runs here, and noise has no clients. `text` has their methods.
LONG_PERIODS = ("claims/diloco", "text_clients")
SUITES = [name for name in project.SUITES if load(name).device == "cpu" and name not in LONG_PERIODS]
# Of each method, the options that say from which size of tensor, or length of run, something happens.
SMALL = {
    "daso": {"warmup_epochs": 1, "cooldown_epochs": 0, "patience": 0, "plateau_threshold": 0.9},
    "demo_sgd": {"k": 4},
    "des_loc": {"period": 2, "first_period": 3, "second_period": 4},
    "dgc": {"density": 0.01, "warmup_densities": [0.5]},
    "diloco": {"period": 6},
    "ef21": {"density": 0.5},
    "hylo": {"conv_threshold": 32, "linear_threshold": 32},
    "local_sgd": {"period": 2},
    "multi_step_delay": {"warmup_steps": 2, "interval": 2, "slice": 512, "credit": 1024},
    "one_bit_adam": {"warmup_steps": 2},
    "power_sgd": {"dense_steps": 2, "min_gain": 0.5},
    "sparse_loco": {"period": 2, "k": 4},
    "ssgd": {"bucket_mb": 0.001},
    "top_k": {"density": 0.5},
    "wnn": {"interval_epochs": 0.2},
}
NO_SIZES = ("dion", "gossip", "hsgd", "mp2", "ps_sgd", "qsgd", "quantised_all_reduce", "sign_sgd")
# MP2 with everything pushed is the authors' baseline, and predicts nothing.
PREDICTS_NOTHING = "bsp"
# What does not run, and stays so: measured results of these suites are published with these options. The demo
# has 6 epochs between DASO's phases: with a patience of 2, its interval shortens but does not start again.
RESTART = "wait = config.max_skips // 4"
TO_WAIT = "while on_their_way and sum(size for _, size in on_their_way) + end - start > config.credit:"
TAKE = "first.append(on_their_way.pop(0)[0])"
NO_CREDIT = [
    "earlier.wait() -> for earlier in first:",
    f"{TAKE} -> {TO_WAIT}",
    "for earlier in first: -> earlier.wait()",
    f"{TO_WAIT} -> {TAKE}",
]
# Their steps are whole periods, and the 18 steps here are not.
WHOLE_PERIODS = ['if since: -> for fragment, since in enumerate(self.memory["since"]):']
KNOWN = {
    ("demo", "daso"): [
        f"if skips > 1: -> {RESTART}",
        f'{RESTART} -> return config.max_skips, max(1, wait) if config.control == "corrected" else wait',
    ],
    ("demo", "multi_step_delay"): NO_CREDIT,
    **{(suite, "diloco"): WHOLE_PERIODS for suite in ("laptop", "laptop_times", "text_demo", "tracks/v1")},
    ("sensitivity/laptop_surprises", "diloco_0.0283"): WHOLE_PERIODS,
    ("tracks/v1", "muloco"): WHOLE_PERIODS,
    ("validation", "multi_step_delay"): NO_CREDIT,
}
# Their warm-ups are longer than the runs here. Others have the same branches: `rivals`, `rivals_adamw` and
# `length/epochs_24`.
TOO_LONG = {
    ("text", "one_bit_adam"),
    ("length/images_60000", "multi_step_delay"),
    ("laptop", "power_sgd"),
    ("laptop", "acp_sgd"),
    ("laptop_times", "power_sgd"),
    ("laptop_times", "acp_sgd"),
    ("sensitivity/laptop_surprises", "acp_sgd_rank_4_0.0283"),
}
# Published likewise, with all gradients of a model in one bucket.
ONE_BUCKET = {
    *((suite, label) for suite in ("demo", "validation", "tracks/v1") for label in ("ssgd", "ssgd_bf16")),
    ("tracks/v1", "ssgd_bf16_muon"),
}
NO_TENSOR = 10**9  # is so large
STEPS_PER_EPOCH = 9
# Methods that do something else later in a run. Of the others, two epochs show everything.
WHOLE_RUN = {
    *("daso", "des_loc", "dgc", "diloco", "local_sgd", "multi_step_delay"),
    *("one_bit_adam", "power_sgd", "sparse_loco", "wnn"),
}
METHODS = Path(plugins.get("method", "ssgd").path).parent


def entries():
    """The cells of one repetition with the most workers, together if they differ only in data and model.

    Entries of several suites that train the same are one.
    """
    found = {}
    for suite in SUITES:
        every = [cell for cell in cells(suite) if cell.repetition == 0 and cell.method.use in project.METHODS]
        most = [cell for cell in every if cell.size_label == every[-1].size_label]
        for label, members in groupby(sorted(most, key=lambda c: c.method.label), lambda c: c.method.label):
            if label != PREDICTS_NOTHING and (suite, label) not in TOO_LONG:
                found[suite, label] = [*members]
    first = {}
    for place, members in found.items():
        same = [
            (c.model, c.data, c.method.use, c.method.options, c.recipe, c.workers, c.nodes) for c in members
        ]
        first.setdefault(str(same), place)
    return {place: found[place] for place in first.values()}


ENTRIES = entries()


def noise(dataset, number):
    drawn, classes, task = np.random.default_rng(0), dataset.classes, dataset.learning()
    images = task is CLASSIFICATION
    values = drawn.integers(0, 256 if images else classes, (number, *dataset.shape), dtype=np.uint8)
    labels = drawn.integers(0, classes, number if images else (number, *dataset.shape))
    inputs, labels = torch.from_numpy(values), torch.from_numpy(labels)
    none = inputs[:0], labels[:0]
    about = "noise", classes, dataset.shape, Augment(), (128.0,), (74.0,)
    return Data(*about, inputs, labels, *none, {}, task=task)


def task_of(cell, cluster):
    """The model and epochs of the cell, with an image a step for each worker and few steps.

    The rate is so small that the loss of noise neither falls nor diverges.
    """
    dataset, model = plugins.get("dataset", cell.data.use).load(), plugins.get("model", cell.model.use).load()
    dataset, config = dataset(resolve(dataset, cell.data.options)), resolve(model, cell.model.options)
    return Task(
        build_model=lambda: model(config, dataset.shape, dataset.classes),
        data=noise(dataset, STEPS_PER_EPOCH * cluster.workers),
        recipe=cell.recipe.model_copy(
            update={
                "batch": 1,
                "batch_per": "worker",
                "epoch_steps": None,
                "optimizer": cell.recipe.optimizer.model_copy(update={"lr": 1e-9}),
                "schedule": Schedule(name="constant"),
            }
        ),
        cluster=cluster,
        seed=1,
    )


def write_preparation(use, config, model, folder):
    """Write random numbers in the shapes of what the method prepares."""
    if use == "wnn":
        for kind in KINDS:
            write_tensors(folder / f"{kind}.safetensors", Forecaster().state_dict())
    if use == "mp2":
        pushed, predicted = layers.split(model, config.pushed_stages)
        prefix = layers.flatten_all([[param.tensor.detach() for param in layer] for layer in pushed])
        made = predictor.Predictor(len(prefix), layers.shapes_of(predicted))
        made.initialise()
        write_tensors(folder / server.PREDICTOR, made.state_dict())
        write_tensors(folder / server.MEAN_PREFIX, {"prefix": prefix})


@contextmanager
def counted_branches(counts):
    """Counts how often one line of methods/ follows another one, or the head of its function."""

    def call(frame, event, _):
        if not frame.f_code.co_filename.startswith(str(METHODS)):
            return None
        last = frame.f_lineno

        def line(frame, event, _):
            nonlocal last
            if event == "line":
                counts[frame.f_code.co_filename, last, frame.f_lineno] += 1
                last = frame.f_lineno
            return line

        return line

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


def counts(members, options, folder, nodes=None):
    """How often each branch of methods/ is taken in these cells, with these options beside their own."""
    found = Counter()
    for cell in members:
        cluster = Cluster(cell.workers, nodes or cell.nodes)
        task, method = task_of(cell, cluster), plugins.get("method", cell.method.use).load()
        config = resolve(method, cell.method.options | options)
        write_preparation(cell.method.use, config, task.build_model(), folder)
        trainer = MirroredTrainer(task, method, config, Mirror(cluster.workers, 0))
        if trainer.skip() is None:
            trainer.setup(folder)
            with counted_branches(found):
                trainer.train(until=None if cell.method.use in WHOLE_RUN else 2 * STEPS_PER_EPOCH)
    assert found, "the method is skipped"
    return found


def never_taken(members, use, folder):
    """The branches that are taken with small thresholds and warm-ups, and never as the suite has them."""
    set_off = {name for name, value in members[0].method.options.items() if value in (0, [], NO_TENSOR)}
    small = {name: value for name, value in SMALL.get(use, {}).items() if name not in set_off}
    nodes = max(2, members[0].nodes)
    own, wanted = counts(members, {}, folder), counts(members, small, folder, nodes)
    missing = [branch for branch in wanted if not own[branch]]
    return sorted({" -> ".join(getline(file, line).strip() for line in lines) for file, *lines in missing})


@pytest.mark.parametrize(("suite", "label"), ENTRIES)
def test_every_branch_that_can_be_taken_is_taken(suite, label, tmp_path):
    members = ENTRIES[suite, label]
    assert never_taken(members, members[0].method.use, tmp_path) == KNOWN.get((suite, label), [])


@pytest.mark.parametrize("method", project.METHODS)
def test_every_method_is_exercised(method):
    assert method in {*SMALL, *NO_SIZES}, (
        f"say in SMALL of {Path(__file__).name} from which sizes {method} does something"
    )
    assert of(method), f"name {method} in a suite for CPUs"


@pytest.mark.parametrize(
    ("use", "options", "line"),
    [
        ("hylo", {}, "codes = precision.quantise(unsent, threshold)"),
        ("multi_step_delay", {"warmup_steps": 28}, TAKE),
    ],
)
def test_default_thresholds_are_above_all_tensors_of_a_small_model(use, options, line, tmp_path):
    members = [replace(cell, method=Module(use, use, options)) for cell in ENTRIES["laptop", use][:1]]
    assert any(line in branch for branch in never_taken(members, use, tmp_path))


# ---- What is no branch of a method: how much a density sends, where servers are, and how many buckets leave.


def of(*uses):
    """The entries of these methods."""
    return [place for place, members in ENTRIES.items() if members[0].method.use in uses]


def options_of(cell):
    return resolve(plugins.get("method", cell.method.use).load(), cell.method.options)


@pytest.mark.parametrize(("suite", "label"), of("dgc", "top_k"))
def test_every_density_is_used_and_sends_several_entries_but_not_all(suite, label, tmp_path, monkeypatch):
    used, choose = {}, sparse.choose

    def noted(tensors, density, *others):
        used.setdefault(density, max(tensor.numel() for tensor in tensors))
        return choose(tensors, density, *others)

    monkeypatch.setattr(sparse, "choose", noted)
    members = ENTRIES[suite, label]
    for cell in members:
        used.clear()
        counts([cell], {}, tmp_path)
        config = options_of(cell)
        assert set(used) == {config.density, *getattr(config, "warmup_densities", ())}
        for density, largest in used.items():
            assert 1 < select.count(density, largest) < largest


@pytest.mark.parametrize(("suite", "label"), of("mp2"))
def test_mp2_predicts_layers(suite, label):
    for cell in ENTRIES[suite, label]:
        model = task_of(cell, Cluster(cell.workers, cell.nodes)).build_model()
        assert all(layers.split(model, options_of(cell).pushed_stages))


@pytest.mark.parametrize(("suite", "label"), of("ssgd"))
def test_several_buckets_overlap_where_there_are_times(suite, label):
    settings = load(suite)
    if settings.transport == "inprocess" and settings.simulate is None:
        return
    for cell in ENTRIES[suite, label]:
        model = task_of(cell, Cluster(cell.workers, cell.nodes)).build_model()
        buckets = in_buckets(parameters(model), options_of(cell).bucket_mb)
        one = (suite, label) in ONE_BUCKET or label.endswith("_one_bucket")
        assert (len(buckets) == 1) == one
