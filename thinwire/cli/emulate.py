"""`thinwire emulate SUITE CELL --cluster NAME`: `thinwire run` with another transport."""

from thinwire.cli.run import main

__all__ = ["main"]
