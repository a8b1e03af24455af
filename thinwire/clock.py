"""Three clocks: train, eval, harness. Exactly one of them runs at any time."""

import time

import torch

CLOCKS = ("train", "eval", "harness")


class Clock:
    """Seconds spent training, evaluating, and on everything else, kept over interruptions."""

    def __init__(self, device: torch.device) -> None:
        self.seconds = dict.fromkeys(CLOCKS, 0.0)
        self._device = device
        self._running = "harness"
        self._since = time.perf_counter()

    def switch(self, name: str) -> None:
        """Stop the running clock and start another, once the device has done what it was given."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        self.seconds[self._running] += now - self._since
        self._running, self._since = name, now
