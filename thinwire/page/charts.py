"""The charts of the page, as specifications of Vega-Lite; the page gives them their data by name."""

from typing import Any, Literal

import altair as alt

Chart = alt.Chart | alt.LayerChart | alt.FacetChart

# Names of the data that the page's scripts give to the charts.
_NAMES = ("runs", "simulated", "cells", "chosen", "break_even", "pairs", "band")
_RUNS, _SIMULATED, _CELLS, _CHOSEN, _BREAK_EVEN, _PAIRS, _BAND = (alt.NamedData(name) for name in _NAMES)
_HEIGHT = 340
_ROW_HEIGHT = 24
# Of charts with a row for each method: as wide as there is room, and as high as they need.
_ROWS: dict[str, Any] = {"width": "container", "height": alt.Step(_ROW_HEIGHT)}
_ACCURACY = "accuracy_percent"
# What the curves may be drawn over: the field, the title of the axis, and whether the axis is logarithmic.
_OVER = {
    "epochs": ("epoch", "epochs", False),
    "bytes": ("megabytes", "payload pushed and pulled by a worker, MB", True),
    "seconds": ("seconds", "seconds of training", False),
}
# The page's scripts replace the scales named here, because they know the chosen suite.
_METHOD = alt.Color("method:N", title=None, scale=alt.Scale(domain=[], range=[]))
_SHAPE = alt.Shape("method:N", title=None, scale=alt.Scale(domain=[]))


def charts() -> dict[str, dict[str, Any]]:
    """All specifications by their names."""
    made: dict[str, Chart] = {f"curves_over_{name}": _curves(*over) for name, over in _OVER.items()} | {
        "break_even": _break_even(),
        "differences": _differences(),
        "run": _run(),
    }
    return {name: chart.to_dict() for name, chart in made.items()}


def _curves(field: str, title: str, log: bool) -> Chart:
    """Thin lines are runs, thick ones the mean over the runs of a method; simulated points are hollow."""
    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    x = alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, labelOverlap=True))
    digits = alt.Axis(format=".4~g")
    y = alt.Y(f"{_ACCURACY}:Q", title="accuracy, %", scale=alt.Scale(zero=False), axis=digits)
    runs = alt.Chart(_RUNS)
    each = runs.mark_line(strokeWidth=1, opacity=0.22).encode(x=x, y=y, color=_METHOD, detail="run:N")
    # An epoch needs no mean: it is what the means are taken at.
    averaged = [name for name in (field, _ACCURACY) if name != "epoch"]
    means = runs.transform_aggregate(
        [_aggregated("mean", name) for name in averaged]
        + [_aggregated("max", name) for name in ("width", "dashed")],
        groupby=["method", "epoch"],
    )
    width = alt.StrokeWidth("width:Q", legend=None, scale=None)
    dash = alt.StrokeDash("dashed:N", legend=None, scale=alt.Scale(domain=[0, 1], range=[[1, 0], [7, 4]]))
    lines = means.mark_line().encode(
        x=x, y=y, color=_METHOD, detail="method:N", order="epoch:Q", strokeWidth=width, strokeDash=dash
    )
    points = means.mark_point(filled=True, size=28, opacity=1).encode(x=x, y=y, color=_METHOD, shape=_SHAPE)
    hover = runs.mark_point(filled=True, size=120, opacity=0, cursor="pointer").encode(
        x=x,
        y=y,
        color=_METHOD,
        tooltip=[
            alt.Tooltip("label:N", title="run"),
            alt.Tooltip("epoch:Q", title="epoch"),
            alt.Tooltip(f"{_ACCURACY}:Q", title="accuracy, %", format=".2f"),
            alt.Tooltip("megabytes:Q", title="payload, MB", format=".4~g"),
        ],
    )
    layers = [each, lines, points, hover]
    if field == "seconds":
        layers.append(_simulated(x, y))
    return alt.layer(*layers).properties(width="container", height=_HEIGHT)


def _aggregated(operation: Literal["mean", "max"], field: str) -> alt.AggregatedFieldDef:
    """A field that is replaced by its own mean or maximum."""
    return alt.AggregatedFieldDef(op=operation, field=field, **{"as": field})


def _simulated(x: alt.X, y: alt.Y) -> alt.Chart:
    """Predicted seconds until the target: one hollow point for each method, and no line."""
    return (
        alt.Chart(_SIMULATED)
        .mark_point(filled=False, size=130, strokeWidth=2, opacity=1)
        .encode(
            x=x,
            y=y,
            color=_METHOD,
            shape=_SHAPE,
            tooltip=[
                alt.Tooltip("method:N"),
                alt.Tooltip("seconds:Q", title="simulated seconds to the target", format=".4~g"),
                alt.Tooltip(f"{_ACCURACY}:Q", title="target, %", format=".2f"),
            ],
        )
    )


def _break_even() -> Chart:
    """A row for each method, a column for each rate; lines at the break-even rates and at the chosen rate."""
    rate = alt.Scale(type="log", nice=False)
    y = alt.Y("method:N", title=None, sort=None, scale=alt.Scale(domain=[]))
    cells = alt.Chart(_CELLS).encode(y=y)
    # Blue: faster than the better baseline. Orange: slower. The number says it without colour.
    scale = alt.Scale(type="log", domain=[0.2, 1, 5], range=["#d9772b", "#f4f4f4", "#2f78b7"], clamp=True)
    boxes = cells.mark_rect(stroke="#8886", strokeWidth=0.5).encode(
        x=alt.X("low:Q", title="rate of each link, Gbit/s", scale=rate, axis=alt.Axis(format="~g")),
        x2="high:Q",
        color=alt.Color("speed_up:Q", legend=None, scale=scale),
        tooltip=[
            alt.Tooltip("method:N"),
            alt.Tooltip("rate:Q", title="Gbit/s", format="~g"),
            alt.Tooltip("speed_up:Q", title="speed-up, simulated", format=".3f"),
        ],
    )
    numbers = cells.mark_text(fontSize=10).encode(
        x=alt.X("rate:Q", scale=rate),
        text=alt.Text("shown:N"),
        color=alt.value("#111"),
        opacity=alt.value(1),
    )
    even = (
        alt.Chart(_BREAK_EVEN)
        .mark_tick(thickness=3, size=_ROW_HEIGHT - 4, color="#b3005e", opacity=1)
        .encode(x=alt.X("rate:Q", scale=rate), y=y, tooltip=[alt.Tooltip("words:N", title="break-even")])
    )
    chosen = alt.Chart(_CHOSEN).mark_rule(strokeWidth=2, strokeDash=[5, 3], color="#555")
    chosen = chosen.encode(x=alt.X("rate:Q", scale=rate))
    return alt.layer(boxes, chosen, even, numbers).properties(**_ROWS)


def _differences() -> Chart:
    """A row for each method: its mean paired difference and its interval; a band for what is the same."""
    pairs = alt.Chart(_PAIRS)
    y = alt.Y("method:N", title=None, sort=None)
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("difference_mean_points:Q", title="difference, points", format="+.2f"),
        alt.Tooltip("interval:N", title="95 % interval"),
        alt.Tooltip("words:N", title="verdict"),
        alt.Tooltip("n:Q", title="pairs"),
    ]
    title = "accuracy minus that of the baseline, percentage points"
    band = alt.Chart(_BAND).mark_rect(opacity=0.18, color="#2f78b7")
    # The page's scripts give the range, because one method may be so far off that the others are unreadable.
    x = alt.X("low:Q", title=title, scale=alt.Scale(domain=[]))
    band = band.encode(x=x, x2="high:Q")
    zero = alt.Chart(_BAND).mark_rule(strokeDash=[3, 3]).encode(x=alt.datum(0))
    interval = pairs.mark_rule(strokeWidth=2, clip=True).encode(
        x="difference_low_points:Q", x2="difference_high_points:Q", y=y, tooltip=tooltip
    )
    mean = pairs.mark_point(filled=True, size=80, opacity=1, clip=True).encode(
        x="difference_mean_points:Q", y=y, tooltip=tooltip
    )
    return alt.layer(band, zero, interval, mean).properties(**_ROWS)


def _run() -> Chart:
    """The accuracy of one run."""
    return (
        alt.Chart(_RUNS)
        .mark_line(point=True)
        .encode(
            x=alt.X("epoch:Q", title="epochs", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y(f"{_ACCURACY}:Q", title="accuracy, %", scale=alt.Scale(zero=False)),
            tooltip=[alt.Tooltip("epoch:Q"), alt.Tooltip(f"{_ACCURACY}:Q", format=".2f")],
        )
        .properties(width="container", height=160)
    )
