"""`thinwire`, also as `python -m thinwire`."""

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command that was given, and exit."""
    # During imports nothing is at stake, and an exception in one of them would be a page of frames.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)
    from thinwire.cli import main as command_line

    command_line.main()


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os.write(2, b"thinwire: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
