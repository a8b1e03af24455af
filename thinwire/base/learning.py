"""What a model learns from a data set, and the score by which it is judged; without importing torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LearningTask:
    """Inputs, score and direction; everything that names a score takes its names from here."""

    name: str
    inputs: str
    """What a data set has, in the plural: batches count them, and files of arrays are named after them."""
    score: str
    """The score of the test set, as texts name it."""
    column: str
    """The score in names of columns, with its unit."""
    difference_column: str
    """A difference in names of columns."""
    difference_unit: str
    """The unit of a difference of two scores, as texts name it."""
    axis: str
    """The score with its unit, as axes and heads of tables name it."""
    higher_is_better: bool
    margin: float
    """Scores that differ by less than this are called equal; in the unit of differences."""

    @property
    def test_column(self) -> str:
        """The column of curves and records with the score of the test set."""
        return f"test_{self.column}"

    @property
    def best_column(self) -> str:
        """The column with the best score of a run, which was chosen on the test set."""
        return f"best_test_{self.column}"

    @property
    def sign(self) -> float:
        """What a difference is multiplied with, so that more is better."""
        return 1.0 if self.higher_is_better else -1.0

    def shown(self, score: float) -> str:
        """The score in a sentence: `accuracy 97.20 %`, or `2.774 bits per character`."""
        if self is CLASSIFICATION:
            return f"accuracy {score:.2f} %"
        return f"{score:.3f} bits per character"


CLASSIFICATION = LearningTask(
    name="classification",
    inputs="images",
    score="accuracy",
    column="accuracy_percent",
    difference_column="points",
    difference_unit="points",
    axis="accuracy, %",
    higher_is_better=True,
    margin=0.3,
)
NEXT_CHARACTER = LearningTask(
    name="next_character",
    inputs="windows",
    score="bits per character",
    column="bits_per_character",
    difference_column="bits_per_character",
    difference_unit="bits",
    axis="bits per character",
    higher_is_better=False,
    margin=0.02,
)
TASKS = {task.name: task for task in (CLASSIFICATION, NEXT_CHARACTER)}
