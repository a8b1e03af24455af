"""A run as W&B shows it: names, options, curve and result. The record is the source; this is a view of it.

Rule 10 of RULES.md holds here too: no seconds of an in-process run are shown.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from thinwire import RULES_VERSION
from thinwire.base import digests
from thinwire.base.folders import flat
from thinwire.base.learning import TASKS
from thinwire.config.cell import Cell
from thinwire.config.suite import load
from thinwire.config.trials import PREFIX
from thinwire.records.record import Record
from thinwire.records.result import BYTES

# W&B takes ids, names, groups and projects up to 128 characters, and tags and job types up to 64.
LONGEST, LONGEST_TAG = 128, 64
_DIGEST = 8
JOB_TYPE = "summary"  # of the run that sums up a suite


def project(suite: str) -> str:
    """The project of a suite. Each suite has its own, because W&B is slow with thousands of runs in one."""
    return bounded("thinwire-" + flat(suite))


def run_name(cell: Cell) -> str:
    """The cell as people read it: data set, model, method, size, repetition."""
    return bounded(safe(cell.path))


def run_id(cell: Cell) -> str:
    """An id that depends on the cell and its options only, so that a run that is sent twice exists once."""
    return id_of(f"{cell.suite}/{cell.path}", cell.fingerprint)


def id_of(name: str, digest: str) -> str:
    """An id that a person can read, and that is another one if the digest is."""
    return f"{bounded(safe(name), LONGEST - _DIGEST - 1)}-{digest[:_DIGEST]}"


def group(cell: Cell) -> str:
    """The cell without its seed, so that a chart of a group shows a mean and a spread over the seeds.

    W&B draws at most 100 runs of a group, and at random if there are more.
    """
    own = f"{cell.suite}/{cell.path.rpartition('/')[0]}"
    return bounded(f"{own}/{cell.kind}" if cell.deviates else own)


def tags(*words: str) -> list[str]:
    """These words and the version of the rules, each once."""
    return list(dict.fromkeys(bounded(word, LONGEST_TAG) for word in (*words, f"rules {RULES_VERSION}")))


def safe(text: str) -> str:
    """The text without characters that W&B refuses in an id, or that have a meaning in a URL or a path."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def bounded(text: str, longest: int = LONGEST) -> str:
    """The text, cut to `longest` characters. A cut text ends in a digest of the whole, so it stays unique."""
    if len(text) <= longest:
        return text
    digest = digests.of_text(text)[:_DIGEST]
    return f"{text[: longest - _DIGEST - 1]}-{digest}"


class Metric(NamedTuple):
    """What is drawn over an axis, under the record's name, which has its unit. Losses are in nats."""

    name: str
    better: str | None
    """Which of its values is the best one, as W&B says it: `max` or `min`; None if neither is."""

    @property
    def summary(self) -> str | None:
        """What W&B keeps of its values: the last one and the best one."""
        return self.better and f"last,{self.better}"


SCORES = {task.test_column: "max" if task.higher_is_better else "min" for task in TASKS.values()}
METRICS = (
    *(Metric(name, better) for name, better in SCORES.items()),
    Metric("test_loss", "min"),
    Metric("train_loss", "min"),
    Metric("lr", None),
    Metric("method/*", None),
)
# Counts, without a unit.
_COUNTS = ("step", "epoch", "samples")
_CLOCKS = ("train", "eval", "harness")
PAYLOAD = "bytes/payload_total"
# Not shown of what decides the result: the recipe of the preparation is nearly always the run's own.
_LEFT_OUT = ("preparer_recipe",)
# Shown of the provenance. When a run began and ended is not, because that would tell how long it took.
_ORIGIN = ("thinwire", "git", "python", "torch_build", "hardware", "emulation")


def seconds_of(kind: str, no_time_because: str | None = None) -> str | None:
    """The name of a run's seconds, which says how they came about; None if they say nothing (rule 10)."""
    return None if kind == "inprocess" or no_time_because else f"{kind}_seconds"


def axes(seconds: str | None) -> list[str]:
    """What a curve may be drawn over, with `seconds` as of `seconds_of`: W&B offers each as the x axis."""
    times = [] if seconds is None else [f"{seconds}/train"]
    return [*_COUNTS, PAYLOAD, *map(_bytes, BYTES), *times]


class About(TypedDict):
    """What is known before a run begins, as arguments of `wandb.init`."""

    project: str
    id: str
    name: str
    group: str
    job_type: str
    tags: list[str]
    config: dict[str, object]


def about(cell: Cell, kind: str) -> About:
    """About the run of a cell."""
    identity = {key: value for key, value in cell.identity().items() if key not in _LEFT_OUT}
    return {
        "project": project(cell.suite),
        "id": run_id(cell),
        "name": run_name(cell),
        "group": group(cell),
        "job_type": "tune" if cell.suite.startswith(PREFIX) else "train",
        "tags": tags(kind, cell.method.label, cell.suite),
        "config": identity | {"fingerprint": cell.fingerprint, "kind": kind},
    }


def about_suite(suite: str, grid: Sequence[Cell]) -> About:
    """About the run that sums up a suite of these cells. The run's id changes when one of them does."""
    digest = digests.of_identity([cell.fingerprint for cell in grid])
    return {
        "project": project(suite),
        "id": id_of(f"{suite}/{JOB_TYPE}", digest),
        "name": JOB_TYPE,
        "group": bounded(f"{suite}/{JOB_TYPE}"),
        "job_type": JOB_TYPE,
        "tags": tags(suite),
        "config": {"suite": suite, "rules": RULES_VERSION, "title": load(suite).title},
    }


def config(run: Record) -> dict[str, object]:
    """What the record adds to the configuration: resolved options, sizes and provenance.

    Mappings stay nested: W&B shows them as `method.label`, and groups and filters by that. It does neither by
    a key that has a dot itself.
    """
    options = {"method": run.method_options, "model": run.model_options}
    return {
        **{
            name: {**run.cell[name], "options": run.cell[name]["options"] | resolved}
            for name, resolved in options.items()
        },
        "parameters": run.parameters,
        "total_steps": run.total_steps,
        "steps_per_epoch": run.steps_per_epoch,
        "interruptions": run.interruptions,
        **({} if run.no_time_because is None else {"no_time_because": run.no_time_because}),
        **({} if run.partition is None else {"partition": run.partition.model_dump()}),
        **{name: run.provenance[name] for name in _ORIGIN if name in run.provenance},
    }


def history(row: Mapping[str, Any], seconds: str | None) -> dict[str, Any]:
    """A row of the curve: counts, bytes as means over the workers, and seconds if they have a name."""
    scores = {
        name: value
        for name, value in row.items()
        if not name.endswith(("_bytes", "_seconds")) and value is not None
    }
    return scores | _traffic(row) | _seconds({c: row[f"{c}_seconds"] for c in _CLOCKS}, seconds)


def summary(run: Record) -> dict[str, object]:
    """The result, under the same names as in the history, and how the run ended.

    The score has two values: the last one, which is the result, and the best one.
    """
    shown: dict[str, object] = {"status": run.status}
    if run.reason:
        shown["reason"] = run.reason
    if run.preparation is not None:
        sent = _traffic(run.preparation.traffic.model_dump())
        shown |= {name.replace("bytes/", "bytes/preparation_"): value for name, value in sent.items()}
    if run.result is not None:
        result, learns = run.result, run.learns
        last, best = (getattr(result, name) for name in (learns.test_column, learns.best_column))
        shown |= {"step": result.steps, learns.test_column: {"last": last, SCORES[learns.test_column]: best}}
        seconds = seconds_of(run.kind, run.no_time_because)
        shown |= _traffic(result.traffic.model_dump()) | _seconds(result.seconds.model_dump(), seconds)
    return shown


def _traffic(row: Mapping[str, float]) -> dict[str, float]:
    total = row["payload_push_bytes"] + row["payload_pull_bytes"]
    return {PAYLOAD: total} | {_bytes(name): row[name] for name in BYTES}


def _bytes(name: str) -> str:
    return f"bytes/{name.removesuffix('_bytes')}"


def _seconds(clocks: Mapping[str, float], seconds: str | None) -> dict[str, float]:
    return {} if seconds is None else {f"{seconds}/{clock}": value for clock, value in clocks.items()}
