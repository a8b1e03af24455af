"""No stream of a worker reads or writes what another stream has not finished, whatever its method.

The path of calls is that of GPUs, with gloo and CPU tensors; see `tests.races`.
"""

import re
from functools import partial
from typing import Any

import pytest

from tests import processes, races, small
from tests.golden.test_two_transports import CASES
from thinwire import plugins
from thinwire.base.options import resolve

# Two channels, and calls that fly across steps.
QUICK = [("ssgd", {}), ("daso", {})]
SLOW = [(method, options) for method, options, _ in CASES if (method, options) not in QUICK]
# What is missed if a wait is left out. A call reads gradients while the backward pass still writes them; and
# the optimizer reads the mean while the call still writes it.
LEFT_OUT = {
    races.POSTED: r"thinwire/transport/\w+\.py:\d+ .* races thinwire/train/passes\.py:\d+ ",
    races.ANSWER: r"thinwire/api/method\.py:\d+ .* races thinwire/transport/flat_tensors\.py:\d+ ",
}


def watched(method: str, options: dict[str, Any], left_out: str = "") -> races.Found:
    """What is seen in this process during a small run on two nodes; its preparation is not looked at."""
    class_ = plugins.get("method", method).load()
    chosen = {**class_.short, **options}
    model = small.model_for(class_, **class_.short)
    task = small.task(4, 2, build_model=model, batch=40, **small.recipe_for(class_))
    small.prepared(task, class_, resolve(class_, chosen))
    return races.find(lambda: small.trainer(task, class_, **chosen).train(), left_out=left_out)


def outcomes(runs: list[Any]) -> list[list[races.Found]]:
    """What each run has found, by rank; in one launch."""
    found = processes.run_all(runs, 4)
    for outcome in found:
        if isinstance(outcome, processes.Failed):
            raise outcome
    return found


def require_no_races(cases: list[tuple[str, dict[str, Any]]], found: list[list[races.Found]]) -> None:
    raced = {
        f"{method} {options}, rank {rank}": dict(seen.races)
        for (method, options), ranks in zip(cases, found, strict=True)
        for rank, seen in enumerate(ranks)
        if seen.races
    }
    assert raced == {}
    assert min(seen.operations for ranks in found for seen in ranks) > 1000, "no run was watched"


@pytest.fixture(scope="module")
def quick() -> list[list[races.Found]]:
    """Of the quick cases, and of SSGD where a wait is left out."""
    broken = [partial(watched, "ssgd", {}, left_out) for left_out in LEFT_OUT]
    return outcomes([*(partial(watched, *case) for case in QUICK), *broken])


def test_streams_do_not_race(quick: list[list[races.Found]]) -> None:
    require_no_races(QUICK, quick[: len(QUICK)])


@pytest.mark.slow
def test_streams_of_no_method_race() -> None:
    require_no_races(SLOW, outcomes([partial(watched, *case) for case in SLOW]))


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_a_wait_that_is_left_out_is_named_with_file_and_line(
    left_out: str, quick: list[list[races.Found]]
) -> None:
    for seen in quick[len(QUICK) + list(LEFT_OUT).index(left_out)]:
        assert any(re.match(LEFT_OUT[left_out], race) for race in seen.races), seen.races
