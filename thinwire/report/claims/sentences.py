"""The sentence that may be said about a claim. Nothing else is said about it in tables, pages and papers."""

import math

from thinwire.config.claim_schema import FIELDS, Claim
from thinwire.report.claims.claim_verdict import Outcome, Verdict
from thinwire.statistics.rounding import fixed


def fields(claim: Claim, against: str, outcome: Outcome, place: dict[str, object]) -> dict[str, str]:
    """What the templates of a claim may name."""
    numbers = {"estimate": outcome.estimate, "low": outcome.low, "high": outcome.high}
    values = {
        "method": claim.method,
        "against": against,
        "unit": claim.unit,
        "margin": f"{claim.margin.value:g}" if claim.margin else "",
        "n": outcome.n,
        **{name: fixed(value, 2) for name, value in numbers.items()},
        **place,
    }
    return {name: str(values[name]) for name in FIELDS}


_DECIDED = {
    Verdict.CONTRADICTED: "contradicted",
    Verdict.DEPENDS: "held or contradicted, which depends on the reconstruction,",
}


def says(claim: Claim, outcome: Outcome, named: dict[str, str], reconstructed: bool) -> str:
    """The sentence for a verdict, with the place where it was found.

    Args:
        claim: what was tested.
        outcome: the verdict.
        named: the values of the `fields`.
        reconstructed: is the method a reconstruction?
    """
    if outcome.verdict is Verdict.NOT_TESTABLE:
        return _sentence(f"Not testable here: {outcome.reason}")
    if outcome.verdict is Verdict.HELD:
        said = claim.may_say.format(**named)
    elif math.isnan(outcome.estimate):
        return _sentence(f"It cannot be told yet whether this holds: {claim.claim} Reason: {outcome.reason}")
    else:
        verdict = _DECIDED.get(outcome.verdict, "not decided")
        said = _sentence(
            f'the claim "{claim.claim}" is {verdict} by `{named["method"]}` against `{named["against"]}`: '
            f"{estimate(outcome, claim.unit)}; {outcome.reason}"
        )
    own = f" `{claim.method}` is reconstructed." if reconstructed else ""
    return f"{_where(named)}: {said}{own}"


def simulated(claim: Claim, named: dict[str, str], estimate: float) -> str:
    """What a simulation may say: its own numbers, and no verdict."""
    change = f"{fixed(abs(estimate), 1)} % {'fewer' if estimate >= 0 else 'more'} seconds a step"
    where = _where(named)
    return f"Our simulation gives {change} for `{claim.method}` than for `{named['against']}` ({where})."


def estimate(outcome: Outcome, unit: str) -> str:
    """The estimate, with its interval unless that is a single number."""
    interval = f" ({fixed(outcome.low, 2)} to {fixed(outcome.high, 2)})" if outcome.low < outcome.high else ""
    return f"{fixed(outcome.estimate, 2)}{interval} {'%' if unit == 'percent' else unit}"


def _where(named: dict[str, str]) -> str:
    nodes = f" on {named['nodes']} nodes" if named["nodes"] not in ("", "1") else ""
    cluster = f", {named['kind']} on {named['cluster']}" if named["cluster"] else ""
    return f"{named['dataset']}, {named['model']}, {named['workers']} workers{nodes}{cluster}"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
