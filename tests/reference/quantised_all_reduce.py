"""Quantised all-reduce (qgZ): gradients are averaged in few bits, inside nodes and then between them.

Sources read: github.com/deepspeedai/DeepSpeed at commit edaa722.

* deepspeed/runtime/comm/coalesced_collectives.py (all_to_all_quant_reduce, lines 31 to 76);
* csrc/includes/quantization_utils.h (class Params, symmetric, lines 51 to 93; GroupStats, 157 to 203);
* csrc/quantization/swizzled_quantize.cu (the groups of a partition, lines 126 to 130) and quant_reduce.cu
  (dequant_reduce, lines 19 to 127).

Of Wang et al., "ZeRO++", arXiv:2306.10209, nothing was read.

dequant_reduce adds up what the workers of a node sent, and line 75 then divides by the number of nodes only.
So at this commit the result is the mean times the number of workers of a node. At 17b3b55 the code divides by
all workers, and so does this reference.

What follows the benchmark instead of the code: levels are symmetric, blocks have a fixed size, all tensors
are one padded row, and the mean is quantised once more. The code quantises by 8 / max, clips +8 to 7, and
leaves each worker with its piece.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from .sgd import Run, Tensors, mean_over_workers


def quantise(row: np.ndarray, bits: int, block: int) -> np.ndarray:
    """Return what a receiver decodes: in each block, multiples of the largest magnitude over the last level.

        s = max |x| / m, with m = 7 for 4 bits and 127 for 8;  Q(x) = s * round(x / s), to even at halves

    A block of zeros stays one. The last block may be shorter.

    Source: Params: the scale follows from the largest magnitude, 1 if that is 0; float to int rounds to even.
    """
    levels = 2 ** (bits - 1) - 1
    decoded = np.zeros(row.shape)
    for start in range(0, len(row), block):
        part = row[start : start + block]
        largest = np.max(np.abs(part))
        scale = largest / levels if largest > 0 else 1.0
        decoded[start : start + block] = np.round(part / scale) * scale
    return decoded


def mean_of(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of the rows, added in order.

    Source: dequant_reduce inside a node, line 75 between nodes.
    """
    total = np.zeros(rows[0].shape)
    for row in rows:
        total = total + row
    return total / len(rows)


def average(rows: Sequence[np.ndarray], nodes: int, bits: int, block: int) -> np.ndarray:
    """Return the average of the workers' rows, whose length is a multiple of the number of workers.

    With P workers in a node, a row has P parts, and a part has as many pieces as there are nodes. Worker j of
    each node:

        G_n = the mean over the workers i of node n of Q(part j of row i)
        piece p of the result = Q(the mean over the nodes n of Q(piece p of G_n))

    Blocks begin anew at each part and at each piece: what is sent to one worker is quantised by itself.

    Source: all_to_all_quant_reduce; swizzle_quant has whole groups in each partition, too. The outermost Q is
    the benchmark's, for the way back.
    """
    places = len(rows) // nodes
    result = []
    for j in range(places):
        means_of_nodes = []
        for first in range(0, len(rows), places):
            parts = [np.split(row, places)[j] for row in rows[first : first + places]]
            means_of_nodes.append(mean_of([quantise(part, bits, block) for part in parts]))
        for p in range(nodes):
            pieces = [quantise(np.split(mean, nodes)[p], bits, block) for mean in means_of_nodes]
            result.append(quantise(mean_of(pieces), bits, block))
    return np.concatenate(result)


def train(run: Run, bits: int = 4, block: int = 128) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step the gradients of all tensors with more than one dimension form one row, in the order of the
    tensors, padded with zeros to a multiple of the K workers. `average` averages it. Other tensors have the
    exact mean. Then w_k = Optimizer_k(w_k, the average, lr(t)).

    Source: all_to_all_quant_reduce, lines 43 and 44 for tensors with one dimension; nothing is remembered.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    compressed = [index for index, weight in enumerate(run.weights) if weight.ndim > 1]
    ends = np.cumsum([run.weights[index].size for index in compressed])
    padding = np.zeros(-int(ends[-1]) % run.workers)

    for step in range(run.steps):
        gradients = run.gradients(step, weights_of)
        aggregate = mean_over_workers(gradients)
        rows = [
            np.concatenate([*(gradient[index].reshape(-1) for index in compressed), padding])
            for gradient in gradients
        ]
        parts = np.split(average(rows, run.nodes, bits, block), ends)
        for index, part in zip(compressed, parts[:-1], strict=True):
            aggregate[index] = part.reshape(run.weights[index].shape)
        weights_of = run.stepped(step, optimizer_of, weights_of, [aggregate] * run.workers)
        yield mean_over_workers(weights_of)
