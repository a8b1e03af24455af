"""Decides from the heartbeats of all ranks whether a run must be ended."""

from collections.abc import Sequence
from typing import NamedTuple

# What a rank does that waits for the disk, and not for a method, begins with one of these words.
_DISK = ("reads", "saves")


class Beat(NamedTuple):
    """The heartbeat of a rank."""

    rank: int
    node: str
    number: int  # rises with every beat, as long as the process lives
    moves: int  # rises with every action of its worker
    doing: str


class HangDetector:
    """Remembers when each rank last sent a new beat, and when any worker last made progress."""

    def __init__(self, silent_seconds: float, hang_seconds: float, paused_seconds: float) -> None:
        """Set the limits.

        Args:
            silent_seconds: a rank is lost if it sends no new beat for so long.
            hang_seconds: the run hangs if no worker makes progress for so long.
            paused_seconds: if `check` was not called for so long, this process was stopped itself.
        """
        self._silent_seconds, self._hang_seconds = silent_seconds, hang_seconds
        self._paused_seconds = paused_seconds
        self._checked_at = 0.0
        # For each rank, the number of its last new beat, and when it arrived.
        self._last_beats: dict[int, tuple[int, float]] = {}
        # The moves of all ranks when one of them last changed, and when that was.
        self._last_moves: tuple[list[int], float] = ([], 0.0)

    def check(self, beats: Sequence[Beat], now: float) -> dict[str, str]:
        """Why the run must be ended, as fields of an exit report; empty if it goes on."""
        paused = now - self._checked_at > self._paused_seconds
        self._checked_at = now
        if paused:
            # The other ranks may have been stopped as well, so all waiting times begin anew.
            self._last_beats = {rank: (number, now) for rank, (number, _) in self._last_beats.items()}
            self._last_moves = (self._last_moves[0], now)
        for beat in beats:
            if self._last_beats.get(beat.rank, (None,))[0] != beat.number:
                self._last_beats[beat.rank] = (beat.number, now)
        moves = [beat.moves for beat in beats]
        if moves != self._last_moves[0]:
            self._last_moves = (moves, now)
        silent = [beat for beat in beats if now - self._last_beats[beat.rank][1] > self._silent_seconds]
        if silent:
            names = ", ".join(f"rank {beat.rank} on {beat.node}" for beat in silent)
            return {"alarm": f"{names} has not been heard of for {self._silent_seconds:.0f} s"}
        if beats and now - self._last_moves[1] > self._hang_seconds:
            return describe_hang(beats, self._hang_seconds)
        return {}


def describe_hang(beats: Sequence[Beat], seconds: float) -> dict[str, str]:
    """Describe which ranks block a run: those that do not wait, if any; otherwise all.

    Returns:
        `hung` with the description; if the disk blocks the run, `trouble` with what to do as well.
    """
    busy = [beat for beat in beats if not beat.doing.startswith("waits")]
    blocking = busy or beats
    described = "; ".join(f"rank {beat.rank} on {beat.node} {beat.doing}" for beat in blocking)
    others = ", and the others wait" if 0 < len(busy) < len(beats) else ""
    text = f"nothing has moved for {seconds:.0f} s: {described}{others}"
    if not all(beat.doing.startswith(_DISK) for beat in blocking):
        return {"hung": text}
    advice = "see whether the file system answers, or raise hang_seconds of the suite, and start again"
    return {"trouble": f"{text}: {advice}; a run goes on from its last checkpoint"}
