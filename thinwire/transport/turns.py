"""Greenlets that take turns.

Each one is used for many turns, because each new one maps memory for its stack.
"""

from greenlet import getcurrent, greenlet


def ready_greenlet() -> greenlet:
    """Return a greenlet that runs the functions that are switched to it, one after the other.

    A switch to it returns True when the function has returned. It returns False if the function lets others
    run first; then the next switch continues it. An error of the function ends the greenlet.
    """
    made = greenlet(_take_turns)
    made.switch()
    return made


def _take_turns() -> None:
    while True:
        turn = getcurrent().parent.switch(True)
        turn()
        del turn  # Until the next turn, nothing that belongs to this one is kept alive.


def let_others_run() -> bool:
    """Interrupt this turn until the next switch to it; return False at once outside any turn."""
    hub = getcurrent().parent
    if hub is None:
        return False
    hub.switch(False)
    return True
