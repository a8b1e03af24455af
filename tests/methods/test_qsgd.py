"""QSGD: levels and zeros stay, large entries are clipped, and bytes are the formula."""

import math

import pytest
import torch

from methods.qsgd import clipped
from tests import small
from thinwire.codecs import blocks


def codec(block, norm, bits=4, levels="uniform"):
    return blocks.RandomLevels(bits, block, norm, levels, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bits", [2, 3, 8])
@pytest.mark.parametrize("levels", ["uniform", "exponential"])
def test_an_entry_on_a_level_stays_there(bits, levels):
    largest = 2 ** (bits - 1) - 1
    on_levels = torch.arange(largest + 1, dtype=torch.float64)
    on_levels = on_levels / largest if levels == "uniform" else 2 ** (on_levels - largest) * (on_levels > 0)
    row = 4 * torch.cat([-on_levels, on_levels])
    drawn = codec(None, "max", bits, levels)
    torch.testing.assert_close(drawn.decode(drawn.encode([row])[0], len(row)), row, rtol=1e-15, atol=0)


@pytest.mark.parametrize("norm", ["l2", "max"])
def test_zeros_stay_zeros(norm):
    drawn = codec(4, norm)
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


@pytest.mark.parametrize(("workers", "nodes"), [(4, 1), (6, 2)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bits": 2, "norm": "max", "block": None},
        {"levels": "exponential"},
        {"bits": 3, "block": 7},
    ],
)
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
