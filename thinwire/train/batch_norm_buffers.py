"""The statistics of batch normalisation, which an evaluation uses as the mean over the workers."""

from torch import Tensor, nn


def names(model: nn.Module) -> list[str]:
    """Of the floating-point buffers, in the order of the model."""
    return [name for name, buffer in model.named_buffers() if buffer.is_floating_point()]


def tensors(model: nn.Module) -> list[Tensor]:
    """The floating-point buffers, in the order of the model."""
    return [buffer for buffer in model.buffers() if buffer.is_floating_point()]
