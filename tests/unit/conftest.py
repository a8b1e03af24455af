"""What tests of figures share: the figures as they are before they are written and closed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from tests.unit import tuning_base
from thinwire.report import style


@pytest.fixture
def draw_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., dict[str, Figure]]]:
    """Call `write(content, folder, *more)`, and return its figures by name."""

    def drawn(write: Callable[..., Any], content: Any, *more: Any, **options: Any) -> dict[str, Figure]:
        kept: dict[str, Figure] = {}
        monkeypatch.setattr(style, "save", lambda figure, stem: kept.update({stem.name: figure}))
        style.use()
        write(content, tmp_path, *more, **options)
        for figure in kept.values():
            figure.draw_without_rendering()
        return kept

    yield drawn
    plt.close("all")


@pytest.fixture
def draw(draw_all: Callable[..., dict[str, Figure]]) -> Callable[..., Figure]:
    """The same for what draws one figure."""

    def drawn(write: Callable[..., Any], content: Any, *more: Any) -> Figure:
        (figure,) = draw_all(write, content, *more).values()
        return figure

    return drawn


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write the suite `base` and its tuning with some changes."""
    return tuning_base.written(tmp_path, monkeypatch)
