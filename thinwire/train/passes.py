"""How a model computes its passes: in what precision, and with images in which order in memory.

Weights, gradients and losses have 32 bits in every recipe. The precision says how products are computed:

- `fp32` rounds nothing.
- `tf32` is a setting of the whole process; see `thinwire.train.cell_task.deterministic`.
- `bf16` is torch's autocast: in the passes, products and convolutions round what they read to bfloat16,
  which has 8 bits of mantissa. Its exponents are those of 32 bits, so no loss needs to be scaled. Methods,
  optimizers and evaluations compute with 32 bits: a score tells of weights, and not of their rounding.

With `channels_last`, the channels of a pixel lie side by side, as tensor cores want them. Convolutions pass
this order on to their outputs. Weights keep torch's usual order, and convolutions reorder a copy of them.
Autograd gives each gradient the order of its weight. So methods and codecs see contiguous tensors.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from thinwire.optim.recipe import Recipe
from thinwire.train.evaluation import loss_of


class Passes:
    """The passes of the models of one recipe on one kind of device."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self._rounds = recipe.precision == "bf16"
        self._channels_last = recipe.channels_last
        self._device_type = device.type

    def loss(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        """Run the forward pass; gives the loss, whose backward pass has the same precision.

        Args:
            model: with weights of 32 bits.
            inputs: images [b, C, H, W], or windows of text, int64 [b, L].
            labels: see `loss_of`.

        Returns:
            The mean loss in nats, a scalar of the weights' type.
        """
        if self._channels_last:
            inputs = inputs.to(memory_format=torch.channels_last)
        with self._autocast():
            return loss_of(model(inputs), labels)

    def interrupted(self) -> AbstractContextManager[object]:
        """Wrap what a method does in the middle of a forward pass, so that it computes with 32 bits."""
        return torch.autocast(self._device_type, enabled=False) if self._rounds else nullcontext()

    def settings(self) -> dict[str, object]:
        """What torch's settings are in a pass, for the record."""
        with self._autocast():
            casts = torch.is_autocast_enabled(self._device_type)
            to = str(torch.get_autocast_dtype(self._device_type)).removeprefix("torch.")
        return {"autocast": to if casts else None, "channels_last": self._channels_last}

    def _autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self._device_type, torch.bfloat16) if self._rounds else nullcontext()
