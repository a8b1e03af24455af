"""PowerSGD: nothing is lost on the way to the mean, errors stay small, and bytes are the formula."""

import pytest
import torch

from tests import small

FORMS = [{}, {"warm_start": False}, {"alternate": True}]
EVERYTHING = {"min_gain": 0.0, "dense_steps": 0}


def trained(workers=3, nodes=1, dtype=torch.float64, after_step=None, **options):
    run = small.trainer(small.task(workers, nodes, dtype=dtype), "power_sgd", **options)
    run.train(after_step=after_step)
    return run


def matrices_of(run):
    """The shapes of the weights as matrices."""
    return [weight.flatten(1).shape for weight in run.workers[0].run.weights if weight.dim() > 1]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_used_and_the_mean_of_what_is_kept_are_all_gradients_so_far(form):
    """Over all workers: mean of g_i + e_i before a step = g + mean of e_i after it, in every matrix."""
    run = small.trainer(small.task(3), "power_sgd", rank=1, **EVERYTHING, **form)
    before = [[] for _ in run.workers]
    for worker, noted in zip(run.workers, before):
        sync = worker.method.sync_gradients

        def noting(worker=worker, noted=noted, sync=sync):
            gradients = [g.flatten(1) for g in worker.run.gradients if g.dim() > 1]
            noted.append(small.flat(gradients) + small.flat(worker.method.memory["errors"]))
            sync()

        worker.method.sync_gradients = noting

    def look(run):
        mean = sum(noted[-1] for noted in before) / 3
        kept = sum(small.flat(worker.method.memory["errors"]) for worker in run.workers) / 3
        assert kept.norm() > 0.01 * mean.norm()
        for worker in run.workers:
            used = small.flat([g for g in worker.run.gradients if g.dim() > 1])
            torch.testing.assert_close(used + kept, mean, rtol=0, atol=1e-12)

    run.train(after_step=look)


@pytest.mark.parametrize("form", FORMS)
def test_an_error_is_that_of_the_workers_own_approximation(form):
    """It is orthogonal to the factor that all share, and so to g = P Q^T; the mean's error would not be."""

    def look(run):
        shares_q = form.get("alternate") and run.step % 2 == 0  # after the first step, 1
        for worker in run.workers:
            means = [g.flatten(1) for g in worker.run.gradients if g.dim() > 1]
            for error, mean in zip(worker.method.memory["errors"], means, strict=True):
                overlap = error @ mean.T if shares_q else error.T @ mean
                assert overlap.abs().max() < 1e-12

    trained(after_step=look, rank=1, **EVERYTHING, **form)


@pytest.mark.parametrize(("workers", "nodes"), [(4, 1), (6, 2)])
@pytest.mark.parametrize(
    "options", [{"rank": 1}, {}, {"rank": 3, "min_gain": 0.0}, {"alternate": True}, {"dense_steps": 6}]
)
def test_bytes_are_the_formula(workers, nodes, options):
    """4 r (n + m) bytes of a compressed matrix each way, 4 r n or 4 r m with `alternate`; else 4 an entry."""
    options = {"dense_steps": 2, **options}
    run = trained(workers, nodes, torch.float32, **options)
    rank, gain = options.get("rank", 2), options.get("min_gain", 2.0)
    entries = {0: 0, 1: 0}  # of an even and of an odd step after the dense ones
    compressed = 0
    for rows, columns in matrices_of(run):
        r = min(rank, rows, columns)
        of_step = [r * (rows + columns)] * 2
        if options.get("alternate"):
            of_step = [r * columns, r * rows]
        if rows * columns > gain * sum(of_step) / 2:
            compressed += rows * columns
            entries = {step: entries[step] + of_step[step] for step in entries}
    assert compressed
    everything = sum(weight.numel() for weight in run.workers[0].run.weights)
    steps = run.total_steps - options["dense_steps"]
    total = everything * options["dense_steps"] + (everything - compressed) * steps
    total += sum(entries[step % 2] for step in range(steps))
    for worker in run.workers:
        ledger = worker.ledger.total()
        assert ledger.payload_push == ledger.payload_pull == 4 * total
        assert ledger.wire_sent == pytest.approx(2 * (workers - 1) / workers * 4 * total, abs=8 * steps)
