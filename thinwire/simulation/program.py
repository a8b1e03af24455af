"""A program: the operations of one role, step by step, in the form that the simulation computes with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thinwire.errors import UserError
from thinwire.schedule.operations import Compute, Post, Step, Wait
from thinwire.trace.recorder import HARNESS

Seconds = Callable[[Compute], float]
HandOverSeconds = Callable[[Post], float]


@dataclass(frozen=True, slots=True)
class Work:
    """The worker computes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HandOver:
    """The worker hands over its next call on a channel, and goes on."""

    channel: str
    verb: str
    partner: int
    ragged: bool
    push_bytes: int
    pull_bytes: int
    server_seconds: float


@dataclass(frozen=True, slots=True)
class Await:
    """The worker waits for one of its calls, which are counted from 0 through the whole program."""

    call: int


Operation = Work | HandOver | Await
Program = list[list[Operation]]


def costs_nothing(post: Post) -> float:
    """Handing a call over takes no time that is known."""
    return 0.0


def program_of(
    steps: Sequence[Step],
    seconds: Seconds,
    hand_over_seconds: HandOverSeconds = costs_nothing,
    length: int | None = None,
) -> Program:
    """Turn the steps of a schedule into a program of any length.

    The steps are repeated in turn. Of what the harness does, only the beginning of a step is
    counted, where it makes a batch. Evaluations and records are no part of a step's time.

    Args:
        steps: of the schedule.
        seconds: how long a computation takes.
        hand_over_seconds: how long it takes to hand a call over.
        length: the number of steps; the default is one round.

    Raises:
        UserError: there is nothing to repeat.
    """
    if not steps:
        raise UserError("a schedule has no steps to repeat: record more steps")
    posts = [operation.call for step in steps for operation in step if isinstance(operation, Post)]
    # Calls that were handed over before the first step have counterparts in the round before.
    place = {call: number for number, call in enumerate(posts)}
    awaited = {operation.call for step in steps for operation in step if isinstance(operation, Wait)}
    before = sorted(awaited - place.keys())
    after = [call for call in posts if call not in awaited]
    place |= {old: place[new] - len(posts) for old, new in zip(before[::-1], after[::-1])}
    program: Program = []
    for number in range(len(steps) if length is None else length):
        turn, index = divmod(number, len(steps))
        program.append(_step(steps[index], seconds, hand_over_seconds, place, turn * len(posts)))
    return program


def _step(
    step: Step, seconds: Seconds, hand_over_seconds: HandOverSeconds, place: dict[int, int], earlier: int
) -> list[Operation]:
    made: list[Operation] = []
    begun = False
    for operation in step:
        if isinstance(operation, Compute):
            if operation.kind == HARNESS and begun:
                continue
            begun = begun or operation.kind != HARNESS
            _add_work(made, seconds(operation))
        elif isinstance(operation, Post):
            _add_work(made, hand_over_seconds(operation))
            made.append(
                HandOver(
                    operation.channel,
                    operation.verb,
                    operation.partner,
                    operation.ragged,
                    operation.sent_bytes,
                    operation.received_bytes if operation.verb == "push_pull" else 0,
                    operation.server_seconds,
                )
            )
        else:
            call = place.get(operation.call)
            # In the first round, there is nothing to wait for.
            if call is not None and call + earlier >= 0:
                made.append(Await(call + earlier))
    return made


def _add_work(made: list[Operation], seconds: float) -> None:
    """Add work, as one operation with the work just before it."""
    if made and isinstance(made[-1], Work):
        seconds += made.pop().seconds  # type: ignore[union-attr]
    if seconds:
        made.append(Work(seconds))
