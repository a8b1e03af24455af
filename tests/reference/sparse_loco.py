"""SparseLoCo: after some local steps, workers send the largest entries of their change, and keep the rest.

Source read: the authors' code, github.com/tplr-ai/templar at commit c2397ac.

* src/tplr/compress.py: ChunkingTransformer (lines 145 to 292, without the cosine transform), TopKCompressor
  (compress, 386 to 423; batch_decompress, 484 to 580; _quantize_values, 583 to 621; _dequantize_values, 624
  to 644).
* src/tplr/neurons.py: the error feedback (lines 139 to 172) and the outer step (325 to 358).
* hparams/hparams.json, for the defaults: lines 9 to 16, and 4 bins, 47.

Of Sarfi et al., arXiv:2508.15706, nothing was read: the mean over all workers follows the benchmark's
specification. The code has the mean over senders, and clips.

The code multiplies the change by the outer rate before it is added to the error (lines 91 and 153), and again
when it steps. Here it counts once, in the step. Its k is even.
"""

import copy
from collections.abc import Iterator, Sequence

import numpy as np

from .demo_sgd import Chunks, mean_of_senders
from .sgd import Run, Tensors, copy_tensors
from .top_k import choose_largest

RANGE_IN_SIGMAS = 6


def rounded(values: np.ndarray, bins: int) -> np.ndarray:
    """Return what a receiver decodes: for each value the mean of its bin.

        centred = x - mean x;  scale = 6 * deviation / bins
        bin = round(centred / scale + bins / 2), to even at halves, from 0 to bins - 1
        decoded = mean of what is in the bin, and mean x

    The deviation divides by one less than the number of values. Where the scale is 0 or undefined it is 1.

    Source: _quantize_values and _dequantize_values.
    """
    shift = values.mean()
    centred = values - shift
    scale = 1.0
    if values.size > 1:
        scale = RANGE_IN_SIGMAS * np.sqrt(np.sum(centred**2)) / np.sqrt(values.size - 1) / bins or 1.0
    number = np.clip(np.round(centred / scale + bins // 2), 0, bins - 1)
    decoded = np.zeros(values.shape)
    for bin_ in range(bins):
        if np.any(number == bin_):
            decoded[number == bin_] = centred[number == bin_].mean()
    return decoded + shift


def compress(tensor: np.ndarray, chunk: int, k: int, bins: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return what a worker sends of a tensor, zero elsewhere, and a mask of it.

    The k entries of largest magnitude of each chunk; of equal ones the first in row-major order of the chunk.
    All values of a tensor are rounded together; None: not at all.

    Source: compress. torch chooses among equal magnitudes there.
    """
    chunks = Chunks(tensor, chunk)
    matrix = tensor.reshape(chunks.matrix_shape)
    chosen = np.zeros(matrix.shape, dtype=bool)
    for block in chunks.blocks():
        chosen[block] = choose_largest(matrix[block], min(k, matrix[block].size))
    sent = np.where(chosen, matrix, 0)
    if bins is not None:
        sent[chosen] = rounded(matrix[chosen], bins)
    return sent.reshape(tensor.shape), chosen.reshape(tensor.shape)


def clipped(sent_of: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return what the workers sent of a tensor, each scaled down to the median norm.

    With an even number of workers the median is the lower of the two in the middle.

    Source: batch_decompress, lines 526 to 556, and torch.median.
    """
    norms = [float(np.sqrt(np.sum(sent**2))) for sent in sent_of]
    median = sorted(norms)[(len(norms) - 1) // 2]
    return [sent * min(median / (norm + 1e-8), 1.0) for sent, norm in zip(sent_of, norms, strict=True)]


def train(
    run: Run,
    period: int = 30,
    chunk: int = 64,
    k: int = 64,
    decay: float = 0.95,
    outer_lr: float = 1.0,
    bits: int = 2,
    average: str = "workers",
    clip: bool = False,
) -> Iterator[Tensors]:
    """Yield, for every step, the theta that would be delivered if that step were the last one.

    At every step each worker i steps with its own gradient and its own optimizer:

        theta_i = Optimizer_i(theta_i, g_i(theta_i), lr(t))

    After steps number period, 2 period, ... and after the last one, for every tensor, with the error
    e_i, zero at first:

        e_i = decay * e_i + theta - theta_i
        c_i = the k largest entries of |e_i| in each chunk, rounded to 2^bits bins; 32 bits are exact
        e_i = e_i - c_i
        theta = theta - outer_lr * C;  theta_i = theta

    C is the mean of the c_i over all workers; with average "senders", each entry's over those that sent it.
    With `clip` the c_i are clipped before. The optimizers of the workers are neither averaged nor reset.

    Source: neurons.py, lines 152, 153 and 172. The shorter round at the end is the benchmark's.
    """
    bins = None if bits == 32 else 2**bits

    def finish_round(theta: Tensors, weights_of: list[Tensors], error_of: list[Tensors]) -> None:
        for index in range(len(theta)):
            sent_of, chosen_of = [], []
            for weights, error in zip(weights_of, error_of, strict=True):
                error[index] = decay * error[index] + theta[index] - weights[index]
                sent, chosen = compress(error[index], chunk, k, bins)
                error[index] = error[index] - sent
                sent_of.append(sent)
                chosen_of.append(chosen)
            if clip:
                sent_of = clipped(sent_of)
            everybody = [np.ones(theta[index].shape, dtype=bool)] * len(sent_of)
            mean = mean_of_senders(sent_of, chosen_of if average == "senders" else everybody)
            theta[index] = theta[index] - outer_lr * mean
            for weights in weights_of:
                weights[index] = theta[index]

    theta = copy_tensors(run.weights)
    weights_of, error_of, optimizer_of = run.replicas(), run.zeros(), run.optimizers()
    for step in range(run.steps):
        gradients = run.gradients(step, weights_of)
        weights_of = run.stepped(step, optimizer_of, weights_of, gradients)
        if (step + 1) % period == 0:
            finish_round(theta, weights_of, error_of)
            yield copy_tensors(theta)
        else:
            now = copy.deepcopy((theta, weights_of, error_of))
            finish_round(*now)
            yield now[0]
