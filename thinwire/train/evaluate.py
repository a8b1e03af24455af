"""Loss and accuracy of the weights that a method ships."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from thinwire.data.arrays import Data
from thinwire.data.batches import scoring_batches
from thinwire.train import batch_norm_buffers


class Score(NamedTuple):
    """On the test set: the mean cross-entropy in nats, and the accuracy in percent."""

    loss: float
    accuracy_percent: float


# Of each batch that a worker has scored: its number, the sum of its losses, correct answers, and images.
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
        dtype: of the images.
        ranks: of the workers in this process; each batch is scored by one worker of the run.
        workers: of the run.
        share: gives the results of all workers, from those of the workers in this process.
        before_batch: called before each batch that is scored here.
    """
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    state = {**dict(zip(names, weights)), **dict(zip(batch_norm_buffers.names(model), buffers))}
    model.eval()
    own = []
    for rank in ranks:
        found: Scored = []
        for batch, images, labels in scoring_batches(data, weights[0].device, dtype, rank, workers):
            before_batch()
            logits = torch.func.functional_call(model, state, (images,))
            loss = functional.cross_entropy(logits, labels, reduction="sum").item()
            found.append([batch, loss, int((logits.argmax(1) == labels).sum()), len(labels)])
        own.append(found)
    model.train()
    # Sorted by batch, so that the sum rounds the same whichever worker scored a batch.
    scored = sorted(batch for found in share(own) for batch in found)
    loss, correct, count = (sum(column) for column in list(zip(*scored))[1:])
    return Score(loss / count, 100 * correct / count)
