"""`thinwire simulate SUITE`."""

import sys
from argparse import Namespace

from pydantic import ValidationError

from thinwire.config import grid_subset
from thinwire.config.expand_suite import require_valid
from thinwire.config.suite import load
from thinwire.config.suite_schema import Simulate
from thinwire.errors import UserError
from thinwire.options import problems
from thinwire.simulation.simulated_file import write
from thinwire.simulation.suite_times import described, simulate_suite
from thinwire.suggested_command import suggested_command


def main(arguments: Namespace) -> int:
    """Simulate every method of a suite, and write and print its times."""
    require_valid(arguments.suite)
    declared = load(arguments.suite).simulate
    settings = _settings(arguments, declared)
    subset = grid_subset.of_words(arguments.only)
    warnings: list[str] = []
    results = arguments.results.absolute()
    rows = simulate_suite(arguments.suite, results, settings, subset, print_line, warnings.append)
    path = write(rows, arguments.results, arguments.suite)
    print("\n".join(described(rows)))
    print(path)
    for warning in dict.fromkeys(warnings):
        print(f"{warning}.", file=sys.stderr)
    if declared not in (None, settings):
        again = suggested_command("simulate", arguments.suite, results=arguments.results)
        print(
            f"These are other times than config/{arguments.suite}.yaml asks for: {again} makes those.",
            file=sys.stderr,
        )
    return 0


def print_line(line: str) -> None:
    """Print a line about the progress, without a delay."""
    print(line, flush=True)


def _settings(arguments: Namespace, declared: Simulate | None) -> Simulate:
    """What to simulate: as the suite declares it, unless the arguments say something else.

    Raises:
        UserError: neither names a cluster, or a number is impossible.
    """
    given: dict[str, object] = {} if declared is None else declared.model_dump()
    chosen = {"clusters": arguments.cluster, "profiles": arguments.profile, "workers": arguments.workers}
    given |= {name: value for name, value in chosen.items() if value}
    if arguments.steps is not None:
        given["steps"] = arguments.steps
    if not given.get("clusters"):
        raise UserError(
            f"config/{arguments.suite}.yaml has no `simulate:`: name a cluster of config/clusters/ with "
            "--cluster NAME"
        )
    try:
        return Simulate.model_validate(given)
    except ValidationError as error:
        raise UserError("; ".join(problems(error))) from None
