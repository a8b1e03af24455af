"""Seeds torch's global generators, from which dropout draws."""

import torch


def seed_global_generators(device: torch.device, seed: int) -> None:
    """Seed the global generator of the CPU, and that of the GPU on which a worker computes.

    Args:
        device: of the worker's tensors; on a GPU, with its index.
        seed: the same for both.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        # Named by its index: `torch.cuda.manual_seed` seeds the current GPU of this thread instead.
        torch.cuda.default_generators[device.index].manual_seed(seed)
