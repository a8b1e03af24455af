"""The table of claims over all suites: `claims.csv` for programs, and `claims.md` for people."""

import math
from pathlib import Path

import pandas as pd

from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.config import claims
from thinwire.config import suite as suites
from thinwire.config.claims import SECONDS
from thinwire.config.expand import consistent
from thinwire.config.suite_schema import Suite
from thinwire.report import claim_verdict, report_files
from thinwire.report.claim_rows import Row, rows_of, rows_without_runs
from thinwire.report.claim_verdict import Outcome, Verdict
from thinwire.report.report_files import CLAIMS, CLAIMS_TEXT
from thinwire.report.rows.collect import collected_suites, read_curves, read_summary, task_of_runs
from thinwire.simulation import simulated_file

# docs/columns.md explains them.
COLUMNS = (
    *("id", "suite", "publication", "claim", "method", "reconstructed", "post_hoc", "against"),
    *("metric", "direction", "margin", "statistic", "scope"),
    *("kind", "dataset", "model", "workers", "nodes", "cluster", "n"),
    *("estimate", "low", "high", "unit", "expected_low", "expected_high", "verdict", "reason", "says"),
)
_NOTES = (
    "Claims: what publications claim, in our words. Estimate: for accuracy, the method minus what it "
    "is compared with, in percentage points or in percent of the other. It has the 95 % t interval over "
    "pairs of runs with equal seeds. For bytes, the estimate is the reduction in percent. It has the "
    "smallest and the largest of all repetitions. Some suites say what they expected of it. Scope: "
    "*mechanism* tests only the direction; *number* is about the published figure. "
    "Reconstructed: a part of the publication was not available, so the verdict is about our reconstruction. "
    "docs/claims.md explains the verdicts."
)


def table(results: Path) -> tuple[pd.DataFrame, list[str]]:
    """One row for each claim and cell, by id and suite; and a sentence for each suite that cannot be read.

    Args:
        results: the folder of results; suites without collected runs have a row for each claim.

    Raises:
        UserError: a collected file is missing, or was changed since it was collected.
    """
    rows: list[Row] = []
    left_out = []
    collected = collected_suites(results)
    for name in suites.suite_names():
        try:
            suite, _ = consistent(name)
        except UserError as error:
            left_out.append(f"left out of {CLAIMS}: {error}")
            continue
        rows += _rows_of(name, suite, results) if name in collected else rows_without_runs(name, suite)
    rows += [_untested(claim) for claim in claims.read_untested()]
    made = pd.DataFrame(rows, columns=list(COLUMNS))
    return made.sort_values(["id", "suite"], kind="stable", ignore_index=True), left_out


def write(made: pd.DataFrame, results: Path) -> None:
    """Write `claims.csv`, `claims.md` and their digests."""
    write_text(results / CLAIMS, report_files.csv(made))
    write_text(results / CLAIMS_TEXT, markdown(made))
    report_files.write_of_claims(results)


def markdown(made: pd.DataFrame) -> str:
    """The table for people, with the notes, and what may be said where there are runs."""
    shown = short(made)
    shown.insert(1, "claim", made.claim)
    shown = shown.assign(scope=made.scope, reason=made.reason)
    said = [f"- {row.id}: {row.says}" for row in made[made.estimate.notna()].itertuples()]
    more = ["", "## What may be said", "", *said] if said else []
    return report_files.markdown("Claims", shown, "\n".join([_NOTES, *more]))


def short(made: pd.DataFrame) -> pd.DataFrame:
    """What is printed: where each claim was tested, the estimate and the verdict."""
    return pd.DataFrame(
        {
            "id": made.id,
            "suite": made.suite,
            "where": [_where(row) for _, row in made.iterrows()],
            "estimate": [_estimate(row) for _, row in made.iterrows()],
            "verdict": [_verdict(row) for _, row in made.iterrows()],
        }
    )


def _rows_of(name: str, suite: Suite, results: Path) -> list[Row]:
    if not suite.claim:
        return []
    timed = any(claim.metric in SECONDS for claim in suite.claim)
    simulated = simulated_file.read(results, name) if timed else None
    runs = read_summary(results, name)
    curves = read_curves(results, name, task_of_runs(runs)) if timed else pd.DataFrame()
    return list(rows_of(name, suite, runs, curves, simulated))


def _untested(claim: claims.Untested) -> Row:
    numbers: Row = dict.fromkeys(
        ("margin", "estimate", "low", "high", "expected_low", "expected_high"), math.nan
    )
    if claim.published is not None:
        numbers |= {"margin": claim.published.value, "unit": claim.published.unit, "scope": "number"}
    verdict = {"reconstructed": False, "post_hoc": False, "n": 0, "verdict": str(Verdict.NOT_TESTABLE)}
    said = f"Not testable here: {claim.reason}."
    if printed := claim_verdict.benchmark_sentence(claim):
        said += f" {printed}"
    told = claim.model_dump(exclude={"printed", "published"}) | {"says": said}
    return dict.fromkeys(COLUMNS, "") | numbers | told | verdict


def _where(row: pd.Series) -> str:
    if not row["dataset"]:
        return ""
    nodes = f" on {row['nodes']} nodes" if row["nodes"] > 1 else ""
    parts = row["dataset"], row["model"], f"{row['workers']} workers{nodes}", row["kind"], row["cluster"]
    return ", ".join(part for part in parts if part)


def _verdict(row: pd.Series) -> str:
    hint = f": {row['reason']}" if row["verdict"] == Verdict.INCONCLUSIVE and not row["dataset"] else ""
    marks = ", ".join(mark for mark in ("reconstructed", "post hoc") if row[mark.replace(" ", "_")])
    return f"{row['verdict']}{hint}{f' ({marks})' if marks else ''}"


def _estimate(row: pd.Series) -> str:
    if math.isnan(row["estimate"]):
        return ""
    found = Outcome(row["verdict"], row["reason"], row["n"], row["estimate"], row["low"], row["high"])
    text = claim_verdict.estimate(found, row["unit"])
    if math.isnan(row["expected_low"]):
        return text
    return f"{text}; expected: {row['expected_low']:g} to {row['expected_high']:g}"
