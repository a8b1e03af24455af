"""The checkpoints of a run: when one is due, what it is for, and from which one the run goes on."""

from collections.abc import Callable
from pathlib import Path

from thinwire import checkpoint
from thinwire.train.trainer import Trainer


class RunCheckpoints:
    """Those of the workers of this process; all processes make them after the same steps."""

    def __init__(
        self, folder: Path, every_seconds: float, identity: dict[str, str], log: Callable[[str], None]
    ) -> None:
        """Describe them.

        Args:
            folder: where they lie.
            every_seconds: of training.
            identity: what they depend on: options, code and data.
            log: takes a line about each that cannot be used.
        """
        self._folder, self._every = folder, every_seconds
        self._identity, self._log = identity, log
        self._saved_at = 0.0
        self.interruptions = 0  # how often the run has gone on from one

    def resume(self, trainer: Trainer) -> bool:
        """Go on from the newest one that is sound on all ranks and has this identity; was there one?"""
        transport = trainer.transport
        own = checkpoint.sound(self._folder, warn=self._log)
        everybodys = transport.share([own for _ in transport.ranks])
        common = set.intersection(*map(set, everybodys))
        if not common:
            return False
        saved = checkpoint.load(self._folder, max(common))
        same = isinstance(saved, dict) and saved.get("identity") == self._identity
        if not all(transport.share([same for _ in transport.ranks])):
            self._log("the checkpoint is of other options or other code: training from the beginning")
            return False
        trainer.load(saved["trainer"])
        self.interruptions = saved["interruptions"] + 1
        return True

    def is_due(self, trainer: Trainer) -> bool:
        """Has the run trained long enough since the last one?"""
        return trainer.status.elapsed_seconds - self._saved_at >= self._every

    def save(self, trainer: Trainer) -> None:
        """Write one; the run goes on from it the next time."""
        state = {
            "identity": self._identity,
            "interruptions": self.interruptions,
            "trainer": trainer.state(),
        }
        checkpoint.save(self._folder, trainer.step, state)
        self._saved_at = trainer.status.elapsed_seconds
