"""The server: it averages the prefixes, and completes the model with the predictor, which never changes."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

import thinwire
from thinwire.records.checkpoint import write_tensors
from thinwire.traffic.payload import Payload

from .layers import Shapes
from .predictor import Predictor
from .record_prefixes import Prefixes

PREDICTOR, MEAN_PREFIX = "predictor.safetensors", "mean_prefix.safetensors"


class CompletingServer(thinwire.Server):
    def __init__(self, folder: Path | None, shapes: list[Shapes], dtype: torch.dtype, constant: bool) -> None:
        """Create the server.

        Args:
            folder: of the preparation; None if nothing is predicted.
            shapes: of the predicted layers.
            dtype: of the model, in which the server answers.
            constant: does it predict from the mean of the recorded prefixes, whatever is pushed?
        """
        super().__init__({})
        self.folder, self.shapes, self.dtype, self.constant = folder, shapes, dtype, constant
        self.predictor: Predictor | None = None
        self.mean_prefix: Tensor | None = None

    def update(self, pushes: list[Payload]) -> Payload:
        first, *others = [push["weights"] for push in pushes]
        # Sum differences, so that the mean of equal prefixes is exactly that prefix.
        mean = first + sum(prefix - first for prefix in others) / len(pushes) if others else first
        mean = mean.to(self.dtype)
        if self.folder is None:
            return {"weights": mean}
        if self.predictor is None:
            self.predictor = self.load(mean)
        rest = self.predictor(self.mean_prefix if self.constant else mean)
        return {"weights": torch.cat([mean, *rest])}

    def load(self, prefix: Tensor) -> Predictor:
        """Load what was prepared, for prefixes like this one; returns the predictor."""
        assert self.folder is not None
        device = str(prefix.device)
        with torch.device(prefix.device):
            predictor = Predictor(len(prefix), self.shapes).to(prefix.dtype)
        saved = load_file(self.folder / PREDICTOR, device=device)
        if _shapes(saved) != _shapes(predictor.state_dict()):
            raise ValueError(
                "its predictor was made for layers of other shapes: in prepare_from, name a data set with as "
                "many classes, and images as large, as this one"
            )
        predictor.load_state_dict(saved)
        if self.constant:
            self.mean_prefix = load_file(self.folder / MEAN_PREFIX, device=device)["prefix"]
        return predictor


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def write_mean_prefix(prefixes: Prefixes, folder: Path) -> None:
    """Write the mean of the recorded prefixes, which `predictor: constant` needs."""
    every = (prefixes[number].double() for number in range(len(prefixes)))
    total = sum(every, torch.zeros((), dtype=torch.float64))
    write_tensors(folder / MEAN_PREFIX, {"prefix": (total / len(prefixes)).to(prefixes[0].dtype)})
