"""The methods of a suite, with those for which its entry `'*'` stands."""

from thinwire import plugins
from thinwire.config.suite_schema import EVERY, Entry, Suite


def entries_of(suite: Suite) -> dict[str, Entry]:
    """All entries by label: the baseline, then the others in the order of the suite.

    `'*'` gives the rest, by name.
    """
    entries = {label: entry for label, entry in suite.methods.items() if label != EVERY}
    if EVERY in suite.methods:
        used = {entry.use or label for label, entry in entries.items()} | set(suite.leave_out)
        entries |= {name: Entry() for name in plugins.find("method") if name not in used}
    return dict(sorted(entries.items(), key=lambda item: item[0] != suite.baseline))
