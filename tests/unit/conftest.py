"""What tests of figures share: the figures as they are before they are written and closed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


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
