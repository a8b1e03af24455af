"""Loss and accuracy of the weights that a method ships."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from thinwire.data.arrays import Data
from thinwire.data.batches import scoring_batches
from thinwire.train import batch_norm_buffers


class Score(NamedTuple):
    """On the test set: mean cross-entropy in nats, and correct answers in percent."""

    loss: float
    accuracy_percent: float


@torch.no_grad()
def evaluate(
    model: nn.Module,
    weights: list[Tensor],
    buffers: list[Tensor],
    data: Data,
    dtype: torch.dtype,
    scorers: Sequence[int] = (0,),
    of: int = 1,
    share: Callable[[list[Any]], list[Any]] = lambda own: own,
) -> Score:
    """Score `weights` and the floating-point `buffers`, both in the order of the model.

    The model lends its layers; its own weights and buffers stay as they are.

    Args:
        model: in training mode.
        weights: of the trainable parameters.
        buffers: of batch normalisation, see `batch_norm_buffers`.
        data: whose test set is scored.
        dtype: of the images.
        scorers: those of this process; every batch is scored by one of all scorers.
        of: how many scorers there are.
        share: gives what all scorers have found, from what those of this process have.
    """
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    state = {**dict(zip(names, weights)), **dict(zip(batch_norm_buffers.names(model), buffers))}
    model.eval()
    own = []
    for scorer in scorers:
        found = []
        for batch, images, labels in scoring_batches(data, weights[0].device, dtype, scorer, of):
            logits = torch.func.functional_call(model, state, (images,))
            loss = functional.cross_entropy(logits, labels, reduction="sum").item()
            found.append([batch, loss, int((logits.argmax(1) == labels).sum()), len(labels)])
        own.append(found)
    model.train()
    # In the order of the batches, so that the sum rounds the same whoever has scored them.
    scored = sorted(batch for found in share(own) for batch in found)
    loss, correct, count = (sum(column) for column in list(zip(*scored))[1:])
    return Score(loss / count, 100 * correct / count)
