"""DASO: nodes exchange weights at intervals that follow the loss, in part while they continue to train.

Sources read:

* Heat, the authors' library: github.com/helmholtz-analytics/heat, heat/optim/dp_optimizer.py (class DASO)
  and heat/optim/utils.py (class DetectMetricPlateau) at commit 0039802, the same as in release 1.8.0;
  examples/nn/imagenet-DASO.py at that commit, for the order of the calls.
* Of Coquelin et al., "Accelerating neural network training with distributed asynchronous and selective
  optimization (DASO)", Journal of Big Data 9, 2022, the abstract. The formulas are those of Heat.

control "published" does what Heat does. control "corrected" is the benchmark's own: its states follow Heat's
except where states_after_epochs() says so, and its exchanges are not Heat's. Comments name the line of Heat
that a block follows. Heat's names are B = global_skip, S = batches_to_wait.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .sgd import Gradient, LearningRate, Optimizer, Tensors, copy_tensors, mean_over_workers

Loss = Callable[[int, int, Tensors], float]
State = tuple[int, int]


class Options(NamedTuple):
    """What decides (B, S), beside the losses."""

    warmup_epochs: int
    cooldown_epochs: int
    max_skips: int
    plateau_threshold: float = 0.05
    patience: int = 2
    control: str = "corrected"
    fixed_skips: int | None = None
    fixed_wait: int | None = None


class PlateauDetector:
    """Detects when the loss has stopped falling.

    A loss below best * (1 - threshold), or best * (1 + threshold) if the best is negative, becomes the best.
    Any other loss is bad. There is a plateau when more than `patience` losses were bad since the last best
    loss or the last plateau.

    Source: Heat, DetectMetricPlateau with mode "min", threshold_mode "rel" and no cooldown. DASO.__init__
    makes one with patience 2 and its own stability_level, 0.05, as threshold.
    """

    def __init__(self, threshold: float, patience: int) -> None:
        """Start without a best loss (Heat, DetectMetricPlateau.reset)."""
        self.threshold = threshold
        self.patience = patience
        self.best = math.inf
        self.bad = 0

    def is_better(self, loss: float) -> bool:
        """Return whether the loss is well below the best (Heat, DetectMetricPlateau.is_better)."""
        share = 1 - self.threshold if self.best >= 0 else 1 + self.threshold
        return loss < self.best * share

    def is_plateau(self, loss: float) -> bool:
        """Take in one epoch's loss; return whether it makes a plateau.

        Source: Heat, DetectMetricPlateau.test_if_improving, which returns True where it is *not* improving.
        """
        if self.is_better(loss):
            self.best = loss
            self.bad = 0
        else:
            self.bad += 1

        if self.bad > self.patience:
            self.bad = 0
            return True
        return False


def first_state(chosen: Options) -> State:
    """Return (B, S) of the first epoch; (0, 0) means a blocking sync after every step.

    Source: Heat, DASO.__init__: both are 0. Own: without a warm-up, "corrected" and fixed states cycle at
    once.
    """
    if chosen.warmup_epochs > 0:
        return (0, 0)
    if chosen.fixed_skips is not None:
        return (chosen.fixed_skips, chosen.fixed_wait)
    if chosen.control == "corrected":
        return start_of_cycling(chosen.max_skips, chosen.control)
    return (0, 0)


def start_of_cycling(max_skips: int, control: str) -> State:
    """Return (B, S) that follow the last epoch of the warm-up.

    Source: Heat, DASO.epoch_loss_logic, branch "warmup_epochs == epoch": 4 and 1, whatever the maximum.
    Own: "corrected" respects the maximum.
    """
    if control == "published":
        return (4, 1)
    skips = min(4, max_skips)
    return (skips, max(1, skips // 4))


def after_plateau(state: State, max_skips: int, control: str) -> State:
    """Return the (B, S) that follow (B, S) on a plateau.

    Source: Heat, DASO.epoch_loss_logic, the two branches with "stable", with its defaults
    skip_reduction_factor 2 and local_skip_factor 4. There a wait of 1 stays 1, but a wait of 0 becomes -1:
    after the subtraction, only an exact 0 is raised to 1. "corrected" waits at least one step.
    """
    skips, wait = state
    if skips > 1:
        skips, wait = skips // 2, wait - 1
        if wait == 0:
            wait = 1
    elif skips == 1:
        skips, wait = max_skips, max_skips // 4
    else:
        return state  # B = 0: Heat has no branch for it, so nothing changes
    return (skips, wait) if control == "published" else (skips, max(1, wait))


def states_after_epochs(
    losses: Sequence[float],
    epochs: float,
    **options: Any,
) -> list[State]:
    """Return (B, S) after each of the epochs whose mean training losses are given.

    The options are those of Options.
    B is the number of steps between two exchanges among the nodes; 0 means a blocking exchange after
    every step. S is the number of steps between sending and merging. After epoch e = 1, 2, ...:

        e < warmup_epochs:              (0, 0)
        e >= epochs - cooldown_epochs:  (0, 0)
        e == warmup_epochs:             first the start of cycling, then as below
        otherwise, on a plateau:        B > 1:   B = B // 2, S = S - 1, or 1 instead of 0
                                        B == 1:  B = max_skips, S = max_skips // 4

    The detector sees the loss of every epoch that reaches the last line. This includes the epoch that ends
    the warm-up.

    With control "corrected", cycling starts with B = min(4, max_skips) and S = max(1, B // 4). Without a
    warm-up it starts at once. S is never below 1 while B is above 0. With "published", cycling starts with
    (4, 1), and never starts without a warm-up. S can be 0 and -1 while B is above 0.

    With fixed_skips and fixed_wait, they are (B, S) of every epoch that is neither warm-up nor cooldown,
    whatever the losses and the control are. This is the benchmark's own.

    Source: Heat, DASO.epoch_loss_logic, in its order. When imagenet-DASO.py calls it, the epoch's last step
    (_global_sync) has already raised its counter `epoch`, so it counts from 1 there as here. The warm-up and
    the cooldown return early; the end of the warm-up does not.
    """
    chosen = Options(**options)
    warmup_epochs, cooldown_epochs, max_skips = chosen[:3]
    control = chosen.control
    check_control(control)
    detector = PlateauDetector(chosen.plateau_threshold, chosen.patience)
    state = first_state(chosen)
    states: list[State] = []

    for number, loss in enumerate(losses, start=1):
        if number < warmup_epochs or number >= epochs - cooldown_epochs:
            state = (0, 0)
        elif chosen.fixed_skips is not None:
            state = (chosen.fixed_skips, chosen.fixed_wait)
        else:
            if number == warmup_epochs:
                state = start_of_cycling(max_skips, control)
            if detector.is_plateau(loss):
                state = after_plateau(state, max_skips, control)
        states.append(state)

    return states


class Action(NamedTuple):
    """What the nodes exchange after a step of the optimizers.

    kind    what group `group` does; a group is the workers at the same place of every node
    "send"  its members send copies of their weights
    "merge" its members merge the mean of what they have sent; their own weights have the weight `weight`
    "copy"  every worker takes the weights of the member on its node
    "block" all workers take the mean of what the members have just sent
    """

    kind: str
    group: int
    weight: int = 0


def schedule(
    losses: Sequence[float],
    steps_per_epoch: int,
    places: int,
    **options: Any,
) -> list[tuple[State, list[Action]]]:
    """Return, for every step of a run, (B, S) at that step and what is done after it, in order.

    losses are the epochs' mean training losses, one for every epoch of the run; places is the number of
    workers on a node; options are those of Options. The last loss is never used: no epoch follows it.
    """
    chosen = Options(**options)
    control_of_run = Control(steps_per_epoch, places, chosen.control)
    state = first_state(chosen)
    steps = []
    for following in states_after_epochs(losses, len(losses), **options):
        steps += [(state, control_of_run.after_step(step, *state)) for step in range(steps_per_epoch)]
        state = following
    return steps


class Control:
    """Decides what is done after every step. Its state: what is in flight, and which group is next."""

    def __init__(self, steps_per_epoch: int, places: int, control: str) -> None:
        """Start with nothing in flight, and group 0 next (Heat, DASO.__init__: _send_mod is 0)."""
        check_control(control)
        self.last = steps_per_epoch - 1
        self.places = places
        self.control = control
        self.group = 0  # Heat: _send_mod
        self.sent_by: int | None = None  # the group whose message is in flight; Heat: _prev_params
        self.sent_at = 0  # "corrected" only
        self.weight = 0  # of the own weights when it merges; "published" only
        self.previous: int | None = None  # Heat: _send_mod_m1

    def after_step(self, step: int, skips: int, wait: int) -> list[Action]:
        """Return what follows step number `step` of an epoch under (B, S) = (skips, wait)."""
        act = self.corrected if self.control == "corrected" else self.published
        return act(step, skips, wait)

    def pass_turn(self, is_last: bool) -> None:
        """Make the next group the next to send, or group 0 at the end of an epoch.

        Source: Heat, DASO._global_sync, the lines that set _send_mod. Heat needs at least two GPUs on a
        node; only this reference allows a node with one worker.
        """
        self.group = 0 if is_last else (self.group + 1) % self.places

    def merge(self, weight: int) -> list[Action]:
        """Merge what is in flight into its senders, and copy their weights inside the nodes."""
        assert self.sent_by is not None
        group, self.sent_by = self.sent_by, None
        return [Action("merge", group, weight), Action("copy", group)]

    def corrected(self, step: int, skips: int, wait: int) -> list[Action]:
        """Control "corrected", the benchmark's own."""
        is_last = step == self.last
        actions: list[Action] = []

        if self.sent_by is not None and (step - self.sent_at == wait or is_last):
            actions += self.merge(2 * (step - self.sent_at))

        if skips == 0 or is_last or (wait == 0 and step % skips == 0):
            actions += [Action("send", self.group), Action("block", self.group)]
            self.pass_turn(is_last)
        elif step % skips == 0:
            if self.sent_by is not None:
                raise ValueError(f"with B = {skips} and S = {wait} two messages would be in flight")
            actions.append(Action("send", self.group))
            self.sent_by, self.sent_at = self.group, step
            self.pass_turn(is_last)
        return actions

    def published(self, step: int, skips: int, wait: int) -> list[Action]:
        """Control "published".

        Source: Heat, DASO.step, from the local optimizer's step on, and DASO._global_sync.
        """
        is_last = step == self.last
        # Heat, DASO.step: btw, the wait, shortened so that what is sent now merges before the epoch ends.
        shortened = wait if step + wait <= self.last else self.last - step

        # Heat, DASO.step: a global sync where B divides the step's number, where B = 0, and at the last step.
        if not is_last and skips > 0 and step % skips != 0:
            # Heat, DASO.step: nothing before a step whose number B divides. The last step is not tested for.
            if (step + 1) % skips == 0:
                return []
            # Heat, DASO.step, branch "gmod == btw": what is in flight merges, and is copied inside the node.
            if step % skips == shortened and self.sent_by is not None:
                return self.merge(self.weight)
            return []

        # Heat, DASO._global_sync: the group whose turn it is sends first, whatever happens next.
        actions = [Action("send", self.group)]

        # Heat, DASO._global_sync, "batches_to_wait != 0", which -1 is, too: what is still in flight merges,
        # and everybody copies from the group that sent before, even where its message has merged already.
        if wait != 0:
            if self.sent_by is not None:
                actions += self.merge(self.weight)
            elif self.previous is not None:
                actions.append(Action("copy", self.previous))

        if is_last or wait == 0:
            # Heat, DASO._gs_rcv_update_params_last_batch: the mean of what has just been sent, for all.
            actions.append(Action("block", self.group))
            self.previous = None
        else:
            # Heat, DASO._gs_rcv_update_params: numer is twice the wait noted when it was sent, and 1 where
            # that is not above 0.
            self.sent_by, self.weight = self.group, 2 * shortened if shortened > 0 else 1
            self.previous = self.group
        self.pass_turn(is_last)
        return actions


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


def check_control(control: str) -> None:
    """Refuse an unknown control."""
    if control not in ("corrected", "published"):
        raise ValueError(f"unknown control {control!r}")


class Exchange:
    """The weights of all workers, and what is done with them.

    Worker k is on node k // G, at place k % G; group a is the workers at place a, one on each node.

    Source of the groups: Heat, DASO.__init__: reduced_ranks[i] is the ranks i, i + G, i + 2G, ...
    """

    def __init__(
        self, weights: Sequence[np.ndarray], workers: int, nodes: int, blocking_dtype: str, sends: str
    ) -> None:
        """Start with the same weights on every worker, and nothing sent."""
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
        elif action.kind == "block":
            # Heat, DASO._gs_send_params: casts where global_skip < 1, not at an epoch's end with B > 0.
            in_float16 = self.casts and skips == 0
            self.common = blocking_mean(self.sent.pop(0), self.common, in_float16, self.sends)
            self.weights_of = [copy_tensors(self.common) for _ in self.weights_of]
        else:
            raise ValueError(f"unknown action {action.kind!r}")


def train(
    weights: Sequence[np.ndarray],
    gradient: Gradient,
    workers: int,
    steps: int,
    learning_rate: LearningRate,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    loss: Loss,
    steps_per_epoch: int,
    nodes: int,
    warmup_epochs: int,
    cooldown_epochs: int,
    max_skips: int,
    plateau_threshold: float = 0.05,
    patience: int = 2,
    blocking_dtype: str = "full",
    blocking_sends: str = "weights",
    control: str = "corrected",
    fixed_skips: int | None = None,
    fixed_wait: int | None = None,
    match_progress: bool = False,
) -> list[Tensors]:
    """Return, for every step, the mean over the workers of their weights after that step.

    K workers on P nodes, G = K / P on each. At every step, with worker k's gradient g_k at its
    weights w_k and its node n:

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

    control "corrected", after step t of an epoch that ends with step `last`:
    1. What is in flight merges if it was sent S steps ago or if t = last; s is the true number of steps.
    2. If B = 0 or t = last, or if S = 0 and B divides t, there is a blocking sync. Otherwise, if B divides t,
       the group sends.

    control "published", at the steps that B divides, at all steps if B = 0, and at the last step:
    1. The group sends.
    2. What is still in flight from before merges, and all workers copy from the group that sent before.
    3. At the last step, or if S = 0, what step 1 has sent makes a blocking sync.
    At any other step t, what is in flight merges if t mod B = min(S, last - t), unless B divides t + 1.
    In a merge, 2 * s is 2 * min(S, last - t) with the step t at which it was sent, or 1 if that is not
    above 0.

    B and S follow the epochs' mean losses: states_after_epochs(). What is done after which step is
    what schedule() says of these losses.

    match_progress: while S > 0, the learning rate is lr * B / (B - S + S * 2 * S / (2 * S + P)). In B steps
    of a constant gradient, B - S steps count in full. The S steps from sending to merging are multiplied by
    the own weight in the merge, 2 * S / (2 * S + P). This is the benchmark's own.

    Source: Heat (see above). In DASO.step, too, the optimizer steps first, and the exchange follows.
    Gradients are averaged inside the nodes at every step, as Heat's DistributedDataParallel does while
    local_skip is 1. After a return to max_skips, local_skip is another number and Heat skips some of
    these averages; this reference does not.
    """
    check_control(control)
    if nodes < 1 or workers % nodes != 0:
        raise ValueError(f"{workers} workers cannot be split evenly among {nodes} nodes")
    if steps % steps_per_epoch != 0:
        raise ValueError(f"{steps} steps are not a whole number of epochs of {steps_per_epoch} steps")
    if max_skips < 1:
        raise ValueError(f"max_skips must be at least 1, not {max_skips}")
    if blocking_dtype not in ("full", "float16"):
        raise ValueError(f"unknown blocking_dtype {blocking_dtype!r}")
    if blocking_sends not in ("weights", "delta"):
        raise ValueError(f"unknown blocking_sends {blocking_sends!r}")

    places = workers // nodes
    epochs = steps // steps_per_epoch
    last = steps_per_epoch - 1

    exchange = Exchange(weights, workers, nodes, blocking_dtype, blocking_sends)
    control_of_run = Control(steps_per_epoch, places, control)
    optimizer_of = [Optimizer(momentum, weight_decay, nesterov) for _ in range(workers)]
    state_options = {
        "warmup_epochs": warmup_epochs,
        "cooldown_epochs": cooldown_epochs,
        "max_skips": max_skips,
        "plateau_threshold": plateau_threshold,
        "patience": patience,
        "control": control,
        "fixed_skips": fixed_skips,
        "fixed_wait": fixed_wait,
    }
    skips, wait = first_state(Options(**state_options))
    losses_of_step: list[float] = []
    losses_of_epochs: list[float] = []
    history: list[Tensors] = []

    for step in range(steps):
        weights_of = exchange.weights_of

        gradients = []
        for worker in range(workers):
            own = gradient(worker, step, copy_tensors(weights_of[worker]))
            gradients.append(copy_tensors(own))
            losses_of_step.append(float(loss(worker, step, copy_tensors(weights_of[worker]))))

        lr = learning_rate(step)
        if match_progress and wait > 0:
            kept = wait * 2 * wait / (2 * wait + nodes)
            lr = lr * skips / (skips - wait + kept)

        for node in range(nodes):
            on_node = range(node * places, (node + 1) * places)
            mean_gradient = mean_over_workers([gradients[worker] for worker in on_node])
            for worker in on_node:
                weights_of[worker] = optimizer_of[worker].step(weights_of[worker], mean_gradient, lr)

        step_of_epoch = step % steps_per_epoch
        for action in control_of_run.after_step(step_of_epoch, skips, wait):
            exchange.act(action, skips)

        history.append(mean_over_workers(exchange.weights_of))

        if step_of_epoch == last:
            # imagenet-DASO.py, main: epoch_loss_logic after the epoch's last step, with its mean loss.
            losses_of_epochs.append(sum(losses_of_step) / len(losses_of_step))
            losses_of_step = []
            skips, wait = states_after_epochs(losses_of_epochs, epochs, **state_options)[-1]

    return history
