"""The simulated times of all methods of a suite, on the clusters and with the compute profiles that it names.

Each method is simulated with the cell of the first repetition. The workers are spread over the nodes as the
cluster says, and not as the suite does.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from thinwire.cluster import Cluster
from thinwire.config import cluster_file
from thinwire.config.baselines import baselines
from thinwire.config.cell import Cell
from thinwire.config.cluster_file import ClusterDescription
from thinwire.config.expand_suite import cells
from thinwire.config.grid_subset import Subset
from thinwire.config.suite import load
from thinwire.config.suite_schema import Simulate
from thinwire.errors import UserError
from thinwire.files import writing
from thinwire.schedule.mirrored import CannotRun
from thinwire.simulation.simulate import Simulated, SimulatedCell

Row = dict[str, object]
# What the rows that are compared with each other have in common.
_PLACE = ["dataset", "model", "workers", "cluster", "profile"]


def path_of(results: Path, suite: str) -> Path:
    """Where the simulated times of a suite are."""
    return results / "simulated" / f"{suite}.csv"


def simulate_suite(
    suite: str, results: Path, settings: Simulate, subset: Subset, log: Callable[[str], None]
) -> pd.DataFrame:
    """Simulate; gives one row for each method, model, data set, number of workers, cluster and profile.

    Raises:
        UserError: a cluster, a profile, the data or a preparation is missing, or workers cannot be spread.
    """
    described_clusters = [cluster_file.load(name) for name in settings.clusters]
    planned = [cell for cell in subset.keep(cells(suite)) if cell.repetition == 0]
    workers = settings.workers or sorted({cell.workers for cell in planned})
    rows: list[Row] = []
    for cell in _one_of_each(planned):
        for number in workers:
            rows += _rows(cell, number, described_clusters, settings, results, log)
    if not rows:
        raise UserError(f"no method of {suite} can run with {' or '.join(map(str, workers))} workers there")
    return _with_speed_up(pd.DataFrame(rows), baselines(load(suite)))


def write(rows: pd.DataFrame, results: Path, suite: str) -> Path:
    """Write the rows; returns the path."""
    path = path_of(results, suite)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        rows.to_csv(path, index=False)
    return path


def described(rows: pd.DataFrame) -> Iterator[str]:
    """The rows as a person reads them: for each cluster and profile, the methods from the fastest on."""
    for (dataset, model, workers, cluster, profile), group in rows.groupby(_PLACE, sort=False):
        yield f"{dataset}, {model}, {workers} workers on {cluster}, computing as {profile} (simulated)"
        for row in group.sort_values("step_seconds").to_dict("records"):
            exposed = row["communication_seconds"] + row["server_seconds"]
            yield (
                f"  {row['method']:24}{row['step_seconds'] * 1e3:9.3f} ms a step; {exposed * 1e3:.3f} ms of "
                f"communication is not hidden; {row['speed_up']:.2f} times as fast as {row['baseline']}"
            )


def _one_of_each(planned: Sequence[Cell]) -> list[Cell]:
    """One cell for each method, model and data set."""
    return list({(c.dataset, c.model.label, c.method.label): c for c in planned[::-1]}.values())[::-1]


def _rows(
    cell: Cell,
    workers: int,
    clusters: Sequence[ClusterDescription],
    settings: Simulate,
    results: Path,
    log: Callable[[str], None],
) -> list[Row]:
    """The rows of a cell with so many workers."""
    known: dict[int, SimulatedCell] = {}
    rows = []
    for cluster in clusters:
        spread = _spread(workers, cluster)
        try:
            if spread.nodes not in known:
                known[spread.nodes] = SimulatedCell(cell, results, spread, settings.steps)
        except CannotRun as reason:
            log(f"{cell.method.label} on {cluster.name}: skipped, because {reason}")
            continue
        for name in settings.profiles:
            of_cell = known[spread.nodes]
            rows.append(_row(of_cell.on(cluster, of_cell.profile(name, cluster))))
    log(f"{cell.dataset}/{cell.model.label}/{cell.method.label} with {workers} workers is simulated")
    return rows


def _spread(workers: int, cluster: ClusterDescription) -> Cluster:
    """The workers on the nodes of a cluster."""
    each = min(workers, cluster.workers_per_node)
    if workers % each:
        raise UserError(
            f"{workers} workers cannot be spread over nodes of {cluster.name}, which have "
            f"{cluster.workers_per_node} each"
        )
    return Cluster(workers, workers // each)


def _row(made: Simulated) -> Row:
    timeline = made.timeline
    return {
        "suite": made.cell.suite,
        "dataset": made.cell.dataset,
        "model": made.cell.model.label,
        "method": made.cell.method.label,
        "workers": made.workers,
        "nodes": made.nodes,
        "kind": "simulated",
        "cluster": made.cluster.name,
        "profile": made.profile,
        "steps": made.steps,
        "total_steps": made.total_steps,
        "step_seconds": made.step_seconds,
        "compute_seconds": timeline.compute_seconds.mean(),
        "others_seconds": timeline.others_seconds.mean(),
        "server_seconds": timeline.server_seconds.mean(),
        "communication_seconds": timeline.communication_seconds.mean(),
        "wire_sent_bytes": timeline.sent_bytes / made.steps / made.workers,
        "between_nodes_bytes": timeline.between_nodes_bytes / made.steps / made.workers,
    }


def _with_speed_up(rows: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """Add `speed_up` over the fastest of the baselines in the same place, whose label is in `baseline`."""
    of_baselines = rows[rows.method.isin(baselines)].sort_values("step_seconds")
    fastest = of_baselines.drop_duplicates(_PLACE)[[*_PLACE, "method", "step_seconds"]]
    fastest = fastest.rename(columns={"method": "baseline", "step_seconds": "baseline_seconds"})
    both = rows.merge(fastest, on=_PLACE, how="left")
    both["speed_up"] = both.baseline_seconds / both.step_seconds
    return both.drop(columns="baseline_seconds")
