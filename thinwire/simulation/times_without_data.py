"""The times of all methods of a suite on clusters of GPUs, without its data; see its key `without_data`.

Each method is mirrored once on nodes of each size, for each accelerator. Its steps are then simulated with
all numbers of workers and all links.
"""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import cast

import pandas as pd
import torch

from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.config.clusters import ClusterDescription, load_cluster
from thinwire.config.entries import baselines
from thinwire.config.expand import cells
from thinwire.config.grid_subset import Subset
from thinwire.config.suite import load
from thinwire.config.suite_schema import WithoutData
from thinwire.simulation.suite_times import with_speed_up
from thinwire.simulation.without_data import EVERY_STEP, CellWithoutData

Row = dict[str, object]
# What the rows that are compared with each other have in common.
PLACE = ["model", "accelerator", "workers", "nodes", "rate_gbit_per_second", "latency_seconds"]


@dataclass(frozen=True)
class Mirrored:
    """What is mirrored together: a method on one accelerator."""

    cell: Cell
    accelerator: str
    settings: WithoutData


def simulate_without_data(
    suite: str, subset: Subset, processes: int, log: Callable[[str], None]
) -> pd.DataFrame:
    """Simulate; gives one row for each method, model, accelerator, number of workers and of nodes, and link.

    Args:
        suite: that has the key `without_data`.
        subset: of the suite.
        processes: that simulate at once.
        log: takes a line about each method that is done or left out.

    Raises:
        UserError: the suite has no such key, or no method could be simulated.
    """
    settings = load(suite).without_data
    if settings is None:
        raise UserError(f"config/{suite}.yaml has no `without_data:`: add that key (config/README.md)")
    planned: dict[tuple[str, str], Cell] = {}
    for cell in subset.keep(cells(suite), timed=False):
        planned.setdefault((cell.model.label, cell.method.label), cell)
    tasks = [
        Mirrored(cell, accelerator, settings)
        for cell in planned.values()
        for accelerator in settings.accelerators
    ]
    rows: list[Row] = []
    reason = None
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_alone) as pool:
        futures = {pool.submit(rows_of, task): task for task in tasks}
        for number, future in enumerate(as_completed(futures), 1):
            task = futures[future]
            name = f"{task.cell.model.label}/{task.cell.method.label} on {task.accelerator}"
            made, reasons = future.result()
            rows += made
            log(f"{name} ({number} of {len(tasks)})")
            for reason in reasons:
                log(f"{name}: left out: {reason}")
    if not rows:
        raise UserError(f"no method of {suite} could be simulated; the last: {reason}")
    order = [*PLACE, "method"]
    ordered = pd.DataFrame(rows).sort_values(order, ignore_index=True)
    return with_speed_up(ordered, baselines(load(suite)), PLACE)


def fastest(rows: pd.DataFrame) -> Iterator[str]:
    """For each network and cluster, a line with the fastest methods over the links of a latency."""
    columns = [column for column in PLACE if column != "rate_gbit_per_second"]
    for place, group in rows.groupby(columns, sort=False):
        model, accelerator, workers, nodes, latency = cast("tuple[str, str, int, int, float]", place)
        best = group.sort_values("step_seconds").drop_duplicates("rate_gbit_per_second")
        at = "; ".join(
            f"{row.rate_gbit_per_second:g} Gbit/s: {row.method} {row.speed_up:.3g}"
            for row in best.sort_values("rate_gbit_per_second").itertuples()
        )
        where = f"{workers:,} workers on {nodes} nodes, {1e3 * latency:g} ms one way"
        yield f"{model} on {accelerator}, {where} (simulated): {at}"


def rows_of(task: Mirrored) -> tuple[list[Row], list[str]]:
    """The rows of a method, and why there are none for some nodes or numbers of workers."""
    settings, rounds = task.settings, task.settings.rounds.get(task.cell.method.label, EVERY_STEP)
    described = load_cluster(settings.cluster)
    rows: list[Row] = []
    reasons: list[str] = []
    made = None
    for each in settings.workers_per_node:
        try:
            made = CellWithoutData(task.cell, each, task.accelerator, rounds, like=made)
        except UserError as error:
            reasons.append(f"nodes of {each}: {error}")
            continue
        for workers in settings.workers:
            if workers % each or workers == each:
                continue
            try:
                rows += [
                    _row(task, made, described.with_link(link), workers // each, workers)
                    for link in settings.links
                ]
            except UserError as error:
                reasons.append(f"{workers:,} workers on nodes of {each}: {error}")
    return rows, reasons


def _row(
    task: Mirrored, made: CellWithoutData, described: ClusterDescription, nodes: int, workers: int
) -> Row:
    cell, step = task.cell, made.on(described, nodes)
    return {
        "suite": cell.suite,
        "dataset": cell.dataset,
        "model": cell.model.label,
        "method": cell.method.label,
        "workers": workers,
        "nodes": nodes,
        "kind": "simulated",
        "cluster": described.name,
        "rate_gbit_per_second": described.link.rate_bits_per_second / 1e9,
        "latency_seconds": described.link.latency_seconds,
        "accelerator": task.accelerator,
        "step_seconds": step.seconds,
        "compute_seconds": step.compute_seconds,
        "between_nodes_bytes": step.between_nodes_bytes,
    }


def _alone() -> None:
    """Each process has one core; what is loaded by now is not looked through for garbage before each run."""
    torch.set_num_threads(1)
    gc.freeze()
