"""Sign methods: bytes are the formula."""

import math

import pytest
import torch

from tests import small


def trained(workers, nodes, **options):
    run = small.trainer(small.task(workers, nodes, dtype=torch.float32), "sign_sgd", **options)
    run.train()
    return run


def sizes_of(run):
    return [weight.numel() for weight in run.workers[0].run.weights]


@pytest.mark.parametrize(("workers", "nodes"), [(4, 1), (6, 2)])
@pytest.mark.parametrize(
    ("rule", "block"), [("error_feedback", None), ("error_feedback", 7), ("majority", None)]
)
def test_bytes_of_gathered_signs_are_the_formula(workers, nodes, rule, block):
    """B = sum ceil(n / 8) + 4 blocks over the tensors; of votes ceil(n / 8) of all tensors together."""
    run = trained(workers, nodes, rule=rule, block=block)
    sizes = sizes_of(run)
    if rule == "majority":
        sent = math.ceil(sum(sizes) / 8)
    else:
        sent = sum(math.ceil(n / 8) + 4 * math.ceil(n / (block or n)) for n in sizes)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == run.total_steps * sent
        assert total.payload_pull == total.wire_sent == run.total_steps * (workers - 1) * sent


@pytest.mark.parametrize("block", [None, 7])
def test_bytes_of_two_sided_signs_are_as_many_each_way_with_any_number_of_workers(block):
    run = trained(6, 2, rule="two_sided", block=block)
    sent = sum(math.ceil(n / 8) + 4 * math.ceil(n / (block or n)) for n in sizes_of(run))
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == total.payload_pull == run.total_steps * sent
    wire = sum(worker.ledger.total().wire_sent for worker in run.workers)
    assert wire == run.total_steps * 2 * 5 * sent
