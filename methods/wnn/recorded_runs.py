"""Recorded runs: the weights of small runs of several architectures, kept at intervals.

The forecasters learn from them. None of the architectures is the model that is to be forecast.
"""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from thinwire import Job, Method, UserError, plugins
from thinwire.api.method import Training
from thinwire.api.parameters import parameters
from thinwire.base.files import write_text
from thinwire.base.options import resolve
from thinwire.records.checkpoint import write_tensors

from .forecaster import HISTORY
from .options import Options

# Small architectures of different kinds. The last one that is not the model itself is held out.
ARCHITECTURES = {
    "cnn": {"width": 8},
    "alexnet": {"width": 4},
    "lenet": {"padding": 2},
    "resnet": {"depth": 8, "width": 8},
}
WINDOW = 2 * HISTORY  # number of values from the first of a history to its target, both included


def record_weights(method: type[Method], config: Options, job: Job) -> list[Path]:
    """Train the architectures on one worker; returns the folders of their values, the held-out one last."""
    chosen = {name: options for name, options in ARCHITECTURES.items() if name != job.model}
    folders = []
    for name, options in chosen.items():
        folders.append(job.scratch / "values" / name)
        _record(method, config, job, name, options, folders[-1])
    return folders


def _record(
    method: type[Method], config: Options, job: Job, name: str, options: dict[str, int], folder: Path
) -> None:
    model = plugins.get("model", name).load()
    model_config, data = resolve(model, options), job.task.data
    epochs = config.recorded_epochs
    task = replace(
        job.task,
        build_model=lambda: model(model_config, data.shape, data.classes),
        recipe=job.task.recipe.model_copy(
            update={
                "epochs": epochs,
                "evaluate_every_epochs": epochs,
                "batch": config.recorded_batch,
                # What divides the run's own batch and pass need not divide these.
                "accumulate": 1,
                "epoch_steps": None,
            }
        ),
    )
    epoch_values = []

    def after_step(trainer: Training) -> None:
        own = trainer.workers[0].method
        # In the first step, because runs take minutes.
        if (count := own.run.total_steps // own.period()) < WINDOW:
            raise UserError(
                f"the recorded runs have {count} values of each weight, and a history with its target takes "
                f"{WINDOW}: choose more recorded_epochs, or a smaller interval_epochs"
            )
        if trainer.step % own.period() == 0:
            epoch_values.append({str(param.index): param.tensor.data.clone() for param in own.eligible})

    def after_epoch(trainer: Training) -> None:
        epoch = trainer.step // trainer.steps_per_epoch
        values = {
            f"{key} {i}": value for i, tensors in enumerate(epoch_values) for key, value in tensors.items()
        }
        write_tensors(folder / f"{epoch:06d}.safetensors", values)
        epoch_values.clear()

    job.train(task, method, replace(config, forecast=False), job.scratch / name, after_epoch, after_step)
    kinds = {str(p.index): p.kind for p in parameters(task.build_model())}
    write_text(folder / "kinds.txt", "\n".join(f"{index} {kind}" for index, kind in kinds.items()))


def windows(folder: Path, kind: str, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Histories [n, 5] and what came five intervals later [n], n about `count`, alike from every tensor."""
    kinds = dict(line.split() for line in (folder / "kinds.txt").read_text().splitlines())
    recorded: dict[str, list[Tensor]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        for key, value in sorted(load_file(path).items(), key=lambda item: int(item[0].split()[1])):
            recorded.setdefault(key.split()[0], []).append(value.flatten())
    tensors = [torch.stack(values, 1) for index, values in recorded.items() if kinds[index] == kind]
    drawn = []
    for values in tensors:
        every = values.unfold(1, WINDOW, 1)
        scalars, starts = every.shape[:2]
        number = (max(1, min(count // len(tensors), scalars * starts)),)
        rows = torch.randint(scalars, number, generator=generator)
        drawn.append(every[rows, torch.randint(starts, number, generator=generator)])
    together = torch.cat(drawn)
    return together[:, :HISTORY], together[:, -1]
