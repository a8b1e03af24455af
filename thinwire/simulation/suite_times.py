"""The simulated times of all methods of a suite, with its data and without.

With data, each method is simulated with the cell of the first repetition, on the clusters that the suite
names. The workers are spread over the nodes as the cluster says, and not as the suite does.

Without data (the key `without_data`), each method is mirrored once on nodes of each size, for each
accelerator. Its steps are then simulated with all numbers of workers and all links.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import cast

import pandas as pd
import torch

from thinwire.base.errors import ResourceError, UserError
from thinwire.config.cell import Cell
from thinwire.config.entries import baselines
from thinwire.config.expand import cells
from thinwire.config.grid_subset import Subset
from thinwire.config.hardware import ClusterDescription, load_cluster
from thinwire.config.suite import load
from thinwire.config.suite_schema import Simulate, WithoutData
from thinwire.simulation.simulate import SimulatedCell, to_common_speed
from thinwire.simulation.simulated_file import with_speed_up
from thinwire.simulation.stand_ins import reason_of, stands_in
from thinwire.simulation.without_data import EVERY_STEP, CellWithoutData

Row = dict[str, object]
# What the rows that are compared with each other have in common; the second is without data.
_PLACE = ["dataset", "model", "workers", "cluster", "rate_gbit_per_second"]
PLACE = ["model", "accelerator", "workers", "nodes", "rate_gbit_per_second", "latency_seconds"]


def simulate_suite(
    suite: str,
    results: Path,
    settings: Simulate,
    subset: Subset,
    log: Callable[[str], None],
    warn: Callable[[str], None],
) -> pd.DataFrame:
    """Simulate; gives one row for each method, model, data set, number of workers, cluster and rate.

    The log takes lines about the progress, and `warn` sentences about why times are not those of a whole run.

    Raises:
        UserError: a cluster or a preparation is missing, or workers cannot be spread.
    """
    described_clusters = [load_cluster(name) for name in settings.clusters]
    planned = [cell for cell in subset.keep(cells(suite), timed=False) if cell.repetition == 0]
    for cell in {cell.dataset: cell for cell in planned}.values():
        if stands_in(cell, results):
            warn(
                f"{cell.dataset} is not prepared in {results}: random inputs take its place, so what a "
                "method decides by the loss may differ"
            )
    if planned[0].recipe.precision == "tf32":
        warn("the recipe is of tf32, which CPUs do not have: these are times of recipe.precision: fp32")
    workers = settings.workers or sorted({cell.workers for cell in planned})
    rows: list[Row] = []
    reasons: list[str] = []
    for experiment in _experiments(planned):
        for number in workers:
            rows += _rows(experiment, number, described_clusters, settings, results, log, warn, reasons)
    if not rows:
        raise UserError(f"no method of {suite} could be simulated; the first: {reasons[0]}")
    return with_speed_up(pd.DataFrame(rows), baselines(load(suite)), _PLACE)


def described(rows: pd.DataFrame, accelerator: str | None = None) -> Iterator[str]:
    """The rows as a person reads them: for each cluster, the methods from the fastest on.

    Of each cluster, only its own rate is shown. Computing was that of the accelerator, or of this machine.
    """
    computing = "as measured here" if accelerator is None else f"on {accelerator}"
    for (dataset, model, workers, cluster, _), group in rows[rows.own_rate].groupby(_PLACE, sort=False):
        yield f"{dataset}, {model}, {workers} workers on {cluster}, computing {computing} (simulated)"
        for row in group.sort_values("step_seconds").to_dict("records"):
            exposed = row["communication_seconds"] + row["server_seconds"]
            step = f"  {row['method']:24}{row['step_seconds'] * 1e3:9.3f} ms a step"
            faster = f"; {row['speed_up']:.2f} times as fast as {row['baseline']}"
            than = faster if row["speed_up"] > 0 else ""
            yield f"{step}; {exposed * 1e3:.3f} ms of communication is not hidden{than}"


def _experiments(planned: Sequence[Cell]) -> list[list[Cell]]:
    """For each data set and model, one cell of each method."""
    every: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in planned:
        every.setdefault((cell.dataset, cell.model.label), {}).setdefault(cell.method.label, cell)
    return [[*methods.values()] for methods in every.values()]


def _rows(
    experiment: Sequence[Cell],
    workers: int,
    clusters: Sequence[ClusterDescription],
    settings: Simulate,
    results: Path,
    log: Callable[[str], None],
    warn: Callable[[str], None],
    reasons: list[str],
) -> Iterator[Row]:
    """The rows of these cells with so many workers; what is left out is added to the reasons."""

    def leave_out(cell: Cell, cluster: ClusterDescription, error: Exception) -> None:
        reasons.append(f"{cell.method.label} on {cluster.name}: left out, because {reason_of(error)}")
        log(reasons[-1])

    mirrored: dict[tuple[str, int], SimulatedCell] = {}
    placed = []
    for cell in experiment:
        for cluster in clusters:
            spread = cluster.spread(workers)
            key = cell.method.label, spread.nodes
            try:
                if key not in mirrored:
                    mirrored[key] = SimulatedCell(cell, results, spread, settings.steps, settings.accelerator)
                    if unlike := mirrored[key].unlike_run:
                        warn(unlike)
            except ResourceError:
                raise
            except Exception as error:
                # As in runs, what a method cannot do is no reason to leave out the others.
                leave_out(cell, cluster, error)
                continue
            placed.append((mirrored[key], cluster))
        log(f"{cell.dataset}/{cell.model.label}/{cell.method.label} with {workers} workers is mirrored")
    to_common_speed([*mirrored.values()])
    for of_cell, cluster in placed:
        every_rate = (cluster, *cluster.at_rates(settings.rates_gbit_per_second))
        try:
            rows = [_row(of_cell, linked, own_rate=linked is cluster) for linked in every_rate]
        except UserError as error:  # the workers of its roles wait for each other for ever
            leave_out(of_cell.cell, cluster, error)
            continue
        yield from rows


def _row(made: SimulatedCell, described: ClusterDescription, own_rate: bool) -> Row:
    timeline, link, cluster = made.on(described), described.link, made.cluster
    steps, workers = len(timeline.end_seconds), cluster.workers
    communication = timeline.communication_seconds.mean()
    links = cluster.nodes if link.shared_by_workers else workers
    on_link = timeline.between_nodes_bytes / steps / links
    return _place(made.cell, workers, cluster.nodes, described) | {
        "own_rate": own_rate,
        "steps": steps,
        "total_steps": made.total_steps,
        "batch_images": workers * made.cell.recipe.batch_per_worker(workers),
        "step_seconds": timeline.mean_step_seconds,
        "compute_seconds": timeline.compute_seconds.mean(),
        "others_seconds": timeline.others_seconds.mean(),
        "server_seconds": timeline.server_seconds.mean(),
        "communication_seconds": communication,
        # While a link sends and its workers do not wait for that, they compute or wait for something else.
        "hidden_seconds": max(0.0, on_link / link.rate_bytes_per_second - communication),
        "wire_sent_bytes": timeline.sent_bytes / steps / workers,
        "between_nodes_bytes": timeline.between_nodes_bytes / steps / workers,
    }


def _place(cell: Cell, workers: int, nodes: int, cluster: ClusterDescription) -> Row:
    """What the rows of a method say of where it runs."""
    return {
        "suite": cell.suite,
        "dataset": cell.dataset,
        "model": cell.model.label,
        "method": cell.method.label,
        "workers": workers,
        "nodes": nodes,
        "kind": "simulated",
        "cluster": cluster.name,
        "rate_gbit_per_second": cluster.link.rate_bits_per_second / 1e9,
    }


def simulate_without_data(
    suite: str, subset: Subset, processes: int, log: Callable[[str], None]
) -> pd.DataFrame:
    """Simulate; gives one row for each method, model, accelerator, number of workers and of nodes, and link.

    So many processes simulate at once; the log takes a line about each method that is done or left out.

    Raises:
        UserError: the suite has no such key, or no method could be simulated.
    """
    settings = load(suite).without_data
    if settings is None:
        raise UserError(f"config/{suite}.yaml has no `without_data:`: add that key (config/README.md)")
    planned: dict[tuple[str, str], Cell] = {}
    for cell in subset.keep(cells(suite), timed=False):
        planned.setdefault((cell.model.label, cell.method.label), cell)
    tasks = [*product(planned.values(), settings.accelerators)]
    rows: list[Row] = []
    reason = None
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_alone) as pool:
        futures = {pool.submit(rows_of, *task, settings): task for task in tasks}
        for number, future in enumerate(as_completed(futures), 1):
            cell, accelerator = futures[future]
            name = f"{cell.model.label}/{cell.method.label} on {accelerator}"
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


def silent(rows: pd.DataFrame, suite: str) -> Iterator[str]:
    """For each method that sends nothing, a sentence about why its times are not those of a whole run."""
    most = rows.groupby("method", sort=False).between_nodes_bytes.max()
    for method in most.index[most == 0]:
        yield (
            f"{method}: the steps of its round are not like the whole run, because it sends nothing to other "
            f"nodes in them: set without_data.rounds.{method}.steps in config/{suite}.yaml to the steps "
            "after which its calls begin again"
        )


def rows_of(cell: Cell, accelerator: str, settings: WithoutData) -> tuple[list[Row], list[str]]:
    """The rows of a method on one accelerator, and why some nodes or numbers of workers have none."""
    rounds = settings.rounds.get(cell.method.label, EVERY_STEP)
    described = load_cluster(settings.cluster)
    rows: list[Row] = []
    reasons: list[str] = []
    made = None
    for each in settings.workers_per_node:
        try:
            made = CellWithoutData(cell, each, accelerator, rounds, like=made)
        except ResourceError:
            raise
        except Exception as error:
            # As in runs, what a method cannot do is no reason to leave out the others.
            reasons.append(f"nodes of {each}: {reason_of(error)}")
            continue
        for workers in settings.workers:
            if workers % each or workers == each:
                continue
            try:
                rows += [
                    _row_without_data(made, described.with_link(link), workers, workers // each)
                    for link in settings.links
                ]
            except ResourceError:
                raise
            except Exception as error:
                reasons.append(f"{workers:,} workers on nodes of {each}: {reason_of(error)}")
    return rows, reasons


def _row_without_data(made: CellWithoutData, described: ClusterDescription, workers: int, nodes: int) -> Row:
    step = made.on(described, nodes)
    return _place(made.cell, workers, nodes, described) | {
        "latency_seconds": described.link.latency_seconds,
        "accelerator": made.accelerator,
        "step_seconds": step.seconds,
        "compute_seconds": step.compute_seconds,
        "between_nodes_bytes": step.between_nodes_bytes,
    }


def _alone() -> None:
    """Each process has one core; what is loaded by now is not looked through for garbage before each run."""
    torch.set_num_threads(1)
    gc.freeze()
