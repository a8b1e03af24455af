"""DASO: its state machine, its merges, its groups, and what it costs."""

import dataclasses
import random
from pathlib import Path

import pytest
import torch
from torch import nn

from tests import small
from tests.reference import daso_schedule
from thinwire import plugins
from thinwire.errors import Problems
from thinwire.messages_in_flight import Landing
from thinwire.options import resolve


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


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


def changes(found):
    return [now for before, now in zip([None, *found], found) if now != before]


FLAT = [1.0] * 30
WARM = {"warmup_epochs": 2, "cooldown_epochs": 2}


def test_a_flat_loss_shortens_the_interval_and_starts_it_again():
    found = changes(states(FLAT, max_skips=8, **WARM))
    assert found[:7] == [(0, 0), (4, 1), (2, 1), (1, 1), (8, 2), (4, 1), (2, 1)]
    found = changes(states(FLAT, max_skips=4, **WARM))
    assert found[:7] == [(0, 0), (4, 1), (2, 1), (1, 1), (4, 1), (2, 1), (1, 1)]
    assert found[-1] == (0, 0)


def test_the_first_change_comes_after_three_epochs_that_are_no_better():
    found = states(FLAT, max_skips=8, **WARM)
    # Epoch 2 ends the warm-up and sets the best loss; 3, 4 and 5 are no better.
    assert found[1:5] == [(4, 1), (4, 1), (4, 1), (2, 1)]


def test_a_falling_loss_changes_nothing():
    assert changes(states([0.9**i for i in range(30)], **WARM)) == [(0, 0), (4, 1), (0, 0)]


def test_what_the_published_control_gets_wrong():
    assert set(states(FLAT, "published", warmup_epochs=0, cooldown_epochs=2)) == {(0, 0)}
    published = changes(states(FLAT, "published", max_skips=2, **WARM))
    assert published[:6] == [(0, 0), (4, 1), (2, 1), (1, 1), (2, 0), (1, -1)]
    corrected = states(FLAT, "corrected", max_skips=2, **WARM)
    assert set(corrected) == {(0, 0), (2, 1), (1, 1)}
    assert set(states(FLAT, warmup_epochs=0, cooldown_epochs=1, max_skips=1)[:-2]) == {(1, 1)}


@pytest.mark.parametrize("control", ["corrected", "published"])
@pytest.mark.parametrize("seed", range(10))
def test_the_state_machine_is_that_of_the_reference(control, seed):
    stream = random.Random(seed)
    losses = [stream.uniform(0.5, 1.5) for _ in range(40)]
    options = {
        "warmup_epochs": stream.randrange(4),
        "cooldown_epochs": 3,
        "max_skips": stream.choice([1, 4, 8]),
    }
    expected = daso_schedule.states_after_epochs(losses, 40, **options, control=control)
    assert states(losses, control, **options) == expected


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


def test_a_loss_below_zero_is_better_when_it_is_further_below():
    falling = [-(1.1**i) for i in range(30)]
    assert changes(states(falling, "published", **WARM)) == [(0, 0), (4, 1), (0, 0)]
    assert (2, 1) in states([-1.0] * 30, "published", **WARM)


IMAGES = ("train_images", "train_labels")


class Line(nn.Module):
    """A loss whose gradient is -1 everywhere, so that a step of SGD with rate 1 adds 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(10))

    def forward(self, images):
        return self.weight.expand(len(images), 10)


def progress(nodes, skips, wait, **options):
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
    fixed = {"fixed_skips": skips, "fixed_wait": wait}
    run = small.trainer(task, "daso", warmup_epochs=0, cooldown_epochs=0, **fixed, **options)
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


@pytest.mark.parametrize(
    ("skips", "wait", "control", "expected"),
    [
        (4, 1, "corrected", {2: 0.875, 4: 0.833, 16: 0.778, 64: 0.758}),
        (4, 1, "published", {2: 0.875, 4: 0.833, 16: 0.778, 64: 0.758}),
        (8, 2, "corrected", {2: 0.917, 4: 0.875, 16: 0.800, 64: 0.765}),
        (8, 2, "published", {2: 0.917, 4: 0.875, 16: 0.800, 64: 0.765}),
        (2, 1, "published", {2: 0.667, 4: 0.600, 16: 0.529, 64: 0.508}),
        (1, 1, "published", {2: 0.667, 4: 0.600, 16: 0.529, 64: 0.508}),
        # On time: (B - S + S 2 S / (2 S + P)) / B.
        (2, 1, "corrected", {2: 0.750, 4: 0.667, 16: 0.556, 64: 0.515}),
        (1, 1, "corrected", {2: 0.500, 4: 0.333, 16: 0.111, 64: 0.030}),
    ],
)
@pytest.mark.parametrize("nodes", [2, 4, 16, 64])
def test_what_a_merge_leaves_of_the_progress_of_a_constant_gradient(skips, wait, control, expected, nodes):
    assert progress(nodes, skips, wait, control=control) == pytest.approx(expected[nodes], abs=6e-4)


@pytest.mark.parametrize(("skips", "wait"), [(8, 2), (4, 1), (4, 4), (4, 0), (1, 1)])
@pytest.mark.parametrize("nodes", [2, 4, 16])
def test_a_rate_that_matches_the_progress_makes_up_for_what_merges_take(skips, wait, nodes):
    assert progress(nodes, skips, wait, match_progress=True) == pytest.approx(1, abs=1e-9)


def test_blocking_steps_have_the_rate_of_the_recipe_and_others_the_matched_one():
    """By hand, with B = 4 and S = 1 on 2 nodes: 3 of 4 steps count in full, and one counts half."""
    options = {"warmup_epochs": 1, "cooldown_epochs": 1, "fixed_skips": 4, "fixed_wait": 1}
    run = small.trainer(small.task(4, 2), "daso", match_progress=True, **options)
    factors = []
    run.train(
        after_step=lambda run: factors.append(
            run.workers[0].run.optimizer.param_groups[0]["lr"] / run.workers[0].run.lr
        )
    )
    assert factors == pytest.approx([1.0] * 5 + [4 / 3.5] * 5 + [1.0] * 5)


@pytest.mark.parametrize("control", ["corrected", "published"])
def test_a_fixed_interval_does_not_follow_the_loss(control):
    fixed = {"fixed_skips": 4, "fixed_wait": 0}
    found = states(FLAT, control, **WARM, **fixed)
    assert found == [(0, 0), *[(4, 0)] * 26, *[(0, 0)] * 3]
    first = small.trainer(small.task(2, 2), "daso", control=control, warmup_epochs=0, **fixed)
    assert first.workers[0].method.memory["skips"] == 4


@pytest.mark.parametrize(("skips", "wait"), [(1, 0), (2, 1), (3, 0), (4, 0), (4, 1), (7, 3)])
def test_bytes_of_a_fixed_interval_are_the_formula(skips, wait):
    """In an epoch the last step exchanges, and of the others every B-th, beginning with the first."""
    options = {"warmup_epochs": 0, "cooldown_epochs": 0, "fixed_skips": skips, "fixed_wait": wait}
    run = small.trainer(small.task(4, 2, dtype=torch.float32), "daso", **options)
    run.train()
    numel = flat(run.workers[0].run.weights).numel()
    across = [worker.ledger.rows.get(("across", "mean", "weights")) for worker in run.workers]
    exchanges = 3 * (-(-(run.steps_per_epoch - 1) // skips) + 1)
    assert sum(row.between_nodes for row in across if row) == 2 * numel * 4 * exchanges


def test_with_a_fixed_wait_of_none_nodes_agree_after_every_exchange_and_not_between():
    """It is local SGD between the nodes, whose interval begins with each epoch."""
    options = {"warmup_epochs": 0, "cooldown_epochs": 0, "fixed_skips": 2, "fixed_wait": 0}
    run = small.trainer(small.task(4, 2), "daso", **options)
    agree = []
    run.train(
        after_step=lambda run: agree.append(
            torch.equal(flat(run.workers[0].run.weights), flat(run.workers[2].run.weights))
        )
    )
    assert agree == [True, False, True, False, True] * 3


def test_all_replicas_are_equal_at_the_end_of_every_epoch_and_not_between():
    run = small.trainer(small.task(4, 2), "daso", warmup_epochs=0, cooldown_epochs=0, max_skips=4)
    for step in range(1, run.total_steps + 1):
        run.train(until=step)
        rows = [flat(worker.run.weights) for worker in run.workers]
        # Inside a node gradients are shared and merges are copied: its workers never part.
        assert torch.equal(rows[0], rows[1])
        assert torch.equal(rows[0], rows[2]) == (step % run.steps_per_epoch == 0)


@pytest.mark.parametrize("control", ["corrected", "published"])
def test_the_groups_take_turns(control):
    options = {"warmup_epochs": 0 if control == "corrected" else 1, "cooldown_epochs": 0, "max_skips": 4}
    run = small.trainer(small.task(6, 2, batch=6, data=small.digits(150)), "daso", control=control, **options)
    run.train()
    sent = [worker.ledger.rows["across", "mean", "weights"].messages for worker in run.workers]
    assert sent[:3] == sent[3:]
    assert max(sent) - min(sent) <= 3 * 2


def test_bytes_between_nodes_are_the_formula():
    """An exchange is a ring over the nodes of 4 bytes a weight, or 2 while it blocks in 16 bits."""
    options = {"warmup_epochs": 1, "cooldown_epochs": 1, "max_skips": 4, "blocking_dtype": "bfloat16"}
    run = small.trainer(small.task(4, 2, dtype=torch.float32), "daso", **options)
    run.train()
    numel = flat(run.workers[0].run.weights).numel()
    across = [worker.ledger.rows.get(("across", "mean", "weights")) for worker in run.workers]
    crossed = sum(row.between_nodes for row in across)
    # Two blocking epochs of 5 steps in 2 bytes; the one between sends at steps 0 and 4, in 4 bytes.
    assert crossed == 2 * numel * (2 * 5 * 2 + 2 * 4)


@pytest.mark.parametrize("sends", ["delta", "weights"])
def test_casting_the_weights_rounds_the_model_and_casting_the_change_does_not(sends):
    task = small.task(4, 2, dtype=torch.float32)
    run = small.trainer(task, "daso", warmup_epochs=1000, blocking_sends=sends)
    ssgd = small.trainer(task, "ssgd")
    for one in (run, ssgd):
        one.train()
    weights = flat(run.shipped()[0])
    assert torch.equal(weights, weights.bfloat16().float()) == (sends == "weights")
    gap = float((weights - flat(ssgd.shipped()[0])).abs().max())
    assert gap < 2e-3 if sends == "delta" else gap > 2e-3


@pytest.mark.parametrize(("nodes", "same_bits"), [(2, True), (3, False), (4, True)])
def test_a_published_mean_in_16_bits_is_heats_but_for_last_bits_on_3_nodes(nodes, same_bits):
    """Heat adds in 16 bits, node by node, and divides the sum; means here divide before they add."""
    options = {"control": "published", "blocking_sends": "weights", "warmup_epochs": 1000}
    run = small.trainer(small.task(nodes, nodes, dtype=torch.float32), "daso", **options)
    run.train(until=1)
    for node, worker in enumerate(run.workers):
        for weight in worker.run.weights:
            weight.mul_(1 + 0.01 * node)
    first, *others = [flat(worker.run.weights).bfloat16() for worker in run.workers]
    heat = (sum(others, first) / nodes).float()
    sent = [worker.method.exchange.send() for worker in run.workers]
    ours = flat(sent[0].wait()).float()
    assert torch.equal(ours, heat) == same_bits
    torch.testing.assert_close(ours, heat, rtol=2.0**-6, atol=0)


@pytest.mark.parametrize("staleness", [-1, 1, 2, 4])
def test_a_merge_is_the_formula_and_of_equal_weights_changes_nothing(staleness):
    run = small.trainer(small.task(2, 2), "daso", warmup_epochs=0, cooldown_epochs=0)
    exchange, weights = run.workers[0].method.exchange, run.workers[0].run.weights
    own = [weight.clone() for weight in weights]
    exchange.merge(Landing([weight.clone() for weight in own], {"group": 0}), staleness)
    for weight, before in zip(weights, own):
        torch.testing.assert_close(weight, before, rtol=0, atol=1e-15)
    mean = [weight + 1 for weight in own]
    exchange.merge(Landing(mean, {"group": 0}), staleness)
    for weight, before in zip(weights, own):
        age = max(2 * staleness, 1)
        expected = (age * before + 2 * (before + 1)) / (age + 2)
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-12)


def test_a_run_that_is_all_warm_up_or_on_one_node_is_skipped_with_its_reason():
    assert "leave none of the run's 3" in small.trainer(small.task(4, 2), "daso").skip()
    options = {"warmup_epochs": 1, "cooldown_epochs": 1}
    assert small.trainer(small.task(4, 2), "daso", **options).skip() is None
    one_step = small.task(4, 2, data=small.digits(24), epochs=5)
    assert "one step an epoch" in small.trainer(one_step, "daso", **options).skip()
    assert "at least 2 nodes" in small.trainer(small.task(4, 1), "daso", **options).skip()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_skips": 0}, "max_skips"),
        ({"max_skips": 17}, "max_skips"),
        ({"warmup_epochs": -1}, "warmup_epochs"),
        ({"control": "fixed"}, "control"),
        ({"fixed_skips": 4}, "give both or neither"),
        ({"fixed_skips": 4, "fixed_wait": 5}, "fixed_wait 5 is above fixed_skips 4"),
        ({"match_progress": True, "control": "published"}, "match_progress needs control: corrected"),
    ],
)
def test_bad_options_are_one_sentence(options, words):
    with pytest.raises(Problems) as caught:
        resolve(plugins.get("method", "daso").load(), options)
    assert words in str(caught.value)
    assert len(caught.value.found) == 1
