"""The contract's second half: a method communicates through the channels only, and all of it is counted.

As in test_contract.py, each check works in one process and in several.
"""

import ast
import sys
from collections import Counter
from dataclasses import asdict, replace
from typing import NamedTuple

import pytest

from tests import small
from thinwire import plugins
from thinwire.api.channel import UnmeteredChannel
from thinwire.base import options
from thinwire.simulation.mirrored import MirroredTrainer, alike, roles
from thinwire.trace.recorder import RecordedCall
from thinwire.traffic.payload import describe
from thinwire.train.tracing import record_spans
from thinwire.transport.call import Pending, nbytes
from thinwire.transport.mirror import CannotMirror, Mirror


def test_every_byte_is_metered(subject, monkeypatch):
    """The ledgers agree with a second count of the payloads, and what is sent is received."""
    for cluster in subject.clusters():
        run = subject.trainer(cluster)
        pushed: Counter[int] = Counter()
        worker_of = {
            id(channel): rank
            for rank, worker in zip(run.transport.ranks, run.workers)
            for channel in worker.channels.values()
        }

        def weigh(channel, call, pushed=pushed, worker_of=worker_of):
            if isinstance(channel, UnmeteredChannel) or channel.size == 1:
                return
            handed = list(call.payload.values()) or call.tensors
            if call.verb != "broadcast" or call.partner == channel.rank:
                pushed[worker_of[id(channel)]] += nbytes(handed)
            if call.ragged:
                pushed[worker_of[id(channel)]] += 8 * len(call.payload)

        for way in ("post", "send"):
            go = getattr(run.transport, way)
            monkeypatch.setattr(run.transport, way, lambda *a, go=go, weigh=weigh: (weigh(*a), go(*a))[1])
        run.train()
        own = [worker.ledger.total() for worker in run.workers]
        assert [total.payload_push for total in own] == [pushed[rank] for rank in run.transport.ranks]
        totals = run.transport.share([asdict(total) for total in own])
        assert sum(t["wire_sent"] for t in totals) == sum(t["wire_received"] for t in totals)
        if cluster.nodes == 1:
            assert all(total["between_nodes"] == 0 for total in totals)
        if cluster.workers == 1:
            assert all(total["wire_sent"] == 0 for total in totals)


def test_unmetered_metadata_does_not_depend_on_the_data(subject, monkeypatch):
    """On other images, payloads have the same kinds, order and types, and the same sizes if not ragged.

    No ledger has these metadata, so a worker that pulls from a server or waits for a message must know them
    beforehand. In collectives, the transports compare them.
    """

    def metadata(data):
        run = subject.trainer(data=data)
        found, many = {}, Counter()

        def note(channel, call, payload):
            place = (run.step, channel.key, channel.rank, call.verb, call.partner, call.key)
            many[place] += 1
            found[place, many[place]] = (call.ragged, *describe(payload, call.ragged))

        def noting_complete(self, result, complete=Pending.complete):
            if self.call.verb == "push_pull":
                note(self.group, self.call, result)
            complete(self, result)

        def noting_send(channel, call, send=run.transport.send):
            note(channel, call, call.payload)
            return send(channel, call)

        with monkeypatch.context() as patch:
            patch.setattr(Pending, "complete", noting_complete)
            patch.setattr(run.transport, "send", noting_send)
            run.train()
        return found

    images = small.digits(pad=1)
    first = metadata(images)
    other = metadata(replace(images, train_inputs=images.train_inputs.flip(0))) if first else {}
    for place in first.keys() & other.keys():
        assert first[place] == other[place], (
            f"{place}: it depends on the images, and nobody counts it: ragged?"
        )


def test_does_not_change_the_answers_it_receives(subject, monkeypatch):
    """Workers of one process share the answers of gather, push_pull and the mean of an evaluation."""
    answered = []
    complete = Pending.complete

    def noting_complete(self, result):
        if self.call.verb in ("gather", "push_pull") or self.call.fresh:
            answered.append((result, elements(result)))
        complete(self, result)

    def elements(answer):
        """Of each tensor where it stands, its elements, and what is hung on it."""
        parts = answer if isinstance(answer, list) else [answer]
        named = [part if isinstance(part, dict) else {"mean": part} for part in parts]
        return [
            [(kind, small.digest([tensor]), [*vars(tensor)]) for kind, tensor in p.items()] for p in named
        ]

    monkeypatch.setattr(Pending, "complete", noting_complete)
    subject.trainer().train()
    for answer, as_answered in answered:
        assert elements(answer) == as_answered, "an answer that workers may share was changed: copy it first"


def test_a_mirrored_worker_sends_what_it_sends_among_all_workers(subject):
    """One worker of each role, whose mates are taken to do what it does, has the ledger of the whole run.

    All workers of a role make the same calls. `thinwire schedule` and simulations rest on this. Sizes of
    ragged payloads are compared with their mean. What depends on learning is not compared.
    """
    learned, refused = [], None
    for cluster in subject.clusters():
        run = subject.trainer(cluster)
        recorders = record_spans(run)
        run.train()
        ledgers = run.transport.share([worker.ledger.state() for worker in run.workers])
        recorded = run.transport.share([[asdict(call) for call in each.calls] for each in recorders])
        calls = [[RecordedCall(**call) for call in own] for own in recorded]
        mirrored = {}

        def calls_of(rank, cluster=cluster, mirrored=mirrored, prepared=run.workers[0].method.prepared):
            mirrored[rank] = mirror(subject, cluster, rank, prepared)
            return mirrored[rank].calls

        try:
            found = roles(cluster, calls_of)
        except CannotMirror as error:
            refused = str(error)
            continue
        where = f"{cluster.workers} workers on {cluster.nodes} nodes"
        for role in found:
            for rank in role.workers:
                if not alike(role.worker, calls[role.worker], rank, calls[rank]):
                    assert depends_on_the_images(subject, cluster, ledgers), (
                        f"{where}: worker {rank} makes other calls than worker {role.worker}, and a schedule "
                        "takes both for alike: it tells apart only the first worker of all, the first one of "
                        "each node, and the partners that their calls name"
                    )
                    learned.append(where)
            ragged = any(call.ragged for call in mirrored[role.worker].calls)
            for rank in mirrored.keys() & role.workers:
                own, all_workers = mirrored[rank].ledger, [ledgers[mate] for mate in role.workers]
                if own == ledgers[rank] or (ragged and is_near_the_mean(own, all_workers)):
                    continue
                assert depends_on_the_images(subject, cluster, ledgers), (
                    f"{where}: worker {rank} sends {ledgers[rank]} among all workers, and {own} if its mates "
                    "do what it does: what it sends depends on who they are"
                )
                learned.append(where)
    if learned:
        pytest.skip(f"what it sends depends on what it learns ({', '.join(dict.fromkeys(learned))})")
    if refused:
        pytest.skip(refused)


class Mirrored(NamedTuple):
    ledger: dict[str, list[int]]
    calls: list[RecordedCall]


def mirror(subject, cluster, rank, prepared):
    """The ledger and the calls of a worker in a whole run, without its mates."""
    config = options.resolve(subject.method, subject.method.short)
    trainer = MirroredTrainer(subject.task(cluster), subject.method, config, Mirror(cluster.workers, rank))
    trainer.setup(prepared)
    (recorder,) = record_spans(trainer)
    trainer.train()
    return Mirrored(trainer.workers[0].ledger.state(), recorder.calls)


def is_near_the_mean(own, ledgers):
    """Are the messages as many, and the bytes within 2 % of the mean over the workers of a role?"""
    if any(ledger.keys() != own.keys() for ledger in ledgers):
        return False
    sums = [[sum(column) for column in zip(*ledger.values())] for ledger in (own, *ledgers)]
    mine, *others = sums
    means = [sum(column) / len(others) for column in zip(*others)]
    return mine[0] == means[0] and all(abs(a - b) <= 0.02 * b for a, b in zip(mine[1:], means[1:]))


def depends_on_the_images(subject, cluster, ledgers):
    """Do the workers send something else if they learn from other images?"""
    for other in (small.digits(pad=1).train_inputs.flip(0), small.digits(pad=1).train_inputs.flip(3)):
        run = subject.trainer(cluster, data=replace(small.digits(pad=1), train_inputs=other))
        run.train()
        if run.transport.share([worker.ledger.state() for worker in run.workers]) != ledgers:
            return True
    return False


FORBIDDEN = (
    *("torch.distributed", "socket", "multiprocessing", "threading", "ctypes", "gc", "inspect", "greenlet"),
    "thinwire.transport",
)


# What the engine alone does to a channel or an answer.
ENGINES_OWN = ("complete", "meter", "shut", "unclaimed")


def is_outside_the_contract(node):
    """Whether this attribute is the engine's own or private, and neither the method's nor torch's."""
    owner = ast.unparse(node.value)
    if owner in ("self", "cls") or owner.partition(".")[0] in ("torch", "nn"):
        return False
    private = node.attr.startswith("_") and not node.attr.startswith("__")
    return private or node.attr in ENGINES_OWN


def test_communicates_through_the_channels_only(subject):
    for node in (node for path in subject.files for node in ast.walk(ast.parse(path.read_bytes()))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
            assert not is_outside_the_contract(node), f"line {node.lineno}: {names[0]} is the engine's own"
        for name in names:
            for road in FORBIDDEN:
                past = name == road or name.startswith(f"{road}.")
                assert not past, f"line {node.lineno}: {name}; channels are the only road"


def test_workers_share_only_the_channels(subject):
    """Each worker gets its own module, as in its own process; the result must not change."""
    together, apart = subject.trained(), subject.trainer()
    own = []
    for rank, worker in zip(apart.transport.ranks, apart.workers):
        own.append(f"own_{subject.name}_{rank}")
        method = plugins.load_file("method", subject.path, own[-1])
        worker.method = method(worker.method.config, worker.run)
    apart.setup(together.workers[0].method.prepared)
    apart.train()
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]
    assert small.everything(together) == small.everything(apart), "workers share more than the channels"
