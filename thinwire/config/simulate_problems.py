"""What is wrong with the key `simulate` of a suite, beyond its form."""

from collections.abc import Iterator

from thinwire.config import cluster_file, profile_file
from thinwire.config.suite_schema import Simulate, Suite
from thinwire.errors import UserError


def simulate_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each cluster or profile that is not valid, and for workers that have no room.

    Methods with batches of their own are refused, too: their steps cannot be brought to one speed.
    """
    settings = suite.simulate
    if settings is None:
        return
    for name in settings.clusters:
        try:
            cluster = cluster_file.load(name)
            for workers in numbers_of_workers(settings, suite):
                cluster.spread(workers)
        except UserError as error:
            yield f"simulate.clusters: {error}"
    for name in settings.profiles:
        try:
            if name != profile_file.HERE:
                profile_file.load(name)
        except UserError as error:
            yield f"simulate.profiles: {error}"
    for label, entry in suite.methods.items():
        if entry.batch is not None:
            yield f"simulate: {label} has a batch of its own; move it to a suite without simulated times"


def numbers_of_workers(settings: Simulate, suite: Suite) -> list[int]:
    """With how many workers a suite is simulated."""
    return settings.workers or sorted({size.workers for size in suite.workers})
