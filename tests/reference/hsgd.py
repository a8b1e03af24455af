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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .sgd import Gradient, LearningRate, Optimizer, Tensors, copy_tensors, mean_over_workers


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
    if precision != "bfloat16":
        raise ValueError(f"unknown precision {precision!r}")
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
    gradients: Sequence[Tensors], images: Sequence[int], nodes: int, precision: str = "full"
) -> Tensors:
    """Return sum_k b_k * g_k / sum_k b_k: summed inside every node, then over the nodes.

    With several nodes the sum of each is multiplied by nodes / sum_k b_k, and then leaves the node in this
    precision. So the mean over the nodes is the result.
    """
    workers_per_node = len(gradients) // nodes
    sums_of_nodes = []
    for node in range(nodes):
        members = range(node * workers_per_node, (node + 1) * workers_per_node)
        sums_of_nodes.append(weighted_sum([gradients[k] for k in members], [images[k] for k in members]))
    if nodes == 1:
        return [tensor / sum(images) for tensor in sums_of_nodes[0]]
    leaving = [[tensor * nodes / sum(images) for tensor in tensors] for tensors in sums_of_nodes]
    return [mean_over_nodes(list(of_nodes), precision) for of_nodes in zip(*leaving)]


def mean_of_weights(weights_of: Sequence[Tensors], images: Sequence[int], nodes: int) -> Tensors:
    """Return the mean over the nodes, weighted with B_n, of their means, weighted with b_k.

    B_n is the sum of b_k over the workers of node n.
    """
    workers_per_node = len(weights_of) // nodes
    means_of_nodes = []
    images_of_nodes = []
    for node in range(nodes):
        members = range(node * workers_per_node, (node + 1) * workers_per_node)
        images_of_node = sum(images[k] for k in members)
        total = weighted_sum([weights_of[k] for k in members], [images[k] for k in members])
        means_of_nodes.append([tensor / images_of_node for tensor in total])
        images_of_nodes.append(images_of_node)
    total = weighted_sum(means_of_nodes, images_of_nodes)
    return [tensor / sum(images_of_nodes) for tensor in total]


def train(
    weights: Sequence[np.ndarray],
    gradient: Gradient,
    workers: int,
    steps: int,
    learning_rate: LearningRate,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    nodes: int,
    level_1: str,
    samples: Callable[[int, int], int],
    make_optimizer: Callable[[], Any] | None = None,
    precision: str = "full",
) -> list[Tensors]:
    """Return, for every step, the mean over the workers of their weights after that step.

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

    Every worker's optimizer comes from make_optimizer(): an object with the method
    step(weights, gradient, learning_rate), as sgd.Optimizer has it. None stands for
    Optimizer(momentum, weight_decay, nesterov); otherwise these three arguments are not used.

    Source: reconstruction (see above).
    """
    if nodes < 1 or workers % nodes != 0:
        raise ValueError(f"{workers} workers cannot stand evenly on {nodes} nodes")
    if level_1 not in ("gradients", "weights"):
        raise ValueError(f"unknown level_1 {level_1!r}")

    weights_of = [copy_tensors(weights) for _ in range(workers)]
    if make_optimizer is None:
        optimizer_of: list[Any] = [Optimizer(momentum, weight_decay, nesterov) for _ in range(workers)]
    else:
        optimizer_of = [make_optimizer() for _ in range(workers)]
    history: list[Tensors] = []

    for step in range(steps):
        images = [samples(worker, step) for worker in range(workers)]
        if min(images) < 1:
            raise ValueError(f"every worker needs at least one image at step {step}, not {images}")

        gradients = []
        for worker in range(workers):
            own = gradient(worker, step, copy_tensors(weights_of[worker]))
            gradients.append(copy_tensors(own))

        if level_1 == "gradients":
            mean_gradient = mean_of_gradients(gradients, images, nodes, precision)
            gradients = [mean_gradient for _ in range(workers)]

        for worker in range(workers):
            weights_of[worker] = optimizer_of[worker].step(
                weights_of[worker], gradients[worker], learning_rate(step)
            )

        if level_1 == "weights":
            mean_weights = mean_of_weights(weights_of, images, nodes)
            weights_of = [copy_tensors(mean_weights) for _ in range(workers)]

        history.append(mean_over_workers(weights_of))

    return history
