"""Gossip: every worker steps alone, then averages its weights with those of few other workers.

Sources read:

* github.com/facebookresearch/stochastic_gradient_push at commit e682064: gossip/graph_manager.py
  (NPeerDynamicDirectedExponentialGraph, lines 167 to 176; RingGraph, 265 to 279; _rotate_group_indices, 128
  to 133), gossip/mixing_manager.py (UniformMixing, 41 to 56), gossip/gossiper.py (PushSum.mix, 179 to 219),
  and the order of a step in gossip_sgd.py, lines 389 to 393.
* For random pairs, github.com/gensyn-ai/noloco at commit a1b4a42, src/noloco/sparse_optimizer_c.py: groups
  are drawn at random (lines 6 to 25), and outer_step (28 to 66) is a plain mean with an outer rate of 1 and
  no outer momentum.

Of Lian et al., arXiv:1705.09056, Assran et al., arXiv:1811.10792, and Kolehmainen et al., arXiv:2506.10911,
nothing was read.

PushSum keeps a weight for each worker. In these graphs each worker receives as often as it sends, and shares
are equal, so MixingManager.is_regular holds, and the weights stay 1. They are left out.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .sgd import Run, Tensors, copy_tensors, mean_over_workers

Pairs = Callable[[int], Sequence[tuple[int, int]]]


def neighbours(graph: str, worker: int, workers: int, exchange: int, pairs: Pairs | None) -> list[int]:
    """Return the others whose weights this worker receives in this exchange, each once.

        exponential   i - 2^(t mod n), where n is how many powers of two are at most K - 1
        ring          i - 1 and i + 1, which are one worker if K = 2
        random_pairs  the other one of its pair
        complete      all others

    Worker numbers are taken modulo K. One worker alone receives nothing.

    Source: NPeerDynamicDirectedExponentialGraph with one peer: line 171 has floor(log2(K - 1)) + 1 distances,
    and worker i sends to i + distance. RingGraph has both neighbours; `complete` is a control.
    """
    if workers == 1:
        return []
    if graph == "exponential":
        distances = []
        while 2 ** len(distances) <= workers - 1:
            distances.append(2 ** len(distances))
        return [(worker - distances[exchange % len(distances)]) % workers]
    if graph == "ring":
        return sorted({(worker - 1) % workers, (worker + 1) % workers})
    if graph == "complete":
        return [other for other in range(workers) if other != worker]
    if pairs is None:
        raise ValueError("random_pairs needs the pairs of each exchange")
    return [a + b - worker for a, b in pairs(exchange) if worker in (a, b)]


def average(own: Tensors, received: Sequence[Tensors]) -> Tensors:
    """Return the mean of a worker's weights and those it received, all with the same share.

    Source: UniformMixing, 1 / (peers + 1).
    """
    mixed = []
    for index, weight in enumerate(own):
        total = np.array(weight)
        for tensors in received:
            total = total + tensors[index]
        mixed.append(total / (len(received) + 1))
    return mixed


def train(
    run: Run, graph: str = "exponential", period: int = 1, pairs: Pairs | None = None
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step, with worker k's gradient g_k at its own weights w_k:

        w_k = Optimizer_k(w_k, g_k(w_k), lr(t))

    After steps number period, 2 period, ... all workers exchange weights, at the same time:

        w_k = the mean of w_k and of the w_j of its neighbours

    Exchanges are counted from 0. Each worker has its own momentum buffer, which is never averaged.

    Source: gossip_sgd.py: optimizer.step, then transfer_params. There every step has an exchange; NoLoCo has
    them at intervals.

    Args:
        run: what to train.
        graph: see `neighbours`.
        period: steps between two exchanges.
        pairs: of an exchange, for random_pairs: who averages with whom; a worker in no pair stays alone.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    for step in range(run.steps):
        gradients = run.gradients(step, weights_of)
        weights_of = run.stepped(step, optimizer_of, weights_of, gradients)
        if (step + 1) % period == 0:
            exchange = (step + 1) // period - 1
            before = [copy_tensors(weights) for weights in weights_of]
            weights_of = [
                average(before[k], [before[j] for j in neighbours(graph, k, run.workers, exchange, pairs)])
                for k in range(run.workers)
            ]
        yield mean_over_workers(weights_of)
