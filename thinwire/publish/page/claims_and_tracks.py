"""What the page shows without any script: the scorecard of claims, and the leader boards of tracks.

The scorecard has each claim of a publication with one verdict over all places, and the places below it.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from thinwire.base.errors import UserError
from thinwire.config.claims import SECONDS
from thinwire.config.suite import load
from thinwire.publish.page.data import cell_names, joined, read_table
from thinwire.report.claim_rows import NO_RUNS
from thinwire.report.claim_verdict import Verdict
from thinwire.report.report_files import CLAIMS, SCORES, with_minus
from thinwire.report.track_scores import Shown, note, shown

DIFFERS = "differs by place"  # held in one, and contradicted or without an effect in another
UNTESTED = (str(Verdict.NOT_TESTABLE), NO_RUNS)
# Numbers from here on have no digits after the point.
_LARGE = 99.995


class Place(NamedTuple):
    """Where a claim was tested, and what was found there."""

    where: str
    how: str
    estimate: str
    n: int
    verdict: str
    marks: str
    why: str


class ScoredClaim(NamedTuple):
    """A sentence that is tested. `published` and `ours` are numbers with their unit, or empty."""

    id: str
    publication: str
    claim: str
    reconstructed: bool
    published: str
    ours: str
    verdict: str
    marks: str  # how its seconds were made, and whether it is post hoc
    places_alike: str  # how many of the places that could test it have this verdict
    places: list[Place]


class Scorecard(NamedTuple):
    """`counts` has a row for each publication, and one for all, "": how many claims have each verdict."""

    verdicts: list[str]
    counts: list[tuple[str, list[int]]]
    claims: list[ScoredClaim]


def scorecard(results: Path) -> Scorecard | None:
    """All claims, those with one verdict together, or None; errors as of `read_table`."""
    table = read_table(results, results / CLAIMS)
    if table is None:
        return None
    try:
        table = table.assign(cell=cell_names(table))
        grouped = table.groupby(["id", "claim"], sort=False)
        claims = [_claim(str(name), rows) for (name, _), rows in grouped]
    except (KeyError, AttributeError) as error:
        raise UserError(f"{results / CLAIMS} lacks a column ({error}): make it again") from None
    first = [str(Verdict.HELD), str(Verdict.CONTRADICTED), DIFFERS, str(Verdict.NO_EFFECT)]
    others = sorted({claim.verdict for claim in claims} - {*first, *UNTESTED})
    verdicts = [*first, *others, *UNTESTED]
    claims.sort(key=lambda claim: verdicts.index(claim.verdict))
    found = Counter((claim.publication, claim.verdict) for claim in claims)
    publications = dict.fromkeys(table.publication)
    counts = [(name, [found[name, verdict] for verdict in verdicts]) for name in publications]
    counts.append(("", [sum(column) for column in zip(*(numbers for _, numbers in counts))]))
    return Scorecard(verdicts, counts, claims)


def _claim(name: str, rows: pd.DataFrame) -> ScoredClaim:
    first = rows.iloc[0]
    # A suite without runs has a row without a place.
    tested = rows[rows.dataset.notna()]
    verdict = _verdict(rows, tested)
    # A simulation decides nothing, and its seconds never stand beside those of runs.
    judged = tested[tested.verdict != Verdict.NOT_TESTABLE]
    found = judged.verdict
    share = f"{(found == (Verdict.HELD if verdict == DIFFERS else verdict)).sum()} of {len(found)}"
    numbers = rows.margin[(rows.scope == "number") & rows.margin.notna()]
    return ScoredClaim(
        name,
        first.publication,
        first.claim,
        bool(rows.reconstructed.any()),
        _with_unit(f"{numbers.iloc[0]:g}", first.unit) if len(numbers) else "",
        _range(judged.estimate.dropna(), first.unit),
        verdict,
        _marks(judged),
        "" if found.empty else f"{share} held" if verdict == DIFFERS else share,
        [_place(row) for _, row in (tested if len(tested) else rows).iterrows()],
    )


def _verdict(rows: pd.DataFrame, tested: pd.DataFrame) -> str:
    """The verdict that decides, if there is one; else the one of most places."""
    if not len(tested):
        untestable = (rows.verdict == Verdict.NOT_TESTABLE).all()
        return str(Verdict.NOT_TESTABLE) if untestable else NO_RUNS
    found = set(tested.verdict)
    if Verdict.HELD in found and found & {Verdict.CONTRADICTED, Verdict.NO_EFFECT}:
        return DIFFERS
    decided = (str(each) for each in (Verdict.HELD, Verdict.CONTRADICTED, Verdict.NO_EFFECT) if each in found)
    return next(decided, str(tested.verdict.value_counts().index[0]))


def _marks(judged: pd.DataFrame) -> str:
    kinds = sorted(set(judged.kind[judged.metric.isin(SECONDS)]))
    if judged.post_hoc.any():
        kinds.append("post hoc" if judged.post_hoc.all() else "partly post hoc")
    return ", ".join(kinds)


def _place(row: pd.Series) -> Place:
    marks = [mark for mark in ("reconstructed", "post hoc") if row[mark.replace(" ", "_")]]
    interval = "" if pd.isna(row.low) or row.low == row.high else f"{_number(row.low)} to {_number(row.high)}"
    of_suite = isinstance(row.suite, str)
    return Place(
        joined(row.cell, row.cluster) or ("not run" if of_suite else "no suite"),
        joined(row.method, f"against {row.against}", row.scope, row.suite) if of_suite else "",
        _with_unit(f"{_number(row.estimate)}{f' ({interval})' if interval else ''}", row.unit)
        if pd.notna(row.estimate)
        else "",
        0 if pd.isna(row.n) else int(row.n),
        row.verdict,
        ", ".join(marks),
        row.reason if of_suite else row.says,
    )


def _range(estimates: pd.Series, unit: str) -> str:
    if estimates.empty:
        return ""
    ends = list(dict.fromkeys(map(_number, (estimates.min(), estimates.max()))))
    return _with_unit(" to ".join(ends), unit)


def _with_unit(text: str, unit: str) -> str:
    return f"{text}\N{NO-BREAK SPACE}{'%' if unit == 'percent' else unit}"


def _number(value: float) -> str:
    return with_minus(value, 0 if abs(value) >= _LARGE else 2)


class Board(NamedTuple):
    """The leader board of a track; each row begins with the module of its method, "" of a submission."""

    name: str
    title: str
    note: str
    heads: list[str]
    rows: list[tuple[str, list[Shown]]]


def boards(results: Path, suites: Sequence[str]) -> list[Board]:
    """The boards of the suites that have scores; errors as of `read_table`."""
    found = []
    for name in suites:
        table = read_table(results, results / "tables" / name / f"{SCORES}.csv")
        if table is not None:
            suite = load(name)
            modules = {label: entry.use or label for label, entry in suite.methods.items()}
            ranked = [shown(row) for _, row in table.iterrows()]
            of_methods = [modules.get(label, "") for label in table.method]
            rows = [(module, list(row.values())) for module, row in zip(of_methods, ranked)]
            found.append(Board(name, suite.title, note(suite), list(ranked[0]), rows))
    return found
