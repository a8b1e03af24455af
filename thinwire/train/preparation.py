"""What a method's `prepare` is given."""

from dataclasses import dataclass
from typing import Any

from thinwire.method import Method
from thinwire.train.trainer import Task, Trainer


@dataclass(frozen=True)
class Job:
    """A preparation for one model, data set and seed, before any run of the method."""

    task: Task

    def trainer(self, method: type[Method], config: Any) -> Trainer:
        """A run of another method, ready for its first step, for instance to record what it does."""
        trainer = Trainer(self.task, method, config)
        trainer.setup()
        return trainer
