"""Which runs are at chance level: their accuracy is one that guessing reaches too."""

import pandas as pd

# Of the accuracy of guessing, over different sets of images. Guessing exceeds them once in 700 runs.
_STANDARD_DEVIATIONS = 3.0


def at_chance_level(runs: pd.DataFrame) -> pd.Series:
    """For each run: 1.0 if its accuracy is one that guessing reaches, else 0.0; missing if this is unknown.

    A guess among C classes is right with probability p = 1/C. Its accuracy on n images has the mean p and the
    standard deviation sqrt(p (1-p) / n), by the binomial distribution.

    Args:
        runs: with columns `classes`, `evaluated_images` and `test_accuracy_percent`.
    """
    chance = 1 / runs.classes
    deviation = (chance * (1 - chance) / runs.evaluated_images) ** 0.5
    highest_percent = 100 * (chance + _STANDARD_DEVIATIONS * deviation)
    at_chance = (runs.test_accuracy_percent <= highest_percent).astype(float)
    return at_chance.where(runs.test_accuracy_percent.notna() & highest_percent.notna())
