"""Two questions that only the simulator answers: the rate that DASO's saving requires, and HSGD's ratio.

*Required rate*: that of a node's link at which DASO saves a share of the time, against each of three
baselines. A run of DASO has blocking epochs at both ends, and cycles between. Cycling is simulated with the
interval at which the publication begins. The mean at the end of each epoch is left out, in favour of DASO.
The slower the links, the larger is the share that DASO saves, as long as its own exchanges are hidden.

*Ratio*: how many times as long a step at the foot of HSGD's ladder takes as one at its top, over compute and
links. Both rungs are those of the suite with the ladder. Network and batch are those of DASO's suite. A
step's computing is scaled, as if devices or batches were others.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.config.clusters import ClusterDescription
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.config.suite_schema import Round

if TYPE_CHECKING:  # the pipeline reads the names of suites here, and PyTorch takes its time
    from thinwire.simulation.without_data import CellWithoutData, MeanStep


SUITE, RATE_CLUSTER, RATE_DEVICE = "claims/daso_time", "infiniband_800g_4gpus", "a100_tf32"
RATE_NODES = (4, 8, 16, 32, 64)
# The publication saves up to this share of the time; 8 of its 90 epochs are blocking.
SAVED = 0.34
BLOCKING_EPOCHS, EPOCHS = 8, 90
BASELINES = ("ssgd_no_overlap", "ssgd", "ssgd_bf16")
_BLOCKING, _CYCLING = "daso", "daso_cycling"
_ROUNDS = {_CYCLING: Round(steps=4)}  # between two exchanges; other schedules are the same in every step
LEAST_GIGABYTES_PER_SECOND = 0.001
_PRECISION = 1.01  # of the rate, as a factor

Row = dict[str, object]
Simulated = Callable[[str, ClusterDescription, int], "MeanStep"]


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


def simulated() -> Simulated:
    """A function that simulates a method of the suite on so many nodes of a cluster.

    Raises:
        UserError: the suite, the cluster or the profile cannot be read.
    """
    from thinwire.simulation.without_data import EVERY_STEP, CellWithoutData

    methods = (*BASELINES, _BLOCKING, _CYCLING)
    first = {cell.method.label: cell for cell in cells(SUITE) if cell.repetition == 0}
    mirrored = {
        method: CellWithoutData(
            first[method],
            first[method].workers // first[method].nodes,
            RATE_DEVICE,
            _ROUNDS.get(method, EVERY_STEP),
        )
        for method in methods
    }
    return lambda method, cluster, nodes: mirrored[method].on(cluster, nodes)


def required_rates(
    step: Simulated, cluster: ClusterDescription, nodes: Sequence[int] = RATE_NODES, share: float = SAVED
) -> Iterator[Row]:
    """A row for each number of nodes and each baseline, with rates in GB/s (10^9 bytes) of a node's link.

    Args:
        step: simulates the mean step of a method on so many nodes of a cluster.
        cluster: whose link has the highest rate that is tried.
        nodes: numbers of nodes.
        share: of the time that is saved.
    """
    offered = cluster.link.rate_bytes_per_second / 1e9
    for number in nodes:
        for baseline in BASELINES:
            saved = _Saved(step, cluster, number, baseline)
            rate = highest_rate(saved.at, share, LEAST_GIGABYTES_PER_SECOND, offered)
            bound = highest_rate(saved.with_free_exchanges_at, share, LEAST_GIGABYTES_PER_SECOND, offered)
            yield {
                "nodes": number,
                "baseline": baseline,
                "kind": "simulated",
                "cluster": cluster.name,
                "profile": RATE_DEVICE,
                "saved_percent": 100 * share,
                "required_gigabytes_per_second": math.nan if rate is None else rate,
                "exposed_at_required_percent": math.nan if rate is None else saved.exposed_percent(rate),
                "required_with_free_exchanges_gigabytes_per_second": math.nan if bound is None else bound,
                "offered_gigabytes_per_second": offered,
                "saved_at_offered_percent": 100 * saved.at(offered),
                "exposed_at_offered_percent": saved.exposed_percent(offered),
            }


@dataclass(frozen=True)
class _Saved:
    """The share of a baseline's time that DASO saves, on so many nodes."""

    step: Simulated
    cluster: ClusterDescription
    nodes: int
    baseline: str

    def at(self, rate: float) -> float:
        """With links of this rate, in GB/s."""
        return self._share(rate, self._seconds(_CYCLING, rate))

    def with_free_exchanges_at(self, rate: float) -> float:
        """The same, if the exchanges of cycling epochs took no time: a bound on what DASO could save."""
        return self._share(rate, self._seconds(_CYCLING, self.cluster.link.rate_bytes_per_second / 1e9))

    def exposed_percent(self, rate: float) -> float:
        """Of a step of the baseline."""
        return 100 * self.step(self.baseline, self._linked(rate), self.nodes).exposed_share

    def _share(self, rate: float, cycling: float) -> float:
        blocking = self._seconds(_BLOCKING, rate)
        own = (BLOCKING_EPOCHS * blocking + (EPOCHS - BLOCKING_EPOCHS) * cycling) / EPOCHS
        return 1 - own / self._seconds(self.baseline, rate)

    def _seconds(self, method: str, rate: float) -> float:
        return self.step(method, self._linked(rate), self.nodes).seconds

    def _linked(self, rate: float) -> ClusterDescription:
        own = self.cluster.link.rate_bytes_per_second / 1e9
        return self.cluster if rate == own else self.cluster.at_rates([8 * rate])[0]


LADDER, NETWORK = "claims/hsgd_ladder", "claims/daso_time"
RATIO_CLUSTER, RATIO_DEVICE = "ethernet_25g_4gpus", "a100_tf32"
RATIO_NODES = (2, 8, 32)
# Two for each decade.
RATES_GBIT_PER_SECOND = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
COMPUTE_SECONDS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def ends_of_the_ladder(workers_per_node: int) -> "tuple[CellWithoutData, CellWithoutData]":
    """The lowest and the highest rung, with the network of the other suite.

    Args:
        workers_per_node: on the cluster.

    Raises:
        UserError: a suite or the profile cannot be read.
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
                    "profile": RATIO_DEVICE,
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
