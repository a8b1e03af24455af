"""Which entries of a suite are ablations of their module, and therefore no baselines."""

from thinwire import plugins
from thinwire.config.suite_schema import Entry


def ablation(label: str, entry: Entry) -> dict[str, object] | None:
    """The set of options that makes the entry with this label an ablation of its method, or None.

    It is one of the sets in `Method.ablations`. This does not run the method's code.
    """
    plugin = plugins.find("method").get(entry.use or label)
    declared = (plugin.literal("ablations") if plugin else None) or []
    return next((options for options in declared if options.items() <= entry.options.items()), None)
