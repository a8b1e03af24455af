"""What was done to make the results: a preparation, a run, or all runs of a suite."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thinwire.data.dataset import MANIFEST
from thinwire.record import RUN, Record
from thinwire.ro_crate.entities import Entity, action, path_id, ref, refs
from thinwire.ro_crate.software import Software
from thinwire.train.preparation_record import PREPARED, Prepared

_STATUS = "http://schema.org/{}ActionStatus"


def of_run(folder: Path, run: Record, crate: Path, config: list[str], software: Software) -> Entity:
    """A run.

    Args:
        folder: of its record.
        run: its `run.json`.
        crate: the folder of results.
        config: the identifiers of the file of its suite, if it is there.
        software: collects what the record names.
    """
    name = str(folder.relative_to(crate))
    cell = run.cell
    read = [*config, *_data(crate, cell["data"]["label"])]
    if (prepared := prepared_of(run, crate)) is not None:
        read.append(path_id(prepared, crate))
    done = run.status == "done"
    machine = software.machine(run.provenance)
    return action(
        f"#{name}",
        name,
        f"Train with {cell['method']['label']} on {cell['workers']} workers: {run.status}.",
        software.engine(run.provenance),
        object=refs(read),
        result=ref(path_id(folder / RUN, crate)),
        actionStatus=_STATUS.format("Completed" if done else "Failed"),
        error=None if done else f"{run.status}: {run.reason}",
        location=None if machine is None else ref(machine),
        environment=refs(software.environment(run.provenance)),
        **_times(run.provenance),
    )


def prepared_of(run: Record, crate: Path) -> Path | None:
    """The path of the record of a run's preparation, if it has one and that is still there."""
    cell = run.cell
    of = cell.get("prepare_from") or cell
    labels = (of["data"]["label"], cell["model"]["label"], cell["preparer"], f"seed{of['repetition']}")
    path = (crate / "prepared" / cell["suite"]).joinpath(*labels, PREPARED)
    return path if run.preparation is not None and path.exists() else None


def of_preparation(path: Path, made: Prepared, crate: Path, software: Software) -> Entity:
    """A preparation; when it ended is not recorded.

    Args:
        path: of its `prepared.json`.
        made: its content.
        crate: the folder of results.
        software: collects what the record names.
    """
    name = str(path.parent.relative_to(crate))
    done = made.status == "done"
    return action(
        f"#{name}",
        name,
        f"Prepare a method before its runs: {made.status}.",
        software.engine(made.provenance),
        result=ref(path_id(path, crate)),
        actionStatus=_STATUS.format("Completed" if done else "Failed"),
        error=None if done else made.reason,
        **_times(made.provenance),
    )


def of_suite(suite: str, runs: Sequence[Entity], workflow: str, config: list[str], made: list[str]) -> Entity:
    """All runs of a suite, with the tables and figures.

    Args:
        suite: its name.
        runs: the actions of its runs.
        workflow: the identifier of the workflow.
        config: the identifiers of the file of the suite, if it is there.
        made: the identifiers of what was made of the runs.
    """
    started = [run["startTime"] for run in runs if "startTime" in run]
    ended = [run["endTime"] for run in runs if "endTime" in run]
    return action(
        f"#suite/{suite}",
        f"suite {suite}",
        "All runs of the suite, from the start of the first to the end of the last. No record says how often "
        "the workflow was started for them.",
        workflow,
        object=refs(config),
        result=refs(made),
        startTime=min(started, default=None),
        endTime=max(ended, default=None),
    )


def _times(provenance: dict[str, Any]) -> dict[str, Any]:
    return {"startTime": provenance.get("started"), "endTime": provenance.get("ended")}


def _data(crate: Path, dataset: str) -> list[str]:
    manifest = crate / "data" / dataset / MANIFEST
    return [path_id(manifest, crate)] if manifest.exists() else []
