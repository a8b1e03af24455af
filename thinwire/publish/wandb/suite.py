"""A suite in W&B: its published runs as offline runs, one more that sums it up, and a report.

The run that sums it up has the table of the methods, and an artifact of all tables. The report in the user's
project shows this table, and scores over bytes and steps with their spread.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import pyarrow.parquet as pq

from thinwire.base.errors import UserError
from thinwire.base.files import locked, publish, write_text
from thinwire.base.folders import variable
from thinwire.base.learning import LearningTask
from thinwire.config.cell import Cell
from thinwire.config.entries import task_of
from thinwire.config.expand import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.suite import load
from thinwire.publish.wandb import client, fields
from thinwire.records import record
from thinwire.records.record import Record
from thinwire.report import report_files
from thinwire.report.rows.quantities import SETTING
from thinwire.train.record_check import is_there, record_of
from thinwire.train.result_files import advice, record_folder

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import H1, H2, LinePlot, PanelGrid


# This file beside the runs says how the replay went, even if W&B cannot be used.
NOTE = "replay.txt"
# The table in the run, and in the artifact; the folder of its files, beside the runs.
TABLE = "methods"
FILES = "tables"
# What the table shows, of the columns of a suite's summary and under the engine's names.
_SHOWN = [
    *(*SETTING, "method", "kind", "done", "score_mean", "score_sd", "n", "verdict", "words"),
    *("total_bytes", "total_reduction_percent", "busiest_link_bytes", "between_nodes_bytes"),
    *("train_seconds", "train_seconds_sd", "no_time_because", "reason"),
]


class Replay(NamedTuple):
    """Where the runs are, how many there are, of how many cells, and why W&B could not take them, if so.

    `summed_up` says whether the run that sums up the suite is among them, for which its tables must be there.
    """

    folder: Path
    runs: int
    cells: int
    summed_up: bool
    problem: str | None = None


def replay(suite: str, results: Path, subset: Subset = WHOLE) -> Replay:
    """Write the published runs of a suite into a folder of their own under `results`/wandb.

    They are written elsewhere first, so that the folder has either the new runs or the earlier ones, never a
    mixture. If W&B cannot be used, the earlier ones stay.

    Args:
        suite: its name.
        results: the folder of results.
        subset: the cells that are wanted; records of others need not be sound and current.

    Raises:
        UserError: there is no record; or that of a wanted cell is damaged, was changed or is of another state
            of the suite; or a table of the suite was changed.
    """
    every = cells(suite)
    wanted = {cell.path for cell in subset.keep(every)}
    published = []
    for cell in every:
        folder = record_folder(results, cell)
        if not is_there(folder):
            continue
        try:
            made = record_of(folder, cell, advice(cell, results))
        except UserError:
            if cell.path in wanted:
                raise
            continue
        published.append((cell, made, pq.read_table(folder / record.CURVE).to_pylist()))
    if not published:
        raise UserError(f"no run of suite {suite} is published in {results / 'runs'}: run the pipeline first")
    grid = len(wanted | {cell.path for cell, _, _ in published})
    of_suite = tables(suite, results)
    target = results / "wandb" / fields.project(suite)
    scratch = target.with_name(f".{target.name}.new")
    with locked(target.with_name(f".{target.name}.lock"), f"{target}"):
        record.discard(scratch)  # left by an interrupted replay
        problem = None
        try:
            # First, because `wandb leet` opens with the last run.
            if of_suite:
                _write_summary(suite, every, results, of_suite, scratch, target / FILES)
            for cell, made, curve in published:
                _replay(cell, made, curve, scratch)
        except Exception as error:
            problem = client.reason(error)
            client.forget()
            write_text(target / NOTE, f"not replayed: {problem}\n")
        else:
            for logs in (scratch / "wandb").glob("*/logs"):
                record.discard(logs)  # the client's logs, which have paths of this machine
            write_text(scratch / "wandb" / NOTE, f"{len(published)} of {grid} runs\n")
            publish(scratch / "wandb", target)
        record.discard(scratch)
    return Replay(target, len(published), grid, bool(of_suite), problem)


def _replay(cell: Cell, made: Record, curve: list[dict[str, object]], folder: Path) -> None:
    seconds = fields.seconds_of(made.kind, made.no_time_because)
    run = client.begin_cell(cell, made.kind, seconds, folder, "offline")
    for row in curve:
        run.log(fields.history(row, seconds))
    client.end(run, made)


def tables(suite: str, results: Path) -> list[Path]:
    """The tables of a suite that programs read, none before its report; a UserError if one was changed."""
    folder = results / "tables" / suite
    if not (folder / report_files.SUMMARY).exists():
        return []
    files = sorted(folder.glob("*.csv"))
    for file in files:
        report_files.require_as_made(results, file)
    return files


def shown(suite: str, results: Path) -> pd.DataFrame:
    """The summary of a suite, a row for each method and place, with the names that its file has.

    Columns without any value are left out, as seconds are where no run has a time.
    """
    settings = load(suite)
    names = [task_of(settings).columns.get(name, name) for name in _SHOWN]
    table = report_files.read_csv(results / "tables" / suite / report_files.SUMMARY)
    words = table.words.where(table.method != settings.baseline, "baseline")
    return table.assign(words=words).reindex(columns=names).dropna(axis="columns", how="all")


def _write_summary(
    suite: str, grid: Sequence[Cell], results: Path, tables: Sequence[Path], folder: Path, files: Path
) -> None:
    """Write the run offline; whatever the client raises is raised.

    Args:
        suite: its name.
        grid: all its cells, also those that were not chosen.
        results: the folder of results.
        tables: of the suite, as `tables` gives them.
        folder: the client's files will lie in `folder`/wandb, and those of the artifact with them.
        files: where the latter will be when the run is sent. The server reads this path, so that it is
            written relative to the working folder, and tells nothing about the machine.
    """
    run = client.begin(fields.about_suite(suite, grid), folder, "offline")
    import wandb

    content = json.loads(shown(suite, results).to_json(orient="split", double_precision=15))
    made = wandb.Table(columns=content["columns"], data=content["data"])
    artifact = wandb.Artifact(fields.bounded(fields.safe(f"tables-{suite}")), type="tables")
    # The client copies files of artifacts there, and not to the user's home.
    with variable("WANDB_DATA_DIR", str(folder / "copies")):
        for path in tables:
            artifact.add_file(str(path))
        artifact.add(made, TABLE)
        kept = folder / "wandb" / FILES
        kept.mkdir(parents=True)
        for entry in artifact.manifest.entries.values():
            shutil.copyfile(str(entry.local_path), kept / entry.path)
            entry.local_path = os.path.relpath(files / entry.path)
        run.log_artifact(artifact)
        run.log({TABLE: made})
    run.finish()


# The client's own package for reports, which few need.
PACKAGE = "wandb-workspaces"
TIMEOUT_SECONDS = 10
_WIDTH, _HEIGHT = 24, 8


def create_report(suite: str) -> str:
    """Create a report of a suite in the project that its runs were sent to, and return its address.

    A `UserError` if the package is not installed, nobody is logged in, or the server does not answer or has
    no runs of the suite.
    """
    settings, every = load(suite), cells(suite)
    if find_spec("wandb_workspaces") is None:
        raise UserError(f"reports in W&B need the package {PACKAGE}: `.venv/bin/pip install {PACKAGE}`")
    project = fields.project(suite)
    try:
        client.import_silent()
        import wandb
        import wandb_workspaces.reports.v2 as reports

        api = wandb.Api(timeout=TIMEOUT_SECONDS)
        entity = str(api.settings["entity"] or api.default_entity)
        if project not in {there.name for there in api.projects(entity)}:
            raise UserError(
                f"{entity} has no project {project} in W&B: send the runs first, with `wandb sync "
                f"results/wandb/{project}`"
            )
        report = reports.Report(
            project=project,
            entity=entity,
            title=fields.bounded(settings.title),
            description=f"The suite {suite} of thinwire. Bands are standard deviations over the seeds.",
            blocks=[*_table_of_methods(entity, project), *_places(every, task_of(settings), entity, project)],
            width="fluid",
        )
        return str(report.save().url)
    except UserError:
        raise
    except Exception as error:
        why = client.reason(error)
        raise UserError(f"W&B: {why}: a report needs the network and `wandb login`") from None


def _table_of_methods(entity: str, project: str) -> "list[H1 | PanelGrid]":
    """The table of the run that sums up the suite, under a heading."""
    import wandb_workspaces.reports.v2 as reports
    from wandb_workspaces import expr

    runs = reports.Runset(entity, project, filters=[expr.Metric("JobType") == fields.JOB_TYPE])
    whole = reports.Layout(w=_WIDTH, h=2 * _HEIGHT)
    table = reports.WeavePanelSummaryTable(table_name=TABLE, layout=whole)
    return [reports.H1("Methods"), reports.PanelGrid(runsets=[runs], panels=[table])]


def _places(every: list[Cell], task: LearningTask, entity: str, project: str) -> "Iterator[H2 | PanelGrid]":
    """A heading and a grid of panels for each data set, model and number of workers."""
    import wandb_workspaces.reports.v2 as reports
    from wandb_workspaces import expr

    places: dict[str, list[Cell]] = {}
    for cell in every:
        nodes = f" on {cell.nodes} nodes" if cell.nodes > 1 else ""
        place = f"{cell.dataset}, {cell.model.label}, {cell.workers} workers{nodes}"
        places.setdefault(place, []).append(cell)
    for place, own in places.items():
        groups = list(dict.fromkeys(map(fields.group, own)))
        chosen = [expr.Metric("Group").isin(groups)]
        runs = reports.Runset(entity, project, filters=chosen, groupby=["run.group"])
        yield reports.H2(place)
        yield reports.PanelGrid(runsets=[runs], panels=_panels(own[0], task, len(groups)))


def _panels(cell: Cell, task: LearningTask, groups: int) -> "list[LinePlot]":
    """The score over each axis that says what a method costs."""
    import wandb_workspaces.reports.v2 as reports

    axes = {fields.PAYLOAD: "payload of a worker, bytes", "step": "steps"}
    if (seconds := fields.seconds_of(cell.kind)) is not None:
        axes[f"{seconds}/train"] = f"{cell.kind} time of training, s"
    return [
        reports.LinePlot(
            title=f"{task.axis}, over {label}",
            x=axis,
            y=[task.test_column],
            log_x=axis == fields.PAYLOAD,
            title_x=label,
            title_y=task.axis,
            groupby="Group",
            groupby_aggfunc="mean",
            groupby_rangefunc="stddev",
            max_runs_to_show=groups,
            layout=reports.Layout(x=_WIDTH // len(axes) * number, w=_WIDTH // len(axes), h=_HEIGHT),
        )
        for number, (axis, label) in enumerate(axes.items())
    ]
