"""A question that only the simulator answers: HSGD's ratio; and the search for a rate.

*Ratio*: how many times as long a step at the foot of HSGD's ladder takes as one at its top, over compute and
links. Both rungs are those of the suite with the ladder. Network and batch are those of DASO's suite. A
step's computing is scaled, as if devices or batches were others.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.config.clusters import ClusterDescription
from thinwire.config.expand import cells
from thinwire.config.suite import load

if TYPE_CHECKING:  # the pipeline reads the names of suites here, and PyTorch takes its time
    from thinwire.simulation.without_data import CellWithoutData


LADDER, NETWORK = "claims/hsgd_ladder", "claims/daso_time"
RATIO_CLUSTER, RATIO_DEVICE = "ethernet_25g_4gpus", "a100_tf32"
RATIO_NODES = (2, 8, 32)
# Two for each decade.
RATES_GBIT_PER_SECOND = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
COMPUTE_SECONDS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_PRECISION = 1.01  # of the rate, as a factor

Row = dict[str, object]


def highest_rate(saved: Callable[[float], float], share: float, low: float, high: float) -> float | None:
    """The highest rate at which the share is saved, by bisection on a logarithmic axis.

    Args:
        saved: the share at a rate; it falls as the rate rises.
        share: that is asked for.
        low: the lowest rate, above 0.
        high: the highest rate, in the same unit.

    Returns:
        A rate at which at least the share is saved, at most 1 % below the highest one; `high` if it is saved
        even there; None if it is not saved even at `low`.

    Raises:
        UserError: the two rates are no range.
    """
    if not 0 < low < high < math.inf:
        raise UserError(
            f"{low:g} to {high:g} is no range of rates: give a lower rate above 0 and a higher one"
        )
    if saved(high) >= share:
        return high
    if saved(low) < share:
        return None
    while high > low * _PRECISION:
        between = math.sqrt(low * high)
        low, high = (between, high) if saved(between) >= share else (low, between)
    return low


def ends_of_the_ladder(workers_per_node: int) -> "tuple[CellWithoutData, CellWithoutData]":
    """The lowest and the highest rung, with the network of the other suite.

    Args:
        workers_per_node: on the cluster.

    Raises:
        UserError: a suite or the accelerator cannot be read.
    """
    from thinwire.simulation.without_data import CellWithoutData

    rungs = load(LADDER).ladder
    network = cells(NETWORK)[0]
    of_rung = {cell.method.label: cell for cell in cells(LADDER) if cell.repetition == 0}
    lowest, highest = (_with_network(of_rung[rung], network) for rung in (rungs[0], rungs[-1]))
    return (
        CellWithoutData(lowest, workers_per_node, RATIO_DEVICE),
        CellWithoutData(highest, workers_per_node, RATIO_DEVICE),
    )


def ratios(
    lowest: "CellWithoutData",
    highest: "CellWithoutData",
    cluster: ClusterDescription,
    nodes: Sequence[int] = RATIO_NODES,
    rates: Sequence[float] = RATES_GBIT_PER_SECOND,
    compute: Sequence[float] = COMPUTE_SECONDS,
) -> Iterator[Row]:
    """A row for each number of nodes, rate and computing.

    Args:
        lowest: rung, whose step is divided.
        highest: rung, by whose step it is divided. No step of either leaves a call under way.
        cluster: its links get each of the rates.
        nodes: numbers of nodes.
        rates: of a node's link, in Gbit/s.
        compute: seconds for which a worker computes in a step.
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
