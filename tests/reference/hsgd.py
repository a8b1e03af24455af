"""Hierarchical synchronous SGD: workers are combined inside their node first, then the nodes.

Named after Wang, Lu, Chen and Li, "An Efficient Method for Training Deep Learning Networks Distributed",
IEICE Trans. Inf. & Syst. E103-D(12), 2020, doi:10.1587/transinf.2020PAP0007. No text of it could be read
for this file, and no code of the authors was found: every line is a reconstruction. It rests on arithmetic.
The gradient of the mean loss over all images is the mean of the workers' gradients, weighted with their
numbers of images. The order of the sum does not matter.

For gradients in 16 bits the order matters, because each operation is rounded. Their source is torch 2.13,
torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py: _compress_hook casts, divides by the number of
workers, and all-reduces the sum.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .sgd import Run, Tensors, copy_tensors, mean_over_workers


def weighted_sum(tensors_of: Sequence[Sequence[np.ndarray]], factors: Sequence[float]) -> Tensors:
    """Return sum_i factors[i] * tensors_of[i], tensor by tensor, i in order."""
    total = [np.zeros_like(tensor) for tensor in tensors_of[0]]
    for tensors, factor in zip(tensors_of, factors, strict=True):
        for index, tensor in enumerate(tensors):
            total[index] = total[index] + factor * tensor
    return total


def rounded(array: np.ndarray, precision: str) -> np.ndarray:
    """Return the nearest numbers of this precision, as float64; of two equally near ones the even one.

    A bfloat16 is a float32 without its 16 last bits. "full" changes nothing.
    """
    if precision == "full":
        return array
    single = array.astype(np.float32)
    if precision == "float16":
        return single.astype(np.float16).astype(np.float64)
    bits = single.view(np.uint32)
    last_kept = (bits >> 16) & 1
    return ((bits + 0x7FFF + last_kept) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def mean_over_nodes(of_nodes: Sequence[np.ndarray], precision: str) -> np.ndarray:
    """Return the mean over the nodes; in 16 bits every operation is rounded.

    every node's array is cast and divided by the number of nodes; then they are added in their order
    """
    parts = [rounded(rounded(array, precision) / len(of_nodes), precision) for array in of_nodes]
    total = parts[0]
    for part in parts[1:]:
        total = rounded(total + part, precision)
    return total


def mean_of_gradients(
    gradients: Sequence[Tensors], images: Sequence[int], nodes: int, precision: str
) -> Tensors:
    """Return sum_k b_k * g_k / sum_k b_k: summed inside every node, then over the nodes.

    With several nodes the sum of each is multiplied by nodes / sum_k b_k, and then leaves the node in this
    precision. So the mean over the nodes is the result.
    """
    places = len(gradients) // nodes
    sums_of_nodes = [
        weighted_sum(gradients[first : first + places], images[first : first + places])
        for first in range(0, len(gradients), places)
    ]
    if nodes == 1:
        return [tensor / sum(images) for tensor in sums_of_nodes[0]]
    leaving = [[tensor * nodes / sum(images) for tensor in tensors] for tensors in sums_of_nodes]
    return [mean_over_nodes(list(of_nodes), precision) for of_nodes in zip(*leaving)]


def mean_of_weights(weights_of: Sequence[Tensors], images: Sequence[int], nodes: int) -> Tensors:
    """Return the mean over the nodes, weighted with B_n, of their means, weighted with b_k.

    B_n is the sum of b_k over the workers of node n.
    """
    places = len(weights_of) // nodes
    means_of_nodes, images_of_nodes = [], []
    for first in range(0, len(weights_of), places):
        on_node = images[first : first + places]
        total = weighted_sum(weights_of[first : first + places], on_node)
        means_of_nodes.append([tensor / sum(on_node) for tensor in total])
        images_of_nodes.append(sum(on_node))
    total = weighted_sum(means_of_nodes, images_of_nodes)
    return [tensor / sum(images_of_nodes) for tensor in total]


def train(
    run: Run, samples: Callable[[int, int], int], level_1: str = "gradients", precision: str = "full"
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    The K workers are numbered node by node: worker k is on node floor(k / (K / nodes)). At step t,
    worker k has b_k = samples(k, t) images, at least one; g_k is the gradient of their mean loss.
    The workers of a node combine "gradients":

        S_n = sum of b_k * g_k(w_k) over the workers k of node n
        G = sum_n S_n / sum_k b_k, where what leaves a node has this precision
        w_k = Optimizer_k(w_k, G, lr(t))

    or "weights", each worker with a momentum buffer of its own:

        w_k = Optimizer_k(w_k, g_k(w_k), lr(t))
        B_n = sum of b_k over the workers k of node n
        W_n = sum of b_k * w_k over the workers k of node n, divided by B_n
        w_k = sum_n B_n * W_n / sum_n B_n

    Source: reconstruction (see above).
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    for step in range(run.steps):
        images = [samples(worker, step) for worker in range(run.workers)]
        gradients = run.gradients(step, weights_of)
        if level_1 == "gradients":
            gradients = [mean_of_gradients(gradients, images, run.nodes, precision)] * run.workers
        weights_of = run.stepped(step, optimizer_of, weights_of, gradients)
        if level_1 == "weights":
            mean_weights = mean_of_weights(weights_of, images, run.nodes)
            weights_of = [copy_tensors(mean_weights) for _ in range(run.workers)]
        yield mean_over_workers(weights_of)
