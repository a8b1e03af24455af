"""What a run has measured: its result, its traffic and its seconds, and the columns of its tables."""

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from thinwire.base.learning import TASKS, LearningTask

BYTES = (
    "payload_push_bytes",
    "payload_pull_bytes",
    "wire_sent_bytes",
    "wire_received_bytes",
    "between_nodes_bytes",
    "wire_sent_max_bytes",
    "wire_received_max_bytes",
)


def curve_columns(task: LearningTask) -> pa.Schema:
    """The columns of a curve, without those of the method."""
    return pa.schema(
        [("step", pa.int64()), ("epoch", pa.int64()), ("samples", pa.int64())]
        + [(name, pa.float64()) for name in ("lr", "train_loss", "test_loss", task.test_column, *BYTES)]
        + [(f"{clock}_seconds", pa.float64()) for clock in ("train", "eval", "harness")]
    )


TRAFFIC_COLUMNS = pa.schema(
    [("step", pa.int64()), ("epoch", pa.int64())]
    + [(name, pa.string()) for name in ("channel", "verb", "kind")]
    + [(name, pa.float64()) for name in ("messages", *BYTES)]
)


class Schema(BaseModel):
    """Unknown keys are refused, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Traffic(Schema):
    """Bytes: means over the workers; those whose name has `max` are of the worker with the most."""

    payload_push_bytes: float = Field(ge=0)
    payload_pull_bytes: float = Field(ge=0)
    wire_sent_bytes: float = Field(ge=0)
    wire_received_bytes: float = Field(ge=0)
    between_nodes_bytes: float = Field(ge=0)
    wire_sent_max_bytes: float = Field(ge=0)
    wire_received_max_bytes: float = Field(ge=0)

    @classmethod
    def sum(cls, parts: Sequence[Mapping[str, float]]) -> "Traffic":
        """The sum of the traffic of several runs."""
        return cls(**{name: sum((float(part[name]) for part in parts), start=0.0) for name in BYTES})


class Cost(Schema):
    """The cost of a preparation, on the machine on which it ran."""

    seconds: float = Field(ge=0)
    traffic: Traffic


class Partition(Schema):
    """How the training inputs were divided among the workers; see `thinwire.data.partition`."""

    sha256: str
    divergence: float = Field(ge=0, le=1)
    fewest_inputs: int = Field(ge=1)  # of a worker
    most_inputs: int = Field(ge=1)


class Seconds(Schema):
    """The three clocks, in seconds (see `thinwire.train.clock`)."""

    train: float = Field(ge=0)
    eval: float = Field(ge=0)
    harness: float = Field(ge=0)


# The columns of all tasks, of which a result has those of its own.
SCORES = [column for task in TASKS.values() for column in (task.test_column, task.best_column)]


class Result(Schema):
    """The result at the end of the run; if the run did not reach its end, at its last evaluation."""

    steps: int = Field(ge=0)
    # Of classification only. The best is chosen on the test set, so it is never a headline.
    test_accuracy_percent: float | None = Field(default=None, ge=0, le=100)
    test_loss: float | None  # None: not finite
    best_test_accuracy_percent: float | None = Field(default=None, ge=0, le=100)
    # Of next characters only.
    test_bits_per_character: float | None = Field(default=None, ge=0)  # None there: not finite
    best_test_bits_per_character: float | None = Field(default=None, ge=0)
    metrics: dict[str, float | None] = {}  # of the method, last values by name; None: not finite
    traffic: Traffic
    seconds: Seconds

    @model_serializer(mode="wrap")
    def _without_scores_of_other_tasks(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {key: value for key, value in dump(self).items() if key not in SCORES or value is not None}


def result_of(curve: Sequence[Mapping[str, float]], task: LearningTask) -> Result | None:
    """Return the result that the last row of the curve contains; None if there was no evaluation."""
    if not curve:
        return None
    last = curve[-1]
    scores = [row[task.test_column] for row in curve]
    return Result(
        steps=int(last["step"]),
        test_loss=_finite(last["test_loss"]),
        metrics={
            name.removeprefix("method/"): _finite(value)
            for name, value in last.items()
            if name.startswith("method/")
        },
        traffic=Traffic(**{name: float(last[name]) for name in BYTES}),
        seconds=Seconds(**{clock: last[f"{clock}_seconds"] for clock in ("train", "eval", "harness")}),
        **{task.test_column: _finite(scores[-1]), task.best_column: _best(scores, task)},
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _best(scores: Sequence[float], task: LearningTask) -> float | None:
    """The best of the finite ones."""
    finite = [score for score in scores if math.isfinite(score)]
    return (max if task.higher_is_better else min)(finite, default=None)
