"""DeMo: chunks are transformed by cosines and back, and bytes are the formula."""

import math

import pytest
import torch

from tests import small
from thinwire.codecs.chunks import CosineChunks


def side(n, limit):
    """The largest divisor of n up to the limit."""
    return max(d for d in range(1, limit + 1) if n % d == 0)


def cosines(n, frequency):
    return torch.cos(math.pi * (2 * torch.arange(n, dtype=torch.float64) + 1) * frequency / (2 * n))


@pytest.mark.parametrize("shape", [(), (7,), (130,), (4, 6), (3, 1, 3, 3), (8, 5, 2, 2)])
@pytest.mark.parametrize("limit", [1, 4, 64])
def test_chunks_are_transformed_by_cosines_and_back(shape, limit):
    tensor = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    of = CosineChunks(tensor, limit, 1)
    coefficients = of.encode(tensor)
    torch.testing.assert_close(of.decode(coefficients), tensor)
    rows = shape[0] if len(shape) > 1 else 1
    h, w = side(rows, limit), side(tensor.numel() // rows, limit)
    first = tensor.reshape(rows, -1)[:h, :w]
    for u, v in [(0, 0), (h - 1, w - 1)]:
        wave = torch.outer(cosines(h, u), cosines(w, v))
        torch.testing.assert_close(coefficients[0, u * w + v], (first * wave).sum() / wave.norm())


@pytest.mark.parametrize("options", [{}, {"k": 3, "chunk": 9}])
def test_bytes_are_the_formula(options):
    """k coefficients of 4 bytes a chunk; positions in as many bits as a chunk needs, rounded up by tensor."""
    run = small.trainer(small.task(6, 2, dtype=torch.float32), "demo_sgd", **options)
    run.train()
    most, limit = options.get("k", 32), options.get("chunk", 64)
    push = 0
    for weight in run.workers[0].run.weights:
        rows = len(weight) if weight.dim() > 1 else 1
        entries = side(rows, limit) * side(weight.numel() // rows, limit)
        k, count = min(most, entries), weight.numel() // entries
        width = math.ceil(math.log2(entries)) if k < entries else 0
        push += 4 * count * k + math.ceil(count * k * width / 8)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == run.total_steps * push
        assert total.payload_pull == total.wire_sent == run.total_steps * 5 * push
