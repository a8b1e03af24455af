"""What an emulated cluster adds to the simulation of a described one, found from traces of emulated runs.

A schedule has the computing of one worker alone. Beside others, computing takes longer: see `contention`.
Handing a call over takes time, too: tensors are copied and threads are woken. And a call between nodes has a
latency that does not follow from its bytes. These two numbers belong to the software and to a kind of calls,
and not to a method. So one method for each kind calibrates the simulation of all.

How emulated links and gloo send is known, so it is not fitted: see `EmulatedLoads`.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import ceil
from statistics import median

import numpy as np
import pandas as pd

from thinwire.base.placement import Cluster
from thinwire.config.hardware import ClusterDescription
from thinwire.emulation.network import BURST_BYTES
from thinwire.simulation import timeline
from thinwire.simulation.call_seconds import Links, Loads, Phase, Transfer
from thinwire.simulation.program import Compute, Floats, Post, Step, kind_of_call
from thinwire.simulation.simulate import WARM_UP_STEPS, SimulatedCell
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS, OPTIMIZER, SERVER, TRANSPORT
from thinwire.trace.trace_file import COMPUTE, Trace
from thinwire.traffic.wire_bytes import payload_rate

# The activities that are the same alone and beside others.
_COMPUTING = (FORWARD, BACKWARD, OPTIMIZER)
_MOST_LATENCY_SECONDS, _HALVINGS = 0.02, 20


def _of_steps(trace: Trace) -> pd.DataFrame:
    """A row a span; of the harness only the beginning of a step, where it makes a batch."""
    spans = trace.spans.to_pandas()
    spans = spans[(spans.track == COMPUTE) & (spans.step >= WARM_UP_STEPS)]
    spans = spans.assign(seconds=spans.end_seconds - spans.begin_seconds)
    place = ["worker", "step"]
    begin = spans[spans.activity != HARNESS].groupby(place).begin_seconds.min().rename("first").reset_index()
    spans = spans.merge(begin, on=place)
    return spans[(spans.activity != HARNESS) | (spans.begin_seconds < spans["first"])]


@dataclass(frozen=True)
class Contention:
    """Observed steps of workers that share the machine."""

    paces: Floats  # [observed steps, workers]: seconds of computing beside others, over those alone

    def draw(self, steps: int, seed: int) -> Floats:
        """[steps, workers]: paces of whole observed steps, because workers are slow together."""
        return np.random.default_rng(seed).choice(self.paces, steps)

    @property
    def typical(self) -> float:
        """The median pace."""
        return float(np.median(self.paces))


def contention(traces: Sequence[tuple[Trace, Sequence[Step]]]) -> Contention:
    """Measure it in emulated runs with as many workers, each with the schedule of its first worker."""
    paces = [_computing(trace) / _computing_alone(steps) for trace, steps in traces]
    return Contention(np.concatenate(paces))


def _computing(trace: Trace) -> Floats:
    """[steps, workers]: seconds of computing in each step."""
    spans = _of_steps(trace)
    chosen = spans[spans.activity.isin(_COMPUTING)]
    seconds: pd.Series = chosen.groupby(["step", "worker"]).seconds.sum()
    return seconds.unstack().to_numpy()


def _computing_alone(steps: Sequence[Step]) -> float:
    """Seconds of computing in the mean step of one worker alone."""
    counted = steps[WARM_UP_STEPS:]
    every = [o for step in counted for o in step if isinstance(o, Compute) and o.kind in _COMPUTING]
    return sum(o.seconds for o in every) / len(counted)


@dataclass(frozen=True)
class CallCost:
    """What calls of one kind cost beyond their bytes."""

    hand_over_seconds: float  # of computing, to hand a call over, for a worker alone
    latency_seconds: float  # of a call between nodes


@dataclass(frozen=True)
class Calibration:
    """What the machine and the software add."""

    contention: Contention
    costs: Mapping[str, CallCost] = field(default_factory=dict)  # by the kind of a call
    burst_bytes: int = BURST_BYTES  # that a link passes on at once after a pause

    def hand_over_seconds(self, post: Post) -> float:
        """How long it takes to hand a call over; nothing is known about kinds that were not calibrated."""
        cost = self.costs.get(kind_of_call(post.verb, post.ragged))
        return 0.0 if cost is None or len(post.members) == 1 else cost.hand_over_seconds

    def with_hand_overs(self, steps: Sequence[Step]) -> list[Step]:
        """The steps, with the computing that it takes to hand calls over."""
        made: list[Step] = []
        for step in steps:
            made.append([])
            for operation in step:
                if isinstance(operation, Post) and (seconds := self.hand_over_seconds(operation)):
                    made[-1].append(Compute(TRANSPORT, operation.verb, seconds))
                made[-1].append(operation)
        return made

    @property
    def latency_seconds(self) -> dict[str, float]:
        """Of calls between nodes, by their kind."""
        return {kind: cost.latency_seconds for kind, cost in self.costs.items()}


@dataclass(frozen=True)
class Sample:
    """An emulated run."""

    trace: Trace
    seconds: float  # of its typical step
    contention: Contention  # at the time of the run
    simulate: Callable[[Calibration], float]  # gives the simulated seconds of its step


def costs_of_calls(samples: Mapping[str, Sequence[Sample]]) -> dict[str, CallCost]:
    """Find the costs with which the simulated steps of these runs take as long as the real ones.

    Args:
        samples: for each kind of calls, runs of a method that makes them. The method may also make calls of
            earlier kinds.
    """
    costs: dict[str, CallCost] = {}
    for kind, runs in samples.items():
        hand_over = median(_hand_over_seconds(run, kind) for run in runs)
        low, high = 0.0, _MOST_LATENCY_SECONDS
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            tried = {**costs, kind: CallCost(hand_over, middle)}
            simulated = [run.simulate(Calibration(run.contention, tried)) for run in runs]
            too_slow = median(one / run.seconds for one, run in zip(simulated, runs)) > 1
            low, high = (low, middle) if too_slow else (middle, high)
        costs[kind] = CallCost(hand_over, (low + high) / 2)
    return costs


def _hand_over_seconds(run: Sample, kind: str) -> float:
    """Typical seconds of handing over a call of a kind; a server that answers at once is left out."""
    spans = _of_steps(run.trace)
    busy = spans[spans.activity == TRANSPORT].groupby(["worker", "call"]).seconds.sum().rename("busy")
    served = spans[spans.activity == SERVER].call
    calls = run.trace.calls.to_pandas().set_index(["worker", "number"])
    both = calls.join(busy.rename_axis(["worker", "number"]), how="inner")
    both = both[~both.index.get_level_values("number").isin(served)]
    kinds = [kind_of_call(verb, ragged) for verb, ragged in zip(both.verb, both.ragged)]
    return float(both.busy[np.array(kinds) == kind].median()) / run.contention.typical


def simulated_on(
    cell: SimulatedCell, described: ClusterDescription, calibration: Calibration
) -> timeline.Timeline:
    """Simulate a cell on an emulated cluster."""
    handing = copy(cell)
    handing.steps = {worker: calibration.with_hand_overs(steps) for worker, steps in cell.steps.items()}
    programs = handing.programs()
    loads = EmulatedLoads(described, cell.cluster, calibration.burst_bytes, calibration.latency_seconds)
    paces = calibration.contention.draw(len(programs[0]), seed=0)
    return timeline.by_events(programs, cell.cluster, loads, paces)


_HOPS_OF_TWO = {"mean": 2, "gather": 1, "ragged gather": 1, "broadcast": 1, "push_pull": 1}


class EmulatedLoads(Loads):
    """The loads of calls on one emulated cluster."""

    def __init__(
        self,
        described: ClusterDescription,
        cluster: Cluster,
        burst_bytes: int,
        latency_seconds: Mapping[str, float],
    ) -> None:
        """Prepare.

        Args:
            described: its links, buses and algorithms.
            cluster: its workers and nodes.
            burst_bytes: that a link passes on at once after a pause.
            latency_seconds: of calls between nodes, by their kind; of others, it is that of the description.
        """
        super().__init__(described, cluster)
        self._burst_bytes, self._latency_seconds = burst_bytes, latency_seconds
        self._burst_seconds = burst_bytes / described.link.rate_bytes_per_second
        self._rate = payload_rate(described.link.rate_bytes_per_second)

    def free_links(self) -> Links:
        """All links and buses of the cluster; a link that has paused has a full token bucket."""
        return Links(self.links, self.cluster.nodes, self._burst_seconds)

    def phases(self, kind: str, transfers: Sequence[Transfer]) -> tuple[Phase, ...]:
        """The phases of a call of a kind with these transfers."""
        if kind == "mean" and kind in self._latency_seconds and transfers[0].between.any():
            between, inside, received, hops = transfers[0]
            half = Transfer(between / 2, inside / 2, received / 2, hops / 2)
            return (self._phase_of(kind, half, 0.5),) * 2
        return tuple(self._phase_of(kind, transfer) for transfer in transfers)

    def _phase_of(self, kind: str, transfer: Transfer, share: float = 1.0) -> Phase:
        """The phase of a transfer of a call, which has this share of the latency of its kind."""
        link, between, hops = self.described.link, transfer.between, transfer.hops
        latency = least = self.described.call_latency_seconds
        if between.any():
            latency = self._latency_seconds.get(kind, latency)
            # Two members calibrate it. Among more, there are more hops; many bytes hide them, few do not.
            least = latency * hops / _HOPS_OF_TWO[kind] if kind in self._latency_seconds else latency
            latency *= share
            if kind == "gather" and hops == 1:  # between two members
                latency += self._late_seconds(between.max() / 2)
            if share < 1 and link.latency_seconds:
                latency += self._ring_latency_seconds(float(between.max()), hops)
                least += self._ring_latency_seconds(0.0, hops)
            else:
                latency, least = (seconds + hops * link.latency_seconds for seconds in (latency, least))
        return self.phase(transfer, latency, least)

    def _ring_latency_seconds(self, half_bytes: float, hops: float) -> float:
        """How long a phase of gloo's ring waits for the latency of links."""
        latency = self.described.link.latency_seconds
        return ring_latency_seconds(half_bytes, round(hops) + 1, latency, self._rate, self._burst_seconds)

    def _late_seconds(self, half_bytes: float) -> float:
        """How much longer a gather between two members takes, if one of them is late.

        gloo sends a payload in two halves. Two members have one connection, so the late one can say that it
        is ready for the second half only behind all that it sends. A half within a burst takes no time.
        """
        return half_bytes / self._rate if 0 < self._burst_bytes < half_bytes else 0.0


SEGMENT_BYTES = 2**20  # `maxSegmentSize` of gloo's all-reduce


def ring_latency_seconds(
    half_bytes: float, members: int, latency: float, rate_bytes_per_second: float, burst_seconds: float = 0.0
) -> float:
    """How much longer half an all-reduce of gloo takes than its bytes: all adding, or all passing on.

    A ring of W members has 2 (W-1) steps, so the algorithm waits for 2 (W-1) latencies. gloo waits longer: it
    cuts the bytes of a member into segments and has two under way. It sends a segment only when the receiver
    has said that it is ready, which takes another latency. The receiver says so when the last segment but one
    has arrived. Two members have one connection: then that word also goes behind what the receiver itself is
    sending.

    Source: gloo/allreduce.cc (`ring`) and gloo/transport/tcp/pair.cc (`sendNotifyRecvReady`) at PyTorch 2.x.

    Args:
        half_bytes: that a member sends in this half.
        members: of the ring.
        latency: of a link, one way, in seconds.
        rate_bytes_per_second: of a link, payload.
        burst_seconds: by how much a link is ahead of its rate after as long a pause. That before the first
            segment is not counted here.
    """
    in_all = ceil(half_bytes * members / (members - 1) / SEGMENT_BYTES)
    of_member = ceil(max(in_all, 2 * members) / members)
    segments = of_member * (members - 1)
    seconds = half_bytes / segments / rate_bytes_per_second
    handed_over: list[float] = []  # to the connection, by segment
    sent: list[float] = []
    for number in range(segments):
        ready = sent[number - 2] + latency if number >= 2 else 0.0
        before = [end for begin, end in zip(handed_over, sent) if begin <= ready]
        said = max([ready, *before]) if members == 2 else ready
        handed_over.append(max(ready, said + latency))
        free = sent[-1] if sent else handed_over[0]
        begin = max(free, handed_over[-1])
        sent.append(begin + seconds - min(burst_seconds, begin - free))
    return sent[-1] + latency - segments * seconds
