"""A run as W&B shows it: names, options, curve and result. The record is the source; this is a view of it.

Rule 10 of RULES.md holds here too: no seconds of an in-process run are shown.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from thinwire.base import digests
from thinwire.base.learning import TASKS
from thinwire.base.names import flat
from thinwire.config.cell import Cell
from thinwire.records.record import Record
from thinwire.records.result import BYTES

# W&B takes ids, names, groups and projects up to 128 characters, and tags and job types up to 64.
LONGEST, LONGEST_TAG = 128, 64
_DIGEST = 8


def project(suite: str) -> str:
    """The project of a suite. Each suite has its own, because W&B is slow with thousands of runs in one."""
    return bounded("thinwire-" + flat(suite))


def run_name(cell: Cell) -> str:
    """The cell as people read it: data set, model, method, size, repetition."""
    return bounded(safe(cell.path))


def run_id(cell: Cell) -> str:
    """An id that depends on the cell and its options only, so that a run that is sent twice exists once."""
    readable = bounded(safe(f"{cell.suite}/{cell.path}"), LONGEST - _DIGEST - 1)
    return f"{readable}-{cell.fingerprint[:_DIGEST]}"


def group(cell: Cell) -> str:
    """The runs that belong in one picture: all methods and sizes on one model and data set."""
    return bounded(f"{cell.suite}/{cell.dataset}/{cell.model.label}")


def safe(text: str) -> str:
    """The text without characters that W&B refuses in an id, or that have a meaning in a URL or a path."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def bounded(text: str, longest: int = LONGEST) -> str:
    """The text, cut to `longest` characters. A cut text ends in a digest of the whole, so it stays unique."""
    if len(text) <= longest:
        return text
    digest = digests.of_text(text)[:_DIGEST]
    return f"{text[: longest - _DIGEST - 1]}-{digest}"


# Counts, without a unit.
_COUNTS = ("step", "epoch", "samples")
# What is drawn over these axes, under the record's names.
METRICS = (*(task.test_column for task in TASKS.values()), "test_loss", "train_loss", "lr", "method/*")
_CLOCKS = ("train", "eval", "harness")
_PAYLOAD = "bytes/payload_total"
# Not shown of what decides the result: the recipe of the preparation is nearly always the run's own.
_LEFT_OUT = ("preparer_recipe",)
# Shown of the provenance. When a run began and ended is not, because that would tell how long it took.
_ORIGIN = ("thinwire", "git", "python", "torch_build", "hardware", "emulation")


def axes(kind: str) -> list[str]:
    """What a curve may be drawn over. W&B offers each of these as the x axis of a panel."""
    return [*_COUNTS, _PAYLOAD, *map(_bytes, BYTES), *(["seconds/train"] if has_time(kind) else [])]


def has_time(kind: str) -> bool:
    """Whether runs of this kind say anything about time; in-process runs do not."""
    return kind != "inprocess"


def about(cell: Cell, kind: str) -> dict[str, Any]:
    """What is known before a run begins, as arguments of `wandb.init`."""
    identity = {key: value for key, value in cell.identity().items() if key not in _LEFT_OUT}
    return {
        "project": project(cell.suite),
        "id": run_id(cell),
        "name": run_name(cell),
        "group": group(cell),
        "job_type": bounded(cell.method.label, LONGEST_TAG),
        "tags": [kind],
        "config": flattened(identity | {"fingerprint": cell.fingerprint, "kind": kind}),
    }


def config(run: Record) -> dict[str, object]:
    """What the record adds to the configuration: resolved options, sizes and provenance."""
    resolved = {
        "method": {"options": run.method_options},
        "model": {"options": run.model_options},
        "parameters": run.parameters,
        "total_steps": run.total_steps,
        "steps_per_epoch": run.steps_per_epoch,
        "interruptions": run.interruptions,
        **({} if run.partition is None else {"partition": run.partition.model_dump()}),
    }
    return flattened(resolved | {name: run.provenance[name] for name in _ORIGIN if name in run.provenance})


def history(row: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A row of the curve: counts, bytes as means over the workers, and seconds if the kind of run has any."""
    scores = {
        name: value
        for name, value in row.items()
        if not name.endswith(("_bytes", "_seconds")) and value is not None
    }
    return scores | _traffic(row) | _seconds({c: row[f"{c}_seconds"] for c in _CLOCKS}, kind)


def summary(run: Record) -> dict[str, object]:
    """The result, under the same names as in the history, and how the run ended."""
    shown: dict[str, object] = {"status": run.status}
    if run.reason:
        shown["reason"] = run.reason
    if run.preparation is not None:
        sent = _traffic(run.preparation.traffic.model_dump())
        shown |= {name.replace("bytes/", "bytes/preparation_"): value for name, value in sent.items()}
    if run.result is not None:
        result, learns = run.result, run.learns
        shown |= {name: getattr(result, name) for name in (learns.test_column, learns.best_column)}
        shown |= {"step": result.steps, "test_loss": result.test_loss}
        shown |= _traffic(result.traffic.model_dump()) | _seconds(result.seconds.model_dump(), run.kind)
    return shown


def flattened(tree: Mapping[str, object]) -> dict[str, object]:
    """A nested mapping as one level with dotted keys."""
    return dict(_leaves(tree, ""))


def _leaves(tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _traffic(row: Mapping[str, float]) -> dict[str, float]:
    total = row["payload_push_bytes"] + row["payload_pull_bytes"]
    # Records of earlier versions lack some of these.
    return {_PAYLOAD: total} | {_bytes(name): row[name] for name in BYTES if row.get(name) is not None}


def _bytes(name: str) -> str:
    return f"bytes/{name.removesuffix('_bytes')}"


def _seconds(clocks: Mapping[str, float], kind: str) -> dict[str, float]:
    return {f"seconds/{clock}": value for clock, value in clocks.items()} if has_time(kind) else {}
