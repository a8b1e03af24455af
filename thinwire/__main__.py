"""`python -m thinwire`."""

from thinwire.cli.main import main

main()
