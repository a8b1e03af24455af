"""The scores of a track: how many simulated seconds the runs of a method need to its target.

    score = median over the seeds of the steps to the target x simulated seconds of a step

A run reaches the target at its first evaluation with the target or better. One that misses it, or did not end
well, needs infinitely many steps, so a method of which half of the runs miss has no score. The best SSGD is
the method of the suite's own module `ssgd` with the best score. A score s is significantly better than that
of the best SSGD, b, if ln(b / s) sqrt(seeds) is at least `threshold` frozen standard deviations.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.base.folders import suggested_command
from thinwire.config.cell import Cell
from thinwire.config.entries import task_of
from thinwire.config.expand import cells
from thinwire.config.hardware import load_cluster
from thinwire.config.suite import load
from thinwire.config.suite_schema import Suite, Track
from thinwire.plugins import show
from thinwire.records.record import Record
from thinwire.report import report_files
from thinwire.report.rows.collect import sound
from thinwire.simulation import simulated_file
from thinwire.submissions import submission
from thinwire.submissions.submission import tier
from thinwire.train.record_check import SoundRecord
from thinwire.train.result_files import record_folder

NO_SCORE = "never reaches the target"
_BASELINE = "ssgd"  # the module of methods that others have to be better than


@dataclass(frozen=True)
class Score:
    """The score of a method."""

    method: str  # its label
    runs: int
    reached: int  # of these, how many reach the target
    steps_to_target_median: float  # infinite if half of the runs miss the target
    seconds_a_step_simulated: float
    score_seconds: float  # infinite: there is no score
    better_than: str | None  # the best SSGD, if the score is significantly better than its score
    date: str  # when the last run ended: year, month and day, UTC
    commit: str  # the revisions of the code of the runs, in short


def scores(track: Track, records: Iterable[SoundRecord], step_seconds: Mapping[str, float]) -> list[Score]:
    """The scores of all methods that have records, the best first; `step_seconds` as in `simulated_steps`."""
    runs: dict[str, list[SoundRecord]] = {}
    for made in records:
        runs.setdefault(made.cell.method.label, []).append(made)
    found = {label: _score(track, label, of, step_seconds[label]) for label, of in runs.items()}
    ours = [found[label] for label, of in runs.items() if of[0].cell.method.use == _BASELINE]
    best = min(ours, key=lambda score: score.score_seconds, default=None)
    if best is not None:
        for label, score in found.items():
            if is_better(track, score.score_seconds, best.score_seconds):
                found[label] = replace(score, better_than=best.method)
    return sorted(found.values(), key=lambda score: (score.score_seconds, score.method))


def _score(track: Track, label: str, records: list[SoundRecord], seconds: float) -> Score:
    steps = [_steps_to(track.target, made) for made in records]
    median = float(np.median(steps))
    runs = [made.run for made in records]
    return Score(
        method=label,
        runs=len(steps),
        reached=sum(map(math.isfinite, steps)),
        steps_to_target_median=median,
        seconds_a_step_simulated=seconds,
        score_seconds=median * seconds,
        better_than=None,
        date=max(str(run.provenance.get("ended") or "")[:10] for run in runs),
        commit=", ".join(dict.fromkeys(map(_revision, runs))),
    )


def _steps_to(target: float, made: SoundRecord) -> float:
    """The steps to the target; infinite for a run that misses it, or whose status is not `done`."""
    if made.run.status != "done":
        return math.inf
    task, curve = made.run.learns, made.curve
    reached = task.sign * curve[task.test_column].to_numpy() >= task.sign * target
    return float(curve["step"].to_numpy()[reached].astype(float).min(initial=np.inf))


def _revision(run: Record) -> str:
    revision = str((run.provenance.get("git") or {}).get("revision") or "unknown")
    return revision[:8]


def is_better(track: Track, seconds: float, other: float) -> bool:
    """Is a score of so many seconds significantly better than another one? One without a score is worst."""
    if not (math.isfinite(seconds) and math.isfinite(other)):
        return math.isfinite(seconds)
    return math.log(other / seconds) * math.sqrt(track.seeds) >= track.threshold * track.sigma


def simulated_steps(track: Track, suite: str, results: Path) -> dict[str, float]:
    """The simulated seconds of a step of each method on the cluster of the track, by label.

    Raises:
        UserError: the suite has not been simulated on that cluster.
    """
    rows = simulated_file.read(results, suite)
    own = None if rows is None else rows[(rows.cluster == track.cluster) & rows.own_rate]
    if own is None or own.empty:
        raise UserError(
            f"{suite} has no simulated times on {track.cluster}: run "
            f"{suggested_command('simulate', suite, results=results)}"
        )
    return dict(zip(own.method, own.step_seconds))


_NOTE = (
    "Score: the median over the seeds of the steps to {shown}, times the simulated seconds of a step on "
    "{cluster}. A run that misses the target needs infinitely many steps; a method of which half of the runs "
    "miss it has no score. Better: ln(score of the best SSGD / score) x sqrt({seeds}) is at least "
    "{threshold:g} x {sigma:g}. Simulated times are predictions: docs/simulation.md has their limits."
)


def write(suite: str, results: Path) -> None:
    """Write `scores.csv` and `scores.md` of a suite: of its methods that have runs, and of submissions.

    Raises:
        UserError: there is no record, one is damaged, or the suite has not been simulated.
    """
    settings = load(suite)
    assert settings.track is not None
    folder, seconds = results / "tables" / suite, simulated_steps(settings.track, suite, results)
    there = [c for c in cells(suite) if c.method.label in seconds and record_folder(results, c).exists()]
    # What was collected is sound, and files of plug-ins may have been edited since.
    records = [sound(results, cell) for cell in there]
    tiers: dict[str, str] = {}
    for each in submission.every():
        if each.about.track == suite and each.about.contradicts is None:
            submitted = submission.verified_submission(each)
            tiers[each.name] = tier(each, submitted)
            if each.name not in seconds:
                with folders.named(each.folder):
                    seconds[each.name] = _simulated(settings, submitted[0].cell, results)
                records += submitted
    if not records:
        raise UserError(
            f"{show(results)} has no record of {suite}: start `snakemake --config suites={suite}`"
        )
    made = table(scores(settings.track, records, seconds), tiers)
    report_files.write_table(made, folder / f"{report_files.SCORES}.csv")
    write_text(folder / f"{report_files.SCORES}.md", markdown(made, settings))


def _simulated(suite: Suite, cell: Cell, results: Path) -> float:
    """The seconds of a step, as `thinwire simulate` gives them."""
    assert suite.track is not None
    assert suite.simulate is not None
    # It imports torch, which tables without submissions do not need.
    from thinwire.simulation.simulate import SimulatedCell

    cluster = load_cluster(suite.track.cluster)
    spread = cluster.spread(cell.workers)
    made = SimulatedCell(cell, results, spread, suite.simulate.steps, suite.simulate.accelerator)
    return made.on(cluster).mean_step_seconds


def table(found: Sequence[Score], tiers: Mapping[str, str] = MappingProxyType({})) -> pd.DataFrame:
    """One row for each score, the best first. `tiers` say, by name, how far submissions are proved."""
    rows = [{"rank": place, **asdict(score)} for place, score in enumerate(found, 1)]
    return pd.DataFrame(rows).assign(tier=[tiers.get(score.method, "reported") for score in found])


class Shown(NamedTuple):
    """What a table shows of a score: a text, and a number by which rows are sorted, or None."""

    text: str
    value: float | None = None


def shown(row: pd.Series) -> dict[str, Shown]:
    """A row of scores as a person reads it, by the heading of its column."""
    score, steps, rank = row["score_seconds"], row["steps_to_target_median"], row["rank"]
    has_score, seconds = math.isfinite(score), row["seconds_a_step_simulated"]
    return {
        "rank": Shown(str(rank), rank) if has_score else Shown(""),
        "method": Shown(row["method"]),
        "score, s": Shown(report_files.fixed(score, 2), score) if has_score else Shown(NO_SCORE),
        "steps": Shown(f"{steps:g}", steps) if has_score else Shown(""),
        "ms a step": Shown(report_files.fixed(1e3 * seconds, 1), seconds),
        "n": Shown(f"{row['reached']} of {row['runs']}", row["reached"]),
        "better than": Shown("" if pd.isna(row["better_than"]) else row["better_than"]),
        "tier": Shown(row["tier"]),
        "date": Shown(row["date"]),
        "commit": Shown(row["commit"]),
    }


def markdown(rows: pd.DataFrame, suite: Suite) -> str:
    """The scores as a person reads them, with what they mean; the page also has their tiers."""
    texts = [{head: each.text for head, each in shown(row).items()} for _, row in rows.iterrows()]
    table = pd.DataFrame(texts).drop(columns="tier")
    return report_files.markdown(f"Scores. {suite.title}", table, note(suite))


def note(suite: Suite) -> str:
    """What the scores of a track mean."""
    assert suite.track is not None
    return _NOTE.format(shown=task_of(suite).shown(suite.track.target), **suite.track.model_dump())
