"""Texts of figures fit and cover no other, with the longest labels that are allowed and those of a suite."""

from functools import partial
from itertools import product

import pandas as pd
import pytest

from tests import frames, simulated
from tests.unit.test_labels_of_figures import overlaps
from thinwire.base.folders import LONGEST_LABEL
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.figures import comparisons, looks, scores, speed_ups, steps, style, times_map, traffic
from thinwire.report.report_files import FORMATS
from thinwire.report.rows import times

# Wide letters; the labels differ in the last one.
LONGEST = {
    "methods": [f"{'W' * (LONGEST_LABEL - 1)}{i}" for i in range(6)],
    **{name: [f"{'W' * (LONGEST_LABEL - 1)}{i}" for i in range(2)] for name in ("model", "cluster")},
    "dataset": ["W" * LONGEST_LABEL],
}
OF_A_SUITE = {
    "methods": ["ssgd", "ssgd_bf16_one_bucket", "ssgd_one_bucket", "daso", "multi_step_delay", "local_sgd_4"],
    "model": ["lenet", "cnn_bn"],
    "cluster": ["ethernet_1g", "infiniband_100g_4gpus"],
    "dataset": ["fashion_mnist"],
}
LABELS = pytest.mark.parametrize(
    "labels", [LONGEST, pytest.param(OF_A_SUITE, marks=pytest.mark.slow)], ids=["longest", "of_a_suite"]
)


def baselines(labels):
    return labels["methods"][:2]


def renamed(frame, labels, methods):
    """A frame on two models, with other labels for its methods and its data set."""
    names = dict(zip(methods, labels["methods"]))
    own = frame.assign(method=frame.method.map(names), dataset=labels["dataset"][0], workers=16, nodes=4)
    if "against" in own:
        own["against"] = labels["methods"][0]
    return pd.concat([own.assign(model=model) for model in labels["model"]], ignore_index=True)


def curves(labels):
    made = frames.curves(range(len(labels["methods"])))
    return renamed(made.assign(train_seconds=2.0 * made.epoch), labels, range(len(labels["methods"])))


def to_target(labels):
    needed = {name: [4.0 + i, 5.0, 6.0] for i, name in enumerate(labels["methods"])}
    return frames.to_target(needed).assign(kind="inprocess")


def table_of_times(labels, workers=(16,), rates=(0,)):
    made = [
        simulated.row(method, 3.0 + number, workers=size, nodes=4, rate_gbit_per_second=rate or 1.0)
        | {"own_rate": not rate, "dataset": labels["dataset"][0]}
        | {"model": model, "cluster": cluster}
        for model in labels["model"]
        for cluster in labels["cluster"]
        for size in workers
        for rate in rates
        for number, method in enumerate(labels["methods"])
    ]
    return simulated.table_of_times(*made, baselines=baselines(labels))


def ratios():
    places = product((2, 8, 32), (0.1, 1.0, 10.0, 100.0), (0.03, 0.3, 3.0, 30.0))
    made = pd.DataFrame(places, columns=["nodes", "rate_gbit_per_second", "compute_seconds"])
    ratio = 1 + made.nodes * 8 / (made.rate_gbit_per_second * made.compute_seconds) ** 0.5
    about = {"cluster": "ethernet_25g_4gpus", "accelerator": "a100_tf32"}
    return made.assign(workers=4 * made.nodes, ratio=ratio, **about)


def times_without_data(labels):
    """Of four networks, one with a long name, at each of five rates: another method is the fastest."""
    methods = ["ssgd", "hsgd", "daso", "sparse_loco", labels["methods"][-1]]
    rows = [
        {"suite": "times/cifar10", "model": model, "method": method, "accelerator": "a100_bf16"}
        | {"workers": size, "nodes": size // 8, "rate_gbit_per_second": rate, "latency_seconds": 1e-5}
        | {"baseline": "ssgd", "step_seconds": 1 / gain, "speed_up": gain}
        for model in ("net", "resnet18", labels["model"][0], "gpt_124m")
        for size in (16, 4096)
        for number, rate in enumerate((1, 10, 25, 100, 400))
        for place, method in enumerate(methods)
        for gain in [1.0 if not place else 123.4 if place == number else 0.5]
    ]
    return pd.DataFrame(rows)


def of_runs(write, rows):
    """What draws a figure of runs, whose rows are made of labels."""
    return lambda l, f: write(CLASSIFICATION, rows(l), f, baselines(l))


def of_frame(frame, *methods):
    return lambda l: renamed(frame(), l, methods)


def of_times(write, **places):
    return lambda l, f: write(table_of_times(l, **places), f, baselines(l))


VERDICTS = ("less", "alike", "unclear")
DRAWN = {
    "over_epochs": of_runs(partial(scores.write, scores.EPOCHS), curves),
    "against_bytes": of_runs(partial(scores.write, scores.BYTES), curves),
    "over_time": of_runs(partial(scores.write, scores.TIME), curves),
    "traffic": lambda l, f: traffic.write_traffic(
        renamed(frames.traffic(range(6)), l, range(6)), f, baselines(l)
    ),
    "paired_differences": of_runs(
        comparisons.write_paired_differences, of_frame(frames.comparisons, *VERDICTS)
    ),
    "trade_off": of_runs(comparisons.write_trade_off, of_frame(frames.summary, "ssgd", *VERDICTS)),
    "performance_profile": of_runs(traffic.write_performance_profile, to_target),
    "step_breakdown": of_times(steps.write_breakdown),
    "speed_up": of_times(speed_ups.write_speed_up),
    "over_workers": of_times(speed_ups.write_speed_up_over_workers, workers=(2, 4, 16)),
    "bandwidth": of_times(speed_ups.write_bandwidth, rates=(0.1, 3, 100)),
    "ladder": lambda l, f: steps.write_ladder(times.ladder(table_of_times(l), l["methods"][:4]), f),
    "hsgd_ratio": lambda l, f: steps.write_hsgd_ratio(ratios(), f),
    "map": lambda l, f: times_map.write_map(times_without_data(l), f),
}


def texts(figure):
    """The texts that a reader sees."""
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        if not axes.get_visible():
            continue
        found += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            shown = [tick for tick in axis.get_major_ticks() if min(limits) <= tick.get_loc() <= max(limits)]
            found += [tick.label1 for tick in shown]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


@LABELS
@pytest.mark.parametrize("name", DRAWN)
def test_no_text_covers_another(name, labels, draw):
    figure = draw(DRAWN[name], labels)
    assert overlaps(texts(figure), pixels=1) == []
    assert figure.get_figwidth() <= 2.3 * style.COLUMN_INCHES


def test_the_legend_of_the_map_has_only_what_a_cell_has(draw):
    of_cells = times_without_data(OF_A_SUITE)
    # Of these, the study found another accuracy.
    of_cells = of_cells[~of_cells.method.isin(["daso", "local_sgd_4"])]
    (legend,) = draw(times_map.write_map, of_cells).legends
    shown = [text.get_text() for text in legend.get_texts()]
    assert "changed in the study" not in shown
    assert {"accuracy of SSGD", "accuracy unknown", "no gain of 1.4"} < set(shown)


# The inches of a figure of a column, and of one over both, on the paper's A4 pages.
PRINTED = {"trade_off": 86 / 25.4, "map": 178 / 25.4}


@pytest.mark.parametrize("name", ["trade_off", pytest.param("map", marks=pytest.mark.slow)])
def test_in_the_paper_no_letters_are_smaller_than_6_points(name, tmp_path, printed_points):
    style.use()
    DRAWN[name](OF_A_SUITE, tmp_path)
    assert printed_points(tmp_path / f"{name}.pdf", PRINTED[name]) >= 6


@pytest.mark.parametrize(
    "name", [name if name == "traffic" else pytest.param(name, marks=pytest.mark.slow) for name in DRAWN]
)
def test_a_figure_has_the_same_bytes_every_time(name, tmp_path):
    small = OF_A_SUITE | {key: OF_A_SUITE[key][:1] for key in ("model", "cluster")}
    for folder in ("a", "b"):
        DRAWN[name](small, tmp_path / folder)
    first, again = ([p.read_bytes() for p in sorted((tmp_path / f).rglob("*.p*"))] for f in "ab")
    assert first == again
    assert len(first) == len(FORMATS)


def test_a_label_has_the_colour_of_the_known_one_that_it_begins_with():
    assert looks.look("daso_blocking").colour == looks.look("daso").colour


def test_the_looks_of_the_projects_methods_differ_without_colour():
    found = [(look.marker, str(look.dash)) for look in looks._KNOWN.values()]
    assert len(set(found)) == len(found)
