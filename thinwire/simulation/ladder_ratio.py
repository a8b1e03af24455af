"""HSGD's ratio: how many times as long a step at the foot of its ladder takes as one at its top.

Both rungs are those of the suite with the ladder. Network and batch are those of DASO's suite. A step's
computing is scaled, as if devices or batches were others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.hardware import ClusterDescription
from thinwire.config.suite import load

if TYPE_CHECKING:  # the pipeline reads the names of suites here, and PyTorch takes its time
    from thinwire.simulation.without_data import CellWithoutData


LADDER, NETWORK = "claims/hsgd_ladder", "claims/daso_time"
RATIO_CLUSTER, RATIO_DEVICE = "ethernet_25g_4gpus", "a100_tf32"
RATIO_NODES = (2, 8, 32)
# Two for each decade.
RATES_GBIT_PER_SECOND = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
COMPUTE_SECONDS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

Row = dict[str, object]


def ends_of_the_ladder(workers_per_node: int) -> "tuple[CellWithoutData, CellWithoutData]":
    """The lowest and the highest rung, with the network of the other suite, on nodes with so many workers.

    Raises:
        UserError: a suite or the accelerator cannot be read.
    """
    from thinwire.simulation.without_data import CellWithoutData

    lowest, highest = (CellWithoutData(cell, workers_per_node, RATIO_DEVICE) for cell in cells_of_ends())
    return lowest, highest


def cells_of_ends() -> list[Cell]:
    """The cells of the lowest and the highest rung, with the network of the other suite."""
    rungs = load(LADDER).ladder
    network = cells(NETWORK)[0]
    of_rung = {cell.method.label: cell for cell in cells(LADDER) if cell.repetition == 0}
    return [_with_network(of_rung[rung], network) for rung in (rungs[0], rungs[-1])]


def ratios(
    lowest: "CellWithoutData",
    highest: "CellWithoutData",
    cluster: ClusterDescription,
    nodes: Sequence[int] = RATIO_NODES,
    rates: Sequence[float] = RATES_GBIT_PER_SECOND,
    compute: Sequence[float] = COMPUTE_SECONDS,
) -> Iterator[Row]:
    """A row for each number of nodes, rate of a node's link in Gbit/s, and seconds of computing in a step.

    No step of either rung leaves a call under way.
    """
    for number in nodes:
        for rate in rates:
            linked = next(iter(cluster.at_rates([rate])), cluster)
            seconds = [_seconds(rung, linked, number, compute) for rung in (lowest, highest)]
            for computing, naive, hsgd in zip(compute, *seconds):
                yield {
                    "nodes": number,
                    "workers": number * cluster.workers_per_node,
                    "kind": "simulated",
                    "cluster": cluster.name,
                    "accelerator": RATIO_DEVICE,
                    "rate_gbit_per_second": rate,
                    "compute_seconds": computing,
                    "lowest_rung_seconds": naive,
                    "highest_rung_seconds": hsgd,
                    "ratio": naive / hsgd,
                }


def _seconds(
    rung: "CellWithoutData", cluster: ClusterDescription, nodes: int, compute: Sequence[float]
) -> list[float]:
    """Of steps that compute for so long."""
    own = rung.on(cluster, nodes).compute_seconds
    return [float(seconds) for seconds in rung.at_paces(cluster, nodes, np.array(compute) / own)]


def _with_network(cell: Cell, network: Cell) -> Cell:
    recipe = cell.recipe.model_copy(update={"batch": network.recipe.batch, "batch_per": "worker"})
    return replace(cell, data=network.data, model=network.model, recipe=recipe)
