"""DASO: nodes exchange weights at intervals that follow the loss, in part while they continue to train.

The sources are those of daso_schedule.py, which decides what is done after which step. Comments name the
line of Heat that a block follows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .daso_schedule import Action, Control, Options, first_state, states_after_epochs
from .sgd import Run, Tensors, copy_tensors, mean_over_workers


def merge(own: Sequence[np.ndarray], mean_sent: Sequence[np.ndarray], nodes: int, weight: int) -> Tensors:
    """Return (weight * own + P * mean_sent) / (weight + P), with P nodes.

    Source: Heat, DASO._gs_rcv_update_params: numer is the weight, denom the weight and the group's size;
    the parameters times numer / denom, and the received sum, which is P * mean_sent, divided by denom.
    """
    return [(weight * x + nodes * m) / (weight + nodes) for x, m in zip(own, mean_sent, strict=True)]


def to_float16(tensor: np.ndarray) -> np.ndarray:
    """Return the tensor in 16 bits, by way of 32 bits: a float64 is rounded twice, as in PyTorch."""
    return tensor.astype(np.float32).astype(np.float16)


def float16_mean(tensors_of_members: Sequence[Sequence[np.ndarray]]) -> Tensors:
    """Return the mean in 16-bit arithmetic: cast, divide, add one by one, and round each time.

    The benchmark's own. Heat (_gs_send_params, __sum_f16_cb, _gs_rcv_update_params_last_batch) casts, adds
    and then divides, in bfloat16 unless downcast_type says otherwise.
    """
    members = np.float16(len(tensors_of_members))
    total = [to_float16(tensor) / members for tensor in tensors_of_members[0]]
    for tensors in tensors_of_members[1:]:
        total = [t + to_float16(tensor) / members for t, tensor in zip(total, tensors, strict=True)]
    return copy_tensors(total)


def blocking_mean(
    sent: Sequence[Sequence[np.ndarray]], common: Sequence[np.ndarray], in_float16: bool, sends: str
) -> Tensors:
    """Return the weights after a blocking sync in which the members sent `sent`, in order of nodes.

    Source: Heat, DASO._gs_rcv_update_params_last_batch: the received sum divided by the group's size.
    Sending the change since the latest blocking sync (sends "delta") is the benchmark's own.
    """
    if not in_float16:
        return mean_over_workers(sent)
    if sends == "weights":
        return float16_mean(sent)
    deltas = [[w - c for w, c in zip(weights, common, strict=True)] for weights in sent]
    return [c + delta for c, delta in zip(common, float16_mean(deltas), strict=True)]


class Exchange:
    """The weights of all workers, and what is done with them.

    Worker k is on node k // G, at place k % G; group a is the workers at place a, one on each node.

    Source of the groups: Heat, DASO.__init__: reduced_ranks[i] is the ranks i, i + G, i + 2G, ...
    """

    def __init__(
        self, weights: Sequence[np.ndarray], workers: int, nodes: int, blocking_dtype: str, sends: str
    ) -> None:
        self.nodes = nodes
        self.places = workers // nodes
        self.casts = blocking_dtype == "float16"
        self.sends = sends

        self.weights_of = [copy_tensors(weights) for _ in range(workers)]
        self.common = copy_tensors(weights)
        self.sent: list[list[Tensors]] = []  # the oldest first; Heat: _prev_params

    def members(self, group: int) -> list[int]:
        """Return the group's workers, in order of nodes."""
        return [node * self.places + group for node in range(self.nodes)]

    def act(self, action: Action, skips: int) -> None:
        """Do this action, under B = skips."""
        members = self.members(action.group)
        if action.kind == "send":
            self.sent.append([copy_tensors(self.weights_of[worker]) for worker in members])
        elif action.kind == "merge":
            mean_sent = mean_over_workers(self.sent.pop(0))
            for worker in members:
                own = self.weights_of[worker]
                self.weights_of[worker] = merge(own, mean_sent, self.nodes, action.weight)
        elif action.kind == "copy":
            # Heat, DASO._local_update: a broadcast from that group's member inside every node.
            for worker in range(self.nodes * self.places):
                source = worker // self.places * self.places + action.group
                self.weights_of[worker] = copy_tensors(self.weights_of[source])
        else:
            # Heat, DASO._gs_send_params: casts where global_skip < 1, not at an epoch's end with B > 0.
            in_float16 = self.casts and skips == 0
            self.common = blocking_mean(self.sent.pop(0), self.common, in_float16, self.sends)
            self.weights_of = [copy_tensors(self.common) for _ in self.weights_of]


def train(
    run: Run,
    blocking_dtype: str = "full",
    blocking_sends: str = "delta",
    match_progress: bool = False,
    **options: Any,
) -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    K workers on P nodes, G = K / P on each; the options are those of the schedule. At every step, with worker
    k's gradient g_k at its weights w_k and its node n:

        G_n = (1/G) * sum over the workers j of node n of g_j(w_j)
        w_k = Optimizer_k(w_k, G_n, lr)

    Every worker keeps its own momentum buffer. Then the nodes exchange weights. One group of
    workers does so at a time, and the groups take turns, beginning with group 0 in every epoch.

    Blocking sync: w = (1/P) * sum of the group's P weights, for every worker. With blocking_dtype
    "float16", parts and sum are in 16 bits while B = 0. They are those of the weights or, with
    blocking_sends "delta", of the weights' change since the latest blocking sync.

    Otherwise the group sends its weights, and S steps later its members merge what was sent:

        w_k = (2 * s * w_k + P * m) / (2 * s + P)

    with m the mean of the P weights sent, and s the steps since then. The other workers copy the
    result from the member on their node.

    match_progress: while S > 0, the learning rate is lr * B / (B - S + S * 2 * S / (2 * S + P)). In B steps
    of a constant gradient, B - S steps count in full. The S steps from sending to merging are multiplied by
    the own weight in the merge, 2 * S / (2 * S + P). This is the benchmark's own.

    Source: Heat (see above). In DASO.step, too, the optimizer steps first, and the exchange follows.
    Gradients are averaged inside the nodes at every step, as Heat's DistributedDataParallel does while
    local_skip is 1. After a return to max_skips, local_skip is another number and Heat skips some of
    these averages; this reference does not.
    """
    chosen = Options(**options)
    places, epochs = run.workers // run.nodes, run.steps // run.steps_per_epoch
    exchange = Exchange(run.weights, run.workers, run.nodes, blocking_dtype, blocking_sends)
    control_of_run = Control(run.steps_per_epoch, places, chosen.control)
    optimizer_of = run.optimizers()
    skips, wait = first_state(chosen)
    losses_of_step: list[float] = []
    losses_of_epochs: list[float] = []

    for step in range(run.steps):
        gradients = run.gradients(step, exchange.weights_of)
        losses_of_step += run.losses(step, exchange.weights_of)

        lr = run.learning_rate(step)
        if match_progress and wait > 0:
            kept = wait * 2 * wait / (2 * wait + run.nodes)
            lr = lr * skips / (skips - wait + kept)
        for first in range(0, run.workers, places):
            mean_gradient = mean_over_workers(gradients[first : first + places])
            for worker in range(first, first + places):
                own = exchange.weights_of[worker]
                exchange.weights_of[worker] = optimizer_of[worker].step(own, mean_gradient, lr)

        for action in control_of_run.after_step(step % run.steps_per_epoch, skips, wait):
            exchange.act(action, skips)
        yield mean_over_workers(exchange.weights_of)

        if (step + 1) % run.steps_per_epoch == 0:
            # imagenet-DASO.py, main: epoch_loss_logic after the epoch's last step, with its mean loss.
            losses_of_epochs.append(sum(losses_of_step) / len(losses_of_step))
            losses_of_step = []
            skips, wait = states_after_epochs(losses_of_epochs, epochs, **options)[-1]
