"""Three clocks: train, eval, harness. Exactly one of them runs at any time.

The trainer switches them. Every step counts, the first one too.
"""

import time

import torch

CLOCKS = ("train", "eval", "harness")


class Clock:
    """Seconds spent on training, on evaluation and on everything else (`harness`).

    Checkpoints keep them, so they include the time before an interruption.
    """

    def __init__(self, device: torch.device) -> None:
        self.seconds = dict.fromkeys(CLOCKS, 0.0)
        self._device = device
        self._running = "harness"
        self._since = time.perf_counter()

    def switch(self, name: str) -> None:
        """Wait until the device has finished its work, stop the running clock and start another one."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        self.seconds[self._running] += now - self._since
        self._running, self._since = name, now
