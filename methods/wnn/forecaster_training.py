"""Trains the forecasters on recorded runs.

The runs of one architecture are held out: the forecasters that forecast them best are kept.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from thinwire import Job, UserError
from thinwire.base import seeds
from thinwire.base.files import write_text
from thinwire.records.checkpoint import write_tensors

from .forecaster import KINDS, Forecaster, normalise
from .options import Options
from .recorded_runs import windows

EVALUATIONS = 20  # on the held-out architecture
BATCH = 1024


def train_forecasters(config: Options, job: Job, folders: Sequence[Path], folder: Path) -> None:
    """Train a forecaster for each kind of weight, and save it and its held-out error."""
    lines = ["kind,steps,held_out_error,held_out_error_of_no_change"]
    for kind in KINDS:
        done = job.scratch / f"{kind}.txt"
        if not done.exists():
            best, line = _train(config, job, folders, kind)
            write_tensors(folder / f"{kind}.safetensors", best)
            write_text(done, line)
            job.note()
        lines.append(f"{kind},{done.read_text()}")
    write_text(folder / "forecasters.csv", "\n".join(lines) + "\n")


@torch.enable_grad()
def _train(config: Options, job: Job, folders: Sequence[Path], kind: str) -> tuple[dict[str, Tensor], str]:
    seed = seeds.derive(job.task.seed, "forecaster", kind)
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    *training, held_out = (windows(f, kind, config.windows, generator) for f in folders)
    inputs, targets = _examples(*(torch.cat(parts) for parts in zip(*training)))
    held_inputs, held_targets = _examples(*held_out)
    forecaster = Forecaster().to(inputs)
    adam = torch.optim.Adam(forecaster.parameters(), lr=1e-3, fused=True)
    best, best_error = {}, float("inf")
    for step in range(1, config.forecaster_steps + 1):
        chosen = torch.randint(len(inputs), (BATCH,), generator=generator)
        error = (forecaster(inputs[chosen]) - targets[chosen]).abs().mean()
        adam.zero_grad()
        (error + forecaster.penalty()).backward()
        adam.step()
        if step % max(1, config.forecaster_steps // EVALUATIONS) == 0:
            with torch.no_grad():
                held_error = (forecaster(held_inputs) - held_targets).abs().mean().item()
            if held_error < best_error:
                best_error = held_error
                best = {name: value.clone() for name, value in forecaster.state_dict().items()}
    if not best:
        raise UserError(f"the forecaster of {kind} weights has learned nothing: its errors are not finite")
    return best, f"{step},{best_error:.6g},{held_targets.abs().mean():.6g}"


def _examples(histories: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Normalised histories, and the changes from the last value, clamped to what a forecaster can output."""
    normalised, unit = normalise(histories)
    change = (targets - histories[:, 0]) / unit - normalised[:, -1]
    return normalised, change.clamp(-1, 1)
