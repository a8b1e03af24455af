"""The passes of a worker: their precision, the order of images in memory, and when each gradient is ready.

Weights, gradients and losses have 32 bits in every recipe. The precision says how products are computed:

- `fp32` rounds nothing.
- `tf32` is a setting of the whole process; see `thinwire.train.cell_task.deterministic`.
- `bf16` is torch's autocast: in the passes, products and convolutions round what they read to bfloat16,
  which has 8 bits of mantissa. Its exponents are those of 32 bits, so no loss needs to be scaled. Methods,
  optimizers and evaluations compute with 32 bits: a score tells of weights, and not of their rounding.

With `channels_last`, the channels of a pixel lie side by side, as tensor cores want them. Convolutions pass
this order on to their outputs. Weights keep torch's usual order, and convolutions reorder a copy of them.
Autograd gives each gradient the order of its weight. So methods and codecs see contiguous tensors.

`ReadyHooks` calls `forward_ready` and `grad_ready` of a method while the forward and backward passes run. The
contract promises an order: parameters from the input side, gradients from the output side. The layers of a
model may run in another order. A gradient that comes early is held back until those before it are there. A
parameter is announced together with all parameters before it, when the layer that has it is called. So a
layer whose weight is used without a call of the layer would be announced too late, and is refused.

`place_gradients` moves gradients into memory that the workers of a node share, so that their mean needs no
copy. Autograd cannot compute a gradient at a place that is given: it would add it to zeros there, and -0.0
would become 0.0. So a gradient is copied as soon as it is complete, while it is still in the cache.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from thinwire.api.method import Method
from thinwire.api.parameters import Param
from thinwire.base.errors import UserError
from thinwire.optim.recipe import Recipe
from thinwire.train.evaluation import loss_of


class Passes:
    """The passes of the models of one recipe on one kind of device."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self._rounds = recipe.precision == "bf16"
        self._channels_last = recipe.channels_last
        self._device_type = device.type

    def loss(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        """Run the forward pass; gives the mean loss, a scalar, whose backward pass has the same precision.

        `inputs` are images [b, C, H, W], or windows of text, int64 [b, L]; for `labels` see `loss_of`.
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


class ReadyHooks:
    """Hooks on the model of one worker."""

    def __init__(
        self,
        model: nn.Module,
        params: list[Param],
        method: Method,
        interrupted: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Hook a model; `interrupted` wraps each `forward_ready` in the middle of a forward pass."""
        self._params = params
        self._method = method
        self._interrupted = interrupted
        self.unwanted: set[int] = set()  # indices of the gradients that are not computed; set after `setup`
        self._active = False
        self.holds_gradients = False  # until the end of the passes, because they are not final before
        self._announced = 0  # parameters announced in this forward pass, from the input side
        self._not_called: set[int] = set()  # indices of parameters none of whose layers was called yet
        self._ready: set[int] = set()  # indices of the gradients that need not be waited for
        self._next_gradient = -1  # index of the gradient to announce next
        if type(method).forward_ready is not Method.forward_ready:
            self._not_called = set(range(len(params)))
            for module in model.modules():
                # Attention uses the weight of its last layer without a call of that layer.
                whole = isinstance(module, nn.MultiheadAttention)
                own = {id(parameter) for parameter in module.parameters(recurse=whole)}
                indices = {param.index for param in params if id(param.tensor) in own}
                if indices:
                    module.register_forward_pre_hook(self._forward_hook(indices))
        if type(method).grad_ready is not Method.grad_ready:
            for param in params:
                param.tensor.register_post_accumulate_grad_hook(self._gradient_hook(param.index))

    @contextmanager
    def during_passes(self) -> Iterator[None]:
        """Wrap the forward and backward pass of one step; at its end all gradients are announced."""
        self._active, self._announced = True, 0
        self._ready, self._next_gradient = set(self.unwanted), len(self._params) - 1
        yield
        self._active = False
        self._require_called()
        with torch.no_grad():
            self._announce_gradients(set(range(len(self._params))))

    def end_forward(self) -> None:
        """Announce the parameters that no layer of the model has used."""
        self._announce_parameters(len(self._params))

    def _forward_hook(self, own: set[int]) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object) -> None:
            if self._active:
                self._not_called -= own
                with self._interrupted():
                    self._announce_parameters(max(own) + 1)

        return hook

    def _require_called(self) -> None:
        """Require that each layer was called whose weights have a gradient."""
        for param in (self._params[index] for index in sorted(self._not_called)):
            if param.tensor.grad is not None:
                raise UserError(
                    f"the model uses its parameter {param.name} without a call of the layer that has it, so "
                    "a method with forward_ready could not change it in time: call the layer in forward"
                )

    def _gradient_hook(self, index: int) -> Callable[..., None]:
        # Autograd keeps a hook where Python's garbage collector does not see it. If the hook kept the worker,
        # whose parameters keep the hook, the memory of a run would never be free again.
        worker = weakref.ref(self)

        def hook(parameter: torch.Tensor) -> None:
            own = worker()
            if own is not None and own._active and not own.holds_gradients:
                own._ready.add(index)
                own._announce_gradients(own._ready)

        return hook

    @torch.no_grad()
    def _announce_parameters(self, end: int) -> None:
        while self._announced < end:
            self._announced += 1
            self._method.forward_ready(self._params[self._announced - 1])

    @torch.no_grad()
    def _announce_gradients(self, ready: set[int]) -> None:
        while self._next_gradient in ready:
            self._next_gradient -= 1
            self._method.grad_ready(self._params[self._next_gradient + 1])


def place_gradients(
    params: Sequence[Param], shared_like: Callable[[Sequence[Tensor]], list[Tensor] | None]
) -> None:
    """Hook the parameters of a worker so that their gradients move, if the workers of its node share memory.

    `shared_like` returns tensors with the shapes of others in shared memory, or None. The places follow each
    other from the output side to the input side, as the gradients of a bucket do. Register other hooks of
    gradients afterwards, so that they find a gradient at its place.
    """
    tensors = [param.tensor for param in reversed(params)]
    for tensor, place in zip(tensors, shared_like(tensors) or ()):
        tensor.register_post_accumulate_grad_hook(_moves_to(place))


def _moves_to(place: Tensor) -> Callable[[Tensor], None]:
    free = _references(place)

    def move(parameter: Tensor) -> None:
        # A method may keep an earlier gradient, or let it be sent. Then this one stays where it is.
        if parameter.grad is not None and _references(place) == free:
            place.copy_(parameter.grad)
            # Another tensor with this storage: who keeps it refers to the storage.
            parameter.grad = place.view_as(place)

    return move


def _references(tensor: Tensor) -> int:
    """How many tensors refer to the storage of this one; a larger number if something else does, too."""
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
