"""EF21: what all add up is the mean of what each worker is known by, and what is sent is the formula."""

import math

import pytest
import torch

from tests import small


def trained(workers=3, nodes=1, dtype=torch.float64, after_step=None, **options):
    run = small.trainer(small.task(workers, nodes, dtype=dtype), "ef21", **options)
    run.train(after_step=after_step)
    return run


def flat(worker, name):
    return small.flat(worker.method.memory[name])


@pytest.mark.parametrize("indices", ["int32", "bitmap", "run_length"])
def test_the_sum_that_every_worker_keeps_is_the_mean_of_what_is_known_of_each(indices):
    """A version that forgets the sum between steps would take the mean of the last differences."""

    def look(run):
        mean = sum(flat(worker, "known") for worker in run.workers) / 3
        for worker in run.workers:
            torch.testing.assert_close(flat(worker, "mean"), mean, rtol=0, atol=1e-12)
            assert torch.equal(small.flat(worker.run.gradients), flat(worker, "mean"))

    run = trained(after_step=look, density=0.05, indices=indices)
    assert all((flat(worker, "mean") != 0).double().mean() > 0.5 for worker in run.workers)


def test_in_one_step_at_most_k_entries_become_known_and_they_are_then_exact():
    before = {}

    def look(run):
        for rank, worker in enumerate(run.workers):
            known, momentum = flat(worker, "known"), flat(worker, "momentum")
            k = sum(math.ceil(0.05 * weight.numel()) for weight in worker.run.weights)
            if run.step == 1:
                assert torch.equal(known, momentum)
            else:
                moved = known != before[rank]
                assert 0 < int(moved.sum()) <= k
                torch.testing.assert_close(known[moved], momentum[moved], rtol=0, atol=1e-14)
            before[rank] = known

    trained(after_step=look, density=0.05)


def test_momentum_starts_with_the_first_gradient_and_is_a_moving_average():
    expected, gradients = [None], []
    run = small.trainer(small.task(1), "ef21", density=1.0, eta=0.25)
    (worker,) = run.workers
    sync = worker.method.sync_gradients

    def noted():
        gradients.append(small.flat(worker.run.gradients))
        sync()

    worker.method.sync_gradients = noted

    def look(run):
        last = expected[-1]
        expected.append(gradients[-1] if last is None else 0.75 * last + 0.25 * gradients[-1])
        torch.testing.assert_close(flat(worker, "momentum"), expected[-1], rtol=0, atol=1e-14)

    run.train(after_step=look)


def test_bytes_are_those_of_top_k_and_of_one_dense_mean():
    """4 n in the first step; then k = sum ceil(density n) entries of 4 + 4 bytes."""
    run = trained(6, 2, torch.float32, density=0.03)
    sizes = [weight.numel() for weight in run.workers[0].run.weights]
    dense, sparse = 4 * sum(sizes), 8 * sum(math.ceil(0.03 * n) for n in sizes)
    steps = run.total_steps - 1
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == dense + steps * sparse
        assert total.payload_pull == dense + steps * 5 * sparse
        assert total.wire_sent == pytest.approx(2 * 5 / 6 * dense + steps * 5 * sparse, abs=4)
