"""The entries of a suite: which methods there are, which are ablations or baselines, and what is learned."""

from collections.abc import Collection, Mapping

from thinwire import plugins
from thinwire.base.learning import CLASSIFICATION, TASKS, LearningTask
from thinwire.config.entry_schema import EVERY, Entry
from thinwire.config.suite_schema import Suite
from thinwire.config.yaml_file import Module


def modules_of(entries: Mapping[str, Entry]) -> list[Module]:
    return [Module(label, entry.use or label, entry.options) for label, entry in entries.items()]


def entries_of(suite: Suite) -> dict[str, Entry]:
    """All entries by label: the baseline, then the others in the order of the suite.

    `'*'` gives the rest, by name.
    """
    entries = {label: entry for label, entry in suite.methods.items() if label != EVERY}
    if EVERY in suite.methods:
        used = {entry.use or label for label, entry in entries.items()} | set(suite.leave_out)
        entries |= {name: Entry() for name in plugins.find("method") if name not in used}
    return dict(sorted(entries.items(), key=lambda item: item[0] != suite.baseline))


def added_later(suite: Suite, ran: Collection[str]) -> list[str]:
    """The modules that only `'*'` names and that are not in `ran`, the labels of the methods with runs."""
    return [label for label in entries_of(suite) if label not in suite.methods and label not in ran]


def as_it_ran(suite: Suite, ran: Collection[str]) -> Suite:
    """The suite without the modules that were added after its runs, as `added_later` finds them."""
    return suite.model_copy(update={"leave_out": [*suite.leave_out, *added_later(suite, ran)]})


def ablation(label: str, entry: Entry) -> dict[str, object] | None:
    """The set of options that makes the entry with this label an ablation of its method, or None.

    It is one of the sets in `Method.ablations`. This does not run the method's code.
    """
    plugin = plugins.find("method").get(entry.use or label)
    declared = (plugin.literal("ablations") if plugin else None) or []
    return next((options for options in declared if options.items() <= entry.options.items()), None)


def heirs(entries: Mapping[str, Entry]) -> dict[str, str]:
    """The labels that take what a tuning chooses for another one, which computes the same, with that label.

    They are of methods with the attribute `tuned_as_ssgd`, and differ in their options only. The first of
    each kind is tuned. This does not run the methods' code.
    """
    there, first = plugins.find("method"), dict[str, str]()
    found = {}
    for label, entry in entries.items():
        plugin = there.get(entry.use or label)
        if plugin is None or entry.tuned_again or not plugin.literal("tuned_as_ssgd"):
            continue
        trained = str(entry.model_dump(exclude={"use", "options", "prepare_from"}))
        if first.setdefault(trained, label) != label:
            found[label] = first[trained]
    return found


def tuned_again(suite: Suite) -> str | None:
    """The label of the baseline tuned with other seeds; None if the suite has none."""
    return next((label for label, entry in suite.methods.items() if entry.tuned_again), None)


def baselines(suite: Suite) -> list[str]:
    """The baseline and its variants: every label of the module that the baseline uses (ssgd, ssgd_bf16).

    An ablation of that module is none of them, nor is what is tuned again.
    """
    module_of = {label: entry.use or label for label, entry in suite.methods.items()}
    module = module_of.get(suite.baseline, suite.baseline)
    variants = [
        label
        for label, entry in suite.methods.items()
        if module_of[label] == module and ablation(label, entry) is None and not entry.tuned_again
    ]
    return list(dict.fromkeys([suite.baseline, *variants]))


def prepared_from(suite: Suite) -> dict[str, str]:
    """Where the preparations of methods with `prepare_from` come from, in words, by label."""
    return {
        label: ", ".join(
            ([named.dataset] if named.dataset else []) + ([] if named.seed is None else [f"seed{named.seed}"])
        )
        for label, entry in suite.methods.items()
        if (named := entry.prepare_from) is not None
    }


def task_of(suite: Suite) -> LearningTask:
    """What all models of a suite learn; a suite has one task, so that its tables have one score."""
    label, entry = next(iter(suite.datasets.items()))
    return task_of_dataset(entry.use or label)


def task_of_dataset(use: str) -> LearningTask:
    """What the data set with this module is for; one that is not there counts as images."""
    return declared_task("dataset", use) or CLASSIFICATION


def declared_task(kind: str, use: str) -> LearningTask | None:
    """The task that a plug-in declares; None if there is none of this name, which is another problem."""
    plugin = plugins.find(kind).get(use)
    return None if plugin is None else TASKS[plugin.literal("task") or CLASSIFICATION.name]
