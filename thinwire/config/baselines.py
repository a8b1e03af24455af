"""Which lines of a figure are baselines, and are drawn thick and black."""

from thinwire.config.ablations import ablation
from thinwire.config.suite_schema import Suite


def baselines(suite: Suite) -> list[str]:
    """The baseline and its variants: every label of the module that the baseline uses (ssgd, ssgd_bf16).

    An ablation of that module is none of them.
    """
    module_of = {label: entry.use or label for label, entry in suite.methods.items()}
    module = module_of.get(suite.baseline, suite.baseline)
    variants = [
        label
        for label, entry in suite.methods.items()
        if module_of[label] == module and ablation(label, entry) is None
    ]
    return list(dict.fromkeys([suite.baseline, *variants]))
