"""Sign methods: what is used and kept is what went in, bytes are the formula, and ties do not move."""

import math

import pytest
import torch

from tests import small


def trained(workers=3, nodes=1, dtype=torch.float64, after_step=None, **options):
    run = small.trainer(small.task(workers, nodes, dtype=dtype), "sign_sgd", **options)
    run.train(after_step=after_step)
    return run


def sizes_of(run):
    return [weight.numel() for weight in run.workers[0].run.weights]


def noting_gradients(run):
    """Note the gradients of each worker before they are exchanged; returns a list for each worker."""
    noted = [[] for _ in run.workers]
    for worker, found in zip(run.workers, noted):
        sync = worker.method.sync_gradients

        def noting(worker=worker, found=found, sync=sync):
            found.append(small.flat(worker.run.gradients))
            sync()

        worker.method.sync_gradients = noting
    return noted


@pytest.mark.parametrize("rule", ["error_feedback", "two_sided"])
@pytest.mark.parametrize("block", [None, 7])
def test_what_is_used_and_the_mean_of_what_is_kept_are_all_gradients_so_far(rule, block):
    run = small.trainer(small.task(3), "sign_sgd", rule=rule, block=block)
    noted = noting_gradients(run)
    used = 0.0

    def look(run):
        nonlocal used
        used = used + small.flat(run.workers[0].run.gradients)
        kept = sum(small.flat(worker.method.memory["errors"]) for worker in run.workers) / 3
        if rule == "two_sided":
            kept += small.flat(
                run.workers[j % 3].method.memory[f"server {j}"]["errors"][0]
                for j in range(len(sizes_of(run)))
            )
        given = sum(sum(found) for found in noted) / 3
        assert kept.norm() > 0.01 * given.norm()
        torch.testing.assert_close(used + kept, given, rtol=0, atol=1e-12)

    run.train(after_step=look)


@pytest.mark.parametrize("block", [None, 7])
def test_a_worker_alone_steps_by_signs_with_the_mean_magnitude_of_their_block(block):
    run = small.trainer(small.task(1), "sign_sgd", block=block)
    (noted,) = noting_gradients(run)
    run.train(until=1)
    for gradient, before in zip(run.workers[0].run.gradients, noted[0].split(sizes_of(run))):
        n = len(before)
        for used, given in zip(gradient.flatten().split(block or n), before.split(block or n)):
            expected = torch.where(given >= 0, given.abs().mean(), -given.abs().mean())
            torch.testing.assert_close(used, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("workers", [1, 3, 4])
def test_the_majority_decides_and_a_tie_is_zero(workers):
    run = small.trainer(small.task(workers), "sign_sgd", rule="majority")
    noted = noting_gradients(run)

    def look(run):
        votes = sum(torch.where(found[-1] >= 0, 1.0, -1.0) for found in noted)
        assert (votes == 0).any() == (workers % 2 == 0)
        for worker in run.workers:
            assert torch.equal(small.flat(worker.run.gradients), votes.sign().double())

    run.train(after_step=look)


@pytest.mark.parametrize(("workers", "nodes"), [(4, 1), (6, 2)])
@pytest.mark.parametrize(
    ("rule", "block"), [("error_feedback", None), ("error_feedback", 7), ("majority", None)]
)
def test_bytes_of_gathered_signs_are_the_formula(workers, nodes, rule, block):
    """B = sum ceil(n / 8) + 4 blocks over the tensors; of votes ceil(n / 8) of all tensors together."""
    run = trained(workers, nodes, torch.float32, rule=rule, block=block)
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
    run = trained(6, 2, torch.float32, rule="two_sided", block=block)
    sent = sum(math.ceil(n / 8) + 4 * math.ceil(n / (block or n)) for n in sizes_of(run))
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == total.payload_pull == run.total_steps * sent
    wire = sum(worker.ledger.total().wire_sent for worker in run.workers)
    assert wire == run.total_steps * 2 * 5 * sent


def test_the_sign_of_zero_is_kept_as_it_was_sent():
    """A worker whose gradient is zero sends zeros with the sign of a scale, and remembers that."""
    run = small.trainer(small.task(1), "sign_sgd")
    (worker,) = run.workers
    rows = [torch.tensor([0.0, 3.0, -1.0, 0.0], dtype=torch.float64)]
    worker.method.memory["errors"] = [torch.zeros(4, dtype=torch.float64)]
    sent = worker.method.codec.encode(rows)[0]
    assert worker.method.codec.decode(sent, 4).tolist() == [1.0, 1.0, -1.0, 1.0]
