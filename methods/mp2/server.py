"""The server: it averages the prefixes, and completes the model with the predictor, which never changes."""

import torch
from safetensors.torch import load_file

import thinwire
from thinwire.checkpoint import write_tensors

from .predictor import Predictor

PREDICTOR, MEAN_PREFIX = "predictor.safetensors", "mean_prefix.safetensors"


class CompletingServer(thinwire.Server):
    def __init__(self, folder, shapes, dtype, constant):
        """Create the server.

        Args:
            folder: of the preparation; None if nothing is predicted.
            shapes: of the predicted layers.
            dtype: of the model, in which the server answers.
            constant: does it predict from the mean of the recorded prefixes, whatever is pushed?
        """
        super().__init__({})
        self.folder, self.shapes, self.dtype, self.constant = folder, shapes, dtype, constant
        self.predictor = self.mean_prefix = None

    def update(self, pushes):
        first, *others = [push["weights"] for push in pushes]
        # Sum differences, so that the mean of equal prefixes is exactly that prefix.
        mean = first + sum(prefix - first for prefix in others) / len(pushes) if others else first
        mean = mean.to(self.dtype)
        if self.folder is None:
            return {"weights": mean}
        if self.predictor is None:
            self.load(mean)
        rest = self.predictor(self.mean_prefix if self.constant else mean)
        return {"weights": torch.cat([mean, *rest])}

    def load(self, prefix):
        """Load what was prepared, for prefixes like this one."""
        device = str(prefix.device)
        with torch.device(prefix.device):
            self.predictor = Predictor(len(prefix), self.shapes).to(prefix.dtype)
        saved = load_file(self.folder / PREDICTOR, device=device)
        if _shapes(saved) != _shapes(self.predictor.state_dict()):
            raise ValueError(
                "its predictor was made for layers of other shapes: in prepare_from, name a data set with as "
                "many classes, and images as large, as this one"
            )
        self.predictor.load_state_dict(saved)
        if self.constant:
            self.mean_prefix = load_file(self.folder / MEAN_PREFIX, device=device)["prefix"]


def _shapes(tensors):
    return {name: tensor.shape for name, tensor in tensors.items()}


def write_mean_prefix(prefixes, folder):
    """Write the mean of the recorded prefixes, which `predictor: constant` needs."""
    total = sum(prefixes[number].double() for number in range(len(prefixes)))
    write_tensors(folder / MEAN_PREFIX, {"prefix": (total / len(prefixes)).to(prefixes[0].dtype)})
