"""The checkpoints of a run: when one is due, what it belongs to, and from which one the run resumes."""

from collections.abc import Callable
from pathlib import Path

from thinwire import checkpoint
from thinwire.train.trainer import Trainer


class RunCheckpoints:
    """The checkpoints of the workers in this process. All processes save theirs after the same steps."""

    def __init__(
        self,
        folder: Path,
        every_seconds: float,
        identity: dict[str, str],
        log: Callable[[str], None],
        doing: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Describe the checkpoints.

        Args:
            folder: that holds them.
            every_seconds: of training a checkpoint is due.
            identity: of the options, the code and the data that they depend on.
            log: is called with a line about each checkpoint that cannot be used.
            doing: is called with a description of what takes long.
        """
        self._folder, self._every = folder, every_seconds
        self._identity, self._log, self._doing = identity, log, doing
        self._saved_at = 0.0
        self.interruptions = 0  # how often the run has resumed from a checkpoint

    def resume(self, trainer: Trainer) -> bool:
        """Resume from the newest checkpoint that is sound on all ranks; False if none has this identity."""
        transport = trainer.transport
        self._doing("reads its checkpoints")
        own = checkpoint.sound(self._folder, warn=self._log)
        of_all_ranks = transport.share([own for _ in transport.ranks])
        common = set.intersection(*map(set, of_all_ranks))
        if not common:
            return False
        self._doing("reads its checkpoints")
        saved = checkpoint.load(self._folder, max(common))
        same = isinstance(saved, dict) and saved.get("identity") == self._identity
        if not all(transport.share([same for _ in transport.ranks])):
            self._log("the checkpoint was made with other options or other code: training from the beginning")
            return False
        trainer.load(saved["trainer"])
        self.interruptions = saved["interruptions"] + 1
        return True

    def is_due(self, trainer: Trainer) -> bool:
        """Is a stop asked for, or has the run trained long enough since the last one?

        Only an exchange of status tells. After the last step it is too late for both.
        """
        if trainer.step == trainer.total_steps or not trainer.status_is_new:
            return False
        return bool(trainer.status.stop) or trainer.status.elapsed_seconds - self._saved_at >= self._every

    def save(self, trainer: Trainer) -> None:
        """Save a checkpoint, from which the next attempt resumes."""
        state = {
            "identity": self._identity,
            "interruptions": self.interruptions,
            "trainer": trainer.state(),
        }
        self._doing("saves a checkpoint")
        checkpoint.save(self._folder, trainer.step, state)
        self._doing("computes")
        self._saved_at = trainer.status.elapsed_seconds
