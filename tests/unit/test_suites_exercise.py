"""The suites that run on a laptop exercise the code of their methods, and not only their names.

A threshold above the largest tensor turns a method into another one, without a message. So each entry is
trained twice: as the suite has it, and with options for far smaller tensors and shorter runs. What runs then
must run in the suite, too. Lines that the entry's other options rule out run in neither of the two.

One worker is mirrored. The images are noise, whose loss does not fall, so what follows a plateau can happen.
The other methods have no such options, or need a preparation, and are not trained here.
"""

import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from linecache import getline
from pathlib import Path

import numpy as np
import pytest
import torch

from thinwire import plugins
from thinwire.cluster import Cluster
from thinwire.config.expand_suite import cells
from thinwire.config.module import Module
from thinwire.data.augment import Augment
from thinwire.data.read_arrays import Data
from thinwire.optim.recipe import Schedule
from thinwire.options import resolve
from thinwire.schedule.mirrored import MirroredTrainer
from thinwire.task import Task
from thinwire.transport.mirror import Mirror

SUITES = (
    "laptop",
    "demo",
    "validation",
    "claims/mp2_digits",
    "claims/multi_step_delay_digits",
    "claims/hylo_digits",
    "claims/daso_digits",
)
# Of each method, the options that say from which size of tensor, or length of run, something happens.
SMALL = {
    "daso": {"warmup_epochs": 1, "cooldown_epochs": 0, "patience": 0, "plateau_threshold": 0.9},
    "dgc": {"density": 0.01, "warmup_densities": [0.5]},
    "hylo": {"conv_threshold": 32, "linear_threshold": 32},
    "local_sgd": {"period": 2},
    "multi_step_delay": {"warmup_steps": 2, "interval": 2, "slice": 512, "credit": 1024},
}
# What does not run, and stays so: measured results of these suites are published with these options. The demo
# has 6 epochs between DASO's phases: with a patience of 2, its interval shortens but does not start again.
KNOWN = {
    ("demo", "daso"): [
        'return config.max_skips, max(1, wait) if config.control == "corrected" else wait',
        "wait = config.max_skips // 4",
    ],
    ("demo", "multi_step_delay"): ["on_their_way.pop(0)[0].wait()"],
    ("validation", "multi_step_delay"): ["on_their_way.pop(0)[0].wait()"],
}
STEPS_PER_EPOCH = 9
METHODS = Path(plugins.get("method", "ssgd").path).parent


def entries():
    """Of each entry of these methods in a suite: the cells of one repetition, with the most workers."""
    found = {}
    for suite in SUITES:
        every = cells(suite)
        for cell in every:
            if cell.method.use in SMALL and cell.repetition == 0 and cell.size_label == every[-1].size_label:
                found.setdefault((suite, cell.method.label), []).append(cell)
    return found


ENTRIES = entries()


def noise(shape, classes, images):
    drawn = np.random.default_rng(0)
    pixels = torch.from_numpy(drawn.integers(0, 256, (images, *shape), dtype=np.uint8))
    labels = torch.from_numpy(drawn.integers(0, classes, images))
    none = pixels[:0], labels[:0]
    return Data("noise", classes, shape, Augment(), (128.0,), (74.0,), pixels, labels, *none, {})


def task_of(cell):
    """The model, cluster and epochs of the cell, with an image a step for each worker and few steps.

    The rate is so small that the loss of noise neither falls nor diverges.
    """
    dataset, model = plugins.get("dataset", cell.data.use).load(), plugins.get("model", cell.model.use).load()
    config, shape, classes = resolve(model, cell.model.options), dataset.shape, dataset.classes
    return Task(
        build_model=lambda: model(config, shape, classes),
        data=noise(shape, classes, STEPS_PER_EPOCH * cell.workers),
        recipe=cell.recipe.model_copy(
            update={
                "batch": 1,
                "batch_per": "worker",
                "optimizer": cell.recipe.optimizer.model_copy(update={"lr": 1e-9}),
                "schedule": Schedule(name="constant"),
            }
        ),
        cluster=Cluster(cell.workers, cell.nodes),
        seed=1,
    )


@contextmanager
def counted_lines(counts):
    """Counts how often each line of methods/ runs."""

    def line(frame, event, _):
        if event == "line":
            counts[frame.f_code.co_filename, frame.f_lineno] += 1
        return line

    def call(frame, event, _):
        return line if frame.f_code.co_filename.startswith(str(METHODS)) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


def counts(members, options):
    """How often each line of methods/ runs in these cells, with these options beside their own."""
    found = Counter()
    for cell in members:
        task, method = task_of(cell), plugins.get("method", cell.method.use).load()
        config = resolve(method, cell.method.options | options)
        trainer = MirroredTrainer(task, method, config, Mirror(cell.workers, 0))
        if trainer.skip() is None:
            trainer.setup()
            with counted_lines(found):
                trainer.train()
    return found


def never_run(members, use):
    """The lines that run with small thresholds and warm-ups, and never as the suite has them."""
    own, small = counts(members, {}), counts(members, SMALL.get(use, {}))
    assert own, "the method is skipped"
    return sorted({getline(*place).strip() for place in small if not own[place]})


@pytest.mark.parametrize(("suite", "label"), ENTRIES)
def test_every_line_that_can_run_runs(suite, label):
    members = ENTRIES[suite, label]
    assert never_run(members, members[0].method.use) == KNOWN.get((suite, label), [])


@pytest.mark.parametrize(
    ("use", "options", "line"),
    [
        ("hylo", {}, "codes = two_bit.quantise(unsent, threshold)"),
        ("multi_step_delay", {"warmup_steps": 28}, "on_their_way.pop(0)[0].wait()"),
    ],
)
def test_default_thresholds_are_above_all_tensors_of_a_small_model(use, options, line):
    members = [replace(cell, method=Module(use, use, options)) for cell in ENTRIES["laptop", use][:1]]
    assert line in never_run(members, use)
