"""A run by the command line: interrupted by a signal and started again, it ends with the same bits.

It trains digits with `device: cuda`. Once all workers are in one process, and once each has a process of its
own, and gloo carries their tensors, so that they may share a GPU.
"""

import shutil
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from gpu_parts.own_project import SUITE, Project, records
from gpu_parts.part import Found, Place
from thinwire.records import record

EPOCHS, SMALL_EPOCHS = 12, 3
CELL = "digits/cnn/interrupting/w2/seed0"
INTERRUPTED = 128 + 15
STEP = 30  # in the second epoch


def part(place: Place, found: Found) -> None:
    """Compare the curve and the traffic of an interrupted run with those of one that was not."""
    epochs = SMALL_EPOCHS if place.small else EPOCHS
    with tempfile.TemporaryDirectory(prefix="thinwire-project-") as folder:
        project = Project(Path(folder), place, interrupted_step=STEP, recipe={"epochs": epochs})
        for suite in (SUITE,) if place.small else (SUITE, f"{SUITE}_by_gloo"):
            whole, resumed = Path(folder, "whole"), Path(folder, "resumed")
            for results in (whole, resumed):
                shutil.rmtree(results, ignore_errors=True)
                shutil.copytree(project.folder / "results", results)
            project.thinwire("run", suite, CELL, "--results", str(whole))
            note = str(Path(folder, f"{suite}.interrupted"))
            run = ("run", suite, CELL, "--results", str(resumed))
            project.thinwire(*run, expect=INTERRUPTED, INTERRUPT_ONCE=note)
            if published := records(resumed):
                found.broken.append(
                    f"{suite}: an interrupted run has left {published[0].relative_to(resumed)}"
                )
            project.thinwire(*run, INTERRUPT_ONCE=note)
            found.figures[suite] = _compared(suite, whole, resumed, found.broken)


def _compared(suite: str, whole: Path, resumed: Path, broken: list[str]) -> dict[str, float]:
    """Require equal bits of everything but the times."""
    (ours,), (theirs,) = records(resumed), records(whole)
    log = (ours.parent / record.LOG).read_text()
    goes_on = log.count("goes on after step")
    if not goes_on:
        broken.append(f"{suite}: the second attempt began again, and did not resume")
    for name in (record.CURVE, record.TRAFFIC):
        own, other = (pq.read_table(path.parent / name) for path in (ours, theirs))
        kept = [column for column in own.column_names if not column.endswith("_seconds")]
        if not own.select(kept).equals(other.select(kept)):
            broken.append(f"{suite}: {name} of the resumed run differs")
    curve = pq.read_table(ours.parent / record.CURVE)
    return {"resumed": goes_on, "evaluations": len(curve), "test_loss": curve["test_loss"][-1].as_py()}
