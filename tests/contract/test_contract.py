"""The contract that every method must keep. The checks run on every module in methods/.

Here are those of what a run comes to. Those of what it sends are in test_channels.py, and those for GPUs in
test_gpus.py.

Each check works both in one process with all workers and in several processes with one worker each. A run's
`workers` are those of this process; what concerns all workers goes through `run.transport.share`.
test_on_processes.py runs the checks on real processes.
"""

import ast
import math
import random
import time
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import torch
import torch.distributed as dist

from tests import small
from thinwire.api.declarations import InTheLimit
from thinwire.api.flight import Flight
from thinwire.base import options
from thinwire.base.placement import Cluster
from thinwire.records import checkpoint
from thinwire.train.evaluation import Diverged
from thinwire.train.trainer import Trainer
from thinwire.transport.inprocess import InProcess
from thinwire.transport.processes import Processes

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
    again = subject.trainer(dtype=torch.float32)
    again.train()
    first = subject.trained(dtype=torch.float32)
    assert small.everything(again) == small.everything(first), "two runs with the same seeds differ"


def test_runs_on_every_cluster_and_gives_finite_weights(subject):
    for cluster in subject.clusters():
        run = subject.trained(cluster)
        weights, _ = run.shipped()
        assert all(bool(weight.isfinite().all()) for weight in weights)
        assert run.step == run.total_steps


def test_gradients_of_zero_leave_finite_weights(subject):
    """A layer may be dead, or masked: whoever divides by a norm meets zero then."""
    run = subject.trainer(dtype=torch.float32)
    for worker in run.workers:
        worker.model.register_forward_hook(lambda model, inputs, scores: 0 * scores)
    run.train(until=6)
    weights, _ = run.shipped()
    assert all(bool(weight.isfinite().all()) for weight in weights)


def test_does_not_depend_on_the_order_of_the_workers(subject, monkeypatch):
    """In one process the last worker goes first. In several processes, calls are delayed at random."""
    cluster = subject.clusters()[-2 % len(subject.clusters())]
    forward, backward = subject.trained(cluster), subject.trainer(cluster)
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
    assert small.everything(forward) == small.everything(backward), "it matters which worker goes first"


def test_evaluation_is_neutral(subject):
    """Looking at the weights after every step changes neither the training nor the ledgers."""
    watched = subject.trainer()
    watched.train(after_step=Trainer.shipped)
    assert small.everything(watched) == small.everything(subject.trained()), "evaluations change the run"


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
    whole = subject.trained(dtype=torch.float32)
    first, second = (subject.trainer(dtype=torch.float32) for _ in range(2))
    first.train(until=stop)
    checkpoint.save(tmp_path, stop, first.state())
    second.load(checkpoint.latest(tmp_path, warn=pytest.fail))
    second.train()
    assert small.everything(second) == small.everything(whole), f"a run resumed after {stop} steps differs"


def test_equals_ssgd_with_the_options_it_declares(subject, note):
    """In double precision, with momentum, weight decay, batch norm, dropout and a changing rate."""
    require_proof(subject.method)
    if not subject.method.equals_ssgd:
        pytest.skip("declares no options under which it is SSGD")
    for entry in subject.method.equals_ssgd:
        limit = entry if isinstance(entry, InTheLimit) else InTheLimit(entry, ROUNDING, "rounding")
        chosen = dict(limit.options)
        nodes, _ = chosen.pop("nodes", 1), chosen.pop("linear", False)
        clusters = [c for c in subject.clusters() if c.nodes == nodes]
        assert clusters or dist.is_initialized(), f"equals_ssgd asks for {nodes} nodes, which it cannot have"
        differs = moves = 0.0
        for cluster in clusters:
            run = subject.trainer(cluster, chosen)
            first, *later = subject.weights_of_ssgd(cluster)
            for step, theirs in enumerate(later, start=1):
                run.train(until=step)
                mine = run.shipped()[0]
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


def require_proof(method):
    """A method that is tuned as SSGD declares that it is SSGD, also with each value of a listed choice."""
    if not method.tuned_as_ssgd:
        return
    proved = [dict(e.options if isinstance(e, InTheLimit) else e) for e in method.equals_ssgd]
    for wanted in ({}, {"nodes": 2}):
        assert wanted in proved, f"tuned_as_ssgd: equals_ssgd needs the entry {wanted}"
    for name, kind in get_type_hints(method.Config).items():
        values = (True, False) if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()
        for value in values:
            shown = value == getattr(method.Config(), name) or any(e.get(name) == value for e in proved)
            assert shown, f"tuned_as_ssgd: equals_ssgd needs an entry with {name}: {value!r}"


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_equals_ssgd_with_other_optimizers(subject, optimizer):
    """After six steps in double precision, unless an entry says that it needs steps linear in the gradient.

    The model has no batch norm: the bias before it has a gradient of rounding errors, which AdamW enlarges.
    """
    if not subject.method.needs.works_with(optimizer):
        pytest.skip(f"is not made for {optimizer}")
    exact = [entry for entry in subject.method.equals_ssgd if not isinstance(entry, InTheLimit)]
    if not (entries := [entry for entry in exact if not entry.get("linear")]):
        pytest.skip("declares no options under which it is SSGD for all optimizers")
    recipe = {"name": optimizer, "lr": 0.01, "weight_decay": 0.01}
    for chosen in map(dict, entries):
        nodes = chosen.pop("nodes", 1)
        for cluster in [c for c in subject.clusters() if c.nodes == nodes][:1]:
            task = small.task(cluster.workers, nodes, build_model=small.Plain, optimizer=recipe)
            run, ssgd = small.trainer(task, subject.method, **chosen), small.trainer(task, "ssgd")
            for trained in (run, ssgd):
                trained.train(until=6)
            differs = largest_difference(run.shipped()[0], ssgd.shipped()[0])
            assert differs <= ROUNDING, (
                f"with {chosen or 'its defaults'} and {optimizer}, a weight differs from SSGD's by "
                f"{differs:.1e}: if it averages weights after the optimizer's step, it is SSGD only for "
                "steps that are linear in the gradient; then give this entry the key linear: True"
            )


def largest_difference(mine, theirs):
    """The largest difference between two lists of tensors, entry by entry; NaN counts as infinite."""
    assert [weight.shape for weight in mine] == [weight.shape for weight in theirs]
    return max(float((a - b).abs().max().nan_to_num(math.inf)) for a, b in zip(mine, theirs))


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
        schedule={"name": "cosine", "warmup_epochs": 1},
        **({"optimizer": {"lr": 0.05, "momentum": 0.9}} | small.recipe_for(subject.method)),
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
