"""The page of the artifact: for each claim the command that tests it, what that takes, and what to expect.

`python -m benchmarks.update_docs` writes it as docs/artifact.md.
"""

import pandas as pd

from benchmarks.suite_minutes import MINUTES
from thinwire.config import suite as suites
from thinwire.config import untested_claims
from thinwire.config.claim_schema import Claim
from thinwire.config.expand_suite import cells
from thinwire.config.suite_schema import Suite
from thinwire.report.claims import benchmark_record

_INTRODUCTION = """\
# Artifact

This page lists the claims of the five publications. For each, it gives the command that tests it, what that
takes, and the estimate to expect. `python -m benchmarks.update_docs` makes it from the suites in `config/`.
[Claims](claims.md) explains the tests, and [running](running.md) the commands.

After a command, `results/claims.md` has the verdicts. `.venv/bin/thinwire claims` prints them again.
"""
_MINUTES = """\
*Core minutes* are the seconds of all runs and preparations by their records, on one core each. Where nobody
has measured them, no complete run of the suite is known.
"""
_EXPECTED = """\
The expected estimates follow from the shapes of the models, or are our guesses. For accuracy they are points,
or percent of the accuracy compared with. For bytes they are a reduction in percent: 100 means no bytes, and a
negative number means more.
"""
_TESTS = {
    "paired_t": "paired t test",
    "tost": "TOST",
    "non_inferiority": "non-inferiority",
    "exact_bytes": "counted bytes",
    "ratio": "ratio of seconds",
}


def page() -> str:
    """The content of docs/artifact.md."""
    tested = {name: suite for name in suites.suite_names() if (suite := suites.load(name)).claim}
    claims = [(name, claim) for name, suite in tested.items() for claim in suite.claim]
    of_claims = pd.DataFrame([_of_claim(name, claim) for name, claim in claims])
    of_claims = of_claims.sort_values("id", kind="stable")
    untested = pd.DataFrame([_of_untested(claim) for claim in untested_claims.read()])
    return "\n".join(
        [
            _INTRODUCTION,
            "## Commands",
            "",
            _table(pd.DataFrame([_of_suite(name, suite) for name, suite in tested.items()])),
            "",
            _MINUTES,
            "## Claims that a suite tests",
            "",
            _table(of_claims),
            "",
            _EXPECTED,
            "## Claims that no suite tests",
            "",
            _table(untested),
            "",
        ]
    )


def _of_suite(name: str, suite: Suite) -> dict[str, str]:
    """What it takes to run a suite."""
    on_gpus = suite.device == "cuda"
    place = "GPUs" if on_gpus else "CPUs"
    if suite.transport == "inprocess":
        place = f"one {place[:-1]} for each run"
    sizes = ", ".join(str(size.workers) for size in suite.workers)
    return {
        "suite": f"`{name}`",
        "command": f"`.venv/bin/snakemake {'--profile slurm ' if on_gpus else ''}--config suites={name}`",
        "runs": str(len(cells(name))),
        "resources": f"{place}; {sizes} workers",
        "core minutes": _minutes(name),
    }


def _minutes(suite: str) -> str:
    known = pd.read_csv(MINUTES).set_index("suite")
    if suite not in known.index:
        return "nobody has measured it"
    row = known.loc[suite]
    return f"{row.core_minutes:.1f} on {row.processor}"


def _of_claim(suite: str, claim: Claim) -> dict[str, str]:
    unit = "%" if claim.unit == "percent" else claim.unit
    margin = f", margin {claim.margin.value:g} {unit}" if claim.margin else ""
    equal = f", at equal {claim.at_equal.metric}".replace("_", " ") if claim.at_equal else ""
    expected = f"{claim.expected[0]:g} to {claim.expected[1]:g} {unit}" if claim.expected else "none stated"
    return {
        "id": claim.id,
        "claim": claim.claim,
        "suite": f"`{suite}`",
        "against": ", ".join(f"`{label}`" for label in claim.against),
        "test": f"{claim.metric} {claim.direction}".replace("_", " ")
        + f", {_TESTS[claim.statistic]}{margin}{equal}",
        "scope": claim.scope,
        "expected estimate": expected,
    }


def _of_untested(claim: untested_claims.Untested) -> dict[str, str]:
    measured = benchmark_record.sentence(claim) or "nothing"
    return claim.model_dump(exclude={"printed"}) | {"a benchmark measured": measured}


def _table(frame: pd.DataFrame) -> str:
    return frame.to_markdown(index=False, disable_numparse=True, tablefmt="pipe")
