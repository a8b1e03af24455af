"""Has the training loss stopped falling?"""

import math
from typing import Any

from .options import Options


def is_plateau(loss: float, memory: dict[str, Any], config: Options) -> bool:
    """True after more than `patience` epochs whose losses were no better than the best one before."""
    # Better is also further below zero, where a model's loss can be negative.
    threshold = math.copysign(config.plateau_threshold, memory["best_loss"])
    if loss < memory["best_loss"] * (1 - threshold):
        memory["best_loss"], memory["bad_epochs"] = loss, 0
        return False
    memory["bad_epochs"] += 1
    if memory["bad_epochs"] > config.patience:
        memory["bad_epochs"] = 0
        return True
    return False
