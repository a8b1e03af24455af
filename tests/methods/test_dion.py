"""Dion: what is not used stays in the momentum, and zeros move nothing."""

from functools import partial

import pytest
import torch

from tests import small

FACTORS = {"min_gain": 0.0}
PLAIN = partial(small.Plain, dropout=0.0)


def tall(tensor):
    matrix = tensor.flatten(1)
    return matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T


def hidden(worker):
    return [param for param in worker.run.params if param.hidden]


@pytest.mark.parametrize("kept", [0.0, 0.8])
def test_what_is_used_and_what_stays_are_all_gradients_so_far(kept):
    """Mean over the workers of M_i + g_i before a step = mean of M_i after it + (1 - mu) P R^T."""
    options = {"orthonormal": False, "momentum": kept, **FACTORS}
    run = small.trainer(small.task(3, build_model=PLAIN), "dion", **options)
    before = {}
    for rank, worker in enumerate(run.workers):
        sync = worker.method.sync_gradients

        def noting(rank=rank, worker=worker, sync=sync):
            momentum = worker.method.memory["momentum"]
            before[rank] = [momentum[p.name] + tall(p.grad) for p in hidden(worker)]
            sync()

        worker.method.sync_gradients = noting

    def look(run):
        for at, param in enumerate(hidden(run.workers[0])):
            after = [worker.method.memory["momentum"][param.name] for worker in run.workers]
            used = (1 - kept) * tall(param.grad)
            expected = sum(before[rank][at] for rank in range(3)) / 3
            torch.testing.assert_close(sum(after) / 3 + used, expected, rtol=0, atol=1e-13)
            # The worker's own part is gone from its momentum: if nothing is to stay, to the last bit.
            for momentum in after if not kept else []:
                assert (tall(param.grad).T @ momentum).abs().max() < 1e-13

    run.train(after_step=look)


def test_gradients_of_zeros_move_no_matrix_and_lose_no_direction():
    run = small.trainer(small.task(2, build_model=PLAIN, optimizer={"lr": 0.1}), "dion", **FACTORS)
    for worker in run.workers:
        sync = worker.method.sync_gradients

        def of_zeros(worker=worker, sync=sync):
            torch._foreach_zero_(worker.run.gradients)
            sync()

        worker.method.sync_gradients = of_zeros
    first = [small.flat(worker.method.memory["q"].values()) for worker in run.workers]
    before = small.flat(run.workers[0].run.weights).clone()
    run.train(until=3)
    for worker, q in zip(run.workers, first):
        assert torch.equal(small.flat(worker.run.weights), before)
        assert torch.equal(small.flat(worker.method.memory["q"].values()), q)
