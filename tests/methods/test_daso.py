"""DASO: its state machine, its merges, its groups, and what it costs."""

import dataclasses
import random
from pathlib import Path

import pytest
import torch
from torch import nn

from tests import small


def states(losses, control="corrected", **options):
    """(B, S) after each epoch with these losses."""
    task = small.task(2, 2, epochs=len(losses))
    run = small.trainer(task, "daso", control=control, **options).workers[0]
    found = []
    for epoch, loss in enumerate(losses):
        run.run.epoch = epoch
        run.method.epoch_end(loss)
        found.append((run.method.memory["skips"], run.method.memory["wait"]))
    return found


def recorded(name):
    """The rows of a file that running Heat has made; its first lines say how."""
    lines = Path(__file__).with_name(name).read_text().splitlines()
    return [line.split(" ") for line in lines if not line.startswith("#")]


def curve(seed):
    """A random one, or one that falls and stalls; in 32 bits, as the engine and Heat have it."""
    stream = random.Random(seed)
    if seed % 2:
        losses = [round(stream.uniform(0.5, 1.5), 3) for _ in range(30)]
    else:
        losses = [round(2.0 * 0.97**i * stream.uniform(0.9, 1.1), 3) for i in range(30)]
    return torch.tensor(losses).tolist()


def test_published_intervals_are_those_of_heat():
    for row in recorded("daso_heat_states.txt"):
        seed, warmup, cooldown, most = map(int, row[:4])
        options = {"warmup_epochs": warmup, "cooldown_epochs": cooldown, "max_skips": most}
        losses = curve(seed)
        found = states(losses, "published", **options)
        pairs = enumerate(zip([None, *found], found), 1)
        assert row[4:] == [f"{epoch}:{now[0]},{now[1]}" for epoch, (before, now) in pairs if now != before]


def what_is_done(monkeypatch, skips, wait, steps):
    """What a worker does after each step of an epoch, in the words of daso_heat_steps.txt."""
    worker = small.trainer(small.task(4, 2), "daso", control="published").workers[0]
    method, exchange, run, done = worker.method, worker.method.exchange, worker.run, []
    method.memory |= {"skips": skips, "wait": wait}
    run.steps_per_epoch = steps
    blocking_mean = exchange.blocking_mean
    monkeypatch.setattr(exchange, "send", lambda: done.append("s"))
    monkeypatch.setattr(exchange, "merge", lambda landing, staleness: done.append(f"m{staleness}"))
    monkeypatch.setattr(exchange, "blocking_mean", lambda sent: (done.append("b"), blocking_mean(sent)))
    monkeypatch.setattr(exchange, "copy_inside_nodes", lambda place: done.append(f"c{place}"))
    words = []
    for run.step in range(2 * steps):
        done.clear()
        method.sync_weights()
        words.append("".join(done) or ".")
    assert words[:steps] == words[steps:]
    return words[:steps]


def test_published_steps_are_those_of_heat(monkeypatch):
    """Also where an epoch has 3 steps more than a multiple of B, and where S is 0 or -1."""
    for skips, wait, steps, *words in recorded("daso_heat_steps.txt"):
        assert what_is_done(monkeypatch, int(skips), int(wait), int(steps)) == words


IMAGES = ("train_inputs", "train_labels")


class Line(nn.Module):
    """A loss whose gradient is -1 everywhere, so that a step of SGD with rate 1 adds 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(10))

    def forward(self, images):
        return self.weight.expand(len(images), 10)


def progress(nodes, skips, wait):
    """Mean growth of the weights a step, in units of what SSGD does, over whole intervals."""
    images = small.digits(10)
    many = {name: getattr(images, name).repeat_interleave(30 * nodes, 0) for name in IMAGES}
    task = small.task(
        nodes,
        nodes,
        build_model=Line,
        data=dataclasses.replace(images, **many),
        batch=nodes,
        epochs=1,
        optimizer={"lr": 1.0, "momentum": 0.0},
        schedule={"name": "constant"},
    )
    fixed = {"fixed_skips": skips, "fixed_wait": wait, "match_progress": True}
    run = small.trainer(task, "daso", warmup_epochs=0, cooldown_epochs=0, **fixed)
    for worker in run.workers:
        sync_gradients = worker.method.sync_gradients
        worker.method.sync_gradients = lambda own=worker.run, sync_gradients=sync_gradients: (
            sync_gradients(),
            [gradient.fill_(-1) for gradient in own.gradients],
        )
    seen = {}
    run.train(after_step=lambda run: seen.update({run.step: float(run.workers[0].run.weights[0][0])}))
    # Where it has settled, and no merge is under way.
    return (seen[281 + wait] - seen[273 + wait]) / 8


@pytest.mark.parametrize(("skips", "wait"), [(8, 2), (4, 1), (4, 4), (4, 0), (1, 1)])
@pytest.mark.parametrize("nodes", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_a_rate_that_matches_the_progress_makes_up_for_what_merges_take(skips, wait, nodes):
    assert progress(nodes, skips, wait) == pytest.approx(1, abs=1e-9)


def test_all_replicas_are_equal_at_the_end_of_every_epoch_and_not_between():
    run = small.trainer(small.task(4, 2), "daso", warmup_epochs=0, cooldown_epochs=0, max_skips=4)
    for step in range(1, run.total_steps + 1):
        run.train(until=step)
        rows = [small.flat(worker.run.weights) for worker in run.workers]
        # Inside a node gradients are shared and merges are copied: its workers never part.
        assert torch.equal(rows[0], rows[1])
        assert torch.equal(rows[0], rows[2]) == (step % run.steps_per_epoch == 0)


def test_bytes_between_nodes_are_the_formula():
    """An exchange is a ring over the nodes of 4 bytes a weight, or 2 while it blocks in 16 bits."""
    options = {"warmup_epochs": 1, "cooldown_epochs": 1, "max_skips": 4, "blocking_dtype": "bfloat16"}
    run = small.trainer(small.task(4, 2, dtype=torch.float32), "daso", **options)
    run.train()
    numel = small.flat(run.workers[0].run.weights).numel()
    across = [worker.ledger.rows.get(("across", "mean", "weights")) for worker in run.workers]
    crossed = sum(row.between_nodes for row in across)
    # Two blocking epochs of 5 steps in 2 bytes; the one between sends at steps 0 and 4, in 4 bytes.
    assert crossed == 2 * numel * (2 * 5 * 2 + 2 * 4)


@pytest.mark.parametrize(("nodes", "same_bits"), [(2, True), (3, False), (4, True)])
def test_a_published_mean_in_16_bits_is_heats_but_for_last_bits_on_3_nodes(nodes, same_bits):
    """Heat adds in 16 bits, node by node, and divides the sum; means here divide before they add."""
    options = {"control": "published", "blocking_sends": "weights", "warmup_epochs": 1000}
    run = small.trainer(small.task(nodes, nodes, dtype=torch.float32), "daso", **options)
    run.train(until=1)
    for node, worker in enumerate(run.workers):
        for weight in worker.run.weights:
            weight.mul_(1 + 0.01 * node)
    first, *others = [small.flat(worker.run.weights).bfloat16() for worker in run.workers]
    heat = (sum(others, first) / nodes).float()
    sent = [worker.method.exchange.send() for worker in run.workers]
    ours = small.flat(sent[0].wait()).float()
    assert torch.equal(ours, heat) == same_bits
    torch.testing.assert_close(ours, heat, rtol=2.0**-6, atol=0)
