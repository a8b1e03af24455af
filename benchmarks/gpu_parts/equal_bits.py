"""Is a run repeatable, resumable and the same on both devices?

Each method trains four times: twice alike, once interrupted, and once on the CPU. The first three must have
the same bits. The ledgers of device and CPU must be equal to the byte, and their weights up to rounding.
Everything is in 64 bits, so that no two entries tie: see `small_run.task`. The run on the CPU takes what the
one on the device has prepared, because dropout draws other numbers on a GPU. With options that make a method
synchronous SGD (SSGD), it must equal SSGD on the device, too.
"""

from pathlib import Path
from typing import Any

import torch

from gpu_parts import small_run
from gpu_parts.part import Found, Place
from thinwire import plugins
from thinwire.api.declarations import InTheLimit
from thinwire.base.placement import Cluster
from thinwire.train.trainer import Trainer

# Of a weight, between devices at the end; and between a method that is SSGD and SSGD.
MOST_BETWEEN_DEVICES, MOST_TO_SSGD = 1e-9, 1e-11
CPU = torch.device("cpu")
# Options for the comparison of devices, where rounding decides with the default ones. With 4 bits, means of
# two workers often lie exactly between two levels.
BETWEEN_DEVICES = {"quantised_all_reduce": {"bits": 8}}


def part(place: Place, found: Found) -> None:
    """Compare the runs of each method."""
    small_run.of_each_method(place, found, lambda name: _of_method(place, name, found.broken))


def _of_method(place: Place, name: str, broken: list[str]) -> dict[str, float]:
    first, second = (_trained(place.device, name) for _ in range(2))
    if not _same_weights(first, second):
        broken.append(f"{name}: two runs alike have different weights")
    resumed = _interrupted(place.device, name)
    if not _same_weights(first, resumed):
        broken.append(f"{name}: an interrupted run has other weights than one that was not interrupted")
    options = BETWEEN_DEVICES.get(name)
    here = first if options is None else _trained(place.device, name, options)
    on_cpu = _trained(CPU, name, options, here.workers[0].method.prepared) if place.is_gpu else here
    if _ledgers(here) != _ledgers(on_cpu):
        broken.append(f"{name}: the ledgers of {place.device.type} and CPU differ")
    differs = _largest_difference(here, on_cpu)
    if not differs <= MOST_BETWEEN_DEVICES:
        broken.append(
            f"{name}: a weight differs by {differs:.1e} from the CPU's, more than {MOST_BETWEEN_DEVICES:g}"
        )
    figures = {"from_cpu": differs}
    to_ssgd = _largest_to_ssgd(place.device, name)
    if to_ssgd is not None:
        figures["from_ssgd"] = to_ssgd
        if not to_ssgd <= MOST_TO_SSGD:
            broken.append(
                f"{name}: with options that make it SSGD, a weight differs from SSGD's by {to_ssgd:.1e}"
            )
    return figures


def _trained(
    device: torch.device, name: str, options: dict[str, Any] | None = None, prepared: Path | None = None
) -> Trainer:
    run = small_run.trainer(small_run.task(device, method=name), name, options, prepared)
    run.train()
    return run


def _interrupted(device: torch.device, name: str) -> Trainer:
    """A run that another one resumes in the middle of an epoch."""
    begun = small_run.trainer(small_run.task(device, method=name), name)
    begun.train(until=begun.total_steps // 2 + 1)
    resumed = small_run.trainer(small_run.task(device, method=name), name)
    resumed.load(begun.state())
    resumed.train()
    return resumed


def _largest_to_ssgd(device: torch.device, name: str) -> float | None:
    """How far a method is from SSGD with the options that make it SSGD, at most; None: it has none."""
    largest = None
    for options in plugins.get("method", name).load().equals_ssgd:
        if isinstance(options, InTheLimit):
            continue  # it is not SSGD, but near
        chosen = {key: value for key, value in options.items() if key not in ("nodes", "linear")}
        task = small_run.task(device, Cluster(4, options.get("nodes", 1)), method=name)
        run, ssgd = small_run.trainer(task, name, chosen), small_run.trainer(task, "ssgd", {})
        run.train()
        ssgd.train()
        largest = max(largest or 0.0, _largest_difference(run, ssgd))
    return largest


def _same_weights(one: Trainer, other: Trainer) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_weights(one), _weights(other), strict=True))


def _largest_difference(one: Trainer, other: Trainer) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(_weights(one), _weights(other), strict=True))


def _weights(run: Trainer) -> list[torch.Tensor]:
    """What all workers ship, on the CPU."""
    return [weight.detach().to(CPU) for shipped in run.shipped() for weight in shipped]


def _ledgers(run: Trainer) -> list[Any]:
    return [worker.ledger.state() for worker in run.workers]
