"""Whose preparation the method of a cell uses: the key `prepare_from` of its entry."""

from collections.abc import Mapping, Sequence

from thinwire import plugins
from thinwire.config.cell import PreparingCell
from thinwire.config.suite_schema import Entry, PrepareFrom, Suite
from thinwire.config.types import Module
from thinwire.label import nearest


def preparing_cell(
    named: PrepareFrom | None, dataset: Module, repetition: int, datasets: Sequence[Module]
) -> PreparingCell | None:
    """The cell that the preparation of a cell is made for, or None if that is the cell itself.

    Args:
        named: `prepare_from` of the cell's method.
        dataset: of the cell.
        repetition: of the cell.
        datasets: of the suite, with the named one.
    """
    if named is None:
        return None
    by_label = {module.label: module for module in datasets}
    return PreparingCell(
        data=dataset if named.dataset is None else by_label[named.dataset],
        repetition=repetition if named.seed is None else named.seed,
    )


def prepared_from(suite: Suite) -> dict[str, str]:
    """Where the preparations of methods with `prepare_from` come from, in words, by label."""
    found = {}
    for label, entry in suite.methods.items():
        if (named := entry.prepare_from) is not None:
            seed = [] if named.seed is None else [f"seed{named.seed}"]
            found[label] = ", ".join([*([named.dataset] if named.dataset else []), *seed])
    return found


def prepare_from_problems(suite: Suite, entries: Mapping[str, Entry]) -> list[str]:
    """What is wrong with the entries' `prepare_from`, in a sentence each.

    Args:
        suite: that the entries are in.
        entries: of the methods, by label.
    """
    found = []
    for label, entry in entries.items():
        named, where = entry.prepare_from, f"methods.{label}.prepare_from"
        if named is None:
            continue
        plugin = plugins.find("method").get(entry.use or label)
        if plugin is not None and not plugin.defines("prepare"):
            found.append(f"{where}: the method {plugin.name} has no preparation: remove this key")
        if named.dataset is not None and named.dataset not in suite.datasets:
            found.append(
                f"{where}.dataset: {named.dataset!r} is no data set of this suite: the nearest is "
                f"{nearest(named.dataset, suite.datasets)}"
            )
        if named.seed is not None and named.seed >= suite.repetitions:
            found.append(
                f"{where}.seed: {named.seed} is no repetition of this suite: the last is "
                f"{suite.repetitions - 1}"
            )
    return found
