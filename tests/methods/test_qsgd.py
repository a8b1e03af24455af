"""QSGD: entries are right on average, near their neighbouring levels, and have the bytes of the formula."""

import math

import pytest
import torch

from methods.qsgd import clipped
from tests import small
from thinwire.codecs import blocks

FORMS = {
    "uniform": {},
    "ternary": {"bits": 2, "norm": "max", "block": None},
    "exponential": {"levels": "exponential"},
}


def codec(seed=0, bits=4, block=16, norm="l2", levels="uniform"):
    return blocks.RandomLevels(bits, block, norm, levels, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", FORMS)
def test_entries_are_right_on_average(form):
    """Over 4,000 draws, within 5 standard errors; with levels around each entry, no more than a gap away."""
    row = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    drawn = codec(**FORMS[form])
    draws = torch.stack([drawn.decode(drawn.encode([row])[0], 40) for _ in range(4000)])
    error = (draws.mean(0) - row).abs()
    assert (error <= 5 * draws.std(0) / 4000**0.5 + 1e-12).all()
    assert (draws.std(0) > 0).sum() > 30
    length = FORMS[form].get("block", 16) or 40
    for before, after in zip(row.split(length), draws.split(length, dim=1)):
        norm = before.abs().max() if form == "ternary" else before.norm()
        largest = {"uniform": 7, "ternary": 1, "exponential": 2}[form]  # 1 / the widest gap
        assert ((after - before).abs() <= norm / largest + 1e-12).all()
        assert len(after.unique()) <= (3 if form == "ternary" else 15)


@pytest.mark.parametrize("bits", [2, 3, 8])
@pytest.mark.parametrize("levels", ["uniform", "exponential"])
def test_an_entry_on_a_level_stays_there(bits, levels):
    largest = 2 ** (bits - 1) - 1
    on_levels = torch.arange(largest + 1, dtype=torch.float64)
    on_levels = on_levels / largest if levels == "uniform" else 2 ** (on_levels - largest) * (on_levels > 0)
    row = 4 * torch.cat([-on_levels, on_levels])
    drawn = codec(bits=bits, block=None, norm="max", levels=levels)
    torch.testing.assert_close(drawn.decode(drawn.encode([row])[0], len(row)), row, rtol=1e-15, atol=0)


@pytest.mark.parametrize("norm", ["l2", "max"])
def test_zeros_stay_zeros(norm):
    drawn = codec(norm=norm, block=4)
    row = torch.cat([torch.zeros(4), torch.ones(4), torch.zeros(3)])
    back = drawn.decode(drawn.encode([row])[0], 11)
    assert back[:4].tolist() == [0] * 4
    assert back[8:].tolist() == [0] * 3
    assert drawn.decode(drawn.encode([row[:0]])[0], 0).tolist() == []


def test_large_entries_are_clipped_and_equal_ones_are_not():
    row = torch.tensor([1.0, -1.0, 1.0, -1.0, 12.0])
    limit = 1.5 * row.std(correction=0)
    assert torch.equal(clipped(row, 1.5), torch.tensor([1.0, -1.0, 1.0, -1.0, limit]))
    assert torch.equal(clipped(torch.full((3,), 2.0), 2.5), torch.full((3,), 2.0))


def test_workers_draw_numbers_of_their_own():
    """Otherwise the errors of equal gradients would not cancel."""
    run = small.trainer(small.task(4), "qsgd")
    sent = []
    for worker in run.workers:
        method, gather = worker.method, worker.run.world.gather
        worker.run.world.gather = lambda payload, gather=gather: (sent.append(payload), gather(payload))[1]

        def with_equal_gradients(method=method, sync=method.sync_gradients):
            for gradient in method.run.gradients:
                gradient.copy_(torch.linspace(-1, 1, gradient.numel()).view_as(gradient))
            sync()

        method.sync_gradients = with_equal_gradients
    run.train(until=1)
    assert len(sent) == 4
    assert all(torch.equal(sent[0]["scales"], other["scales"]) for other in sent)
    assert not any(torch.equal(sent[0]["values"], other["values"]) for other in sent[1:])


@pytest.mark.parametrize(("workers", "nodes"), [(4, 1), (6, 2)])
@pytest.mark.parametrize("options", [*FORMS.values(), {"bits": 3, "block": 7}])
def test_bytes_are_the_formula(workers, nodes, options):
    """B = sum ceil(n bits / 8) + 4 blocks over the tensors."""
    run = small.trainer(small.task(workers, nodes, dtype=torch.float32), "qsgd", **options)
    run.train()
    sizes = [weight.numel() for weight in run.workers[0].run.weights]
    bits, block = options.get("bits", 4), options.get("block", 128)
    sent = sum(math.ceil(n * bits / 8) + 4 * math.ceil(n / (block or n)) for n in sizes)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == run.total_steps * sent
        assert total.payload_pull == total.wire_sent == run.total_steps * (workers - 1) * sent
