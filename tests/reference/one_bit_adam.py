"""1-bit Adam: dense Adam first; then the second moment is frozen, and the first one is sent as signs.

Source read: github.com/deepspeedai/DeepSpeed at commit edaa722, deepspeed/runtime/fp16/onebit/adam.py
(OnebitAdam.step, lines 112 to 256) and deepspeed/runtime/comm/compressed.py (compressed_allreduce, lines 58
to 141). Of Tang et al., "1-bit Adam", arXiv:2102.02888, nothing was read.

Where this reference leaves the code:

* The code spends its first step on buffers, and does not move the weights in it (lines 170 to 184, 230).
* It pads each tensor, and divides the scales by the root of the padded size (line 74). Here it is the root of
  the number of entries.
* It accepts bias_correction, and never applies it (line 150). Here it can be asked for: after the freeze the
  second moment keeps its last correction, which is a reconstruction.
* It adds the decay of all tensors to the update (line 232). Here it is the benchmark's AdamW, whose tensors
  with at most one dimension keep theirs, or its Adam, whose decay is in the gradient.
* It has a mask that the user gives, for entries whose gradient is always zero (lines 215 to 225). Here it is
  where the frozen second moment is zero.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from .optimizers import EPSILON
from .sgd import Run, Tensors, copy_tensors, mean_over_workers
from .sign_sgd import as_row, as_tensors, sign


def compress(row: np.ndarray, parts: Sequence[slice]) -> np.ndarray:
    """Return, for each part of the row, the root of its mean square times the signs; sign(0) = +1.

    Source: compressed_allreduce, lines 74 and 76.
    """
    compressed = np.zeros(row.shape)
    for part in parts:
        if part.stop > part.start:
            compressed[part] = np.sqrt(np.mean(row[part] ** 2)) * sign(row[part])
    return compressed


class TwoSided:
    """The mean of rows by signs, with an error for each worker and one for the servers.

    Source: compressed_allreduce. Each server has a chunk of each tensor, so their errors form one row.
    """

    def __init__(
        self, size: int, workers: int, worker_parts: Sequence[slice], server_parts: Sequence[slice]
    ) -> None:
        self.error_of, self.error_of_servers = [np.zeros(size) for _ in range(workers)], np.zeros(size)
        self.worker_parts, self.server_parts = worker_parts, server_parts

    def mean(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Return it, and remember what got lost.

        p_k = x_k + e_k;  c_k = compress(p_k);  e_k = p_k - c_k
        p = (1/K) sum_k c_k + E;  c = compress(p);  E = p - c

        Returns c.
        """
        total = np.zeros(rows[0].shape)
        for worker, row in enumerate(rows):
            accumulated = row + self.error_of[worker]
            sent = compress(accumulated, self.worker_parts)
            self.error_of[worker] = accumulated - sent
            total = total + sent
        accumulated = total / len(rows) + self.error_of_servers
        answer = compress(accumulated, self.server_parts)
        self.error_of_servers = accumulated - answer
        return answer


def tensors_as_parts(weights: Sequence[np.ndarray]) -> list[slice]:
    """Return where each tensor lies in a row of all of them."""
    ends = np.cumsum([weight.size for weight in weights]).tolist()
    return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def chunks_of_servers(parts: Sequence[slice], workers: int) -> list[slice]:
    """Return each part in as many chunks as there are workers, of the same size but for the last ones.

    Source: lines 174 to 177 of adam.py, where a chunk is also a multiple of 8, by padding.
    """
    chunks = []
    for part in parts:
        size = -(-(part.stop - part.start) // workers)
        starts = [min(part.start + worker * size, part.stop) for worker in range(workers)]
        chunks += [slice(start, min(start + size, part.stop)) for start in starts]
    return chunks


def train(
    run: Run,
    warmup_steps: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    bias_correction: bool = True,
    decoupled: bool = True,
    worker_parts: Sequence[slice] | None = None,
    server_parts: Sequence[slice] | None = None,
) -> Iterator[Tensors]:
    """Yield, for every step, the weights after that step, which are the same on all workers.

    With step t from 1, T the warm-up, and worker k's gradient g_k at the weights w:

        t <= T:  g = (1/K) sum_k g_k;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
        t > T:   m = the two-sided mean by signs of beta1 * m + (1 - beta1) * g_k;  m = 0 where v = 0
        w = w - lr * (m / (sqrt(v) + 1e-8) + weight_decay * w)

    With bias correction m is divided by 1 - beta1^t, and v by 1 - beta2^min(t, T), in the last line only.
    With one worker nothing is compressed.

    Source: step, lines 191 to 234, and 247 to 250 for the end of the warm-up.

    Args:
        run: what to train; its weight decay.
        warmup_steps: T.
        beta1: of the first moment.
        beta2: of the second moment.
        bias_correction: see above.
        decoupled: decay beside the gradient, of tensors with more than one dimension; otherwise the decay of
            all tensors is added to each worker's gradient.
        worker_parts: parts of a row of all tensors, in each of which what a worker sends has one scale; None:
            the tensors.
        server_parts: the same for what servers answer; None: each tensor in K chunks.
    """
    weights = copy_tensors(run.weights)
    tensors = tensors_as_parts(weights)
    size = sum(weight.size for weight in weights)
    channel = TwoSided(
        size,
        run.workers,
        tensors if worker_parts is None else worker_parts,
        chunks_of_servers(tensors, run.workers) if server_parts is None else server_parts,
    )
    m, v = np.zeros(size), np.zeros(size)

    for step in range(run.steps):
        lr, t = run.learning_rate(step), step + 1
        gradients = run.gradients(step, [weights] * run.workers)
        if not decoupled:
            gradients = [
                [g + run.weight_decay * w for g, w in zip(gradient, weights, strict=True)]
                for gradient in gradients
            ]
        if t <= warmup_steps:
            g = as_row(mean_over_workers(gradients))
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g**2
        else:
            moments = [beta1 * m + (1 - beta1) * as_row(gradient) for gradient in gradients]
            m = channel.mean(moments) if run.workers > 1 else moments[0]
            m = np.where(v == 0, 0.0, m)

        first = m / (1 - beta1**t) if bias_correction else m
        second = v / (1 - beta2 ** min(t, warmup_steps)) if bias_correction else v
        update = as_tensors(first / (np.sqrt(second) + EPSILON), weights)
        stepped = []
        for w, u in zip(weights, update, strict=True):
            decay = run.weight_decay if decoupled and w.ndim > 1 else 0.0
            stepped.append(w - lr * (u + decay * w))
        weights = stepped
        yield copy_tensors(weights)
