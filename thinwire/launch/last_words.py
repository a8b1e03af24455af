"""What the ranks of a run that went wrong have left, and what is made of it."""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

from thinwire.files import write_json
from thinwire.transport.agreement import first_difference


class LastWords(BaseModel):
    """Of one rank; or of somebody who has seen it end."""

    rank: int
    host: str
    step: int = 0  # steps that it has done
    doing: str = ""  # when it ended
    calls: dict[str, dict[str, str]] = {}  # its last calls, in words, by channel and number
    outcome: tuple[str, str] | None = None  # status and reason, of a failure of its own
    trouble: str | None = None  # something around the run that a person can mend
    died: str | None = None  # how its process ended, as its parent saw it
    alarm: str | None = None  # what made it raise the alarm
    lost: str | None = None  # why it could not go on without the others


def path_of(folder: Path, rank: int) -> Path:
    """Where the words of a rank lie."""
    return folder / f"rank{rank}.json"


def write(folder: Path, words: LastWords) -> None:
    """Leave them."""
    write_json(path_of(folder, words.rank), words.model_dump(mode="json"))


def read(folder: Path) -> list[LastWords]:
    """Those that were left, in the order of the ranks."""
    found = []
    for path in folder.glob("rank*.json"):
        try:
            found.append(LastWords.model_validate(json.loads(path.read_text())))
        except (OSError, ValueError, ValidationError):
            continue
    return sorted(found, key=lambda words: words.rank)


def diagnose(left: Sequence[LastWords]) -> tuple[str, str] | None:
    """Status and reason of the run, naming rank, host and cause; None if nobody left a word.

    A rank's own failure explains the others' troubles, then a process that died, then workers that do not
    agree, then who raised the alarm; that contact was lost says least.
    """
    for words in left:
        if words.outcome is not None:
            status, reason = words.outcome
            return status, f"{_who(words)}: {reason}"
    for words in left:
        if words.died is not None:
            where = f", which had done {words.step} steps," if words.step else ""
            return "failed", f"{_who(words)}{where} {words.died}"
    parted = _parted(left)
    if parted is not None:
        return "failed", parted
    for said in ("alarm", "lost"):
        for words in left:
            if getattr(words, said) is not None:
                return "failed", f"{_who(words)} says: {getattr(words, said)}"
    return None


def _parted(left: Sequence[LastWords]) -> str | None:
    """The first call on which the members of a channel did not agree."""
    channels = sorted({channel for words in left for channel in words.calls})
    for channel in channels:
        logs = {words.rank: words.calls[channel] for words in left if channel in words.calls}
        told = first_difference(logs)
        if told is not None:
            return f"the workers do not agree on run.{channel.split('/')[0]}: {told}"
    return None


def _who(words: LastWords) -> str:
    return f"rank {words.rank} on {words.host}"
