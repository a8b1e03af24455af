"""What a model learns from a data set, and the score by which it is judged; without importing torch.

Whatever names a score takes its names, units and direction from here: columns, tables, figures and sentences.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Unit(NamedTuple):
    """The unit of differences of scores."""

    name: str
    digits: int
    """After the point, in sentences and tables."""


@dataclass(frozen=True)
class LearningTask:
    """What is learned. Inside the engine a score has neutral names; files have those of `columns`."""

    name: str
    inputs: str
    """What a data set has, in the plural: batches count them, and files of arrays are named after them."""
    metric: str
    """The score in names of files, and as the metric of claims."""
    score: str
    """The score in sentences."""
    scores: str
    """Several of them."""
    score_unit: str
    """The unit that follows a score; empty if its name has the unit."""
    gain: str
    """A difference that favours a method if it is positive, as axes have it; with the field `against`."""
    unit: Unit
    higher_is_better: bool
    margin: float
    """Differences below this are negligible; in the unit."""
    columns: Mapping[str, str]
    """The names that columns have in files, by those that they have in the engine."""

    @property
    def test_column(self) -> str:
        """The column of curves and records with the score of the test set."""
        return self.columns["score"]

    @property
    def best_column(self) -> str:
        """The column with the best score of a run, which was chosen on the test set."""
        return self.columns["best_score"]

    @property
    def axis(self) -> str:
        """The score with its unit, as axes and heads of tables have it."""
        return self.score_with_unit(self.score)

    def score_with_unit(self, words: str) -> str:
        """These words about the score, and its unit if they lack it: `best accuracy, %`."""
        return f"{words}, {self.score_unit}" if self.score_unit else words

    @property
    def sign(self) -> float:
        """What a difference is multiplied with, so that more is better."""
        return 1.0 if self.higher_is_better else -1.0

    def shown(self, score: float) -> str:
        """The score in a sentence: `accuracy 97.20 %`, or `2.774 bits per character`."""
        text = f"{score:.{self.unit.digits}f}"
        return f"{self.score} {text} {self.score_unit}" if self.score_unit else f"{text} {self.score}"

    def target(self, score: float, share: float) -> float:
        """A score that is not quite as good: a share of an accuracy, or bits that these are a share of."""
        return score * share if self.higher_is_better else score / share

    def target_of(self, baseline: str, share: float) -> str:
        """The target in a sentence, of a baseline's mean score at the end."""
        if self.higher_is_better:
            return f"{100 * share:g} % of the mean {self.score} of {baseline} at the end"
        return f"the mean {self.score} of {baseline} at the end, divided by {share:g}"


CLASSIFICATION = LearningTask(
    name="classification",
    inputs="images",
    metric="accuracy",
    score="accuracy",
    scores="accuracies",
    score_unit="%",
    gain="accuracy minus that of {against}, points",
    unit=Unit("points", 2),
    higher_is_better=True,
    margin=0.3,
    columns={
        "score": "test_accuracy_percent",
        "best_score": "best_test_accuracy_percent",
        "score_mean": "accuracy_mean_percent",
        "score_sd": "accuracy_sd_percent",
        "gain_mean": "difference_mean_points",
        "gain_sd": "difference_sd_points",
        "gain_low": "difference_low_points",
        "gain_high": "difference_high_points",
        "margin": "margin_points",
        "detectable": "detectable_points",
        "target_score": "target_accuracy_percent",
        "tuned_score": "accuracy_percent",
    },
)
NEXT_CHARACTER = LearningTask(
    name="next_character",
    inputs="windows",
    metric="bits_per_character",
    score="bits per character",
    scores="bits per character",
    score_unit="",
    gain="bits per character below those of {against}",
    unit=Unit("bits", 3),
    higher_is_better=False,
    margin=0.02,
    columns={
        "score": "test_bits_per_character",
        "best_score": "best_test_bits_per_character",
        "score_mean": "bits_per_character_mean",
        "score_sd": "bits_per_character_sd",
        "gain_mean": "gain_mean_bits",
        "gain_sd": "gain_sd_bits",
        "gain_low": "gain_low_bits",
        "gain_high": "gain_high_bits",
        "margin": "margin_bits",
        "detectable": "detectable_bits",
        "target_score": "target_bits_per_character",
        "tuned_score": "bits_per_character",
    },
)
TASKS = {task.name: task for task in (CLASSIFICATION, NEXT_CHARACTER)}


def bits(nats: float) -> float:
    """An entropy in bits."""
    return nats / math.log(2)
