"""The contract's third part: what GPUs ask of a method. All workers are in one process, and there is no GPU.

Methods train on `tests.accelerator`, in a process of its own.
"""

import json
from collections import Counter, deque
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import pytest

from tests import processes, small
from tests.contract.conftest import Subject
from tests.host_waits import counting
from thinwire.api.declarations import InTheLimit
from thinwire.base.placement import Cluster
from thinwire.train.status import StatusExchange
from thinwire.train.trainer import Trainer


def test_calls_of_all_channels_have_one_order(subject, monkeypatch):
    """No two workers wait for each other where each GPU takes up one call after the other.

    A worker's GPU begins the calls of all its channels in the order in which the worker makes them. In the
    worst case it begins one only when the one before has ended, which needs all members of that channel.
    Messages are not among these calls.
    """
    wanted = [Cluster(4, 2), Cluster(8, 2)]
    for cluster in [c for c in wanted if subject.skip(c) is None] or subject.clusters()[-1:]:
        run = subject.trainer(cluster)
        queues = {worker: deque() for worker in range(cluster.workers)}

        def note(channel, call, queues=queues, post=run.transport.post):
            if channel.size > 1:
                queues[channel.members[channel.rank]].append((channel.name, channel.members, call.verb))
            return post(channel, call)

        monkeypatch.setattr(run.transport, "post", note)
        run.train()
        carry_out(queues)
        assert not any(queues.values()), (
            f"on {cluster.workers} workers and {cluster.nodes} nodes, GPUs would wait for each other: "
            f"{stalled(queues)}; let all workers call their channels in one order"
        )


def carry_out(queues):
    """Take calls out of the queues of the workers, for as long as one is next for all its members."""
    going = True
    while going:
        going = False
        for name, members, verb in [queue[0] for queue in queues.values() if queue]:
            heads = [queues[member][0] if queues[member] else None for member in members]
            if all(head == (name, members, verb) for head in heads):
                going = True
                for member in members:
                    queues[member].popleft()


def stalled(queues):
    """Of workers whose next calls are others: what each calls next."""
    return ", ".join(
        f"worker {worker} calls run.{queue[0][0]}.{queue[0][2]}" for worker, queue in queues.items() if queue
    )


def test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values(subject):
    """A step waits at most once for each worker if the worker makes a ragged call in it; otherwise never.

    Not counted is the end of an epoch, with `epoch_end`, `evaluated` and `finish`: there the engine itself
    looks at losses and weights. The options are those of short runs, and those under which it is SSGD.
    """
    entries = subject.method.equals_ssgd
    ssgd = [entry.options if isinstance(entry, InTheLimit) else entry for entry in entries]
    for chosen in map(dict, [subject.method.short, *ssgd]):
        nodes, _ = chosen.pop("nodes", None), chosen.pop("linear", False)
        clusters = [c for c in subject.clusters() if nodes in (None, c.nodes)]
        if not clusters:
            continue  # in several processes there may be none
        for number, step in enumerate(trained(subject, clusters[0], chosen).steps, start=1):
            waits = step.waits.total()
            times = "; ".join(f"{wait} ({n} times)" for wait, n in step.waits.items())
            assert waits <= step.ragged, (
                f"with {chosen or 'its defaults'}, in step {number}, the hosts of {clusters[0].workers} "
                f"workers would wait {waits} times for their GPUs; allowed are {step.ragged}, one for each "
                f"worker that makes a ragged call. {times}"
            )


def test_trains_on_an_accelerator_as_on_a_cpu(subject):
    """The weights are the same to the bit, nothing mixes host and device, and the engine never waits."""
    found = trained(subject, subject.clusters()[0], subject.method.short)
    assert found.weights_there == found.weights_on_cpu
    assert [step.engine_waits for step in found.steps if step.engine_waits] == []


class Step(NamedTuple):
    """A step of all workers on the accelerator."""

    waits: Counter[str]  # that the method causes, by line
    engine_waits: Counter[str]
    ragged: int  # workers that made a ragged call
    operations: int


class Trained(NamedTuple):
    """A run on the accelerator beside the same run on the CPU."""

    steps: list[Step]
    weights_there: str
    weights_on_cpu: str


def trained(subject, cluster, options):
    return _trained(subject.path, cluster, json.dumps(options))


@cache
def _trained(path, cluster, options):
    return processes.apart(train_apart, path, cluster, options)


def train_apart(path, cluster, options):
    """Train the method in this file on both devices, in a process that has the accelerator."""
    from tests import accelerator

    subject = Subject.of(path)
    on_cpu = subject.trainer(cluster, json.loads(options))
    on_cpu.train()
    with pytest.MonkeyPatch.context() as monkeypatch:
        accelerator.install(monkeypatch)
        run = subject.trainer(cluster, json.loads(options), device=accelerator.DEVICE)
        steps = list(counted_steps(run, subject.files, monkeypatch))
        return Trained(steps, weights_of(run), weights_of(on_cpu))


def weights_of(run):
    weights, buffers = run.shipped()
    return small.digest([tensor.cpu() for tensor in (*weights, *buffers)])


def counted_steps(run, files, monkeypatch):
    """Train to the end; give what each step counted."""
    ragged = set()
    worker_of = {id(c): rank for rank, worker in enumerate(run.workers) for c in worker.channels.values()}

    def note(channel, call):
        if call.ragged and id(channel) in worker_of:
            ragged.add(worker_of[id(channel)])

    for way in ("post", "send"):
        go = getattr(run.transport, way)
        monkeypatch.setattr(run.transport, way, lambda *a, go=go: (note(*a), go(*a))[1])
    for step in range(1, run.total_steps + 1):
        ragged.clear()
        with counting(files) as counts, uncounted(counts, monkeypatch):
            run.train(until=step)
        yield Step(counts.waits, counts.engine_waits, len(ragged), counts.operations)


@contextmanager
def uncounted(counts, monkeypatch):
    """Count neither the end of an epoch nor the exchange of the status, which comes about once a second."""

    def paused(function):
        def pause(*args):
            counts.pauses = True
            try:
                return function(*args)
            finally:
                counts.pauses = False

        return pause

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_end_epoch", paused(Trainer._end_epoch))
        for name in ("exchange", "require_finite"):
            patch.setattr(StatusExchange, name, paused(getattr(StatusExchange, name)))
        yield
