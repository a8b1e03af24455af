"""Decides from what all ranks say of themselves whether a run must be ended."""

from collections.abc import Sequence
from typing import NamedTuple


class Beat(NamedTuple):
    """What a rank says of itself."""

    rank: int
    node: str
    number: int  # of the beat: goes up as long as the process lives
    moves: int  # goes up as long as its worker gets on
    doing: str


class HangDetector:
    """Remembers when each rank was last heard of, and when anything last moved."""

    def __init__(self, silent_seconds: float, hang_seconds: float, paused_seconds: float) -> None:
        """Begin.

        Args:
            silent_seconds: a rank that is not heard of for so long is lost.
            hang_seconds: a run in which no rank moves for so long hangs.
            paused_seconds: who has not judged for so long was stopped itself, as its machine may have been.
        """
        self._silent_seconds, self._hang_seconds = silent_seconds, hang_seconds
        self._paused_seconds = paused_seconds
        self._judged = 0.0
        self._heard: dict[int, tuple[int, float]] = {}  # number of the last beat, and when it came
        self._moved: tuple[list[int], float] = ([], 0.0)

    def check(self, beats: Sequence[Beat], now: float) -> dict[str, str]:
        """Why the run must be ended, as fields of an exit report; nothing if it goes on."""
        paused = now - self._judged > self._paused_seconds
        self._judged = now
        if paused:
            # The others may have been stopped as long: all clocks begin anew.
            self._heard = {rank: (number, now) for rank, (number, _) in self._heard.items()}
            self._moved = (self._moved[0], now)
        for beat in beats:
            if self._heard.get(beat.rank, (None,))[0] != beat.number:
                self._heard[beat.rank] = (beat.number, now)
        moves = [beat.moves for beat in beats]
        if moves != self._moved[0]:
            self._moved = (moves, now)
        silent = [beat for beat in beats if now - self._heard[beat.rank][1] > self._silent_seconds]
        if silent:
            names = ", ".join(f"rank {beat.rank} on {beat.node}" for beat in silent)
            return {"alarm": f"{names} has not been heard of for {self._silent_seconds:.0f} s"}
        if beats and now - self._moved[1] > self._hang_seconds:
            return {"hung": standing_still(beats, self._hang_seconds)}
        return {}


def standing_still(beats: Sequence[Beat], seconds: float) -> str:
    """Who is to blame that nothing moves: those who do not wait, if others do."""
    busy = [beat for beat in beats if not beat.doing.startswith("waits")]
    blamed = busy or beats
    told = "; ".join(f"rank {beat.rank} on {beat.node} {beat.doing}" for beat in blamed)
    others = ", and the others wait" if 0 < len(busy) < len(beats) else ""
    return f"nothing has moved for {seconds:.0f} s: {told}{others}"
