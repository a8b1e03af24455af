"""PyTorch's optimizers without its compiler, which thinwire does not use.

At their first calls the optimizers import the compiler, to keep some functions out of it. The import takes
nearly as long as that of torch itself, in every process that trains. Here, these functions are taken as they
are. If a later PyTorch looks elsewhere for them, it imports its compiler again and nothing else changes.
"""

from inspect import unwrap

import torch


class Sgd(torch.optim.SGD):
    """Steps to the same bits as its parent."""

    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


class Adam(torch.optim.Adam):
    """Steps to the same bits as its parent."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def keep_compiler_out() -> None:
    """Mark what all optimizers share as the compiler would; see `torch._compile._disable_dynamo`."""
    for method in vars(torch.optim.Optimizer).values():
        bare = getattr(method, "__wrapped__", None)
        if bare is not None:
            bare.__dynamo_disable = bare
