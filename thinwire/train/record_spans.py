"""Lets the workers of a run record what they do; see `thinwire.trace.recorder`.

Everything is attached from outside: hooks on the model and on its parameters, and wrappers around methods of
one worker. So a run that is not traced has none of this.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor, nn

from thinwire.method import Method
from thinwire.trace.recorder import (
    BACKWARD,
    FORWARD,
    INPUTS,
    METHOD,
    OPTIMIZER,
    Activity,
    Recorder,
    recording,
)
from thinwire.train.trainer import Trainer
from thinwire.train.worker import Worker

# The hooks of a method that belong to training.
_HOOKS = ("forward_ready", "grad_ready", "step", "epoch_end", "finish")


def record_spans(trainer: Trainer, now: Callable[[], int] = perf_counter_ns) -> list[Recorder]:
    """Give each worker of this process a recorder; call after `Trainer.setup`.

    Forward spans have the names of layers, backward spans those of parameters. A layer that has no parameters
    counts to the next one that has some. Where the method wants no gradient of a layer's parameters, the name
    of its backward span is that of the layer and `inputs`.

    Args:
        trainer: whose workers are recorded.
        now: the clock, in nanoseconds.
    """
    recorders = [
        _record(worker, Recorder(rank, now)) for rank, worker in zip(trainer.transport.ranks, trainer.workers)
    ]
    train_step = trainer._train_step

    def begin_and_train() -> None:
        for recorder in recorders:
            # Evaluations and whatever else follows a step count to that step.
            recorder.cut("")
            recorder.step = trainer.step
        train_step()

    trainer._train_step = begin_and_train  # type: ignore[method-assign]
    return recorders


def _record(worker: Worker, recorder: Recorder) -> Recorder:
    for channel in worker.channels.values():
        channel.recorder = recorder
    _of_model(worker.model, recorder)
    _of_unwanted_layers(worker, recorder)
    for param in worker.run.params:
        # This hook comes before those that announce the gradient to the method.
        param.tensor.register_hook(_cut(recorder, BACKWARD, param.name))
    for name in _HOOKS:
        # One that the method leaves as it is does nothing, except `step`, which calls other hooks.
        if name == "step" or getattr(type(worker.method), name) is not getattr(Method, name):
            _wrap(worker.method, name, recorder, Activity(METHOD, name))
    _of_optimizer(worker.run.optimizer, recorder)
    _wrap(worker, "compute_gradients", recorder, Activity(FORWARD))
    return recorder


def _wrap(owner: object, name: str, recorder: Recorder, activity: Activity) -> None:
    """Make a method of one object record an activity; the worker's context then has its recorder."""
    function: Callable[..., object] = getattr(owner, name)

    def call(*args: object, **kwargs: object) -> object:
        token = recording.set(recorder)
        before = recorder.switch(activity)
        try:
            return function(*args, **kwargs)
        finally:
            recorder.switch(before)
            recording.reset(token)

    setattr(owner, name, call)


def _of_model(model: nn.Module, recorder: Recorder) -> None:
    """Cut the forward pass into layers; at its end the backward pass begins."""
    for name, module in model.named_modules():
        if module is not model and any(True for _ in module.parameters(recurse=False)):
            module.register_forward_hook(_cut(recorder, FORWARD, name))

    def end(module: nn.Module, inputs: object, output: Tensor) -> None:
        if recorder.current.kind == FORWARD:
            recorder.switch(Activity(BACKWARD))

    model.register_forward_hook(end)


def _of_unwanted_layers(worker: Worker, recorder: Recorder) -> None:
    """Cut the backward pass after layers of which only the gradient of the inputs is computed."""
    wanted = {id(param.tensor) for param in worker.run.params if worker.method.wants_gradient(param)}
    for name, module in worker.model.named_modules():
        own = {id(parameter) for parameter in module.parameters(recurse=False)}
        if name and own and own.isdisjoint(wanted):
            module.register_forward_pre_hook(_cut_at_inputs(recorder, f"{name}.{INPUTS}"))


def _cut_at_inputs(recorder: Recorder, name: str) -> Callable[..., None]:
    """A hook on a layer that ends its backward span when the gradient of its inputs is there."""

    def hook(module: nn.Module, inputs: Any) -> None:
        if recorder.current.kind == FORWARD and inputs and inputs[0].requires_grad:
            inputs[0].register_hook(_cut(recorder, BACKWARD, name))

    return hook


def _cut(recorder: Recorder, kind: str, name: str) -> Callable[..., None]:
    """A hook that ends a span of this kind under this name; it does nothing during evaluations."""

    def hook(*ignored: Any) -> None:
        if recorder.current.kind == kind:
            recorder.cut(name)

    return hook


def _of_optimizer(optimizer: torch.optim.Optimizer, recorder: Recorder) -> None:
    before: list[Activity] = []

    def begin(*ignored: object) -> None:
        before.append(recorder.switch(Activity(OPTIMIZER, "step")))

    def end(*ignored: object) -> None:
        recorder.switch(before.pop())

    optimizer.register_step_pre_hook(begin)
    optimizer.register_step_post_hook(end)
