"""What is wrong with a suite that its schema alone cannot tell, in a sentence for each problem."""

from collections.abc import Collection, Iterator, Mapping
from math import prod

from thinwire import plugins
from thinwire.base.errors import UserError, nearest
from thinwire.base.folders import clash
from thinwire.base.learning import CLASSIFICATION
from thinwire.config.claims import SCORES, SECONDS, Claim
from thinwire.config.entries import ablation, declared_task, entries_of, task_of, task_of_dataset
from thinwire.config.entry_schema import EVERY, Entry
from thinwire.config.hardware import load_cluster, unlike_recipe
from thinwire.config.suite_schema import Simulate, Suite
from thinwire.config.yaml_file import Module
from thinwire.optim.recipe import Dirichlet

# The whole grid is built in memory, and planned at once. That of the paper has less than a tenth of this.
MOST_CELLS = 20_000


def problems_of(suite: Suite, modules: Mapping[str, list[Module]]) -> Iterator[str]:
    """All problems of a suite that its schema allows, except those of options; its plug-ins are by kind."""
    for kind, wanted in modules.items():
        yield from _missing(kind, [(f"{kind}s.{module.label}", module.use) for module in wanted])
    for kind, wanted in modules.items():
        if alike := clash(module.label for module in wanted):
            yield f"{kind}s: {alike}"
    if suite.baseline not in {module.label for module in modules["method"]}:
        yield f"baseline: {suite.baseline!r} is not one of the methods"
    elif part := ablation(suite.baseline, suite.methods.get(suite.baseline, Entry())):
        yield (
            f"baseline: {suite.baseline!r} is an ablation of its method ({', '.join(part)}): choose a label "
            "without this option"
        )
    star = suite.methods.get(EVERY)
    if suite.leave_out and star is None:
        yield "leave_out: there is no '*' among the methods to leave anything out of"
    yield from _task_problems(suite)
    yield from simulate_problems(suite)
    yield from without_data_problems(suite)
    yield from _claim_problems(suite)
    yield from ladder_problems(suite)
    yield from _track_problems(suite)
    yield from _prepare_from_problems(suite)
    yield from _missing("method", [("leave_out", use) for use in suite.leave_out])
    if star and star != Entry():
        yield "methods.*: it stands for many modules and takes no keys, such as `use`, `options` or `batch`"
    lengths = suite.repetitions, *(len(wanted) for wanted in modules.values()), len(suite.workers)
    if prod(lengths) > MOST_CELLS:
        numbers = "{:,} repetitions x {} data sets x {} models x {} methods x {} numbers of workers"
        yield (
            f"{numbers.format(*lengths)} are {prod(lengths):,} cells: share them among suites of at most "
            f"{MOST_CELLS:,}"
        )


def _missing(kind: str, wanted: list[tuple[str, str]]) -> Iterator[str]:
    there = plugins.find(kind)
    for where, use in wanted:
        if use not in there:
            yield f"{where}: there is no {kind} {use!r}; there are {', '.join(there)}"


def _unknown(where: str, kind: str, labels: Collection[str], there: Collection[str]) -> Iterator[str]:
    for label in labels:
        if label not in there:
            yield f"{where}: the suite has no {kind} {label!r}; the nearest is {nearest(label, there)}"


def _task_problems(suite: Suite) -> Iterator[str]:
    """Of data sets and models of another task, and of keys that do not fit it."""
    task, first = task_of(suite), next(iter(suite.datasets))
    for label, entry in suite.datasets.items():
        own = declared_task("dataset", entry.use or label)
        if own not in (None, task):
            yield f"datasets.{label}: it is for {own.name}, and {first} for {task.name}: make a suite of each"
    for label, entry in suite.models.items():
        own = declared_task("model", entry.use or label)
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


def _claim_problems(suite: Suite) -> Iterator[str]:
    """Of labels that are not in the suite, and of what the suite cannot decide."""
    seen, methods = set(), list(entries_of(suite))
    for number, claim in enumerate(suite.claim):
        where = f"claim.{number}"
        if claim.id in seen:
            yield f"{where}.id: {claim.id} occurs twice; number the parts of a claim, as in {claim.id}.1"
        seen.add(claim.id)
        yield from _unknown(f"{where}.method", "method", [claim.method], methods)
        yield from _unknown(f"{where}.against", "method", claim.against, methods)
        yield from _unknown(f"{where}.variants", "method", claim.variants, methods)
        yield from _unknown(f"{where}.models", "model", claim.models, suite.models)
        if claim.method in claim.against:
            yield f"{where}.against: {claim.method} would be compared with itself"
        for label in claim.variants:
            if label in (claim.method, *claim.against):
                yield f"{where}.variants: {label} is compared already"
        yield from (f"{where}.{problem}" for problem in _beyond_the_suite(claim, suite))


def _beyond_the_suite(claim: Claim, suite: Suite) -> Iterator[str]:
    if suite.device == "cpu" and claim.scope == "number" and claim.statistic != "exact_bytes":
        yield (
            "scope: a suite on CPUs is too small for a published number, unless it is one of bytes; "
            "take mechanism"
        )
    if claim.metric in SECONDS and not _has_times(suite):
        yield (
            f"metric: {claim.metric} needs times: set transport to processes or emulated, or add the key "
            "simulate"
        )


def _has_times(suite: Suite) -> bool:
    return suite.transport != "inprocess" or suite.simulate is not None


def ladder_problems(suite: Suite) -> Iterator[str]:
    """Of labels that are not in the suite, and of a suite without times."""
    yield from _unknown("ladder", "method", suite.ladder, list(entries_of(suite)))
    if suite.ladder and not _has_times(suite):
        yield "ladder: it needs times: set transport to processes or emulated, or add the key simulate"


def simulate_problems(suite: Suite) -> Iterator[str]:
    """Of clusters that are not valid, and of workers that have no room.

    Methods with batches of their own are refused, too: their steps cannot be brought to one speed.
    """
    settings = suite.simulate
    if settings is None:
        return
    for name in settings.clusters:
        yield from _cluster_problems("simulate.clusters", name, numbers_of_workers(settings, suite))
    if settings.accelerator is not None:
        yield from _accelerator_problems("simulate.accelerator", settings.accelerator, suite)
    if suite.recipe.accumulate > 1:
        yield "simulate: recipe.accumulate: simulated steps have one pair of passes: leave it out"
    for label, entry in suite.methods.items():
        if entry.batch is not None:
            yield f"simulate: {label} has a batch of its own; move it to a suite without simulated times"


def numbers_of_workers(settings: Simulate, suite: Suite) -> list[int]:
    """With how many workers a suite is simulated."""
    return settings.workers or sorted({size.workers for size in suite.workers})


def _cluster_problems(where: str, name: str, numbers_of_workers: Collection[int] = ()) -> Iterator[str]:
    try:
        cluster = load_cluster(name)
        for workers in numbers_of_workers:
            cluster.spread(workers)
    except UserError as error:
        yield f"{where}: {error}"


def _accelerator_problems(where: str, name: str, suite: Suite) -> Iterator[str]:
    try:
        if unlike := unlike_recipe(name, suite.recipe.precision):
            yield f"{where}: {unlike}"
    except UserError as error:
        yield f"{where}: {error}"


def without_data_problems(suite: Suite) -> Iterator[str]:
    """Of clusters and accelerators that are not valid, and of what fits no node or method."""
    settings = suite.without_data
    if settings is None:
        return
    yield from _cluster_problems("without_data.cluster", settings.cluster)
    for name in settings.accelerators:
        yield from _accelerator_problems("without_data.accelerators", name, suite)
    for workers in settings.workers:
        if not any(workers % each == 0 and workers > each for each in settings.workers_per_node):
            yield f"without_data.workers: {workers} workers fit no two nodes of workers_per_node"
    known = entries_of(suite)
    for label in settings.rounds:
        if label not in known:
            yield f"without_data.rounds: there is no method {label}"


def _track_problems(suite: Suite) -> Iterator[str]:
    """Of keys with which a competition has no scores."""
    track = suite.track
    if track is None:
        return
    if suite.simulate is None or suite.simulate.accelerator is None:
        yield "track: it needs the key simulate with an accelerator: its times are the same everywhere"
    elif track.cluster not in suite.simulate.clusters:
        yield f"track.cluster: {track.cluster} is not among simulate.clusters: add it there"
    if track.seeds != suite.repetitions:
        yield f"track.seeds: {track.seeds} are not the {suite.repetitions} repetitions: make them equal"
    if len(suite.workers) * len(suite.models) * len(suite.datasets) != 1:
        yield "track: entries run in one place: give one data set, model and number of workers"


def _prepare_from_problems(suite: Suite) -> Iterator[str]:
    """Of keys `prepare_from` that name what the suite does not have."""
    for label, entry in entries_of(suite).items():
        named, where = entry.prepare_from, f"methods.{label}.prepare_from"
        if named is None:
            continue
        plugin = plugins.find("method").get(entry.use or label)
        if plugin is not None and not plugin.defines("prepare"):
            yield f"{where}: the method {plugin.name} has no preparation: remove this key"
        if named.dataset is not None and named.dataset not in suite.datasets:
            there = nearest(named.dataset, suite.datasets)
            yield f"{where}.dataset: {named.dataset!r} is no data set of this suite: the nearest is {there}"
        if named.seed is not None and named.seed >= suite.repetitions:
            last = suite.repetitions - 1
            yield f"{where}.seed: {named.seed} is no repetition of this suite: the last is {last}"
