"""The contract's third part: what GPUs ask of a method. It is seen in one process and on CPU tensors."""

from collections import Counter, deque

from tests.contract.host_syncs import HostSyncs
from thinwire.api.declarations import InTheLimit
from thinwire.base.placement import Cluster
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


def test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values(subject, monkeypatch):
    """A step waits at most once for each worker if the worker makes a ragged call in it; otherwise never.

    Not counted is the end of an epoch, with `epoch_end`, `evaluated` and `finish`: there the engine itself
    looks at losses and weights. The options are those of short runs, and those under which it is SSGD.
    """
    syncs = HostSyncs(subject.files)
    end_epoch = Trainer._end_epoch

    def end_epoch_uncounted(trainer, epochs):
        with syncs.paused():
            end_epoch(trainer, epochs)

    monkeypatch.setattr(Trainer, "_end_epoch", end_epoch_uncounted)
    entries = subject.method.equals_ssgd
    ssgd = [entry.options if isinstance(entry, InTheLimit) else entry for entry in entries]
    for chosen in map(dict, [subject.method.short, *ssgd]):
        nodes, _ = chosen.pop("nodes", None), chosen.pop("linear", False)
        clusters = [c for c in subject.clusters() if nodes in (None, c.nodes)]
        if clusters:  # in several processes there may be none
            require_few_waits(subject.trainer(clusters[0], chosen), syncs, chosen, monkeypatch)


def require_few_waits(run, syncs, chosen, monkeypatch):
    """Train with these options, and compare each step's waits with its workers that make ragged calls."""
    ragged = set()
    worker_of = {id(c): rank for rank, worker in enumerate(run.workers) for c in worker.channels.values()}

    def note(channel, call):
        if call.ragged and id(channel) in worker_of:
            ragged.add(worker_of[id(channel)])

    for way in ("post", "send"):
        go = getattr(run.transport, way)
        monkeypatch.setattr(run.transport, way, lambda *a, go=go: (note(*a), go(*a))[1])
    with syncs.counting():
        for step in range(1, run.total_steps + 1):
            ragged.clear()
            syncs.found.clear()
            run.train(until=step)
            times = "; ".join(f"{sync} ({n} times)" for sync, n in Counter(syncs.found).items())
            assert len(syncs.found) <= len(ragged), (
                f"with {chosen or 'its defaults'}, in step {step}, the hosts of {len(run.workers)} workers "
                f"would wait {len(syncs.found)} times for their GPUs; allowed are {len(ragged)}, one for "
                f"each worker that makes a ragged call. {times}"
            )
