"""What a part gets and what it gives."""

from dataclasses import dataclass, field
from typing import Any

import torch


class NotHere(Exception):
    """A part cannot run on this machine; the message says why."""


@dataclass(frozen=True)
class Place:
    """Where a part runs."""

    device: torch.device

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device has done everything that it has now."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)


@dataclass
class Found:
    """What a part has found."""

    figures: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)  # what should hold and does not, a sentence each
