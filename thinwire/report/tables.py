"""The table of a suite: accuracy, traffic, and how much less traffic than the baseline."""

import math
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from thinwire.files import write_text

CELL = ["dataset", "model", "workers", "nodes"]
_TRAFFIC = {
    "push": "payload_push_bytes",
    "pull": "payload_pull_bytes",
    "total": "payload_total_bytes",
    "wire": "wire_sent_bytes",
    "between nodes": "between_nodes_bytes",
}
# The payload of a run and of its preparation, which several runs may share.
_WITH_PREPARED = "total with prepared"
_NOTES = (
    "Accuracy of the weights that the method ships at the end: mean ± standard deviation (number of runs "
    "that are done). Payload: what a worker encodes and decodes in the whole run, push and pull, in 10^6 "
    "bytes, mean over the workers. Less: how much fewer bytes than {baseline} in the same cell, for the "
    "payload pushed, pulled and both, for what a worker puts on the wire (ring, chain or server, by "
    "formula), and for the part of that which leaves its node. How: runs in process have exact accuracy and "
    "traffic, and no time; measured ones have a process for each worker."
)
_PREPARED = (
    "Prepared: what the method's preparation sent before its runs, once for each model, data set and seed, "
    "and only in the column that says so; and the seconds that it took in one process, where it was made."
)
_TIMED = (
    "Training: seconds on the clock of the slowest worker, without evaluation, mean ± standard deviation. "
    "Speed-up: the baseline's mean seconds in the same cell, over the method's; how far means of so few runs "
    "can be trusted is not said here."
)
_EPOCHS = (
    "Epochs: as many as were trained; of a method that skips epochs by a forecast, also how many these "
    "stand for."
)
# Noted by methods that jump over epochs: how many those stand for that were trained.
_VIRTUAL = "method/virtual_epochs"
_STATUSES = ("done", "diverged", "timeout", "failed", "skipped")


def summarise(runs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """One row for each cell and method, from one row a run, over the runs that are done.

    `*_reduction_percent` compares mean bytes with the baseline's in the same cell: 0 is as much, 100 is
    nothing. Payload and wire are means over the workers, `wire` is what a worker sends. What a method's
    preparation sent stands apart, and is in no reduction.
    """
    if "train_seconds" not in runs:  # of no run: none says anything about time
        runs = runs.assign(train_seconds=math.nan)
    prepared = runs.preparation_payload_push_bytes + runs.preparation_payload_pull_bytes
    runs = runs.assign(
        payload_total_bytes=runs.payload_push_bytes + runs.payload_pull_bytes, prepared_bytes=prepared
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
                "accuracy_mean_percent": done.test_accuracy_percent.mean(),
                "accuracy_sd_percent": done.test_accuracy_percent.std(ddof=1),
                **{f"{name.replace(' ', '_')}_bytes": done[c].mean() for name, c in _TRAFFIC.items()},
                "preparation_bytes": group.prepared_bytes.mean(),
                f"{_WITH_PREPARED.replace(' ', '_')}_bytes": with_prepared[done.index].mean(),
                "preparation_seconds": group.preparation_seconds.mean(),
                "train_seconds": done.train_seconds.mean(),
                "train_seconds_sd": done.train_seconds.std(ddof=1),
                "no_time_because": "; ".join(dict.fromkeys(done.no_time_because.dropna())),
                "reason": "; ".join(dict.fromkeys(group.reason.dropna())),
            }
        )
    table = pd.DataFrame(rows)
    of_baseline = table[table.method == baseline].set_index(CELL)
    for name in (name.replace(" ", "_") for name in (*_TRAFFIC, _WITH_PREPARED)):
        reference = pd.Series(
            [of_baseline[f"{name}_bytes"].get(key) for key in table[CELL].itertuples(index=False, name=None)],
            dtype=float,
        )
        table[f"{name}_reduction_percent"] = 100 * (
            1 - table[f"{name}_bytes"] / reference.where(reference > 0)
        )
    baseline_seconds = [
        of_baseline.train_seconds.get(key) for key in table[CELL].itertuples(index=False, name=None)
    ]
    table["speed_up"] = pd.Series(baseline_seconds, dtype=float) / table.train_seconds
    place = table.method.map(order.index)
    return table.assign(place=place).sort_values([*CELL, "place"]).drop(columns="place")


class About(NamedTuple):
    """What a table is of."""

    title: str
    evaluated_on: str
    baseline: str


def markdown(table: pd.DataFrame, about: About) -> str:
    """The table for people, with what its columns mean."""
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
                f"{name} less, %": [_percent(v) for v in table[f"{name.replace(' ', '_')}_reduction_percent"]]
                for name in (*_TRAFFIC, _WITH_PREPARED)
                if (several_nodes or name != "between nodes") and (prepared or name != _WITH_PREPARED)
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
    untimed = dict.fromkeys(why for why in table.no_time_because if why)
    notes = [f"{model}, {w} workers, {method}: {reason}." for model, w, method, reason in reasons if reason]
    return "\n".join(
        [
            f"# {about.title}",
            "",
            shown.to_markdown(index=False, disable_numparse=True),
            "",
            _NOTES.format(baseline=about.baseline),
            *([_EPOCHS] if epochs else []),
            *([_PREPARED] if prepared else []),
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
    # A reduction of 99.96 % is not one of 100 %.
    return "" if pd.isna(value) else f"{value:.2f}" if 99 < value < 100 else f"{value:.1f}"
