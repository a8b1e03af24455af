"""What a simulated step consists of, as parts of a bar."""

import pandas as pd
from matplotlib.axes import Axes

# From left to right, with looks that differ in grey, too.
PARTS = {
    "compute_seconds": ("computing", "0.3", ""),
    "others_seconds": ("waiting for others", "0.65", ""),
    "server_seconds": ("waiting for a server", "0.92", "...."),
    "communication_seconds": ("exposed communication", "#f0b050", "/////"),
}


def stacked_bars(axes: Axes, rows: pd.DataFrame) -> pd.Series:
    """Draw a bar from the top for each row, in milliseconds; returns where each ends."""
    left = pd.Series(0.0, index=rows.index)
    for column, (label, colour, hatch) in PARTS.items():
        milliseconds = rows[column] * 1e3
        axes.barh(
            range(len(rows)),
            milliseconds,
            left=left,
            height=0.72,
            label=label,
            color=colour,
            hatch=hatch,
            edgecolor="0.2",
            linewidth=0.3,
        )
        left = left + milliseconds.fillna(0)
    axes.grid(False, axis="y")
    return left
