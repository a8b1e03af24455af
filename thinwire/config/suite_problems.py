"""What is wrong with a suite that its schema alone cannot tell."""

from collections.abc import Collection, Iterator, Sequence

from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.names import nearest
from thinwire.config import clusters
from thinwire.config.accelerators import load_accelerator, unlike_recipe
from thinwire.config.cell import PreparingCell
from thinwire.config.claims import SECONDS, Claim
from thinwire.config.entries import entries_of
from thinwire.config.entry_schema import PrepareFrom
from thinwire.config.suite_schema import Simulate, Suite
from thinwire.config.yaml_file import Module


def claim_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each label that is not in the suite, and for what the suite cannot decide."""
    seen = set()
    for number, claim in enumerate(suite.claim):
        where = f"claim.{number}"
        if claim.id in seen:
            yield f"{where}.id: {claim.id} occurs twice; number the parts of a claim, as in {claim.id}.1"
        seen.add(claim.id)
        methods = list(entries_of(suite))
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


def _unknown(where: str, kind: str, labels: Collection[str], there: Collection[str]) -> Iterator[str]:
    for label in labels:
        if label not in there:
            yield f"{where}: the suite has no {kind} {label!r}; the nearest is {nearest(label, there)}"


def _beyond_the_suite(claim: Claim, suite: Suite) -> Iterator[str]:
    if suite.device == "cpu" and claim.scope == "number" and claim.statistic != "exact_bytes":
        yield (
            "scope: a suite on CPUs is too small for a published number, unless it is one of bytes; "
            "take mechanism"
        )
    if claim.metric in SECONDS and suite.transport == "inprocess" and suite.simulate is None:
        yield (
            f"metric: {claim.metric} needs times: set transport to processes or emulated, or add the key "
            "simulate"
        )


def ladder_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each label that is not in the suite, and for a suite without times."""
    yield from _unknown("ladder", "method", suite.ladder, list(entries_of(suite)))
    if suite.ladder and suite.transport == "inprocess" and suite.simulate is None:
        yield "ladder: it needs times: set transport to processes or emulated, or add the key simulate"


def simulate_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each cluster that is not valid, and for workers that have no room.

    Methods with batches of their own are refused, too: their steps cannot be brought to one speed.
    """
    settings = suite.simulate
    if settings is None:
        return
    for name in settings.clusters:
        try:
            cluster = clusters.load_cluster(name)
            for workers in numbers_of_workers(settings, suite):
                cluster.spread(workers)
        except UserError as error:
            yield f"simulate.clusters: {error}"
    if settings.accelerator is not None:
        try:
            if unlike := unlike_recipe(settings.accelerator, suite.recipe.precision):
                yield f"simulate.accelerator: {unlike}"
        except UserError as error:
            yield f"simulate.accelerator: {error}"
    if suite.recipe.accumulate > 1:
        yield "simulate: recipe.accumulate: simulated steps have one pair of passes: leave it out"
    for label, entry in suite.methods.items():
        if entry.batch is not None:
            yield f"simulate: {label} has a batch of its own; move it to a suite without simulated times"


def track_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each key with which a competition has no scores."""
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


def without_data_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each cluster or accelerator that is not valid, and for what fits no node or method."""
    settings = suite.without_data
    if settings is None:
        return
    try:
        clusters.load_cluster(settings.cluster)
    except UserError as error:
        yield f"without_data.cluster: {error}"
    for name in settings.accelerators:
        try:
            own = load_accelerator(name).precision
        except UserError as error:
            yield f"without_data.accelerators: {error}"
            continue
        if own != suite.recipe.precision:
            yield f"without_data.accelerators: {name} is of {own}, and the recipe of {suite.recipe.precision}"
    for workers in settings.workers:
        if not any(_divides(each, workers) for each in settings.workers_per_node):
            yield f"without_data.workers: {workers} workers fit no two nodes of workers_per_node"
    for label in settings.rounds.keys() - suite.methods.keys():
        yield f"without_data.rounds: there is no method {label}"


def _divides(per_node: int, workers: int) -> bool:
    return workers % per_node == 0 and workers > per_node


def numbers_of_workers(settings: Simulate, suite: Suite) -> list[int]:
    """With how many workers a suite is simulated."""
    return settings.workers or sorted({size.workers for size in suite.workers})


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


def prepare_from_problems(suite: Suite) -> Iterator[str]:
    """One sentence for each key `prepare_from` that names what the suite does not have."""
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
