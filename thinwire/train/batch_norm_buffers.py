"""The running statistics of batch normalisation. An evaluation uses their mean over the workers."""

from torch import Tensor, nn

from thinwire.unmetered_channel import QuietChannel


def names(model: nn.Module) -> list[str]:
    """The names of the floating-point buffers, in the order of the model."""
    return [name for name, buffer in model.named_buffers() if buffer.is_floating_point()]


def tensors(model: nn.Module) -> list[Tensor]:
    """The floating-point buffers, in the order of the model."""
    return [buffer for buffer in model.buffers() if buffer.is_floating_point()]


def mean_over_workers(model: nn.Module, quiet: QuietChannel) -> list[Tensor]:
    """The mean of everybody's floating-point buffers, as new tensors; no ledger counts it."""
    return quiet.mean(tensors(model)).wait()
