"""Lets the workers of a run record what they do; see `thinwire.trace.recorder`.

Everything is attached from outside: hooks on the model and on its parameters, and wrappers around methods of
one worker. So a run that is not traced has none of this.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns

import torch
from torch import Tensor, nn

from thinwire.api.method import Method
from thinwire.api.parameters import Param
from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.trace import trace_file
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
from thinwire.trace.trace_file import Trace, common_zero_ns
from thinwire.train.cell_task import all_or_none, blame
from thinwire.train.run_setup import RunSetup
from thinwire.train.trainer import Trainer
from thinwire.train.worker import Worker
from thinwire.transport.interface import Transport
from thinwire.transport.rendezvous import ConnectionLost

# The hooks of a method that belong to training.
_HOOKS = ("forward_ready", "grad_ready", "step", "epoch_end", "finish")


def record_spans(trainer: Trainer, now: Callable[[], int] = perf_counter_ns) -> list[Recorder]:
    """Give each worker of this process a recorder; call after `Trainer.setup`.

    Forward spans have the names of layers, backward spans those of parameters. A layer that has no parameters
    counts to the next one that has some. Where the method wants no gradient of a layer's parameters, the name
    of its backward span is that of the layer and `inputs`.
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
    # These hooks come before those that announce a gradient to the method.
    cut_into_layers(worker.model, worker.run.params, recorder)
    _of_unwanted_layers(worker, recorder)
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


def cut_into_layers(model: nn.Module, params: Sequence[Param], recorder: Recorder) -> None:
    """Cut the forward pass into layers, and the backward pass, which begins at its end, into parameters."""
    for name, module in model.named_modules():
        if module is not model and any(True for _ in module.parameters(recurse=False)):
            module.register_forward_hook(_cut(recorder, FORWARD, name))

    def begin(module: nn.Module, inputs: object) -> None:
        # Of the next part of the batch, if the recipe accumulates gradients.
        if recorder.current.kind == BACKWARD:
            recorder.switch(Activity(FORWARD))

    def end(module: nn.Module, inputs: object, output: Tensor) -> None:
        if recorder.current.kind == FORWARD:
            recorder.switch(Activity(BACKWARD))

    model.register_forward_pre_hook(begin)
    model.register_forward_hook(end)
    for param in params:
        param.tensor.register_hook(_cut(recorder, BACKWARD, param.name))


def _of_unwanted_layers(worker: Worker, recorder: Recorder) -> None:
    """Cut the backward pass after layers of which only the gradient of the inputs is computed."""
    wanted = {id(param.tensor) for param in worker.run.params if worker.method.wants_gradient(param)}
    for name, module in worker.model.named_modules():
        own = {id(parameter) for parameter in module.parameters(recurse=False)}
        if name and own and own.isdisjoint(wanted):
            module.register_forward_pre_hook(_cut_at_inputs(recorder, f"{name}.{INPUTS}"))


def _cut_at_inputs(recorder: Recorder, name: str) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if recorder.current.kind == FORWARD and inputs and inputs[0].requires_grad:
            inputs[0].register_hook(_cut(recorder, BACKWARD, name))

    return hook


def _cut(recorder: Recorder, kind: str, name: str) -> Callable[..., None]:
    """A hook that ends a span of this kind under this name; it does nothing during evaluations."""

    def hook(*ignored: object) -> None:
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


def trace_run(cell: Cell, results: Path, steps: int, transport: Transport, parts: Path) -> int:
    """Train so many steps, and write what the workers of this process do into the folder `parts`.

    All processes of a run do this together, and see the folder; see `whole_trace`.

    Returns:
        The number of machines. If there are several, the moment that their clocks have in common is an
        estimate; see `thinwire.trace.trace_file`.

    Raises:
        UserError: something is missing, or the method fails.
        ConnectionLost: another process has ended.
    """
    try:
        with all_or_none(transport):
            trainer, prepared = RunSetup(cell, results, transport).load()
            if reason := trainer.skip():
                raise UserError(f"{cell.path} cannot be traced, because it is skipped: {reason}")
        trainer.setup(prepared)
        zero_ns, machines = common_zero_ns(lambda value: transport.share([value for _ in transport.ranks]))
        recorders = record_spans(trainer)
        trainer.train(until=steps)
        # Calls may be in flight to later steps.
        transport.arrive()
        for recorder in recorders:
            recorder.cut("")
        with all_or_none(transport):
            trace_file.write(_part(parts, transport.ranks[0]), trace_file.of_recorders(recorders, zero_ns))
        return machines
    except (UserError, ConnectionLost, KeyboardInterrupt):
        raise
    except BaseException as error:
        if (reason := blame(error)) is None:
            raise
        raise UserError(f"{cell.path} cannot be traced, because it fails: {reason}") from error


def whole_trace(cell: Cell, parts: Path) -> Trace:
    """The trace of all workers, from the parts that their processes have written.

    Raises:
        UserError: a part is damaged.
    """
    processes = 1 if cell.transport == "inprocess" else cell.workers
    return trace_file.merged([trace_file.read(_part(parts, rank)) for rank in range(processes)])


def _part(parts: Path, rank: int) -> Path:
    return parts / str(rank)
