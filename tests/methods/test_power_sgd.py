"""PowerSGD: nothing is lost on the way to the mean, and errors stay small."""

import pytest
import torch

from tests import small

FORMS = [{}, {"warm_start": False}, {"alternate": True}]
EVERYTHING = {"min_gain": 0.0, "dense_steps": 0}


def trained(workers=3, nodes=1, dtype=torch.float64, after_step=None, **options):
    run = small.trainer(small.task(workers, nodes, dtype=dtype), "power_sgd", **options)
    run.train(after_step=after_step)
    return run


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
