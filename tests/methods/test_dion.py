"""Dion: W workers step as one would, what is not used stays in the momentum, and bytes are the formula."""

import math
from functools import partial

import pytest
import torch

from tests import small

FACTORS = {"min_gain": 0.0}
PLAIN = partial(small.Plain, dropout=0.0)


def trained(workers=3, nodes=1, dtype=torch.float64, after_step=None, until=None, **options):
    task = small.task(workers, nodes, dtype=dtype, build_model=PLAIN, data=small.digits())
    run = small.trainer(task, "dion", **options)
    run.train(after_step=after_step, until=until)
    return run


def tall(tensor):
    matrix = tensor.flatten(1)
    return matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T


def hidden(worker):
    return [param for param in worker.run.params if param.hidden]


@pytest.mark.parametrize("fraction", [0.25, 0.5])
def test_four_workers_step_as_one_that_has_all_their_data(fraction):
    """At full rank a column of R may be a rounding error, which the next step divides by its norm."""
    runs = [trained(workers, rank_fraction=fraction, **FACTORS) for workers in (4, 1)]
    many, one = (small.flat(run.shipped()[0]) for run in runs)
    torch.testing.assert_close(many, one, rtol=0, atol=1e-9)
    for param in hidden(runs[0].workers[0]):
        mean = sum(worker.method.memory["momentum"][param.name] for worker in runs[0].workers) / 4
        own = runs[1].workers[0].method.memory["momentum"][param.name]
        torch.testing.assert_close(mean, own, rtol=0, atol=1e-9)


def test_it_makes_no_difference_whether_factors_or_gradients_are_sent():
    factors, gradients = trained(**FACTORS), trained(min_gain=1e9)
    torch.testing.assert_close(small.flat(factors.shipped()[0]), small.flat(gradients.shipped()[0]))
    assert factors.workers[0].ledger.total() != gradients.workers[0].ledger.total()


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


def test_at_full_rank_the_step_comes_close_to_the_orthogonal_factor_as_muon_does():
    """While the gradient stays the same, and with the root of outputs / inputs as the rate's factor."""
    task = small.task(2, build_model=PLAIN, schedule={"name": "constant"}, epochs=12)
    run = small.trainer(task, "dion", rank_fraction=1.0, momentum=0.0, **FACTORS)
    fixed = {}
    for worker in run.workers:
        sync = worker.method.sync_gradients

        def constant(worker=worker, sync=sync):
            for param in hidden(worker):
                rows, columns = param.grad.flatten(1).shape
                few = torch.arange(1, rows + 1, dtype=torch.float64).diag()
                wide = torch.linalg.qr(torch.randn(columns, rows, generator=seeded(), dtype=few.dtype)).Q
                fixed[param.name] = (few @ few @ wide.T).view_as(param.grad)
                param.grad.copy_(fixed[param.name])
            sync()

        worker.method.sync_gradients = constant
    run.train()
    for param in hidden(run.workers[0]):
        left, _, right = torch.linalg.svd(fixed[param.name].flatten(1), full_matrices=False)
        scale = math.sqrt(len(param.grad) / (param.grad.numel() / len(param.grad)))
        torch.testing.assert_close(param.grad.flatten(1), scale * left @ right, rtol=0, atol=1e-6)


def seeded():
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("name", ["sgd", "adamw", "muon"])
def test_hidden_matrices_decay_and_step_by_themselves_and_the_optimizer_has_all_others(name):
    recipe = {"name": name, "lr": 0.05, "weight_decay": 0.1}
    run = small.trainer(small.task(2, build_model=PLAIN, optimizer=recipe), "dion")
    worker = run.workers[0]
    held = [param for group in worker.run.optimizer.param_groups for param in group["params"]]
    others = [param.tensor for param in worker.run.params if not param.hidden]
    assert {id(param) for param in held} == {id(param) for param in others}
    before = {param.name: param.tensor.detach().clone() for param in hidden(worker)}
    run.train(until=1)
    for param in hidden(worker):
        expected = (1 - worker.run.lr * 0.1) * before[param.name] - worker.run.lr * param.grad
        torch.testing.assert_close(param.tensor.detach(), expected)


@pytest.mark.parametrize(("workers", "nodes"), [(4, 1), (6, 2)])
@pytest.mark.parametrize("options", [{}, {"rank_fraction": 0.5}, {"rank_fraction": 1.0, **FACTORS}])
def test_bytes_are_the_formula(workers, nodes, options):
    """4 r (n + m) bytes of a hidden matrix that becomes smaller, 4 n m of another; 4 of other entries."""
    run = trained(workers, nodes, torch.float32, **options)
    entries, sizes = 0, []
    for param in run.workers[0].run.params:
        entries += param.tensor.numel()
        if param.hidden:
            rows, columns = param.grad.flatten(1).shape
            rank = math.ceil(options.get("rank_fraction", 0.25) * min(rows, columns))
            sizes.append((rows * columns, rank * (rows + columns)))
    factored = [(whole, sent) for whole, sent in sizes if whole > sent or "min_gain" in options]
    assert factored
    push = 4 * (entries + sum(sent - whole for whole, sent in factored))
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == total.payload_pull == run.total_steps * push
        wire = 2 * (workers - 1) / workers * run.total_steps * push
        assert total.wire_sent == pytest.approx(wire, abs=8 * run.total_steps)


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
