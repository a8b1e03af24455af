"""What is measured after an epoch: the score, divergence and traffic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from thinwire.base.learning import CLASSIFICATION, bits
from thinwire.data.arrays import Data, scoring_batches
from thinwire.traffic.wire_bytes import Bytes, Ledger
from thinwire.transport.interface import Transport


def batch_norm_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The floating-point buffers by name, in the order of the model."""
    return {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}


class Score(NamedTuple):
    """On the test set: the mean cross-entropy in nats, and what the task is judged by."""

    loss: float
    score: float
    """The accuracy in percent, or bits per character."""


def loss_of(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """The cross-entropy in nats: of images, or of all characters of the windows.

    Args:
        logits: [b, classes], or [b, L, classes] of windows.
        labels: int64 [b], or [b, L] of windows; or shares of the classes [b, classes].
        reduction: `mean` or `sum`.
    """
    if logits.dim() == 3:
        logits, labels = logits.flatten(0, 1), labels.flatten()
    return functional.cross_entropy(logits, labels, reduction=reduction)


# Of each batch that a worker has scored: its number, the sum of its losses, the correct answers, all answers.
Scored = list[list[float]]


@torch.no_grad()
def evaluate(
    model: nn.Module,
    weights: list[Tensor],
    buffers: list[Tensor],
    data: Data,
    dtype: torch.dtype,
    ranks: Sequence[int] = (0,),
    workers: int = 1,
    share: Callable[[list[Scored]], list[Scored]] = lambda own: own,
    before_batch: Callable[[], None] = lambda: None,
) -> Score:
    """Score `weights` and the floating-point `buffers`, both in the order of the model.

    Only the model's layers are used; its own weights and buffers do not change.

    Args:
        model: in training mode.
        weights: of the trainable parameters.
        buffers: of batch normalisation, see `batch_norm_buffers`.
        data: its test set is scored.
        dtype: of images.
        ranks: of the workers in this process; each batch is scored by one worker of the run.
        workers: of the run.
        share: gives the results of all workers, from those of the workers in this process.
        before_batch: called before each batch that is scored here.
    """
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    state = {**dict(zip(names, weights)), **dict(zip(batch_norm_buffers(model), buffers))}
    model.eval()
    own = []
    for rank in ranks:
        found: Scored = []
        for batch, inputs, labels in scoring_batches(data, weights[0].device, dtype, rank, workers):
            before_batch()
            logits = torch.func.functional_call(model, state, (inputs,))
            loss = loss_of(logits, labels, reduction="sum").item()
            found.append([batch, loss, int((logits.argmax(-1) == labels).sum()), labels.numel()])
        own.append(found)
    model.train()
    # Sorted by batch, so that the sum rounds the same whichever worker scored a batch.
    scored = sorted(batch for found in share(own) for batch in found)
    loss, correct, count = (sum(column) for column in list(zip(*scored))[1:])
    if data.task is CLASSIFICATION:
        return Score(loss / count, 100 * correct / count)
    return Score(loss / count, bits(loss / count))


class Diverged(Exception):
    """A loss or a weight is not finite. That is a result, not an error."""

    def __init__(self, step: int) -> None:
        super().__init__(step)  # with its own arguments, from which pickle makes it again
        self.step = step

    def __str__(self) -> str:
        return f"the loss or a weight is not finite after step {self.step}"


def require_finite_losses(steps: Sequence[int], losses: Sequence[Sequence[float]]) -> None:
    """Raise `Diverged` with the first of these steps, from 1, at which the loss of a worker is not finite."""
    for step, row in zip(steps, losses):
        if not all(map(math.isfinite, row)):
            raise Diverged(step)


def require_finite_weights(step: int, weights: Sequence[Tensor]) -> None:
    """Raise `Diverged` if one of the weights after this step is not finite."""
    if not all(bool(weight.isfinite().all()) for weight in weights):
        raise Diverged(step)


_COLUMNS = ("payload_push", "payload_pull", "wire_sent", "wire_received", "between_nodes")
# Also as the maximum over the workers.
_OF_THE_BUSIEST = ("wire_sent", "wire_received")


def traffic_totals(ledgers: Sequence[Ledger], transport: Transport) -> dict[str, float]:
    """The traffic so far, in bytes: means over the workers, and the most that one of them sent and received.

    `ledgers` are those of this process, and `transport` leads to the others.
    """
    of_all_workers = transport.share([astuple(ledger.total()) for ledger in ledgers])
    return _columns([Bytes(*total) for total in of_all_workers])


def traffic_rows(ledgers: Sequence[Ledger], transport: Transport) -> list[dict[str, object]]:
    """The same traffic, with a row for each channel, verb and kind."""
    of_all_workers = transport.share([ledger.state() for ledger in ledgers])
    made = []
    for key in dict.fromkeys(key for ledger in of_all_workers for key in ledger):
        each = [Bytes(*ledger.get(key, ())) for ledger in of_all_workers]
        channel, verb, kind = key.split("/")
        messages = sum(row.messages for row in each) / len(each)
        made.append({"channel": channel, "verb": verb, "kind": kind, "messages": messages, **_columns(each)})
    return made


def _columns(workers: list[Bytes]) -> dict[str, float]:
    each = [asdict(worker) for worker in workers]
    means = {f"{c}_bytes": sum(worker[c] for worker in each) / len(each) for c in _COLUMNS}
    largest = {f"{c}_max_bytes": float(max(worker[c] for worker in each)) for c in _OF_THE_BUSIEST}
    return means | largest
