"""The simulated times of all methods of a suite, on the clusters that it names.

Each method is simulated with the cell of the first repetition. The workers are spread over the nodes as the
cluster says, and not as the suite does.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from thinwire.base.errors import ResourceError, UserError
from thinwire.config.cell import Cell
from thinwire.config.clusters import ClusterDescription, load_cluster
from thinwire.config.entries import baselines
from thinwire.config.expand import cells
from thinwire.config.grid_subset import Subset
from thinwire.config.suite import load
from thinwire.config.suite_schema import Simulate
from thinwire.simulation.simulate import Simulated, SimulatedCell, to_common_speed
from thinwire.simulation.stand_ins import stands_in

Row = dict[str, object]
# What the rows that are compared with each other have in common.
_PLACE = ["dataset", "model", "workers", "cluster", "rate_gbit_per_second"]


def simulate_suite(
    suite: str,
    results: Path,
    settings: Simulate,
    subset: Subset,
    log: Callable[[str], None],
    warn: Callable[[str], None],
) -> pd.DataFrame:
    """Simulate; gives one row for each method, model, data set, number of workers, cluster and rate.

    Args:
        suite: whose methods are simulated.
        results: the folder with the data, if they are there, and with preparations.
        settings: the clusters, numbers of workers, rates and steps.
        subset: of the suite.
        log: takes a line about the progress.
        warn: takes a sentence about why times are not those of a whole run.

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
            than = (
                f"; {row['speed_up']:.2f} times as fast as {row['baseline']}" if row["speed_up"] > 0 else ""
            )
            yield (
                f"  {row['method']:24}{row['step_seconds'] * 1e3:9.3f} ms a step; {exposed * 1e3:.3f} ms of "
                f"communication is not hidden{than}"
            )


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
                reasons.append(
                    f"{cell.method.label} on {cluster.name}: left out, because {error or repr(error)}"
                )
                log(reasons[-1])
                continue
            placed.append((mirrored[key], cluster))
        log(f"{cell.dataset}/{cell.model.label}/{cell.method.label} with {workers} workers is mirrored")
    to_common_speed([*mirrored.values()])
    for of_cell, cluster in placed:
        for linked in (cluster, *cluster.at_rates(settings.rates_gbit_per_second)):
            yield _row(of_cell.on(linked), own_rate=linked is cluster)


def _row(made: Simulated, own_rate: bool) -> Row:
    timeline, link = made.timeline, made.cluster.link
    communication = timeline.communication_seconds.mean()
    on_link = (
        timeline.between_nodes_bytes / made.steps / (made.nodes if link.shared_by_workers else made.workers)
    )
    return {
        "suite": made.cell.suite,
        "dataset": made.cell.dataset,
        "model": made.cell.model.label,
        "method": made.cell.method.label,
        "workers": made.workers,
        "nodes": made.nodes,
        "kind": "simulated",
        "cluster": made.cluster.name,
        "rate_gbit_per_second": link.rate_bits_per_second / 1e9,
        "own_rate": own_rate,
        "steps": made.steps,
        "total_steps": made.total_steps,
        "batch_images": made.workers * made.cell.recipe.batch_per_worker(made.workers),
        "step_seconds": made.step_seconds,
        "compute_seconds": timeline.compute_seconds.mean(),
        "others_seconds": timeline.others_seconds.mean(),
        "server_seconds": timeline.server_seconds.mean(),
        "communication_seconds": communication,
        # While a link sends and its workers do not wait for that, they compute or wait for something else.
        "hidden_seconds": max(0.0, on_link / link.rate_bytes_per_second - communication),
        "wire_sent_bytes": timeline.sent_bytes / made.steps / made.workers,
        "between_nodes_bytes": timeline.between_nodes_bytes / made.steps / made.workers,
    }


def with_speed_up(rows: pd.DataFrame, baselines: Sequence[str], place: Sequence[str]) -> pd.DataFrame:
    """Add `speed_up` over the fastest of the baselines in the same place, whose label is in `baseline`.

    Args:
        rows: with a method and the seconds of its step each.
        baselines: their labels.
        place: the columns that rows have in common which are compared with each other.
    """
    of_baselines = rows[rows.method.isin(baselines)].sort_values("step_seconds")
    fastest = of_baselines.drop_duplicates(place)[[*place, "method", "step_seconds"]]
    fastest = fastest.rename(columns={"method": "baseline", "step_seconds": "baseline_seconds"})
    both = rows.merge(fastest, on=[*place], how="left")
    both["speed_up"] = both.baseline_seconds / both.step_seconds
    return both.drop(columns="baseline_seconds")
