"""No text of a figure covers another, with the longest labels that are allowed and with those of a suite."""

import itertools

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from tests import frames, simulated
from thinwire.base.learning import CLASSIFICATION
from thinwire.base.names import LONGEST_LABEL
from thinwire.report import report, simulated_tables
from thinwire.report.figures import (
    comparisons,
    lines,
    looks,
    scores,
    steps,
    style,
    times_map,
    trade_off,
    traffic,
)
from thinwire.report.figures import rates as over_rates
from thinwire.report.figures.lines import End, apart
from thinwire.report.rows import times


def box(text):
    anchor = text.get_transform().transform(text.get_position())
    turned = text.get_rotation()
    text.set_rotation(0)
    extent = text.get_window_extent()
    text.set_rotation(turned)
    rectangle = Path.unit_rectangle().transformed(Affine2D().scale(extent.width, extent.height))
    moved = rectangle.transformed(Affine2D().translate(extent.x0, extent.y0))
    return moved.transformed(Affine2D().rotate_deg_around(*anchor, turned))


def overlaps(found, pixels=0):
    """The texts that cover each other by more than these pixels."""
    made = [(text.get_text(), box(text)) for text in found]
    extents = [shape.get_extents().padded(-pixels) for _, shape in made]
    close = [
        (one, other)
        for one, other in itertools.combinations(range(len(made)), 2)
        if extents[one].overlaps(extents[other])
    ]
    return [(made[a][0], made[b][0]) for a, b in close if made[a][1].intersects_path(made[b][1])]


@pytest.fixture
def axes():
    style.use()
    figure = plt.figure(figsize=(3.35, 3))
    yield figure.add_axes((0.1, 0.1, 0.6, 0.6))
    plt.close(figure)


def ends(number, place=(0.5, 0.5)):
    return [End(f"method_number_{i}", *place, "black") for i in range(number)]


@pytest.mark.parametrize("place", [(0, 0), (0.5, 0.5), (1, 1)])
def test_labels_of_lines_that_end_together_do_not_overlap(axes, place):
    texts = lines.write_labels(axes, ends(12, place))
    axes.figure.draw_without_rendering()
    assert len(texts) == 12
    assert overlaps(texts) == []


def test_the_test_for_overlaps_finds_one(axes):
    texts = [axes.text(0.5, 0.5, "one", rotation=45), axes.text(0.52, 0.5, "another", rotation=45)]
    axes.figure.draw_without_rendering()
    assert overlaps(texts) == [("one", "another")]


def test_if_labels_do_not_fit_only_lines_with_markers_have_one(axes):
    strong = [End(f"strong_{i}", 0.5, 0.5, "black", marker="o") for i in range(8)]
    texts = lines.write_labels(axes, [*ends(40), *strong])
    axes.figure.draw_without_rendering()
    assert [text.get_text() for text in texts] == [end.label for end in strong]
    assert overlaps(texts) == []


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        ([0.0, 2.0, 5.0], [0, 2, 5]),
        ([5.0, 5.0, 5.0], [4, 5, 6]),  # by as little as possible: the middle one stays
        ([9.0, 10.0, 10.0], [8, 9, 10]),
        ([0.0, 0.0], [0, 1]),
        ([], []),
    ],
)
def test_places_that_are_too_near_move_apart_between_their_ends(places, moved):
    assert apart(places, 1, 10) == pytest.approx(moved)


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
LABELS = pytest.mark.parametrize("labels", [LONGEST, OF_A_SUITE], ids=["longest", "of_a_suite"])


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
    rows = [
        {"nodes": n, "workers": 4 * n, "rate_gbit_per_second": rate, "compute_seconds": s}
        | {
            "ratio": 1 + n * 8 / (rate * s) ** 0.5,
            "cluster": "ethernet_25g_4gpus",
            "accelerator": "a100_tf32",
        }
        for n in (2, 8, 32)
        for rate in (0.1, 1.0, 10.0, 100.0)
        for s in (0.03, 0.3, 3.0, 30.0)
    ]
    return pd.DataFrame(rows)


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


DRAWN = {
    "over_epochs": lambda l, f: scores.write_over_epochs(CLASSIFICATION, curves(l), f, baselines(l)),
    "against_bytes": lambda l, f: scores.write_against_bytes(CLASSIFICATION, curves(l), f, baselines(l)),
    "over_time": lambda l, f: scores.write_over_time(CLASSIFICATION, curves(l), f, baselines(l)),
    "traffic": lambda l, f: traffic.write(renamed(frames.traffic(range(6)), l, range(6)), f, baselines(l)),
    "paired_differences": lambda l, f: comparisons.write_paired_differences(
        CLASSIFICATION, renamed(frames.comparisons(), l, ["less", "alike", "unclear"]), f, baselines(l)
    ),
    "trade_off": lambda l, f: trade_off.write(
        CLASSIFICATION,
        renamed(frames.summary(), l, ["ssgd", "less", "alike", "unclear"]),
        f,
        baselines(l),
    ),
    "performance_profile": lambda l, f: comparisons.write_performance_profile(
        CLASSIFICATION, to_target(l), f, baselines(l)
    ),
    "step_breakdown": lambda l, f: steps.write_breakdown(table_of_times(l), f, baselines(l)),
    "speed_up": lambda l, f: steps.write_speed_up(table_of_times(l), f, baselines(l)),
    "over_workers": lambda l, f: steps.write_speed_up_over_workers(
        table_of_times(l, (2, 4, 16)), f, baselines(l)
    ),
    "bandwidth": lambda l, f: over_rates.write_bandwidth(
        table_of_times(l, rates=(0.1, 3, 100)), f, baselines(l)
    ),
    "ladder": lambda l, f: over_rates.write_ladder(times.ladder(table_of_times(l), l["methods"][:4]), f),
    "hsgd_ratio": lambda l, f: simulated_tables.write_hsgd_ratio(ratios(), f),
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
    assert {"accuracy of SSGD", "accuracy unknown", "SSGD is the fastest"} < set(shown)


# The inches of a figure of a column, and of one over both, on the paper's A4 pages.
PRINTED = {"trade_off": 86 / 25.4, "map": 178 / 25.4}


@pytest.mark.parametrize("name", PRINTED)
def test_in_the_paper_no_letters_are_smaller_than_6_points(name, tmp_path, printed_points):
    style.use()
    DRAWN[name](OF_A_SUITE, tmp_path)
    assert printed_points(tmp_path / f"{name}.pdf", PRINTED[name]) >= 6


# The figures of runs are in test_accuracy_figures.py.
OTHERS = {
    **{name: DRAWN[name] for name in ("ladder", "hsgd_ratio", "map")},
    "simulated": lambda l, f: report.write_simulated_figures(
        table_of_times(l, (2, 16), (0, 1, 10)), f, baselines(l), over_workers=True
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_figure_has_the_same_bytes_every_time(name, tmp_path):
    small = OF_A_SUITE | {key: OF_A_SUITE[key][:1] for key in ("model", "cluster")}
    for folder in ("a", "b"):
        OTHERS[name](small, tmp_path / folder)
    first, again = ([p.read_bytes() for p in sorted((tmp_path / f).rglob("*.pdf"))] for f in "ab")
    assert first == again
    assert len(first) == (4 if name == "simulated" else 1)


def test_a_label_has_the_colour_of_the_known_one_that_it_begins_with():
    assert looks.look("daso_blocking").colour == looks.look("daso").colour


def test_the_looks_of_the_projects_methods_differ_without_colour():
    found = [(look.marker, str(look.dash)) for look in looks._KNOWN.values()]
    assert len(set(found)) == len(found)
