"""What is wrong with the key `ladder` of a suite, beyond its form."""

from collections.abc import Iterator

from thinwire.config.suite_methods import entries_of
from thinwire.config.suite_schema import Suite
from thinwire.label import nearest


def ladder_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each label that is not in the suite, and for a suite without times."""
    methods = list(entries_of(suite))
    for label in suite.ladder:
        if label not in methods:
            yield f"ladder: the suite has no method {label!r}; the nearest is {nearest(label, methods)}"
    if suite.ladder and suite.transport == "inprocess" and suite.simulate is None:
        yield "ladder: it needs times: set transport to processes or emulated, or add the key simulate"
