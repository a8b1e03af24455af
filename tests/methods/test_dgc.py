"""DGC: the published ratio, sampled thresholds, and Adam."""

import pytest
import torch
from torch import nn

from tests import small
from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.codecs import sparse as indices
from thinwire.codecs.select import count

EXACT = {"density": 0.05, "warmup_densities": (), "selection": "exact"}


class Wide(nn.Module):
    """One matrix that is long enough for a sampled threshold."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 1000, bias=False)
        self.second = nn.Linear(1000, 10)

    def forward(self, images):
        return self.second(self.first(images.flatten(1)).relu())


def test_a_sampled_threshold_sends_about_as_many_and_what_varies_is_counted():
    task = small.task(3, build_model=Wide, dtype=torch.float32)
    options = {"density": 0.01, "warmup_densities": (), "indices": "int32"}
    sampled, exact = (small.trainer(task, "dgc", **options, selection=how) for how in ("sampled", "exact"))
    for run in (sampled, exact):
        run.train()
    for mine in sampled.workers:
        assert all(torch.equal(a, b) for a, b in zip(mine.run.weights, sampled.workers[0].run.weights))
    rows = [worker.ledger.rows for worker in sampled.workers]
    pushed = [row["world", "gather", "values"].payload_push for row in rows]
    k = 4 * (640 + 100) * exact.total_steps
    assert exact.workers[0].ledger.rows["world", "gather", "values"].payload_push == k
    assert len(set(pushed)) > 1
    assert all(0.8 * k < each <= k for each in pushed)
    assert rows[0]["world", "gather", "sizes"].payload_push == 16 * sampled.total_steps


class Biases(nn.Module):
    """Nothing to compress."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(10))

    def forward(self, images):
        return self.bias.expand(len(images), 10) * images.mean((1, 2, 3))[:, None]


def test_a_model_with_nothing_to_compress_is_ssgd():
    task = small.task(3, build_model=Biases)
    run, ssgd = small.trainer(task, "dgc", **EXACT), small.trainer(task, "ssgd")
    for one in (run, ssgd):
        one.train()
    assert torch.equal(run.shipped()[0][0], ssgd.shipped()[0][0])


def test_the_published_ratio_follows_from_the_shapes_of_resnet_50():
    """Payload of one worker, one way, at density 0.001 with run lengths, against 4 bytes a parameter."""
    plugin = plugins.get("model", "resnet").load()
    with torch.device("meta"):
        params = [*plugin(resolve(plugin, {"depth": 50}), (3, 224, 224), 1000).parameters()]
    sizes = [param.numel() for param in params if param.dim() > 1]
    every, sparse = sum(param.numel() for param in params), sum(sizes)
    k = sum(count(0.001, numel) for numel in sizes)
    positions = torch.randint(sparse, (k,), generator=torch.Generator().manual_seed(0)).sort().values.unique()
    code = indices.encode_indices(positions, sparse, "run_length")
    indices_bytes = code.numel() * code.element_size() + 2 * (k - len(positions))
    assert 4 * every / (4 * k + indices_bytes + 4 * (every - sparse)) == pytest.approx(277, abs=1)


ADAM = {"name": "adam", "lr": 0.01, "weight_decay": 0.01}


def test_adam_takes_the_sums_of_gradients_that_are_sent(monkeypatch):
    """What Adam received and what is still unsent add up to the mean of all gradients, without momentum."""
    run = small.trainer(small.task(3, optimizer=ADAM), "dgc", **(EXACT | {"warmup_densities": (0.5,)}))
    mean, given = 0.0, 0.0
    accumulate, step = type(run.workers[0].method.residual).accumulate, torch.optim.Adam.step

    def add(self, gradients):
        nonlocal mean
        mean = mean + small.flat(gradients) / 3
        accumulate(self, gradients)

    def take(self, closure=None):
        nonlocal given
        if self is run.workers[0].run.optimizer:
            given = given + small.flat([param.grad for param in run.workers[0].method.compressed])
        return step(self, closure)

    monkeypatch.setattr(type(run.workers[0].method.residual), "accumulate", add)
    monkeypatch.setattr(torch.optim.Adam, "step", take)
    run.train()
    waiting = sum(small.flat(worker.method.memory["unsent"]) for worker in run.workers) / 3
    torch.testing.assert_close(given + waiting, mean)
    assert float(waiting.abs().max()) > 0
    assert not any(bool(small.flat(worker.method.memory["velocity"]).any()) for worker in run.workers)
