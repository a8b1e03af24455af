"""Synchronous SGD: the gradients are averaged over the workers at every step.

Sources read: torch 2.13, torch/distributed/algorithms/ddp_comm_hooks/post_localSGD_hook.py. Its first phase
is this method: an all-reduce of the gradients' mean over all workers before the optimizer's step.
"""

from collections.abc import Iterator

from .sgd import Run, Tensors, mean_over_workers


def train(run: Run) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step t, with worker k's gradient g_k at its weights w_k:

        G = (1/K) * sum_k g_k(w_k)
        w_k = Optimizer_k(w_k, G, lr(t))
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    for step in range(run.steps):
        mean_gradient = mean_over_workers(run.gradients(step, weights_of))
        weights_of = run.stepped(step, optimizer_of, weights_of, [mean_gradient] * run.workers)
        yield mean_over_workers(weights_of)
