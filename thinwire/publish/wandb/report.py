"""A report in the user's project of W&B: scores over bytes and steps with their spread, and the summary."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from thinwire.base.errors import UserError
from thinwire.base.learning import LearningTask
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.config.suite_task import task_of
from thinwire.publish.wandb import client, fields, summary_run

# The client's own package for reports, which few need.
PACKAGE = "wandb-workspaces"
TIMEOUT_SECONDS = 10
_WIDTH, _HEIGHT = 24, 8


def create(suite: str) -> str:
    """Create a report of a suite in the project that its runs were sent to.

    Args:
        suite: its name.

    Returns:
        The address of the report.

    Raises:
        UserError: the package is not installed, nobody is logged in, or the server does not answer or has no
            runs of the suite.
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
            blocks=[*_summary(entity, project), *_places(every, task_of(settings), entity, project)],
            width="fluid",
        )
        return str(report.save().url)
    except UserError:
        raise
    except Exception as error:
        why = client.reason(error)
        raise UserError(f"W&B: {why}: a report needs the network and `wandb login`") from None


def _summary(entity: str, project: str) -> list[Any]:
    """The table of the run that sums up the suite, under a heading."""
    import wandb_workspaces.reports.v2 as reports
    from wandb_workspaces import expr

    runs = reports.Runset(entity, project, filters=[expr.Metric("JobType") == summary_run.JOB_TYPE])
    whole = reports.Layout(w=_WIDTH, h=2 * _HEIGHT)
    table = reports.WeavePanelSummaryTable(table_name=summary_run.TABLE, layout=whole)
    return [reports.H1("Methods"), reports.PanelGrid(runsets=[runs], panels=[table])]


def _places(every: list[Cell], task: LearningTask, entity: str, project: str) -> Iterator[Any]:
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


def _panels(cell: Cell, task: LearningTask, groups: int) -> list[Any]:
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
