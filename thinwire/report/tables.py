"""The table of a suite: accuracy, traffic, time, and the savings against the baseline (see `savings`)."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from thinwire.config.suite_schema import Suite
from thinwire.files import write_text
from thinwire.report.chance_level import at_chance_level
from thinwire.report.own_recipes import note, own_recipes
from thinwire.report.savings import (
    BUSIEST_LINK,
    CELL,
    TRAFFIC,
    WITH_PREPARATION,
    bytes_column,
    of_baseline,
    reduction_column,
    with_reductions,
)

# The column of the collected runs with the bytes of each traffic.
_COLLECTED = {
    "push": "payload_push_bytes",
    "pull": "payload_pull_bytes",
    "total": "payload_total_bytes",
    "wire": "wire_sent_bytes",
    BUSIEST_LINK: "wire_max_bytes",
    "between nodes": "between_nodes_bytes",
}
_NOTES = (
    "Accuracy: of the weights that the method delivers at the end, as mean ± standard deviation (number of "
    "runs that are done). Payload: what a worker pushes and pulls in the whole run, as encoded, in 10^6 "
    "bytes; mean over the workers. Less: the reduction of bytes against {baseline}, with the same data set, "
    "model and workers. Push, pull and total are payload. Wire is what a worker sends over the network, by "
    "the formula for a ring, a chain or a server; mean over the workers. Busiest link is the most that one "
    "worker sends, or receives; a parameter server's link carries the traffic of all workers. Between nodes "
    "is the part of wire that leaves the worker's node. How: in-process runs have exact accuracy and "
    "traffic, and no time; measured runs have a process for each worker."
)
_EMULATED = (
    "Emulated runs have a process for each worker, too, on nodes that one machine emulates: the cluster "
    "{cluster}. Their seconds say what methods take on its links, with the processors of that machine."
)
_PREPARED = (
    "Prepared: the bytes that the method's preparation sent before its runs, and the seconds that it took in "
    "one process. A preparation is made once for each model, data set and seed. Only the column `{column}` "
    "counts its bytes."
)
_TIMED = (
    "Training: seconds on the clock of the slowest worker, without evaluation; mean ± standard deviation. "
    "Speed-up: the baseline's mean seconds, with the same data set, model and workers, divided by the "
    "method's. With so few runs the table cannot say how certain it is."
)
_EPOCHS = (
    "Epochs: the number that was trained. A method that forecasts weights skips epochs; its row also has "
    "the number that the trained epochs stand for."
)
_AT_CHANCE = (
    "At chance level: the accuracy is at most 1/classes plus three standard deviations, which guessing "
    "reaches too."
)
# The metric of methods that jump over epochs: how many epochs the trained ones stand for.
_VIRTUAL = "method/virtual_epochs"
_STATUSES = ("done", "diverged", "timeout", "failed", "skipped")


def summarise(runs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """One row for each cell and method, over its runs that are done.

    Payload and wire bytes are means over the workers; `wire` is what a worker sends. `busiest link` is the
    most that one worker sends, or receives. The bytes of a method's preparation have columns of their own,
    and one reduction of their own (see `savings`).

    Args:
        runs: one row for each run.
        baseline: label of the method that reductions and speed-ups refer to.
    """
    if "train_seconds" not in runs:  # no run says anything about time
        runs = runs.assign(train_seconds=math.nan)
    prepared = runs.preparation_payload_push_bytes + runs.preparation_payload_pull_bytes
    runs = runs.assign(
        payload_total_bytes=runs.payload_push_bytes + runs.payload_pull_bytes,
        # Records of earlier versions do not say what was received, so their busiest link is not known.
        wire_max_bytes=runs[["wire_sent_max_bytes", "wire_received_max_bytes"]].max(axis=1, skipna=False),
        prepared_bytes=prepared,
        at_chance_level=at_chance_level(runs),
    )
    with_prepared = runs.payload_total_bytes + runs.prepared_bytes.fillna(0)
    order = list(dict.fromkeys(runs.method))
    groups = runs.groupby([*CELL, "method", "kind"], sort=False)
    rows = []
    for names, group in groups:
        done = group[group.status == "done"]
        counts = group.status.value_counts()
        rows.append(
            {
                **dict(zip([*CELL, "method", "kind"], names)),
                "epochs": group.epochs.iloc[0],
                "virtual_epochs": done[_VIRTUAL].mean() if _VIRTUAL in runs else math.nan,
                **{status: int(counts.get(status, 0)) for status in _STATUSES},
                "at_chance_level": done.at_chance_level.sum(skipna=False),
                "accuracy_mean_percent": done.test_accuracy_percent.mean(),
                "accuracy_sd_percent": done.test_accuracy_percent.std(ddof=1),
                **{bytes_column(name): done[c].mean() for name, c in _COLLECTED.items()},
                "preparation_bytes": group.prepared_bytes.mean(),
                bytes_column(WITH_PREPARATION): with_prepared[done.index].mean(),
                "preparation_seconds": group.preparation_seconds.mean(),
                "train_seconds": done.train_seconds.mean(),
                "train_seconds_sd": done.train_seconds.std(ddof=1),
                "no_time_because": "; ".join(dict.fromkeys(done.no_time_because.dropna())),
                "reason": "; ".join(dict.fromkeys(group.reason.dropna())),
            }
        )
    table = with_reductions(pd.DataFrame(rows), baseline)
    table["speed_up"] = of_baseline(table, baseline, "train_seconds") / table.train_seconds
    place = table.method.map(order.index)
    return table.assign(place=place).sort_values([*CELL, "place"]).drop(columns="place")


class About(NamedTuple):
    """What a table says about its suite."""

    title: str
    evaluated_on: str
    baseline: str
    recipes: Mapping[str, str] = MappingProxyType({})  # by label: where it is not that of the suite
    recipes_note: str = ""
    cluster: str | None = None  # of emulated runs
    subset: str | None = None  # says which part of the suite is shown, if it is not the whole

    @classmethod
    def of(cls, suite: Suite, subset: str | None = None) -> "About":
        """What the table of this suite says."""
        recipes = own_recipes(suite), note(suite)
        return cls(suite.title, suite.evaluate_on, suite.baseline, *recipes, suite.cluster, subset)


def markdown(table: pd.DataFrame, about: About) -> str:
    """The table in Markdown, with the meaning of its columns."""
    several_nodes = bool((table.nodes > 1).any())
    prepared = bool(table.preparation_bytes.notna().any())
    timed = bool(table.train_seconds.notna().any())
    epochs = table.epochs.nunique() > 1 or bool(table.virtual_epochs.notna().any())
    shown = pd.DataFrame(
        {
            "data set": table.dataset,
            "model": table.model,
            "workers": [f"{w} on {n} nodes" if n > 1 else str(w) for w, n in zip(table.workers, table.nodes)],
            "method": table.method,
            **({"epochs": [_epochs(row) for row in table.itertuples()]} if epochs else {}),
            **({"recipe": [about.recipes.get(m, "") for m in table.method]} if about.recipes else {}),
            f"accuracy on {about.evaluated_on.replace('_', '-')}, %": [
                _accuracy(row) for row in table.itertuples()
            ],
            "payload, MB": [_megabytes(value) for value in table.total_bytes],
            **(
                {
                    "prepared, MB": [_megabytes(value) for value in table.preparation_bytes],
                    "prepared, s": ["" if pd.isna(s) else f"{s:.0f}" for s in table.preparation_seconds],
                }
                if prepared
                else {}
            ),
            **{
                f"{name} less, %": [_percent(v) for v in table[reduction_column(name)]]
                for name in TRAFFIC
                if (several_nodes or name != "between nodes") and (prepared or name != WITH_PREPARATION)
            },
            **(
                {
                    "training, s": [_seconds(row) for row in table.itertuples()],
                    "speed-up": ["" if pd.isna(s) else f"{s:.2f}" for s in table.speed_up],
                }
                if timed
                else {}
            ),
            "how": table.kind,
        }
    )
    reasons = zip(table.model, table.workers, table.method, table.reason)
    guessing = bool((table.at_chance_level > 0).any())
    untimed = dict.fromkeys(why for why in table.no_time_because if why)
    notes = [f"{model}, {w} workers, {method}: {reason}." for model, w, method, reason in reasons if reason]
    return "\n".join(
        [
            f"# {about.title}",
            "",
            *([about.subset, ""] if about.subset else []),
            shown.to_markdown(index=False, disable_numparse=True),
            "",
            _NOTES.format(baseline=about.baseline),
            *([_EMULATED.format(cluster=about.cluster)] if about.cluster else []),
            *([_AT_CHANCE] if guessing else []),
            *([_EPOCHS] if epochs else []),
            *([about.recipes_note] if about.recipes_note else []),
            *([_PREPARED.format(column=f"{WITH_PREPARATION} less, %")] if prepared else []),
            *([_TIMED] if timed else []),
            *[f"No time, because {why}." for why in untimed],
            *(["", *notes] if notes else []),
            "",
        ]
    )


def write(table: pd.DataFrame, about: About, folder: Path) -> None:
    """Write `summary.csv` and `summary.md`."""
    write_text(folder / "summary.csv", table.to_csv(index=False, float_format="%.6g"))
    write_text(folder / "summary.md", markdown(table, about))


def _accuracy(row: object) -> str:
    counts = {status: getattr(row, status) for status in _STATUSES}
    rest = [f"{count} {status}" for status, count in counts.items() if count and status != "done"]
    if not counts["done"]:
        return ", ".join(rest)
    if row.at_chance_level > 0:  # type: ignore[attr-defined]
        rest.insert(0, f"{row.at_chance_level:g} at chance level")  # type: ignore[attr-defined]
    mean, sd = row.accuracy_mean_percent, row.accuracy_sd_percent  # type: ignore[attr-defined]
    spread = f" ± {sd:.2f}" if counts["done"] > 1 else ""
    return f"{mean:.2f}{spread} ({counts['done']})" + "".join(f", {part}" for part in rest)


def _seconds(row: object) -> str:
    mean, sd = row.train_seconds, row.train_seconds_sd  # type: ignore[attr-defined]
    return "" if pd.isna(mean) else f"{mean:.1f}" + ("" if pd.isna(sd) else f" ± {sd:.1f}")


def _epochs(row: object) -> str:
    trained, virtual = row.epochs, row.virtual_epochs  # type: ignore[attr-defined]
    return str(trained) if pd.isna(virtual) else f"{trained} for {virtual:g}"


def _megabytes(value: float) -> str:
    return "" if pd.isna(value) else f"{value / 1e6:.3f}"


def _percent(value: float) -> str:
    # 99.96 % must not be rounded to 100 %.
    text = f"{value:.2f}" if 99 < value < 100 else f"{value:.1f}"
    return "" if pd.isna(value) else "0.0" if text == "-0.0" else text
