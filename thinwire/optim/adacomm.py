"""AdaComm: the number of steps between two exchanges, adapted to the training loss.

    interval = ceil(first interval * sqrt(highest lr / lr * loss / first loss))

Source: Wang & Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime Trade-off in
Local-Update SGD" (arXiv 1810.08313). The first loss is the loss at the start, before the first interval.

Deviation: the paper has the first learning rate in the formula, and its rate only falls. Here a rate may also
warm up. So the formula has the highest rate so far, of the start and the ends of epochs, and a warm-up of
whole epochs does not shorten the interval.
"""

import math


def interval(first: int, loss: float, first_loss: float, lr: float, highest_lr: float) -> int | None:
    """Return the next interval, in steps; None if one of the losses is zero, negative or not finite."""
    if not (0 < loss < math.inf and 0 < first_loss < math.inf):
        return None
    # Rounded first: rounding errors must not raise a whole number to the next one.
    return max(1, math.ceil(round(first * math.sqrt(highest_lr / lr * loss / first_loss), 9)))
