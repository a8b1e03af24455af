"""Loss and accuracy of the weights that a method ships."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from thinwire.data.arrays import Data
from thinwire.data.batches import scoring_batches


class Score(NamedTuple):
    """On the test set: mean cross-entropy in nats, and correct answers in percent."""

    loss: float
    accuracy_percent: float


@torch.no_grad()
def evaluate(
    model: nn.Module, weights: list[Tensor], buffers: list[Tensor], data: Data, dtype: torch.dtype
) -> Score:
    """Score `weights` and the floating-point `buffers`, both in the order of the model.

    The model lends its layers; its own weights and buffers stay as they are.
    """
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    buffer_names = [name for name, b in model.named_buffers() if b.is_floating_point()]
    state = {**dict(zip(names, weights)), **dict(zip(buffer_names, buffers))}
    model.eval()
    loss, correct, count = 0.0, 0, 0
    for images, labels in scoring_batches(data, weights[0].device, dtype):
        logits = torch.func.functional_call(model, state, (images,))
        loss += functional.cross_entropy(logits, labels, reduction="sum").item()
        correct += int((logits.argmax(1) == labels).sum())
        count += len(labels)
    model.train()
    return Score(loss / count, 100 * correct / count)
