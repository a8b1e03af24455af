"""DASO: nodes exchange weights at intervals that follow the loss, partly while they go on training."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from .sgd import Gradient, LearningRate, Optimizer, Tensors, copy_tensors, mean_over_workers

Loss = Callable[[int, int, Tensors], float]
State = tuple[int, int]


class PlateauDetector:
    """Tells when the loss has stopped falling.

    A loss below best * (1 - threshold) becomes the best; any other is a bad one. The bad one that
    makes more than `patience` of them since the last best, or since the last plateau, is a plateau.
    """

    def __init__(self, threshold: float, patience: int) -> None:
        """Start without a best loss."""
        self.threshold = threshold
        self.patience = patience
        self.best = math.inf
        self.bad = 0

    def is_plateau(self, loss: float) -> bool:
        """Take in one epoch's loss; return whether it makes a plateau."""
        if loss < self.best * (1 - self.threshold):
            self.best = loss
            self.bad = 0
            return False

        self.bad += 1
        if self.bad > self.patience:
            self.bad = 0
            return True
        return False


def first_state(warmup_epochs: int, max_skips: int, control: str) -> State:
    """Return (B, S) of the first epoch; (0, 0) means a blocking sync after every step."""
    if control == "corrected" and warmup_epochs == 0:
        return start_of_cycling(max_skips, control)
    return (0, 0)


def start_of_cycling(max_skips: int, control: str) -> State:
    """Return (B, S) of the first epoch after the warm-up."""
    if control == "published":
        return (4, 1)
    skips = min(4, max_skips)
    return (skips, max(1, skips // 4))


def states_after_epochs(
    losses: Sequence[float],
    epochs: float,
    warmup_epochs: int,
    cooldown_epochs: int,
    max_skips: int,
    plateau_threshold: float = 0.05,
    patience: int = 2,
    control: str = "corrected",
) -> list[State]:
    """Return (B, S) as it stands after each of the epochs whose mean training losses are given.

    B is the number of steps between two exchanges among the nodes (0: a blocking one after every
    step), S the number of steps between sending and merging. After epoch e = 1, 2, ...:

        e < warmup_epochs:              (0, 0)
        e >= epochs - cooldown_epochs:  (0, 0)
        e == warmup_epochs:             the start of cycling
        otherwise, on a plateau:        B > 1:   B = B // 2, S = max(1, S - 1)
                                        B == 1:  B = max_skips, S = max_skips // 4

    With control "corrected", cycling starts with B = min(4, max_skips) and S = max(1, B // 4), at
    once where there is no warm-up, and S is never below 1 while B is above 0. With "published" it
    starts with (4, 1), never starts where there is no warm-up, and S can become 0 with B above 0.
    The detector sees only the epochs of the last line.
    """
    check_control(control)
    detector = PlateauDetector(plateau_threshold, patience)
    skips, wait = first_state(warmup_epochs, max_skips, control)
    states: list[State] = []

    for number, loss in enumerate(losses, start=1):
        if number < warmup_epochs or number >= epochs - cooldown_epochs:
            skips, wait = 0, 0
        elif number == warmup_epochs:
            skips, wait = start_of_cycling(max_skips, control)
        elif detector.is_plateau(loss):
            if skips > 1:
                skips, wait = skips // 2, max(1, wait - 1)
            elif skips == 1:
                skips, wait = max_skips, max_skips // 4
                if control == "corrected":
                    wait = max(1, wait)
        states.append((skips, wait))

    return states


def merge(own: Sequence[np.ndarray], mean_sent: Sequence[np.ndarray], nodes: int, staleness: int) -> Tensors:
    """Return (w * own + P * mean_sent) / (w + P), with P nodes and w = 2 * staleness.

    The staleness is the number of steps taken since mean_sent was sent.
    """
    weight = 2 * staleness
    return [(weight * x + nodes * m) / (weight + nodes) for x, m in zip(own, mean_sent, strict=True)]


def to_float16(tensor: np.ndarray) -> np.ndarray:
    """Return the tensor in 16 bits, by way of 32 bits: a float64 is rounded twice, as in PyTorch."""
    return tensor.astype(np.float32).astype(np.float16)


def float16_mean(tensors_of_members: Sequence[Sequence[np.ndarray]]) -> Tensors:
    """Return the mean as 16-bit arithmetic has it: cast, divide, add one by one, rounding each time."""
    members = np.float16(len(tensors_of_members))
    total = [to_float16(tensor) / members for tensor in tensors_of_members[0]]
    for tensors in tensors_of_members[1:]:
        total = [t + to_float16(tensor) / members for t, tensor in zip(total, tensors, strict=True)]
    return copy_tensors(total)


def blocking_mean(
    sent: Sequence[Sequence[np.ndarray]], common: Sequence[np.ndarray], in_float16: bool, sends: str
) -> Tensors:
    """Return the weights after a blocking sync in which the members, in order of nodes, sent these."""
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
    """The weights of all workers, and what is exchanged after their steps.

    Worker k is on node k // G, at place k % G; group a is the workers at place a, one on each node.
    """

    def __init__(
        self, weights: Sequence[np.ndarray], workers: int, nodes: int, blocking_dtype: str, sends: str
    ) -> None:
        """Start with the same weights on every worker, nothing sent, and group 0 next."""
        self.nodes = nodes
        self.places = workers // nodes
        self.casts = blocking_dtype == "float16"
        self.sends = sends

        self.weights_of = [copy_tensors(weights) for _ in range(workers)]
        self.common = copy_tensors(weights)
        self.group = 0
        self.sent: list[Tensors] | None = None
        self.sent_by = 0
        self.sent_at = 0
        self.previous: int | None = None

    def members(self, place: int) -> list[int]:
        """Return the workers at this place, in order of nodes."""
        return [node * self.places + place for node in range(self.nodes)]

    def copies_of_members(self, place: int) -> list[Tensors]:
        """Return copies of the weights that the members of this group have now."""
        return [copy_tensors(self.weights_of[worker]) for worker in self.members(place)]

    def copy_inside_nodes(self, place: int) -> None:
        """Give every worker the weights of the worker at this place of its node."""
        for worker in range(self.nodes * self.places):
            source = worker // self.places * self.places + place
            self.weights_of[worker] = copy_tensors(self.weights_of[source])

    def send(self, step: int) -> None:
        """Put copies of the weights of the group whose turn it is in flight."""
        self.sent = self.copies_of_members(self.group)
        self.sent_by = self.group
        self.sent_at = step

    def land(self, staleness: int) -> None:
        """Merge what is in flight into its senders' weights, and copy those inside the nodes."""
        assert self.sent is not None
        mean_sent = mean_over_workers(self.sent)
        for worker in self.members(self.sent_by):
            self.weights_of[worker] = merge(self.weights_of[worker], mean_sent, self.nodes, staleness)
        self.copy_inside_nodes(self.sent_by)
        self.sent = None

    def block(self, sent: Sequence[Tensors], skips: int) -> None:
        """Give everybody the mean of what the group whose turn it is has sent."""
        mean = blocking_mean(sent, self.common, self.casts and skips == 0, self.sends)
        for worker in self.members(self.group):
            self.weights_of[worker] = copy_tensors(mean)
        self.copy_inside_nodes(self.group)
        self.common = copy_tensors(mean)

    def pass_turn(self, is_last: bool) -> None:
        """Let the next group have the next turn, or group 0 at the end of an epoch."""
        self.group = 0 if is_last else (self.group + 1) % self.places

    def corrected(self, step: int, last: int, skips: int, wait: int) -> None:
        """Do what follows step number `step` of an epoch with control "corrected"."""
        is_last = step == last

        if self.sent is not None and (step - self.sent_at == wait or is_last):
            self.land(step - self.sent_at)

        if skips == 0 or is_last:
            self.block(self.copies_of_members(self.group), skips)
            self.pass_turn(is_last)
        elif step % skips == 0:
            if self.sent is not None:
                raise ValueError(f"with B = {skips} and S = {wait} two messages would be in flight")
            self.send(step)
            self.pass_turn(is_last)

    def published(self, step: int, last: int, skips: int, wait: int) -> None:
        """Do what follows step number `step` of an epoch with control "published"."""

        def is_sync(number: int) -> bool:
            return number == last or skips == 0 or number % skips == 0

        is_last = step == last

        if not is_sync(step):
            shortened_wait = wait if step + wait <= last else last - step
            is_due = step % skips == shortened_wait and not is_sync(step + 1)
            if self.sent is not None and is_due:
                self.land(wait)
            return

        newly_sent = self.copies_of_members(self.group)
        if wait > 0:
            if self.sent is not None:
                self.land(wait)
            if self.previous is not None:
                self.copy_inside_nodes(self.previous)

        if is_last or wait == 0:
            self.block(newly_sent, skips)
            self.previous = None
        else:
            self.sent = newly_sent
            self.sent_by = self.group
            self.sent_at = step
            self.previous = self.group
        self.pass_turn(is_last)


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
) -> list[Tensors]:
    """Return, for every step, the mean over the workers of their weights after that step.

    K workers on P nodes, G = K / P on each. At every step, with worker k's gradient g_k at its
    weights w_k and its node n:

        G_n = (1/G) * sum over the workers j of node n of g_j(w_j)
        w_k = Optimizer_k(w_k, G_n, lr)

    Every worker keeps its own momentum buffer. Then the nodes exchange weights. One group of
    workers does so at a time, and the groups take turns, beginning with group 0 in every epoch.

    Blocking sync: w = (1/P) * sum of the group's P weights, for every worker. With blocking_dtype
    "float16" parts and sum are 16-bit ones while B = 0, either of the weights or, with
    blocking_sends "delta", of their change since the latest blocking sync.

    Otherwise the group sends its weights, and S steps later its members merge what was sent:

        w_k = (2 * s * w_k + P * m) / (2 * s + P)

    with m the mean of the P weights sent, and s the steps since; the others copy them from the
    member on their node.

    control "corrected", after step t of an epoch that ends with step `last`: what is in flight
    merges if it was sent S steps ago or t = last, s being the true number of steps; then, if B = 0
    or t = last, there is a blocking sync; or else, if B divides t, the group sends.

    control "published", with s = S always: at the steps that B divides, at all steps if B = 0, and
    at the last, the group sends; what is still in flight from the step before the send merges; all
    workers copy from the group that sent last; at the last step, or if S = 0, what has just been
    sent (before that merge) makes a blocking sync. At any other step, what is in flight merges if
    t mod B = min(S, last - t), unless the next step sends.

    B and S follow the epochs' mean losses: states_after_epochs().

    Source: Coquelin et al., "Accelerating neural network training with distributed asynchronous
    and selective optimization (DASO)", Journal of Big Data 9, 2022, arXiv:2104.05588; "published"
    follows the class DASO of the authors' library Heat. Gradients are always averaged inside the
    nodes (no local skips).
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
    optimizer_of = [Optimizer(momentum, weight_decay, nesterov) for _ in range(workers)]
    skips, wait = first_state(warmup_epochs, max_skips, control)
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

        for node in range(nodes):
            on_node = range(node * places, (node + 1) * places)
            mean_gradient = mean_over_workers([gradients[worker] for worker in on_node])
            for worker in on_node:
                weights_of[worker] = optimizer_of[worker].step(
                    weights_of[worker], mean_gradient, learning_rate(step)
                )

        step_of_epoch = step % steps_per_epoch
        if control == "corrected":
            exchange.corrected(step_of_epoch, last, skips, wait)
        else:
            exchange.published(step_of_epoch, last, skips, wait)

        history.append(mean_over_workers(exchange.weights_of))

        if step_of_epoch == last:
            losses_of_epochs.append(sum(losses_of_step) / len(losses_of_step))
            losses_of_step = []
            skips, wait = states_after_epochs(
                losses_of_epochs,
                epochs,
                warmup_epochs,
                cooldown_epochs,
                max_skips,
                plateau_threshold,
                patience,
                control,
            )[-1]

    return history
