"""QSGD: levels and zeros stay, and large entries are clipped."""

import pytest
import torch

from methods.qsgd import clipped
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
