"""What unit tests share: figures before they are written and closed, a GPU, and a suite with its tuning."""

import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_gpu import FakeGpu


@pytest.fixture
def draw_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Call `write(content, folder, *more)`, and return its figures by name."""
    # Other tests need not wait for Matplotlib and seaborn.
    import matplotlib.pyplot as plt

    from thinwire.report.figures import style

    def drawn(write: Callable[..., Any], content: Any, *more: Any, **options: Any) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        monkeypatch.setattr(style, "save", lambda figure, stem: kept.update({stem.name: figure}))
        style.use()
        write(content, tmp_path, *more, **options)
        for figure in kept.values():
            figure.draw_without_rendering()
        return kept

    yield drawn
    plt.close("all")


@pytest.fixture
def draw(draw_all: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """The same for what draws one figure."""

    def drawn(write: Callable[..., Any], content: Any, *more: Any) -> Any:
        (figure,) = draw_all(write, content, *more).values()
        return figure

    return drawn


@pytest.fixture
def printed_points() -> Callable[[Path, float], float]:
    """The smallest size of letters in a figure's PDF, in points, where it is printed so many inches wide."""

    def smallest(pdf: Path, inches: float) -> float:
        content = pdf.read_bytes()
        (box,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+)", content)
        drawn = [
            zlib.decompress(each) for each in re.findall(rb"stream\r?\n(x.*?)\r?\nendstream", content, re.S)
        ]
        sizes = [float(size) for each in drawn for size in re.findall(rb"/F\d+ ([\d.]+) Tf", each)]
        return min(sizes) * 72 * inches / float(box)

    return smallest


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """A GPU that is not there."""
    made = FakeGpu()
    made.install(monkeypatch)
    return made


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write the suite `base` and its tuning with some changes."""
    from tests.unit import tuning_base  # other tests need not wait for it

    return tuning_base.written(tmp_path, monkeypatch)
