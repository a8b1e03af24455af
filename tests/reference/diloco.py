"""DiLoCo and Streaming DiLoCo: rounds of local steps, whose mean change is the gradient of an outer step.

Sources read:

* github.com/PrimeIntellect-ai/OpenDiloco at commit a5b7236, open_diloco/train_diloco_torch.py: the outer
  optimizer in line 187, the round in lines 336 to 353.
* github.com/pytorch/torchft at commit 73dafea, torchft/local_sgd.py: for fragments, _StreamingDiLoCoFragment
  (_save_grads, lines 325 to 338; perform_sync, 424 to 476; _merge_parameters, 367 to 385) and DiLoCo
  (_current_fragment and _step_post_hook, 739 to 796).
* torch 2.13, torch/optim/sgd.py, for Nesterov's momentum.

Of Douillard et al., arXiv:2311.08105 and arXiv:2501.18512, nothing was read. That a fragment is sent at the
end of its round and lands tau steps later is from memory. torchft sends it tau steps before the end, and
lands it at the end. So its first round is shorter; all later ones have the same lengths.
"""

import copy
import math
from collections.abc import Iterator, Sequence

import numpy as np

from .quantised_all_reduce import mean_of, quantise
from .sgd import Run, Tensors, copy_tensors, zeros_like


class Outer:
    """The weights theta that all workers share, the momentum of their outer step, and what is on its way."""

    def __init__(self, weights: Sequence[np.ndarray], rate: float, momentum: float, fragments: int) -> None:
        self.theta, self.buffer = copy_tensors(weights), zeros_like(weights)
        self.rate, self.momentum = rate, momentum
        self.in_flight: dict[int, Tensors] = {}
        self.landed_after = [0] * fragments

    def step(self, members: Sequence[int], change: Tensors) -> None:
        """Step the tensors with these numbers.

            m = mu * m + D;  theta = theta - eta * (D + mu * m)

        Source: OpenDiLoCo, line 187: torch.optim.SGD with nesterov; its first m is D, as with m = 0 before.
        """
        for index, d in zip(members, change, strict=True):
            self.buffer[index] = self.momentum * self.buffer[index] + d
            self.theta[index] = self.theta[index] - self.rate * (d + self.momentum * self.buffer[index])


def mean_change(
    theta: Tensors, weights_of: Sequence[Tensors], members: Sequence[int], bits: int, block: int
) -> Tensors:
    """Return D = (1/K) * sum_k (theta - theta_k), over the tensors with these numbers, as it is received.

    In 32 bits nothing changes. In fewer, the tensors are one row, of which worker j averages share j:

        D_j = Q((1/K) * sum_k Q((theta - theta_k)_j))

    Source: OpenDiLoCo, lines 344 and 345; torchft, _save_grads. In few bits torchft, torchft/collectives.py,
    allreduce_quantized (lines 361 to 415): the shares go to their workers, are added in full precision, and
    go back in few bits.
    This was added by the author of the module; blocks of integers are the benchmark's own.
    """
    rows = [
        np.concatenate([(theta[index] - weights[index]).reshape(-1) for index in members])
        for weights in weights_of
    ]
    if bits == 32:
        row = mean_of(rows)
    else:
        share = math.ceil(len(rows[0]) / len(rows))
        means = []
        for start in range(0, len(rows[0]), share):
            sent = [quantise(row[start : start + share], bits, block) for row in rows]
            means.append(quantise(mean_of(sent), bits, block))
        row = np.concatenate(means)
    ends = np.cumsum([theta[index].size for index in members])
    parts = np.split(row, ends[:-1])
    return [part.reshape(theta[index].shape) for part, index in zip(parts, members, strict=True)]


def train(
    run: Run,
    period: int,
    outer_lr: float = 0.7,
    outer_momentum: float = 0.9,
    fragment_of: Sequence[int] | None = None,
    delay: int = 0,
    mix: float = 0.0,
    bits: int = 32,
    block: int = 128,
) -> Iterator[Tensors]:
    """Yield, for every step, the theta that would be delivered if that step were the last one.

    At every step t from 1, each worker k steps with its own gradient and its own optimizer:

        theta_k = Optimizer_k(theta_k, g_k(theta_k), lr(t))

    With P fragments, S = period / P, and steps counted from 1, fragment p (from 0) is sent after the steps
    (p + 1) * S, (p + 1) * S + period, ... and lands `delay` steps later:

        sent    D = mean_change of this fragment's tensors
        landed  m = mu * m + D;  theta = theta - eta * (D + mu * m)
                theta_k = mix * theta_k + (1 - mix) * theta

    After the last step what is in flight lands. A fragment whose workers have stepped since its landing is
    then sent and lands once more.

    The optimizers of the workers are neither averaged nor reset.

    Source: OpenDiLoCo for one fragment (lines 336 to 353). torchft for the turn of fragments
    (_current_fragment), each every S steps, and for the mix (_merge_parameters). The end is the benchmark's.

    Args:
        run: what to train.
        period: H, a multiple of the number of fragments.
        outer_lr: eta.
        outer_momentum: mu.
        fragment_of: for each tensor the number of its fragment; None: one fragment has all.
        delay: tau, less than S.
        mix: alpha.
        bits: of each entry that is sent, 32, 8 or 4.
        block: entries that share a scale, with 8 or 4 bits; blocks go through a fragment's tensors, and begin
            anew in each share.
    """
    fragment_of = [0] * len(run.weights) if fragment_of is None else fragment_of
    fragments = max(fragment_of) + 1
    members_of = [[i for i, f in enumerate(fragment_of) if f == fragment] for fragment in range(fragments)]
    turn = period // fragments

    def send(outer: Outer, weights_of: Sequence[Tensors], fragment: int) -> None:
        outer.in_flight[fragment] = mean_change(outer.theta, weights_of, members_of[fragment], bits, block)

    def land(outer: Outer, weights_of: Sequence[Tensors], fragment: int, after: int) -> None:
        outer.step(members_of[fragment], outer.in_flight.pop(fragment))
        for weights in weights_of:
            for index in members_of[fragment]:
                weights[index] = mix * weights[index] + (1 - mix) * outer.theta[index]
        outer.landed_after[fragment] = after

    def delivered(outer: Outer, weights_of: Sequence[Tensors], after: int) -> Tensors:
        outer, weights_of = copy.deepcopy((outer, weights_of))
        for fragment in sorted(outer.in_flight):
            land(outer, weights_of, fragment, after)
        for fragment in range(fragments):
            if outer.landed_after[fragment] < after:
                send(outer, weights_of, fragment)
                land(outer, weights_of, fragment, after)
        return outer.theta

    weights_of, optimizer_of = run.replicas(), run.optimizers()
    outer = Outer(run.weights, outer_lr, outer_momentum, fragments)
    for step in range(run.steps):
        done = step + 1
        gradients = run.gradients(step, weights_of)
        weights_of = run.stepped(step, optimizer_of, weights_of, gradients)
        if done % turn == 0:
            send(outer, weights_of, (done // turn - 1) % fragments)
        if done >= turn + delay and (done - delay) % turn == 0:
            land(outer, weights_of, ((done - delay) // turn - 1) % fragments, done)
        yield delivered(outer, weights_of, done)
