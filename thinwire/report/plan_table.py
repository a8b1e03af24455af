"""The answers of `thinwire plan` as a table, and what is known of the simulator and of methods without runs.

The errors are those of the newest validation of the simulator. What is known of accuracy are the comparisons
of the suite `laptop` in the committed results, whatever results a table or figure is about.
"""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, cast

import pandas as pd

from thinwire import plugins
from thinwire.base.folders import REFERENCE
from thinwire.base.options import resolve
from thinwire.config.suite import load
from thinwire.config.yaml_file import Module
from thinwire.plugins import ROOT
from thinwire.report.paired import Verdict
from thinwire.report.report_files import fixed, with_minus

if TYPE_CHECKING:
    from thinwire.simulation.plan import Answer, LeftOut, Question

Row = dict[str, object]
_POINTS = ROOT / "benchmarks" / "records" / "validation.csv"
# Of 2 workers over links with a latency; emulated ones have this latency at least.
_FAR_POINTS = ROOT / "benchmarks" / "records" / "latency.csv"
_FAR_WORKERS, _FAR_SECONDS = 2, 1e-3
_UNKNOWN = "unknown"
# The class of a module in the validation of the simulator. Of others, the error is not known.
CLASS_OF = {
    "ssgd": "all-reduce",
    "power_sgd": "all-reduce",
    "top_k": "all-gather",
    "dgc": "all-gather",
    "qsgd": "all-gather",
    "ef21": "all-gather",
    "hsgd": "hierarchical",
    "ps_sgd": "server",
    "hylo": "server",
    "local_sgd": "local",
    "diloco": "local",
    "des_loc": "local",
    "daso": "delayed",
    "multi_step_delay": "delayed",
}
_BASELINE = "ssgd"  # the module of baselines, and the method of the study that others are compared with
STUDY = "laptop"
_COMPARISONS = ROOT / REFERENCE / "tables" / STUDY / "comparisons.csv"
# They average the gradients that SSGD averages; the contract checks that they end at its weights.
_AVERAGE_THE_SAME = ("hsgd", "ps_sgd")
_HEADS = {
    "method": "method",
    "step_seconds": "step, s",
    "between_nodes_bytes": "MB sent",
    "speed_up": "speed-up",
    "required_gbit_per_second": "Gbit/s needed",
    "error_percent": "error, %",
    "accuracy": "accuracy",
}


@dataclass(frozen=True)
class Validated:
    """What the simulator was compared with, over links with a latency or without."""

    median_percent: dict[str, float]  # of the error of a step, by the class of the method, or by its module
    most_workers: int
    rates_mbit_per_second: tuple[float, float]
    most_latency_seconds: float

    @classmethod
    def read(cls, latency_seconds: float = 0.0) -> "Validated | None":
        """The newest validation over links of such a latency; None where only the engine is installed."""
        far = latency_seconds >= _FAR_SECONDS
        path = _FAR_POINTS if far else _POINTS
        if not path.exists():
            return None
        points = pd.read_csv(path)
        if far:
            points = points[points.round_trip_ms > 0]
            error, kind = points.simulated_seconds / points.measured_seconds - 1, points.method
            most_workers, most_latency = _FAR_WORKERS, points.round_trip_ms.max() / 2e3
        else:
            error, kind, most_workers, most_latency = points.error, points.kind, points.workers.max(), 0.0
        rates = points.rate_mbit_per_second
        medians = (100 * error.abs()).groupby(kind).median()
        return cls(dict(medians), int(most_workers), (float(rates.min()), float(rates.max())), most_latency)

    def error_percent(self, module: str) -> float | None:
        """The median error of a step in the class of a module; None if it is in none."""
        return self.median_percent.get(module if self.most_latency_seconds else CLASS_OF.get(module, ""))

    def holds(self, workers: int, rate_gbit_per_second: float, latency_seconds: float = 0.0) -> bool:
        """Was the simulator compared with so many workers, and with links of this rate and latency?"""
        low, high = self.rates_mbit_per_second
        near = latency_seconds <= max(self.most_latency_seconds, _FAR_SECONDS)
        return near and workers <= self.most_workers and low <= 1e3 * rate_gbit_per_second <= high

    def range_in_words(self) -> str:
        """What it had: `at most 4 workers, 50 to 300 Mbit/s, and CPUs`."""
        low, high = self.rates_mbit_per_second
        far = f" and {1e3 * self.most_latency_seconds:g} ms one way" if self.most_latency_seconds else ""
        return f"at most {self.most_workers} workers, {low:g} to {high:g} Mbit/s{far}, and CPUs"


class Known(StrEnum):
    """What is known of the accuracy of a method beside that of SSGD."""

    SAME = "same"  # by construction, or equivalent in every comparison
    CHANGED = "changed"  # different in at least one comparison
    INCONCLUSIVE = "inconclusive"  # compared, and none of the two
    UNKNOWN = "unknown"  # never compared


def known(label: str) -> Known:
    """What is known of the method with this label; of SSGD, all variants count as the same."""
    if label == _BASELINE or label.startswith(f"{_BASELINE}_") or label in _AVERAGE_THE_SAME:
        return Known.SAME
    comparisons = of_methods().get(label)
    if comparisons is None:
        return Known.UNKNOWN
    verdicts = set(comparisons.verdict)
    if Verdict.DIFFERENT in verdicts:
        return Known.CHANGED
    return Known.SAME if verdicts == {Verdict.NO_EFFECT} else Known.INCONCLUSIVE


def accuracy_in_words(label: str) -> str:
    """The verdicts on the method with this label, and the range of the mean differences."""
    comparisons = of_methods().get(label)
    if comparisons is None:
        return Known.UNKNOWN
    differences = comparisons.difference_mean_points
    counts = comparisons.verdict.value_counts()
    verdicts = ", ".join(f"{counts[v]} {v.value.replace('_', ' ')}" for v in Verdict if v in counts)
    least, most = (_signed(difference) for difference in (differences.min(), differences.max()))
    return f"{verdicts} ({least} to {most} points)"


def _signed(points: float) -> str:
    text = with_minus(points, 1)
    return f"+{text}" if float(fixed(points, 1)) > 0 else text


@cache
def of_methods() -> dict[str, pd.DataFrame]:
    """The comparisons of each method, by its label; none where only the engine is installed."""
    if not _COMPARISONS.exists():
        return {}
    return {str(label): own for label, own in pd.read_csv(_COMPARISONS).groupby("method")}


# What the rows that are compared with each other have in common.
PLACE = ["suite", "model", "accelerator", "workers", "nodes", "rate_gbit_per_second", "latency_seconds"]


def fastest(rows: pd.DataFrame, states: Collection[Known] = tuple(Known)) -> pd.DataFrame:
    """A row for each place, with the method whose step is the shortest there.

    Args:
        rows: as `simulated_file.read_times` gives them; places without a baseline are left out.
        states: the methods that take part are those of whose accuracy this is known, and the baselines.

    Returns:
        The columns of `PLACE`, then `workers_per_node`, `method`, `step_seconds`, `baseline` (the fastest
        one), `gain` (its step over that of the method, at least 1) and `accuracy` (a `Known`).
    """
    accuracy = rows.method.map({label: known(label) for label in rows.method.unique()})
    own = rows.assign(
        workers_per_node=rows.workers // rows.nodes,
        gain=rows.speed_up,
        accuracy=accuracy,
        other=rows.method != rows.baseline,
    )
    own = own[own.baseline.notna() & (own.accuracy.isin(list(states)) | ~own.other)]
    # Where a method takes as long as a baseline, the baseline is named.
    best = own.sort_values([*PLACE, "step_seconds", "other", "method"]).drop_duplicates(PLACE)
    columns = [*PLACE, "workers_per_node", "method", "step_seconds", "baseline", "gain", "accuracy"]
    return best[columns].reset_index(drop=True)


def rows(found: "Sequence[Answer]", latency_seconds: float) -> list[Row]:
    """A row for each method over links of such a latency; unknown numbers are None.

    `required_gbit_per_second` is 0 where any rate that is tried will do, and None where none will.
    """
    validated = Validated.read(latency_seconds)
    baseline = min((one.seconds for one in found if one.method.module.use == _BASELINE), default=None)
    made: list[Row] = []
    for one in found:
        module, required = one.method.module, one.required_gbit_per_second
        made.append(
            {
                "method": module.label,
                "step_seconds": one.seconds,
                "compute_seconds": one.compute_seconds,
                "between_nodes_bytes": one.between_nodes_bytes,
                "speed_up": None if baseline is None else baseline / one.seconds,
                "required_gbit_per_second": required if math.isfinite(required) else None,
                "error_percent": None if validated is None else validated.error_percent(module.use),
                "accuracy": _accuracy(module.label),
                "other_options": _other_options(module),
            }
        )
    return made


def _other_options(module: Module) -> dict[str, dict[str, object]]:
    """The options that differ where its accuracy was compared; of SSGD, they do not change it."""
    if module.use == _BASELINE or module.label not in of_methods():
        return {}
    studied = load(STUDY).methods.get(module.label)
    if studied is None:
        return {}
    method = plugins.get("method", module.use).load()
    times, accuracy = (asdict(resolve(method, options)) for options in (module.options, studied.options))
    return {
        name: {"times": value, "accuracy": accuracy[name]}
        for name, value in times.items()
        if value != accuracy[name]
    }


def _in_words(row: Row) -> str:
    """The other options of a row: `Options of diloco: period 100 in the times, 16 in the accuracy.`"""
    options = cast("dict[str, dict[str, object]]", row["other_options"])
    each = [
        f"{name} {json.dumps(values['times'])} in the times, {json.dumps(values['accuracy'])} in the accuracy"
        for name, values in options.items()
    ]
    return f"Options of {row['method']}: {'; '.join(each)}."


def _accuracy(label: str) -> str:
    """How the accuracy of a method differed from that of SSGD in the study. Buckets do not change it."""
    alike = label.removesuffix("_one_bucket")
    return "baseline" if alike == _BASELINE else accuracy_in_words(alike)


def sentences(
    question: "Question", network: str, found: "Sequence[Answer]", left: "Sequence[LeftOut]"
) -> str:
    """The table with what it holds for, and how far it can be relied upon."""
    from thinwire.simulation.plan import UTILISATION  # torch, which the page does not need

    made = rows(found, question.latency_seconds)
    table = pd.DataFrame(made)[list(_HEADS)].rename(columns=_HEADS)
    shown = {
        "step, s": lambda seconds: f"{seconds:.4g}",
        "MB sent": lambda sent: fixed(sent / 1e6, 2),
        "speed-up": lambda factor: _UNKNOWN if pd.isna(factor) else fixed(factor, 2),
        "Gbit/s needed": lambda rate: "none does" if pd.isna(rate) else f"{rate:.3g}" if rate else "any",
        "error, %": lambda error: _UNKNOWN if pd.isna(error) else fixed(error, 1),
    }
    # Pandas would not ask a formatter about a missing number.
    columns = {name: table[name].map(show) for name, show in shown.items()}
    cluster = question.cluster()
    lines = [
        f"{network}; {question.workers} workers on {question.nodes} nodes, "
        f"{question.rate_gbit_per_second:g} Gbit/s a node, {1e3 * question.latency_seconds:g} ms one way; "
        f"{question.accelerator}. All times are simulated, without data.",
        table.assign(**columns).to_string(index=False, justify="right"),
        "MB sent: between nodes, a step and worker. Speed-up: over the fastest variant of "
        f"{_BASELINE}. Gbit/s needed: of a node's link, so that a worker computes in "
        f"{100 * UTILISATION:g} % of the time.",
        f"Inside a node: {cluster.memory_bus_gigabytes_per_second:g} GB/s; a call takes "
        f"{1e6 * cluster.call_latency_seconds:g} microseconds of software ({cluster.name}).",
        _reliance(question),
        f"Accuracy: beside ssgd in the suite {STUDY}, two small networks on 4 to 16 workers, "
        "with the settings of that suite. Nobody knows it of your network.",
        *(_in_words(row) for row in made if row["other_options"]),
    ]
    return "\n".join([*lines, *(f"Left out: {one.label}: {one.reason}" for one in left)])


def _reliance(question: "Question") -> str:
    validated = Validated.read(question.latency_seconds)
    if validated is None:
        return "Error: the record of the validation is not here."
    holds = validated.holds(question.workers, question.rate_gbit_per_second, question.latency_seconds)
    compared = "method" if validated.most_latency_seconds else "method's class"
    return (
        f"Error: of a step in the validation, the median of the {compared}. It had "
        f"{validated.range_in_words()}: this is {'inside' if holds else 'outside'} of it."
    )
