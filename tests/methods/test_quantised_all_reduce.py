"""Quantised all-reduce: bytes are the formula at any size, and models may have no matrices."""

import math

import pytest
import torch
from torch import nn

from tests import small


def encoded(count, bits, block):
    """Bytes of `count` entries: levels, and a scale of 4 bytes for each block."""
    return math.ceil(count * bits / 8) + 4 * math.ceil(count / block)


@pytest.mark.parametrize(("workers", "nodes"), [(4, 1), (6, 2), (6, 3)])
@pytest.mark.parametrize(("bits", "block"), [(4, 128), (8, 10)])
def test_bytes_are_the_formula_and_no_tensor_is_sent_in_full_because_of_its_size(workers, nodes, bits, block):
    """The matrices of the model have 297 entries, which 2 W does not divide."""
    task = small.task(workers, nodes, dtype=torch.float32)
    run = small.trainer(task, "quantised_all_reduce", bits=bits, block=block)
    run.train()
    weights = run.workers[0].run.weights
    vectors = sum(weight.numel() for weight in weights if weight.dim() == 1)
    matrices = sum(weight.numel() for weight in weights if weight.dim() > 1)
    assert matrices % (2 * workers)
    mates, piece = workers // nodes, math.ceil(matrices / workers)
    part, shared = encoded(nodes * piece, bits, block), nodes * encoded(piece, bits, block)
    between = shared if nodes > 1 else 0
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == run.total_steps * (4 * vectors + mates * part + between + shared)
        assert total.payload_pull == run.total_steps * (4 * vectors + between + (mates - 1) * shared)
        by_channel = dict.fromkeys(("world", "node", "across"), 0)
        crossing = dict(by_channel)
        for (channel, _, _), row in worker.ledger.rows.items():
            by_channel[channel] += row.wire_sent
            crossing[channel] += row.between_nodes
        assert by_channel["node"] == run.total_steps * (mates - 1) * (part + shared)
        assert crossing["node"] == 0
        assert by_channel["across"] == crossing["across"]
        if nodes > 1:
            assert by_channel["across"] == run.total_steps * 2 * (nodes - 1) * shared // nodes


def test_a_model_without_matrices_is_averaged_in_full_precision():
    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(10))

        def forward(self, images):
            return images.flatten(1)[:, :10] + self.shift

    task = small.task(4, 2, build_model=Shift)
    run, reference = (small.trainer(task, name) for name in ("quantised_all_reduce", "ssgd"))
    for each in (run, reference):
        each.train(until=2)
    torch.testing.assert_close(run.shipped()[0], reference.shipped()[0], rtol=0, atol=1e-14)
