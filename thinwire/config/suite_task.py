"""What the data sets and models of a suite learn, and what does not go with it."""

from collections.abc import Iterator

from thinwire import plugins
from thinwire.base.learning import CLASSIFICATION, TASKS, LearningTask
from thinwire.config.claims import SCORES
from thinwire.config.suite_schema import Suite
from thinwire.optim.inputs import Dirichlet


def task_of(suite: Suite) -> LearningTask:
    """What all models of a suite learn; a suite has one task, so that its tables have one score."""
    label, entry = next(iter(suite.datasets.items()))
    return task_of_dataset(entry.use or label)


def task_of_dataset(use: str) -> LearningTask:
    """What the data set with this module is for; one that is not there counts as images."""
    return _declared("dataset", use) or CLASSIFICATION


def task_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each data set or model of another task, and for each key that does not fit."""
    task, first = task_of(suite), next(iter(suite.datasets))
    for label, entry in suite.datasets.items():
        own = _declared("dataset", entry.use or label)
        if own not in (None, task):
            yield f"datasets.{label}: it is for {own.name}, and {first} for {task.name}: make a suite of each"
    for label, entry in suite.models.items():
        own = _declared("model", entry.use or label)
        if own not in (None, task):
            yield f"models.{label}: it is for {own.name}, and the data set {first} for {task.name}"
    if suite.recipe.mixup and task is not CLASSIFICATION:
        yield f"recipe.mixup: it mixes images, and {first} has {task.inputs}: leave it out"
    if suite.recipe.channels_last and task is not CLASSIFICATION:
        yield f"recipe.channels_last: {first} has {task.inputs}, which have no channels: leave it out"
    yield from _partition_problems(suite)
    for number, claim in enumerate(suite.claim):
        if claim.metric in SCORES and claim.metric != task.metric:
            yield f"claim.{number}.metric: {first} has no {claim.metric}; its score is {task.metric}"


def _partition_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each data set that cannot be divided as the suite says."""
    for label, entry in suite.datasets.items():
        use, own = entry.use or label, entry.partition
        kind, where = (suite.recipe.partition, "recipe") if own is None else (own, f"datasets.{label}")
        plugin = plugins.find("dataset").get(use)
        if plugin is None or task_of_dataset(use) is CLASSIFICATION:
            continue  # the labels of images can be shared, and are their clients
        if isinstance(kind, Dirichlet):
            yield (
                f"{where}.partition: dirichlet shares labels, and {label} has {task_of_dataset(use).inputs}: "
                "take natural or iid"
            )
        elif kind == "natural" and plugin.literal("clients") is None:
            yield f"{where}.partition: natural needs clients, and {label} declares none: take iid"


def _declared(kind: str, use: str) -> LearningTask | None:
    """The task that a plug-in declares; None if there is none of this name, which is another problem."""
    plugin = plugins.find(kind).get(use)
    return None if plugin is None else TASKS[plugin.literal("task") or CLASSIFICATION.name]
