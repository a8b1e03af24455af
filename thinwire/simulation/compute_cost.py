"""What cells cost on a device that a compute profile describes: the days in which their workers compute.

Only forward and backward passes count. Communication, input, evaluation and preparations come on top.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from thinwire import plugins
from thinwire.config.cell import Cell
from thinwire.config.profile_file import Device
from thinwire.errors import UserError
from thinwire.options import resolve
from thinwire.simulation.compute_profile import BACKWARD_OVER_FORWARD, forward_flops
from thinwire.train.make_again import data_command
from thinwire.train.result_folders import data_folder

_SECONDS_A_DAY = 86_400


def worker_days(cells: Iterable[Cell], device: Device, results: Path) -> float:
    """Days in which workers compute, one device for each, summed over the workers of all cells.

    Args:
        cells: that are trained.
        device: on which each worker computes.
        results: the folder with the data, for data sets that do not state the number of their images.

    Raises:
        UserError: the number of training images is not known.
    """
    layers: dict[tuple[str, str], list[int]] = {}
    seconds = 0.0
    for cell in cells:
        key = cell.dataset, cell.model.label
        if key not in layers:
            layers[key] = [flops for flops in layer_flops(cell).values() if flops]
        batch = cell.recipe.batch_per_worker(cell.workers)
        steps = cell.recipe.epochs * (_training_images(cell, results) // (batch * cell.workers))
        seconds += steps * cell.workers * _step_seconds([batch * flops for flops in layers[key]], device)
    return seconds / _SECONDS_A_DAY


def _step_seconds(layers: Iterable[int], device: Device) -> float:
    """One worker's step, from each layer's operations forward; a pass of a layer takes at least a launch."""
    passes = (part * flops for flops in layers for part in (1, BACKWARD_OVER_FORWARD))
    return sum(max(flops / device.flops_per_second, device.launch_seconds) for flops in passes)


def layer_flops(cell: Cell) -> dict[str, int]:
    """The floating-point operations of a forward pass of one image, by layer; 0 for a layer without any."""
    dataset = plugins.get("dataset", cell.data.use).load()
    model = plugins.get("model", cell.model.use).load()
    data = dataset(resolve(dataset, cell.data.options))
    # Tensors on this device have shapes and no numbers.
    with torch.device("meta"):
        network = model(resolve(model, cell.model.options), data.shape, data.classes).eval()
        counts = forward_flops(network, torch.empty(1, *data.shape))
    leaves = [name for name, module in network.named_modules() if name and not list(module.children())]
    return {name: counts[name] for name in leaves}


def _training_images(cell: Cell, results: Path) -> int:
    """As the data set states it, or else as it is laid out."""
    dataset = plugins.get("dataset", cell.data.use).load()
    stated: int | None = dataset(resolve(dataset, cell.data.options)).training_images()
    if stated is not None:
        return stated
    labels = data_folder(results, cell.dataset) / "train_labels.npy"
    if not labels.exists():
        raise UserError(
            f"{cell.dataset} does not state how many training images it has: prepare it with "
            f"{data_command(cell, results)}"
        )
    return len(np.load(labels, mmap_mode="r", allow_pickle=False))
