"""What the ranks of a run that went wrong have left, and what is made of it."""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

from thinwire.files import write_json
from thinwire.launch import black_box
from thinwire.transport.agreement import first_difference


class LastWords(BaseModel):
    """Of one rank; or of somebody who has seen it end."""

    rank: int
    host: str
    doing: str = ""  # when it ended
    calls: dict[str, dict[str, str]] = {}  # its last calls, in words, by channel and number
    outcome: tuple[str, str] | None = None  # status and reason, of a failure of its own
    trouble: str | None = None  # something around the run that a person can mend
    died: str | None = None  # how its process ended, as its parent saw it
    alarm: str | None = None  # what it has seen of the others, and raised the alarm
    vanished: bool = False  # it left no words, only its black box
    lost: str | None = None  # why it could not go on without the others


def path_of(folder: Path, rank: int) -> Path:
    """Where the words of a rank lie."""
    return folder / f"rank{rank}.json"


def black_box_of(folder: Path, rank: int) -> Path:
    """Where its black box lies."""
    return folder / f"rank{rank}.doing"


def write(folder: Path, words: LastWords) -> None:
    """Leave them."""
    write_json(path_of(folder, words.rank), words.model_dump(mode="json"))


def read(folder: Path) -> list[LastWords]:
    """Those of all ranks that had begun, in their order."""
    return [_of(folder, int(path.stem.removeprefix("rank"))) for path in sorted(folder.glob("rank*.doing"))]


def _of(folder: Path, rank: int) -> LastWords:
    node, doing = black_box.read(black_box_of(folder, rank))
    try:
        left = LastWords.model_validate(json.loads(path_of(folder, rank).read_text()))
    except (OSError, ValueError, ValidationError):
        return LastWords(rank=rank, host=node, doing=doing, vanished=True)
    return left.model_copy(update={"doing": doing})


def diagnose(left: Sequence[LastWords]) -> tuple[str, str] | None:
    """Status and reason of the run, naming rank, host and cause; None if nobody left a word.

    A rank's own failure explains the others' troubles, then a process that died, then workers that do not
    agree, then an alarm, then a rank that is gone; that contact was lost says least.
    """
    for words in left:
        if words.outcome is not None:
            status, reason = words.outcome
            return status, f"{_who(words)}: {reason}"
    told = (
        [f"{_who(words)} {words.died} while it {words.doing}" for words in left if words.died]
        or _parted(left)
        or [words.alarm for words in left if words.alarm]
        or [f"{_who(words)} is gone; it last {words.doing}" for words in left if words.vanished]
        or [f"{_who(words)} lost contact: {words.lost}" for words in left if words.lost]
    )
    return ("failed", told[0]) if told else None


def _parted(left: Sequence[LastWords]) -> list[str]:
    """The first call of a channel on which its members did not agree."""
    found = []
    for channel in sorted({channel for words in left for channel in words.calls}):
        logs = {words.rank: words.calls[channel] for words in left if channel in words.calls}
        if told := first_difference(logs):
            found.append(f"the workers do not agree on run.{channel.split('/')[0]}: {told}")
    return found


def _who(words: LastWords) -> str:
    return f"rank {words.rank} on {words.host}"
