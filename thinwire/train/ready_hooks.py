"""Tells a method of its parameters while the passes run: before each is used, and when its gradient is there.

In the order that the contract promises, whatever the order in which the model's layers run: parameters from
the input side, gradients from the output side; one that comes early is held back until those before it are
there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from thinwire.method import Method
from thinwire.parameters import Param


class ReadyHooks:
    """Hooks on one worker's model."""

    def __init__(self, model: nn.Module, params: list[Param], method: Method) -> None:
        self._params = params
        self._method = method
        self._passing = False
        self._used = 0  # parameters announced in this forward pass, from the input side
        self._there: set[int] = set()  # gradients that are there and held back
        self._next = -1  # the gradient that is due
        if type(method).forward_ready is not Method.forward_ready:
            for module in model.modules():
                own = {id(parameter) for parameter in module.parameters(recurse=False)}
                indices = [param.index for param in params if id(param.tensor) in own]
                if indices:
                    module.register_forward_pre_hook(self._before(max(indices)))
        if type(method).grad_ready is not Method.grad_ready:
            for param in params:
                param.tensor.register_post_accumulate_grad_hook(self._after(param.index))

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around the forward and backward pass of one step; at the end everything is announced."""
        self._passing, self._used = True, 0
        self._there, self._next = set(), len(self._params) - 1
        yield
        self._passing = False
        with torch.no_grad():
            self._announce_gradients(set(range(len(self._params))))

    def forward_is_over(self) -> None:
        """Parameters that no layer of the model has asked for are announced now."""
        self._announce_parameters(len(self._params))

    def _before(self, last: int) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any) -> None:
            if self._passing:
                self._announce_parameters(last + 1)

        return hook

    def _after(self, index: int) -> Callable[..., None]:
        def hook(parameter: torch.Tensor) -> None:
            if self._passing:
                self._there.add(index)
                self._announce_gradients(self._there)

        return hook

    @torch.no_grad()
    def _announce_parameters(self, end: int) -> None:
        while self._used < end:
            self._used += 1
            self._method.forward_ready(self._params[self._used - 1])

    @torch.no_grad()
    def _announce_gradients(self, there: set[int]) -> None:
        while self._next in there:
            self._next -= 1
            self._method.grad_ready(self._params[self._next + 1])
