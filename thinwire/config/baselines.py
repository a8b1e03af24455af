"""Which lines of a figure are baselines, and are drawn thick and black."""

from thinwire.config.suite_schema import Suite


def baselines(suite: Suite) -> list[str]:
    """The baseline and its variants: every label of the module that the baseline uses (ssgd, ssgd_bf16)."""
    module_of = {label: entry.use or label for label, entry in suite.methods.items()}
    module = module_of.get(suite.baseline, suite.baseline)
    variants = [label for label, used in module_of.items() if used == module]
    return list(dict.fromkeys([suite.baseline, *variants]))
