"""AdaComm: how many steps to leave between two exchanges, from how far the training loss has fallen.

    interval = ceil(first interval * sqrt(first lr / lr * loss / first loss))

Source: Wang & Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime Trade-off in
Local-Update SGD" (arXiv 1810.08313).
"""

import math


def interval(first: int, loss: float, first_loss: float, lr: float, first_lr: float) -> int | None:
    """The next interval, in steps; None where the losses give none: zero, negative or not finite."""
    if not (0 < loss < math.inf and 0 < first_loss < math.inf):
        return None
    # Rounded first: what is meant to be a whole number must not become the next one.
    return math.ceil(round(first * math.sqrt(first_lr / lr * loss / first_loss), 9))
