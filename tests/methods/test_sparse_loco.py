"""SparseLoCo: equal values come back exactly, and bytes are the formula."""

import math

import pytest
import torch

from tests import small
from thinwire.codecs import chunks


def side(n, limit):
    """The largest divisor of n up to the limit."""
    return max(d for d in range(1, limit + 1) if n % d == 0)


@pytest.mark.parametrize("values", [[2.5], [1.5, 1.5, 1.5], [0.0, 0.0]])
def test_values_that_are_all_equal_come_back_exactly(values):
    numbers, table = chunks.quantise(torch.tensor(values), 2)
    assert table[numbers].tolist() == values


@pytest.mark.parametrize("options", [{}, {"k": 3, "chunk": 9}, {"k": 3, "bits": 4}, {"k": 3, "bits": 32}])
def test_bytes_are_the_formula(options):
    """Values in `bits` bits, a table a tensor, positions in as many bits as a chunk needs; gathered."""
    run = small.trainer(small.task(6, 2, dtype=torch.float32), "sparse_loco", period=4, **options)
    run.train()
    most, limit, width = options.get("k", 64), options.get("chunk", 64), options.get("bits", 2)
    push = 0
    for weight in run.workers[0].run.weights:
        rows = len(weight) if weight.dim() > 1 else 1
        entries = side(rows, limit) * side(weight.numel() // rows, limit)
        k, count = min(most, entries), weight.numel() // entries
        position = math.ceil(math.log2(entries)) if k < entries else 0
        table = 0 if width == 32 else 4 * 2**width
        push += math.ceil(count * k * width / 8) + table + math.ceil(count * k * position / 8)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == 4 * push
        assert total.payload_pull == total.wire_sent == 4 * 5 * push
