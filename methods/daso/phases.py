"""Warm-up, cycling, cool-down: after every epoch the interval and the wait of the next.

The interval B (`skips`) is the number of steps between two exchanges of the nodes; 0 makes every step
blocking. The wait S is the number of steps between sending and merging.
"""

from typing import Any

from .options import Options
from .plateau import is_plateau

BLOCKING = 0, 0


def of_first_epoch(config: Options) -> tuple[int, int]:
    """(B, S) of the first epoch."""
    # Published: it is blocking even without a warm-up, if B and S follow the loss.
    if config.warmup_epochs == 0 and (config.control == "corrected" or config.fixed_skips is not None):
        return start_of_cycling(config)
    return BLOCKING


def start_of_cycling(config: Options) -> tuple[int, int]:
    """(B, S) after the warm-up."""
    if config.fixed_skips is not None and config.fixed_wait is not None:
        return config.fixed_skips, config.fixed_wait
    if config.control == "published":
        return 4, 1
    skips = min(4, config.max_skips)
    return skips, max(1, skips // 4)


def after_epoch(
    epoch: int, epochs: int, loss: float, memory: dict[str, Any], config: Options
) -> tuple[int, int]:
    """(B, S) after the epoch with this number, which counts from 1, and this mean training loss."""
    skips, wait = memory["skips"], memory["wait"]
    if epoch < config.warmup_epochs or epoch >= epochs - config.cooldown_epochs:
        return BLOCKING
    if config.fixed_skips is not None:
        return start_of_cycling(config)
    if epoch == config.warmup_epochs:
        skips, wait = start_of_cycling(config)
    if is_plateau(loss, memory, config) and skips > 0:
        return shortened(skips, wait, config)
    return skips, wait


def shortened(skips: int, wait: int, config: Options) -> tuple[int, int]:
    """(B, S) after a plateau: half the interval, or the longest again."""
    if skips > 1:
        # Never 0; published: after 0 comes -1.
        return skips // 2, wait - 1 or 1
    wait = config.max_skips // 4
    return config.max_skips, max(1, wait) if config.control == "corrected" else wait
