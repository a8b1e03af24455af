"""The digest of a model as it is initialised: paired runs have the same."""

import hashlib

import torch
from torch import nn


def digest_of_weights(model: nn.Module) -> str:
    """The SHA-256 of all parameters and buffers of a model, with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
