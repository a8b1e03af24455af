"""What is wrong with the key `claim` of a suite, beyond its form."""

from collections.abc import Collection, Iterator

from thinwire.config.claim_schema import SECONDS, Claim
from thinwire.config.suite_methods import entries_of
from thinwire.config.suite_schema import Suite
from thinwire.label import nearest


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
