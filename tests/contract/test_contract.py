"""The contract that every method must keep. The checks run on every module in methods/.

Each check works both in one process with all workers and in several processes with one worker each. A run's
`workers` are those of this process; what concerns all workers goes through `run.transport.share`.
test_on_processes.py runs the checks on real processes.
"""

import ast
import math
import random
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist

from tests import small
from tests.contract.host_syncs import HostSyncs
from thinwire import checkpoint, options, plugins
from thinwire.call import Pending, nbytes
from thinwire.in_the_limit import InTheLimit
from thinwire.messages_in_flight import Flight
from thinwire.schedule.mirrored import MirroredTrainer
from thinwire.schedule.roles import roles
from thinwire.trace.recorder import RecordedCall
from thinwire.traffic.payload import describe
from thinwire.train.divergence import Diverged
from thinwire.train.record_spans import record_spans
from thinwire.train.trainer import Trainer
from thinwire.transport.inprocess import InProcess
from thinwire.transport.mirror import CannotMirror, Mirror
from thinwire.transport.processes import Processes
from thinwire.unmetered_channel import QuietChannel
from thinwire.worker_placement import Cluster

# How far a method may be from SSGD if it is SSGD, in double precision: what the order of adding leaves.
ROUNDING = 1e-11
# What the least of the methods reaches easily and chance does not.
LEAST_ACCURACY_PERCENT = 60


def test_describes_itself(subject):
    text = ast.get_docstring(ast.parse(subject.path.read_bytes()))
    assert text, "the module needs a docstring: the paper, the update rule, every deviation"
    for option in options.describe(subject.method):
        assert option.default != "(needed)", f"option {option.name} needs a default"
        assert option.help, f"option {option.name} needs a comment behind it that says what it is"


def test_same_bits_every_time(subject):
    runs = [subject.trainer(dtype=torch.float32) for _ in range(2)]
    for run in runs:
        run.train()
    assert small.everything(runs[0]) == small.everything(runs[1])


def test_runs_on_every_cluster_and_gives_finite_weights(subject):
    for cluster in subject.clusters():
        run = subject.trainer(cluster)
        run.train()
        weights, _ = run.shipped()
        assert all(bool(weight.isfinite().all()) for weight in weights)
        assert run.step == run.total_steps


def test_does_not_depend_on_the_order_of_the_workers(subject, monkeypatch):
    """In one process the last worker goes first. In several processes, calls are delayed at random."""
    forward, backward = (subject.trainer(subject.clusters()[-2 % len(subject.clusters())]) for _ in "ab")
    forward.train()
    together, post = InProcess.together, Processes.post
    delays = random.Random(forward.transport.ranks[0])

    def reversed_together(self, turns):
        return together(self, turns[::-1])[::-1]

    def late_post(self, channel, call):
        time.sleep(delays.uniform(0, 0.004))
        return post(self, channel, call)

    monkeypatch.setattr(InProcess, "together", reversed_together)
    monkeypatch.setattr(Processes, "post", late_post)
    backward.train()
    assert small.everything(forward) == small.everything(backward)


def test_evaluation_is_neutral(subject):
    """Looking at the weights after every step changes neither the training nor the ledgers."""
    watched, alone = subject.trainer(), subject.trainer()
    watched.train(after_step=Trainer.shipped)
    alone.train()
    assert small.everything(watched) == small.everything(alone)


def test_hooks_that_only_answer_change_nothing(subject, monkeypatch):
    """Weights, optimizer, memory, messages in flight and metrics are the same before and after each call."""

    def state(method):
        run = method.run
        return {
            "weights": small.digest(run.weights),
            "the optimizer": small.digest(run.optimizer.state_dict()) if hasattr(run, "optimizer") else "",
            "memory": small.digest(method.memory),
            "messages in flight": small.digest(method.flight.state()),
            "metrics": small.digest(run.metrics),
        }

    def watched(name, ask):
        def asked(method, *arguments):
            before = state(method)
            answer = ask(method, *arguments)
            after = state(method)
            changed = [what for what in before if before[what] != after[what]]
            assert not changed, f"{name} may only read, and changes {' and '.join(changed)}"
            return answer

        return asked

    for hook in ("skip", "wants_gradient", "wants_epoch_loss", "evaluated"):
        monkeypatch.setattr(subject.method, hook, watched(hook, getattr(subject.method, hook)))
    run = subject.trainer()
    run.skip()
    run.train(after_step=Trainer.shipped)


def test_all_workers_ship_the_same_weights(subject):
    run = subject.trainer()
    run.train(until=run.total_steps - 2)
    with torch.no_grad():
        shipped = run.transport.together([lambda w=w: w.shipped()[0] for w in run.workers])
    shapes = [weight.shape for weight in run.workers[0].run.weights]
    assert all([weight.shape for weight in weights] == shapes for weights in shipped)
    assert len(set(run.transport.share([small.digest(weights) for weights in shipped]))) == 1


@pytest.mark.parametrize("stop", [1, 6, 11])
def test_resumes_to_the_same_bits(subject, stop, tmp_path):
    """Interrupt after `stop` steps, with messages in flight; save, and resume in a new process."""
    whole, first, second = (subject.trainer(dtype=torch.float32) for _ in range(3))
    whole.train()
    first.train(until=stop)
    checkpoint.save(tmp_path, stop, first.state())
    second.load(checkpoint.latest(tmp_path, warn=pytest.fail))
    second.train()
    assert small.everything(second) == small.everything(whole)


def test_equals_ssgd_with_the_options_it_declares(subject, note):
    """In double precision, with momentum, weight decay, batch norm, dropout and a changing rate."""
    if not subject.method.equals_ssgd:
        pytest.skip("declares no options under which it is SSGD")
    for entry in subject.method.equals_ssgd:
        limit = entry if isinstance(entry, InTheLimit) else InTheLimit(entry, ROUNDING, "rounding")
        chosen = dict(limit.options)
        nodes = chosen.pop("nodes", 1)
        clusters = [c for c in subject.clusters() if c.nodes == nodes]
        assert clusters or dist.is_initialized(), f"equals_ssgd asks for {nodes} nodes, which it cannot have"
        differs = moves = 0.0
        for cluster in clusters:
            run, ssgd = (
                subject.trainer(cluster, chosen),
                small.trainer(subject.task(cluster), "ssgd"),
            )
            first = [weight.clone() for weight in ssgd.workers[0].run.weights]
            for step in range(1, run.total_steps + 1):
                run.train(until=step)
                ssgd.train(until=step)
                mine, theirs = run.shipped()[0], ssgd.shipped()[0]
                differs = max(differs, largest_difference(mine, theirs))
                moves = max(moves, largest_difference(theirs, first))
                assert differs <= limit.tolerance, (
                    f"with {chosen or 'its defaults'} on {cluster.workers} workers, {nodes} nodes: a weight "
                    f"differs from SSGD's by {differs:.1e} after step {step}; allowed are "
                    f"{limit.tolerance:g} ({limit.reason})"
                )
        if limit is entry:
            note(
                f"equals SSGD in the limit with {limit.options}, within {limit.tolerance:g}: {limit.reason}; "
                f"the largest difference of a weight was {differs:.1e}"
            )
            assert limit.tolerance <= moves / 10, (
                f"{limit.options}: SSGD changes no weight by more than {moves:.2g}, so a tolerance of "
                f"{limit.tolerance:g} says little: at most a tenth of that"
            )


def largest_difference(mine, theirs):
    """The largest difference between two lists of tensors, entry by entry; NaN counts as infinite."""
    assert [weight.shape for weight in mine] == [weight.shape for weight in theirs]
    return max(float((a - b).abs().max().nan_to_num(math.inf)) for a, b in zip(mine, theirs))


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
            if isinstance(channel, QuietChannel) or channel.size == 1:
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
    other = metadata(replace(images, train_images=images.train_images.flip(0))) if first else {}
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


def test_draws_shared_choices_alike_on_all_workers(subject):
    """Workers that have drawn other numbers from `run.shared_generator` choose differently from then on."""

    def look(run):
        states = [small.digest([worker.run.shared_generator.get_state()]) for worker in run.workers]
        assert len(set(run.transport.share(states))) == 1, "workers drew other numbers from shared_generator"

    run = subject.trainer()
    look(run)
    run.train(after_step=look)


def test_every_message_in_flight_is_received(subject, monkeypatch):
    launched, landed = [], []
    launch, land = Flight.launch, Flight.landed

    def count_landed(self, now):
        for landing in land(self, now):
            landed.append(landing)
            yield landing

    monkeypatch.setattr(
        Flight, "launch", lambda self, *a, **k: (launched.append(self), launch(self, *a, **k))[1]
    )
    monkeypatch.setattr(Flight, "landed", count_landed)
    run = subject.trainer()
    run.train()
    assert len(launched) == len(landed)
    assert not any(len(worker.method.flight) for worker in run.workers)


def test_some_worker_holds_what_is_shipped_at_the_end(subject):
    """Otherwise the evaluation would compute an average whose bytes no ledger has."""
    cluster = next((c for c in subject.clusters() if c.workers > 1), None)
    if cluster is None:
        pytest.skip("runs on one worker only")
    # 13 steps, so that what a method does every few steps is not due at the end.
    run = subject.trainer(
        cluster, data=small.digits(13 * 24), batch=24, epochs=1, schedule={"name": "constant"}
    )
    assert run.total_steps == 13
    run.train()
    shipped, _ = run.shipped()

    def lists(tree):
        if isinstance(tree, dict):
            yield from (found for value in tree.values() for found in lists(value))
        if isinstance(tree, list):
            yield tree

    def are_shipped(held):
        alike = [getattr(t, "shape", None) for t in held] == [t.shape for t in shipped]
        return alike and all(torch.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(held, shipped))

    held = [list_ for w in run.workers for list_ in (w.run.weights, *lists(w.method.memory))]
    found = run.transport.share([any(map(are_shipped, held))] * len(run.workers))
    assert any(found), "no worker holds the weights that are shipped: average in finish()"


def test_a_mirrored_worker_sends_what_it_sends_among_all_workers(subject):
    """One worker of each role, whose mates are taken to do what it does, has the ledger of the whole run.

    `thinwire schedule` and simulations rest on this. Sizes of ragged payloads are compared with their mean.
    What depends on learning is not compared.
    """
    learned = []
    for cluster in subject.clusters():
        run = subject.trainer(cluster)
        run.train()
        ledgers = run.transport.share([worker.ledger.state() for worker in run.workers])
        mirrored = {}

        def calls_of(rank, cluster=cluster, mirrored=mirrored, prepared=run.workers[0].method.prepared):
            mirrored[rank] = mirror(subject, cluster, rank, prepared)
            return mirrored[rank].calls

        try:
            found = roles(cluster, calls_of)
        except CannotMirror as error:
            pytest.skip(str(error))
        for role in found:
            ragged = any(call.ragged for call in mirrored[role.worker].calls)
            for rank in mirrored.keys() & role.workers:
                own, all_workers = mirrored[rank].ledger, [ledgers[mate] for mate in role.workers]
                if own == ledgers[rank] or (ragged and is_near_the_mean(own, all_workers)):
                    continue
                where = f"{cluster.workers} workers on {cluster.nodes} nodes"
                assert depends_on_the_images(subject, cluster, ledgers), (
                    f"{where}: worker {rank} sends {ledgers[rank]} among all workers, and {own} if its mates "
                    "do what it does: what it sends depends on who they are"
                )
                learned.append(where)
    if learned:
        pytest.skip(f"what it sends depends on what it learns ({', '.join(dict.fromkeys(learned))})")


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
    for other in (small.digits(pad=1).train_images.flip(0), small.digits(pad=1).train_images.flip(3)):
        run = subject.trainer(cluster, data=replace(small.digits(pad=1), train_images=other))
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
    together, apart = subject.trainer(), subject.trainer()
    own = []
    for rank, worker in zip(apart.transport.ranks, apart.workers):
        own.append(f"own_{subject.name}_{rank}")
        method = plugins.load_file("method", subject.path, own[-1])
        worker.method = method(worker.method.config, worker.run)
    apart.setup(together.workers[0].method.prepared)
    together.train()
    apart.train()
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]
    assert small.everything(together) == small.everything(apart)


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
        nodes = chosen.pop("nodes", None)
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


def test_learns(subject, note):
    """Digits, with the options for short runs: far above chance, which is 10 %."""
    cluster = next((c for c in subject.clusters() if c.workers == 4), Cluster(4))
    run = subject.trainer(
        cluster,
        dtype=torch.float32,
        data=small.digits(1200, 500),
        epochs=15,
        evaluate_every_epochs=15,
        batch=48,
        optimizer={"lr": 0.05, "momentum": 0.9},
        schedule={"name": "cosine", "warmup_epochs": 1},
    )
    how = (
        f"on digits in {run.total_steps} steps on {cluster.workers} workers, with "
        f"{subject.method.short or 'its defaults'}; {LEAST_ACCURACY_PERCENT} % are asked for"
    )
    try:
        run.train()
    except Diverged as error:
        raise AssertionError(f"diverges {how}: {error}") from None
    accuracy = run.curve[-1]["test_accuracy_percent"]
    assert accuracy >= LEAST_ACCURACY_PERCENT, f"learns to only {accuracy:.1f} % accuracy {how}"
    note(f"learns to {accuracy:.1f} % accuracy {how}")
