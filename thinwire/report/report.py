"""Tables and figures of one suite, made from the collected files only."""

from pathlib import Path

from thinwire.config.suite import Suite, load
from thinwire.report import figures, tables
from thinwire.report.collect import read_curves, read_summary


def report(suite: str, results: Path) -> None:
    """Write `results/tables/SUITE/` and `results/figures/SUITE/`."""
    settings = load(suite)
    runs = read_summary(results, suite)
    curves = read_curves(results, suite)
    table = tables.summarise(runs, settings.baseline)
    about = tables.About(settings.title, settings.evaluate_on, settings.baseline)
    tables.write(table, about, results / "tables" / suite)
    figures.write(curves, results / "figures" / suite, _baselines(settings))


def _baselines(settings: Suite) -> list[str]:
    """The baseline and its variants: every label of the module that the baseline uses (ssgd, ssgd_bf16)."""
    module_of = {label: entry.use or label for label, entry in settings.methods.items()}
    module = module_of.get(settings.baseline, settings.baseline)
    variants = [label for label, used in module_of.items() if used == module]
    return list(dict.fromkeys([settings.baseline, *variants]))
