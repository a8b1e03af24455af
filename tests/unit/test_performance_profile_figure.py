"""The performance profile: shares of cells, misses, and when there is none."""

import math

import pandas as pd
import pytest

from tests.frames import MISS, to_target
from thinwire.report.figures import comparisons
from thinwire.report.figures.comparisons import profile

NEEDED = {"ssgd": [40.0, 40.0, 40.0, 40.0], "thin": [10.0, 20.0, MISS, 80.0]}


@pytest.fixture
def drawn(draw):
    return lambda frame: draw(comparisons.write_performance_profile, frame, ["ssgd"])


def share(figure, method, ratio):
    """The share of cells in which the method needs at most this multiple of the fewest bytes, in percent."""
    (line,) = [line for line in figure.axes[0].get_lines() if line.get_label() == method]
    x, y = line.get_data()
    return y[x <= ratio][-1]


def test_ratios_are_to_the_fewest_bytes_in_the_same_cell():
    ratios = profile(to_target(NEEDED))
    assert list(ratios.ssgd) == [4, 2, 1, 1]
    assert list(ratios.thin) == [1, 1, MISS, 2]


def test_a_line_is_the_share_of_cells_within_a_ratio_and_a_miss_is_never_within(drawn):
    figure = drawn(to_target(NEEDED))
    assert [share(figure, "ssgd", ratio) for ratio in (1, 2, 3.9, 4)] == [50, 75, 75, 100]
    assert [share(figure, "thin", ratio) for ratio in (1, 2, 4)] == [50, 75, 75]
    assert figure.axes[0].get_title(loc="left") == "4 cells, in process"


def test_a_cell_in_which_a_method_has_no_run_is_not_in_its_line(drawn):
    frame = to_target(NEEDED)
    without = frame[(frame.method != "thin") | (frame.workers > 2)]
    assert list(profile(without).thin)[1:] == [1, MISS, 2]
    assert share(drawn(without), "thin", 1) == pytest.approx(100 / 3)
    unknown = frame.assign(payload_bytes_median=frame.payload_bytes_median.where(frame.workers > 2, math.nan))
    assert len(profile(unknown)) == 3


def test_cells_in_which_nobody_reaches_the_target_are_left_out():
    assert len(profile(to_target({"ssgd": [40.0, MISS], "thin": [10.0, MISS]}))) == 1


def test_the_highest_of_several_targets_counts():
    frame = pd.concat(
        [
            to_target(NEEDED),
            to_target(
                {"ssgd": [1.0] * 4},
            ).assign(target_accuracy_percent=90.0),
        ]
    )
    assert list(profile(frame).ssgd) == [4, 2, 1, 1]


def test_kinds_have_panels_of_their_own(drawn):
    frame = pd.concat([to_target(NEEDED), to_target(NEEDED, kind="emulated")])
    titles = [axes.get_title(loc="left") for axes in drawn(frame).axes]
    assert titles == ["4 cells, in process", "4 cells, emulated"]


def test_fewer_than_three_cells_have_no_profile(drawn):
    two = {method: needed[:2] for method, needed in NEEDED.items()}
    for frame in (to_target(two), to_target(NEEDED)[:0], pd.DataFrame()):
        assert "A performance profile needs 3 cells" in drawn(frame).texts[0].get_text()
