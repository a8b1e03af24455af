"""Sign methods: one bit an entry, with error feedback on one or both sides, or by majority vote.

Sources read:

* github.com/epfml/error-feedback-SGD at commit a365a13: utils/convex_opt.py (scaled_sign, SGD.step).
* github.com/epfml/powersgd, paper-code/gradient_reducers.py at eb48559, as far as forks of it show it: the
  scale of SignAndNormReducer is a tensor's 1-norm over its entries, and signs are packed.
  SignSGDwithMajorityVoteReducer takes the sign of the sum of gathered signs, which is 0 in a tie.
* A description of the two-sided form: a server compresses the mean again, with an error of its own.

Own: sign(0) = +1, also in what is remembered, because one bit has no third value. The public code packs +1
for a zero, and remembers 0.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from .sgd import Run, Tensors, mean_over_workers


def sign(values: np.ndarray) -> np.ndarray:
    """Return +1 where a value is at least zero, -1 elsewhere."""
    return np.where(values >= 0, 1.0, -1.0)


def compress(row: np.ndarray, block: int | None) -> np.ndarray:
    """Return, for each block of the row, the mean magnitude times the signs; None: one block.

    Source: epfml, scaled_sign: |x|_1 / len(x) * sign(x), of a whole tensor. Blocks are the benchmark's.
    """
    size = block or max(1, len(row))
    parts = [row[start : start + size] for start in range(0, len(row), size)]
    return np.concatenate([np.abs(part).mean() * sign(part) for part in parts]) if parts else row


def as_row(tensors: Sequence[np.ndarray]) -> np.ndarray:
    """Return all tensors as one row, one behind the other."""
    return np.concatenate([tensor.reshape(-1) for tensor in tensors])


def as_tensors(row: np.ndarray, like: Sequence[np.ndarray]) -> Tensors:
    """Return the row in the shapes of `like`."""
    ends = np.cumsum([tensor.size for tensor in like])
    return [part.reshape(t.shape) for part, t in zip(np.split(row, ends[:-1]), like, strict=True)]


def train(
    run: Run,
    form: str = "feedback",
    block: int | None = None,
    segments: Sequence[slice] | None = None,
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    At every step, on each segment, with worker k's gradient g_k and its error e_k (zero at first):

        feedback    p_k = g_k + e_k;  c_k = compress(p_k);  e_k = p_k - c_k;  G = (1/K) sum_k c_k
        two_sided   the same c_k and e_k;  p = (1/K) sum_k c_k + E;  G = compress(p);  E = p - G
        majority    G = sign(sum_k sign(g_k)), with no error; 0 where the sum is 0, as in epfml/powersgd

    Args:
        run: what to train.
        form: one of these three.
        block: entries that share a scale; None: a whole segment.
        segments: parts of all tensors as one row, each of which is compressed by itself; None: the tensors.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    size = sum(weight.size for weight in run.weights)
    error_of = [np.zeros(size) for _ in range(run.workers)]
    error_of_server = np.zeros(size)
    if segments is None:
        ends = np.cumsum([weight.size for weight in run.weights]).tolist()
        segments = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    for step in range(run.steps):
        rows = [as_row(gradient) for gradient in run.gradients(step, weights_of)]
        aggregate = np.zeros(size)
        for part in segments:
            if form == "majority":
                aggregate[part] = np.sign(sum(sign(row[part]) for row in rows))
                continue
            mean = np.zeros(part.stop - part.start)
            for row, error in zip(rows, error_of, strict=True):
                accumulated = row[part] + error[part]
                sent = compress(accumulated, block)
                error[part] = accumulated - sent
                mean += sent / run.workers
            if form == "two_sided":
                accumulated = mean + error_of_server[part]
                mean = compress(accumulated, block)
                error_of_server[part] = accumulated - mean
            aggregate[part] = mean
        tensors = as_tensors(aggregate, run.weights)
        weights_of = run.stepped(step, optimizer_of, weights_of, [tensors] * run.workers)
        yield mean_over_workers(weights_of)
