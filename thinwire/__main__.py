"""`thinwire`, also as `python -m thinwire`."""

from thinwire.base.signals import interrupts_ending_at_once


def main() -> None:
    """Run the command that was given, and exit."""
    with interrupts_ending_at_once():
        from thinwire.cli import main as command_line
    command_line.main()


if __name__ == "__main__":
    main()
