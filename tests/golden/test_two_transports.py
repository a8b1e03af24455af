"""A method's run is the same whether its workers share a process or each has one of its own.

Processes also take the path of calls that GPUs take, here with gloo and on CPUs: it changes no bit.
"""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import pytest
import torch

from tests import processes, project, small
from thinwire import plugins

# What the order of adding leaves between a ring and a sum over the ranks: a run in float64 is held to far
# less than any other order of events would cost.
TOLERANCE = 1e-9
# Sums of 16 bits are rounded in another order in a ring, which members of two would not show: one rounding.
BFLOAT16, FLOAT16 = 2.0**-8, 2.0**-11
# They exchange by gathers and servers alone, which add in the order of the ranks; a ring does not.
ADD_IN_ORDER = ("demo_sgd", "hylo", "mp2", "ps_sgd", "sparse_loco", "top_k")
# Options beside those for short runs, under which other verbs or types travel; and the tolerance.
CASES = [
    *((method, {}, TOLERANCE) for method in project.METHODS if method != "quantised_all_reduce"),
    # In larger blocks values lie exactly between two levels, so that the order of adding decides.
    ("quantised_all_reduce", {"block": 2}, TOLERANCE),
    ("daso", {"blocking_dtype": "full"}, TOLERANCE),
    ("daso", {"warmup_epochs": 0, "fixed_skips": 4, "fixed_wait": 0}, TOLERANCE),
    ("daso", {"warmup_epochs": 0, "match_progress": True}, TOLERANCE),
    ("diloco", {"bits": 4}, TOLERANCE),
    ("ssgd", {"gradients": "bfloat16"}, BFLOAT16),
    ("ssgd", {"gradients": "float16"}, FLOAT16),
    ("top_k", {"indices": "bitmap"}, TOLERANCE),
    ("hsgd", {"level_1": "weights"}, TOLERANCE),
    ("hsgd", {"gradients": "bfloat16"}, BFLOAT16),
    ("ps_sgd", {"servers": "one"}, TOLERANCE),
    ("multi_step_delay", {"delay": 0, "order": "fifo", "slice": 7, "credit": 10}, TOLERANCE),
    ("multi_step_delay", {"slice": 7, "credit": 10, "release": "background"}, TOLERANCE),
    ("multi_step_delay", {"local_momentum": True}, TOLERANCE),
    ("mp2", {"predictor": "constant"}, TOLERANCE),
    ("ps_sgd", {"pipelined": False}, TOLERANCE),
    ("ssgd", {"overlap": False}, TOLERANCE),
    ("hylo", {"compression": "uniform_kernels", "importance": "random", "residual": False}, TOLERANCE),
]
# These use every verb and three types between them; `make test` leaves the others out.
QUICK = ("gossip", "hylo", "mp2", "sparse_loco", "daso-{'blocking_dtype': 'full'}", "diloco-{'bits': 4}")
QUICK += ("ssgd-{'gradients': 'bfloat16'}", "ps_sgd-{'servers': 'one'}")
PLATEAU = {
    "epochs": 6,
    "schedule": {"name": "plateau", "factor": 0.5, "patience": 0, "threshold": 0.05},
}
# With images in the other order, whose gradients are laid out as usual all the same.
PARTS = {"accumulate": 2, "clip_norm": 0.05, "channels_last": True}


def trajectory(method: str, options: dict[str, Any], recipe: dict[str, Any] | None = None) -> dict[str, Any]:
    """A small run on two nodes, as far as it is known in this process."""
    class_ = plugins.get("method", method).load()
    model = small.model_for(class_, **class_.short)
    task = small.task(workers=4, nodes=2, build_model=model, **small.recipe_for(class_) | (recipe or {}))
    run = small.trainer(task, class_, **{**class_.short, **options})
    shipped, digests, losses, ledgers = [], [], [], []

    def look(run: Any) -> None:
        run.transport.arrive()
        weights, buffers = run.shipped()
        shipped.append(torch.cat([tensor.flatten() for tensor in (*weights, *buffers)]).numpy())
        digests.append([small.digest([*worker.run.weights]) for worker in run.workers])
        losses.append([worker.run.loss.item() for worker in run.workers])
        ledgers.append([worker.ledger.state() for worker in run.workers])

    run.train(after_step=look)
    return {
        "shipped": shipped,
        "digests": digests,
        "losses": losses,
        "ledgers": ledgers,
        "traffic": run.traffic,
        "curve": run.curve,
    }


def label(method: str, options: dict[str, Any]) -> str:
    return f"{method}-{options}" if options else method


@cache
def on_processes(quick: bool) -> dict[str, list[Any]]:
    """The outcomes on both paths of calls, by label, of the quick cases or of the others; in one launch.

    With the quick ones are parts and the plateau, on the path of CPUs alone.
    """
    own = {label(m, given): partial(trajectory, m, given) for m, given, _ in CASES}
    asked = {name: each for name, each in own.items() if (name in QUICK) == quick}
    calls = [way for each in asked.values() for way in (each, partial(processes.on_device_group, each))]
    recipes = {"parts": PARTS, "plateau": PLATEAU} if quick else {}
    calls += [partial(trajectory, "ssgd", {}, recipe) for recipe in recipes.values()]
    ended = processes.run_all(calls, 4)
    both = {name: ended[2 * place : 2 * place + 2] for place, name in enumerate(asked)}
    return both | {name: [each] for name, each in zip(recipes, ended[2 * len(asked) :], strict=True)}


def outcomes_of(name: str) -> list[Any]:
    """The outcomes of a case, of parts or of the plateau."""
    found = on_processes(name in (*QUICK, "parts", "plateau"))[name]
    for outcome in found:
        if isinstance(outcome, processes.Failed):
            raise outcome
    return found


def cases() -> Iterator[Any]:
    for method, options, tolerance in CASES:
        name = label(method, options)
        marks = [] if name in QUICK else pytest.mark.slow
        yield pytest.param(method, options, tolerance, id=name, marks=marks)


@pytest.mark.parametrize(("method", "options", "tolerance"), cases())
def test_processes_give_the_same_run_as_one_process(
    method: str, options: dict[str, Any], tolerance: float
) -> None:
    together = trajectory(method, options)
    outcomes = outcomes_of(label(method, options))
    for rank, (own, like_gpus) in enumerate(zip(*outcomes, strict=True)):
        for what in ("digests", "losses", "ledgers", "traffic"):
            assert like_gpus[what] == own[what], f"rank {rank}, {what}"
        if method in ADD_IN_ORDER:
            assert own["digests"] == [[digests[rank]] for digests in together["digests"]], f"rank {rank}"
        for step, (ours, theirs) in enumerate(zip(together["shipped"], own["shipped"], strict=True)):
            assert theirs == pytest.approx(ours, rel=tolerance, abs=tolerance), f"rank {rank}, step {step}"
        losses = [each[rank] for each in together["losses"]]
        assert [loss for (loss,) in own["losses"]] == pytest.approx(losses, rel=tolerance)
        assert [[ledgers[rank]] for ledgers in together["ledgers"]] == own["ledgers"]
        assert together["traffic"] == own["traffic"]
        for ours, theirs in zip(together["curve"], own["curve"], strict=True):
            assert ours.keys() == theirs.keys()
            for column in ours:
                if column.endswith("_seconds"):
                    continue
                counted = column.endswith("_bytes") or isinstance(ours[column], int)
                wanted = ours[column] if counted else pytest.approx(ours[column], rel=tolerance)
                assert theirs[column] == wanted, column


def test_batches_in_parts_with_clipping_are_the_same_on_processes() -> None:
    """There, gradients lie in shared memory, and are sent while the last part is computed or after it."""
    together = trajectory("ssgd", {}, PARTS)
    for own in outcomes_of("parts")[0]:
        for ours, theirs in zip(together["shipped"], own["shipped"], strict=True):
            assert theirs == pytest.approx(ours, rel=TOLERANCE, abs=TOLERANCE)
        assert together["traffic"] == own["traffic"]


def test_a_plateau_lowers_the_rate_in_the_same_epochs_on_processes() -> None:
    together = trajectory("ssgd", {}, PLATEAU)
    rates = [row["lr"] for row in together["curve"]]
    assert len(set(rates)) > 1
    for own in outcomes_of("plateau")[0]:
        assert [row["lr"] for row in own["curve"]] == rates
        assert own["traffic"] == together["traffic"]
