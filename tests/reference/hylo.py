"""Hylo: whole filters of large convolutions, two bits an entry for large linear layers, a server.

Its controls treat both kinds of large layers alike, or forget what was not sent.

Sources read:

* MXNet: github.com/apache/mxnet, src/kvstore/gradient_compression-inl.h at commit 203f7a0 (quantize_2bit,
  dequantize_2bit) and src/kvstore/gradient_compression.cc at commit 00a13f6 (GetCompressedSize).
* Of "Hylo: Hybrid Layer-Based Optimization to Reduce Communication in Distributed Deep Learning", the
  abstract. It says that of convolutions only some important kernels are sent, and that gradients of fully
  connected layers are quantized to 2 bits with an adaptive threshold. No more of it could be read:
  every formula beside the codes is a reconstruction.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .sgd import Run, Tensors, copy_tensors, mean_over_workers

BITS_OF_CODE = {1: 0b11, -1: 0b10, 0: 0b00}


def codec_of(kind: str, compression: str) -> str:
    """Return what a large layer sends, "kernels" or "two bits"; kind is "conv" or "linear".

    Source: the abstract for "hybrid"; the two uniform ones are controls, which it does not have.
    """
    if compression == "hybrid":
        return "kernels" if kind == "conv" else "two bits"
    return "kernels" if compression == "uniform_kernels" else "two bits"


def rate(entries: int, threshold: int, exponent: float, least_rate: float) -> float:
    """Return the share of a layer's filters that is sent, from the size of its weight.

        rate = min(1, max(least_rate, (threshold / entries) ** exponent))

    Source: reconstruction.
    """
    return float(min(1.0, max(least_rate, (threshold / entries) ** exponent)))


def count_sent(share: float, filters: int) -> int:
    """Return m = ceil(share * filters), at least 1, at most all filters.

    The product is rounded to 9 decimals first, so that 0.07 * 100, which is 7.000000000000001
    in binary, counts as 7.
    """
    return min(max(1, math.ceil(round(share * filters, 9))), filters)


def kernels_to_send(tensor: np.ndarray, share: float, importance: str) -> list[int]:
    """Return the indices, in rising order, of the filters with the largest scores.

    Filter o is tensor[o]; count_sent(share, number of filters) of them are chosen. Its score is

        sum |tensor[o]|             with importance "l1"
        sqrt(sum tensor[o] ** 2)    with importance "l2"

    Of filters with equal scores, the one with the lower index is chosen first.

    Source: reconstruction; the abstract has only that important kernels are chosen.
    """
    filters = tensor.shape[0]
    if importance == "l1":
        scores = [float(np.sum(np.abs(own))) for own in tensor]
    else:
        scores = [math.sqrt(float(np.sum(own**2))) for own in tensor]
    by_score = sorted(range(filters), key=lambda o: (-scores[o], o))
    return sorted(by_score[: count_sent(share, filters)])


def two_bit(u: np.ndarray, kappa: float) -> tuple[float, np.ndarray]:
    """Return the threshold T and, in the shape of u, the codes; T * codes is what is sent.

        T = kappa * mean |u|
        code = +1 where u >= T, -1 where u <= -T, 0 elsewhere       (0 everywhere if T == 0)

    Source: the codes are those of MXNet's quantize_2bit, where the threshold is also the decoded value.
    There it is a constant above 0. Deriving it from the layer is a reconstruction; the abstract says only
    that it adapts.
    """
    threshold = kappa * float(np.mean(np.abs(u)))
    codes = np.zeros(u.shape, dtype=np.int64)
    if threshold != 0:
        # quantize_2bit: first ">= pos_threshold", and only otherwise "<= neg_threshold"
        codes[u >= threshold] = 1
        codes[u <= -threshold] = -1
    return threshold, codes


def pack(codes: np.ndarray | Sequence[int]) -> bytes:
    """Return the codes, in row-major order, as bytes: ceil(n / 16) words of 4 bytes for n codes.

    Code i lies in byte i // 4; the first of a byte's 4 codes has the two most significant bits.
    +1 is 11, -1 is 10, 0 is 00, and what is left of the last word is 00.

    Source: MXNet, quantize_2bit: posbits 0xc0, 0x30, 0x0c, 0x03 and negbits 0x80, 0x20, 0x08, 0x02 by i & 3,
    all other bits 0; GetCompressedSize: a 32-bit word for 16 codes, or for what is left of them.
    """
    flat = np.asarray(codes).reshape(-1)
    packed = bytearray(4 * ((flat.size + 15) // 16))
    for i in range(flat.size):
        packed[i // 4] |= BITS_OF_CODE[flat[i].item()] << (6 - 2 * (i % 4))
    return bytes(packed)


def train(
    run: Run,
    kinds: Sequence[str],
    conv_threshold: int,
    linear_threshold: int,
    exponent: float = 0.5,
    least_rate: float = 0.1,
    kappa: float = 1.0,
    importance: str = "l1",
    warmup_steps: int = 0,
    compression: str = "hybrid",
    residual: bool = True,
) -> Iterator[Tensors]:
    """Yield, for every step, the server's weights after that step, which all workers then hold.

    kinds names every tensor "conv", "linear" or "other". A "conv" tensor with more than
    conv_threshold entries is large, and so is a "linear" one with more than linear_threshold. A large
    tensor sends what codec_of says: some of its filters ("kernels") or two bits an entry ("two bits").
    A filter of a "linear" tensor is a row. Every other tensor is dense. During the first warmup_steps
    steps all tensors are dense, and the residuals do not change. At every step t, for
    every tensor, with worker k's gradient g_k at the weights w and its residual r_k (zero at first):

        dense:     s_k = g_k
        kernels:   u = r_k + g_k
                   s_k = u in the filters of kernels_to_send(u), zero in the others
                   r_k = u with the filters that were sent set to zero
        two bits:  u = r_k + g_k
                   T, codes = two_bit(u, kappa)
                   s_k = T * codes
                   r_k = u - s_k
        G = (1/K) * sum_k s_k
        w = Optimizer(w, G, lr(t))

    Without residual, every r_k stays zero. A filter that a worker does not send counts as zero: the sum
    is always divided by K. There is one optimizer, the server's: momentum and weight decay act after
    the aggregation.

    Source: the residual of a linear layer is that of MXNet's quantize_2bit: the gradient is added, and what
    was sent is subtracted. The rest is a reconstruction from the abstract.
    """
    thresholds = {"conv": conv_threshold, "linear": linear_threshold}
    server, residual_of = copy_tensors(run.weights), run.zeros()
    optimizer = run.optimizers()[0]

    for step in range(run.steps):
        sent_of = []
        for left_of, own in zip(residual_of, run.gradients(step, [server] * run.workers), strict=True):
            sent = []
            for index, (kind, g) in enumerate(zip(kinds, own, strict=True)):
                large = kind != "other" and g.size > thresholds[kind]
                codec = codec_of(kind, compression) if large and step >= warmup_steps else "dense"
                u = left_of[index] + g
                if codec == "kernels":
                    share = rate(g.size, thresholds[kind], exponent, least_rate)
                    message = np.zeros_like(u)
                    left = u.copy()
                    for o in kernels_to_send(u, share, importance):
                        message[o] = u[o]
                        left[o] = 0
                elif codec == "two bits":
                    threshold, codes = two_bit(u, kappa)
                    message = threshold * codes
                    left = u - message
                else:
                    message, left = g, left_of[index]
                if residual:
                    left_of[index] = left
                sent.append(message)
            sent_of.append(sent)

        server = optimizer.step(server, mean_over_workers(sent_of), run.learning_rate(step))
        yield copy_tensors(server)
