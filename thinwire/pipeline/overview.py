"""What a dry run says: the records that are there, and what the jobs ask of a cluster and cost."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thinwire.base.errors import UserError
from thinwire.config import hardware, yaml_file
from thinwire.config.cell import Cell, prepares
from thinwire.config.expand import blocks
from thinwire.launch.placement import gpus_of, gpus_of_preparation
from thinwire.pipeline.resources import nodes, ranks
from thinwire.pipeline.snakefile import Call
from thinwire.train.record_check import DAMAGED, CellState, cell_states, counts

if TYPE_CHECKING:
    from thinwire.simulation.cost import Cost

# So many cells are named for each state and reason; `thinwire cells` lists all of them.
_NAMED = 3
# The GPU on which costs are estimated, unless the cluster asks for one that is described.
_USUAL_GPU = "a100"
_RESULTS = Path("results")
_MOST_ATTEMPTS = 1_000  # more than anybody allows


def print_overview(cells: Sequence[Cell], call: Call) -> None:
    """Print how many cells have a record, and the first of those that have none that holds, by reason.

    If the jobs of Snakemake's call run on a cluster, what they ask for and cost is printed, too.
    """
    by_suite: dict[str, list[Cell]] = {}
    for cell in cells:
        by_suite.setdefault(cell.suite, []).append(cell)
    minutes = call.job_minutes
    costs: list[Cost] = []
    for suite, members in by_suite.items():
        states = cell_states(members, _RESULTS)
        lines = overview(members, states)
        if minutes:
            left = [cell for cell, state in zip(members, states) if not state.holds]
            lines += jobs(left, minutes)
            gpu = _gpu(call.defaults)
            try:
                cost = _cost([cell for cell in left if cell.device == "cuda"], gpu)
            except UserError as error:
                lines.append(f"cost: not known, because {error}")
            else:
                costs += [] if cost is None else [cost]
                lines += [] if cost is None else about_cost(cost, gpu, minutes)
        print(f"{suite}: {lines[0]}", *lines[1:], sep="\n  ", file=sys.stderr)
    if len(costs) > 1:
        gpu_hours, all_jobs = sum(cost.gpu_hours for cost in costs), sum(cost.jobs for cost in costs)
        print(
            f"all suites on GPUs: {_number(all_jobs, 'job')}, {_hours(gpu_hours, 'GPU hour')}",
            file=sys.stderr,
        )


def overview(cells: Iterable[Cell], states: Sequence[CellState]) -> list[str]:
    """The counts, and then a line for each reason why records do not hold."""
    paths: dict[str, list[str]] = {}
    for cell, state in zip(cells, states):
        if not state.holds:
            # Each damaged record has a reason of its own.
            paths.setdefault(state.word if state.word == DAMAGED else str(state), []).append(cell.path)
    return [counts(states), *(f"{about}: {_listed(named)}" for about, named in paths.items())]


def jobs(cells: Sequence[Cell], minutes: str) -> list[str]:
    """What the jobs that make the records of a suite's cells ask of Slurm: a line for each kind and size.

    `minutes` is the time that a job asks for, as it is set.
    """
    first = [members[0] for members in blocks(cells).values()]
    sizes = Counter((nodes(cell), ranks(cell) // nodes(cell), gpus_of(cell)) for cell in first)
    lines = [f"train, {_number(n, 'job')}: {_asked(*size)}, {minutes} minutes" for size, n in sizes.items()]
    prepared = {cell.preparation: cell.preparing for cell in cells if prepares(cell.method.use)}
    gpus = Counter(gpus_of_preparation(cell) for cell in prepared.values())
    return lines + [
        f"prepare, {_number(n, 'job')} at most: {_asked(1, 1, each)}, {minutes} minutes"
        for each, n in gpus.items()
    ]


def _asked(on_nodes: int, ranks_of_node: int, gpus: int) -> str:
    each = " each" if on_nodes > 1 else ""
    return (
        f"{_number(on_nodes, 'node')} with {_number(ranks_of_node, 'rank')} and {_number(gpus, 'GPU')}{each}"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more


def _gpu(defaults: Mapping[str, str]) -> str:
    """The beginning of the names of the accelerators that give the costs."""
    asked = defaults.get("gpu_type", "").lower()
    known = any(name.startswith(f"{asked}_") for name in yaml_file.names(hardware.ACCELERATORS))
    return asked if known else _USUAL_GPU


def _cost(cells: Sequence[Cell], gpu: str) -> "Cost | None":
    """The cost of cells on GPUs, if there are any."""
    from thinwire.simulation.cost import cost_of, devices_by_name  # torch, which other plans do not need

    return cost_of(cells, devices_by_name(gpu), _RESULTS) if cells else None


def about_cost(cost: "Cost", gpu: str, minutes: str) -> list[str]:
    """A sentence about the cost of a suite, and one more if a job needs several attempts.

    `gpu` is the beginning of the names of the accelerators, `minutes` the time of a job, as it is set.
    """
    all_jobs, longest = (_hours(hours, "hour") for hours in (cost.hours, cost.longest_hours))
    lines = [
        f"cost: about {_hours(cost.gpu_hours, 'GPU hour')} of {gpu}, in {all_jobs} of jobs; the longest is "
        f"{cost.longest}, {longest}"
    ]
    attempts = _attempts(cost.longest_hours, minutes)
    if len(attempts) > 1:
        first, last = _hours(attempts[0], "hour"), _hours(attempts[-1], "hour")
        lines.append(
            f"runtime: that job needs {len(attempts)} attempts, the first of {first} and the last of {last}, "
            f"so `retries` has to be {len(attempts) - 1} or more"
        )
    return lines


def _attempts(hours: float, minutes: str) -> list[float]:
    """The hours of the attempts that a job needs; none if `minutes` are not so many, such as `2d`."""
    attempts: list[float] = []
    for attempt in range(1, _MOST_ATTEMPTS):
        try:
            # The profile's expression, which Snakemake evaluates in the same way.
            asked = eval(minutes, {"attempt": attempt})
        except Exception:
            return []
        if not isinstance(asked, int | float):
            return []
        attempts.append(asked / 60)
        if sum(attempts) >= hours:
            return attempts
    return []


def _hours(hours: float, what: str) -> str:
    """With two digits, and whole from 10 on."""
    number = f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
    return f"{number} {what}{'' if number == '1' else 's'}"
