"""DASO's schedule: which nodes exchange weights after which step, by the epochs' losses.

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
from collections.abc import Sequence
from typing import Any, NamedTuple

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
        self.threshold = threshold
        self.patience = patience
        self.best = math.inf  # Heat, DetectMetricPlateau.reset
        self.bad = 0

    def is_plateau(self, loss: float) -> bool:
        """Take in one epoch's loss; return whether it makes a plateau.

        Source: Heat, DetectMetricPlateau.is_better and test_if_improving, which returns True where it is
        *not* improving.
        """
        share = 1 - self.threshold if self.best >= 0 else 1 + self.threshold
        if loss < self.best * share:
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


def states_after_epochs(losses: Sequence[float], epochs: float, **options: Any) -> list[State]:
    """Return (B, S) after each of the epochs whose mean training losses are given; options are Options'.

    B is the number of steps between two exchanges among the nodes; 0 means a blocking exchange after
    every step. S is the number of steps between sending and merging. After epoch e = 1, 2, ...:

        e < warmup_epochs:              (0, 0)
        e >= epochs - cooldown_epochs:  (0, 0)
        e == warmup_epochs:             first the start of cycling, then as below
        otherwise, on a plateau:        B > 1:   B = B // 2, S = S - 1, or 1 instead of 0
                                        B == 1:  B = max_skips, S = max_skips // 4

    The detector sees the loss of every epoch that reaches the last line, the one that ends the warm-up
    included. Where the controls differ is said at first_state(), start_of_cycling() and after_plateau().
    fixed_skips and fixed_wait are (B, S) of every epoch that is neither warm-up nor cooldown. This is the
    benchmark's own.

    Source: Heat, DASO.epoch_loss_logic, in its order. When imagenet-DASO.py calls it, the epoch's last step
    (_global_sync) has already raised its counter `epoch`, so it counts from 1 there as here. The warm-up and
    the cooldown return early; the end of the warm-up does not.
    """
    chosen = Options(**options)
    detector = PlateauDetector(chosen.plateau_threshold, chosen.patience)
    state = first_state(chosen)
    states: list[State] = []
    for number, loss in enumerate(losses, start=1):
        if number < chosen.warmup_epochs or number >= epochs - chosen.cooldown_epochs:
            state = (0, 0)
        elif chosen.fixed_skips is not None:
            state = (chosen.fixed_skips, chosen.fixed_wait)
        else:
            if number == chosen.warmup_epochs:
                state = start_of_cycling(chosen.max_skips, chosen.control)
            if detector.is_plateau(loss):
                state = after_plateau(state, chosen.max_skips, chosen.control)
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
    losses: Sequence[float], steps_per_epoch: int, places: int, **options: Any
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
        self.last = steps_per_epoch - 1
        self.places = places
        self.control = control
        self.group = 0  # Heat: _send_mod, 0 in DASO.__init__
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
        """Control "corrected", the benchmark's own.

        1. What is in flight merges if it was sent S steps ago or if this is the last step. Its own weight is
           twice the steps since then.
        2. If B = 0 or this is the last step, or if S = 0 and B divides the step's number, there is a blocking
           sync. Otherwise, if B divides the number, the group sends.
        """
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

        At the steps that B divides, at all steps if B = 0, and at the last step:
        1. The group sends.
        2. What is still in flight from before merges, and all workers copy from the group that sent before.
        3. At the last step, or if S = 0, what has just been sent makes a blocking sync.
        At any other step t, what is in flight merges if t mod B = min(S, last - t), unless B divides t + 1.
        The own weight is 2 * min(S, last - t) with the step t at which it was sent, or 1 if that is not
        above 0.

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
